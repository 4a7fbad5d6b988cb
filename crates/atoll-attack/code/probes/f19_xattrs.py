# Claim: extended attributes, room outside the quota, cannot be set or removed.
# Expected: EPERM for each name space.
# Control: without seccomp, `user.x` on a scratch file is set. Safe: a file of the sandbox.
open("/tmp/x", "w").close()
for name in ["user.x", "trusted.x", "security.x", "security.capability", "system.posix_acl_access"]:
    facts["set " + name] = tried(os.setxattr, "/tmp/x", name, b"v")
facts["remove user.x"] = tried(os.removexattr, "/tmp/x", "user.x")
twin("listing attributes works", tried(os.listxattr, "/tmp/x") == "ok")
report()
