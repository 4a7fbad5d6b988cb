# Claim: host files (server configuration, key store, directories of other sandboxes, docker.sock) cannot be opened.
# Expected: ENOENT for each; contents and access times of the canary files are unchanged.
# Control: the same code as an unsandboxed process opens the canary files. Safe: the attack created them.
for name in ["config.toml", "keys.db", "sandboxes/other/work/secret.txt"]:
    facts["canary " + name] = read_one(ARGS["canary"] + "/" + name)
home = bytes(b ^ 0x5A for b in bytes.fromhex(ARGS["home"])).decode()
for path in [home, home + "/templates", "/root/.ssh", "/var/run/docker.sock", "/run/docker.sock", "/etc/shadow", "/srv", "/var/lib/dpkg/status"]:  # tidy: allow-path
    if not ARGS["outside"]:
        facts["host " + path] = opened(path)
twin("read /etc/passwd", read_one("/etc/passwd") == "ok")
report()
