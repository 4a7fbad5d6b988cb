# Claim: files of the host (daemon config, key store, other sandboxes' directories, docker.sock) cannot be opened.
# Expected: ENOENT for each, and the canaries' content and access time unchanged.
# Control: outside of any sandbox the same code opens the canary. Safe: the canary is a file of the test.
for name in ["config.toml", "keys.db", "sandboxes/other/work/secret.txt"]:
    facts["canary " + name] = read_one(ARGS["canary"] + "/" + name)
home = bytes(b ^ 0x5A for b in bytes.fromhex(ARGS["home"])).decode()
for path in [home, home + "/templates", "/root/.ssh", "/var/run/docker.sock", "/run/docker.sock", "/etc/shadow", "/srv", "/var/lib/dpkg/status"]:  # tidy: allow-path
    if not ARGS["outside"]:
        facts["host " + path] = opened(path)
twin("an allowed file opens", read_one("/etc/passwd") == "ok")
report()
