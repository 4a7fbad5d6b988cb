# Claim: mounts cannot be changed: no remount, bind, overlay or unmount, and no call of the new mount API.
# Expected: EPERM for each.
# Control: without seccomp and with the capabilities of the sandbox's own user namespace, fsopen succeeds and umount
# reaches the path lookup. Safe: nothing is attached, and the context has its own mount namespace.
p = lambda s: ctypes.c_char_p(s.encode())
facts["remount"] = call(165, p("none"), p("/usr"), None, 32 | 4096, None)
facts["bind"] = call(165, p("/usr"), p("/tmp"), None, 4096 | 1 << 31, None)
facts["overlay"] = call(165, p("overlay"), p("/tmp"), p("overlay"), 1 << 31, p("lowerdir=/usr"))
facts["umount"] = call(166, p("/nowhere"), 2)
facts["open_tree"] = call(428, -100, p("/"), 1)
facts["fsopen"] = call(430, p("tmpfs"), 1)
facts["move_mount"] = call(429, -1, p(""), -1, p(""), 0)
facts["mount_setattr"] = call(442, -1, p(""), 0x1000, BAD, 32)
facts["fspick"] = call(433, -100, p("/nowhere"), 0)
facts["pivot_root"] = call(155, p("/nowhere"), p("/nowhere"))
facts["chroot"] = call(161, p("/nowhere"))
twin("call chdir(/tmp) through the same helper", call(80, p("/tmp")) == "ok")
report()
