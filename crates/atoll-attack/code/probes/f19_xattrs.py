# Claim: extended attributes, which are outside the scratch quota, cannot be set or removed.
# Expected: EPERM for each attribute namespace.
# Control: without seccomp, `user.x` can be set on a scratch file. Safe: the file belongs to the sandbox.
open("/tmp/x", "w").close()
for name in ["user.x", "trusted.x", "security.x", "security.capability", "system.posix_acl_access"]:
    facts["set " + name] = tried(os.setxattr, "/tmp/x", name, b"v")
facts["remove user.x"] = tried(os.removexattr, "/tmp/x", "user.x")
twin("list extended attributes", tried(os.listxattr, "/tmp/x") == "ok")
report()
