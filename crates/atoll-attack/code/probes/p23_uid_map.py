# Claim: exactly one id exists inside, it is not 0, and it maps to no ordinary id of the host.
# Expected: one line, 1000 -> one id (without root: the id of the user who started it); setgroups denied. (That it is unique: P23b compares two sandboxes.)
# Control: outside, the map holds 0 and all ids. Safe: reading.
for name in ["uid_map", "gid_map"]:
    lines = [list(map(int, l.split())) for l in open("/proc/self/" + name)]
    facts[name] = "one" if len(lines) == 1 and lines[0][0] == 1000 and lines[0][2] == 1 and (ARGS["rootless"] or lines[0][1] not in (0, 1000)) else "wide"
facts["setgroups"] = open("/proc/self/setgroups").read().strip()
facts["write uid_map"] = opened("/proc/self/uid_map", os.O_WRONLY) if ARGS["outside"] else tried(lambda: open("/proc/self/uid_map", "w").write("0 0 1"))
twin("ids are read", os.getuid() in (0, 1000))
report()
