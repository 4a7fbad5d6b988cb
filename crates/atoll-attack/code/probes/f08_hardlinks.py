# Claim: a file outside the scratch directories cannot be hard-linked, by path or by descriptor.
# Expected: EXDEV, EPERM, EACCES or ENOENT; a link inside one scratch directory works.
# Control: as an unsandboxed process, the same calls link a canary file. Safe: the attack created the file.
AT_EMPTY_PATH, AT_FOLLOW = 0x1000, 0x400
source = ARGS["canary"] + "/config.toml" if ARGS["outside"] else "/usr/bin/env"
target = ARGS["canary"] if ARGS["outside"] else "/data/output"
fd = os.open(source, os.O_RDONLY)
p = lambda s: ctypes.c_char_p(s.encode())
facts["by path"] = tried(os.link, source, target + "/link1")
facts["by magic link"] = call(265, -100, p(f"/proc/self/fd/{fd}"), -100, p(target + "/link2"), AT_FOLLOW)
if not ARGS["outside"]:
    facts["by empty path"] = call(265, fd, p(""), -100, p(target + "/link3"), AT_EMPTY_PATH)
    facts["of a device"] = tried(os.link, "/dev/null", "/tmp/null")
    facts["of an input directory's file"] = tried(os.link, "/run/landlock/canary", "/tmp/c")
    open("/tmp/a", "w").close()
    twin("create a hard link inside /tmp", tried(os.link, "/tmp/a", "/tmp/b") == "ok")
else:
    twin("not required outside a sandbox", True)
    for n in "12":
        os.unlink(target + "/link" + n)
report()
