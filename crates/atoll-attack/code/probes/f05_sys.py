# Claim: there is no /sys: no hardware names, no cgroup files, no block devices.
# Expected: ENOENT for each.
# Control: outside, /sys/kernel and /sys/class/net open. Safe: directories are opened, nothing is read.
for path in ["/sys", "/sys/kernel", "/sys/class/net", "/sys/class/dmi/id/product_uuid", "/sys/firmware", "/sys/fs/cgroup", "/sys/block", "/sys/devices/virtual/powercap"]:
    facts[path] = opened(path)
twin("another directory opens", opened("/usr") == "ok")
report()
