# Claim: exactly one id is mapped inside, it is not 0, and it maps to no ordinary id of the host.
# Expected: one line, 1000 -> one host id (without root: the id of the user who started Atoll); setgroups is denied.
# P23b checks that two sandboxes have different ids.
# Control: as an unsandboxed process, the map contains 0 and all ids. Safe: nothing is written.
for name in ["uid_map", "gid_map"]:
    lines = [list(map(int, l.split())) for l in open("/proc/self/" + name)]
    nobody = all(l[2] == 1 and (ARGS["rootless"] or l[1] not in (0, 1000)) for l in lines) and len({l[1] for l in lines}) == len(lines)
    facts[name] = {(1000,): "one", (0, 1000): "one and a root"}.get(tuple(l[0] for l in lines), "wide") if nobody else "wide"
try:
    facts["setgroups"] = open("/proc/self/setgroups").read().strip()
except OSError as e:
    facts["setgroups"] = word(e.errno)
facts["write uid_map"] = opened("/proc/self/uid_map", os.O_WRONLY) if ARGS["outside"] else tried(lambda: os.write(os.open("/proc/self/uid_map", os.O_WRONLY), b"0 0 1"))
twin("read the process's own user id", os.getuid() in (0, 1000))
report()
