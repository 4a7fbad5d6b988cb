# Claim: /sys does not exist: no hardware names, no cgroup files, no block devices.
# Expected: ENOENT for each path.
# Control: as an unsandboxed process, /sys/kernel and /sys/class/net open. Safe: paths are opened, nothing is read.
for path in ["/sys", "/sys/kernel", "/sys/class/net", "/sys/class/dmi/id/product_uuid", "/sys/firmware", "/sys/fs/cgroup", "/sys/block", "/sys/devices/virtual/powercap"]:
    facts[path] = opened(path)
twin("open /usr", opened("/usr") == "ok")
report()
