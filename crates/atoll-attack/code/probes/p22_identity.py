# Claim: user ids, group ids and capabilities cannot be changed, and no installed set-user-ID program helps.
# Expected: EPERM for each call; the user id is still 1000 after each program.
# Control: without seccomp, setresuid to id 1000 works, and setuid(0) returns EINVAL (not mapped). Safe: own id only.
facts["setuid 0"] = in_child(lambda: call(105, 0))
facts["setgid 0"] = in_child(lambda: call(106, 0))
facts["setresuid own"] = in_child(lambda: call(117, 1000, 1000, 1000))
facts["setresgid own"] = in_child(lambda: call(119, 1000, 1000, 1000))
facts["setreuid own"] = in_child(lambda: call(113, 1000, 1000))
facts["setfsuid"] = in_child(lambda: call(122, 1000))
facts["setgroups"] = in_child(lambda: call(116, 0, None))
header = (ctypes.c_uint32 * 2)(0x20080522, 0)
facts["capset"] = in_child(lambda: call(126, header, (ctypes.c_uint32 * 6)(*[0] * 6)))
facts["ambient raise"] = in_child(lambda: call(157, 47, 2, 21, 0, 0))
facts["securebits"] = in_child(lambda: call(157, 28, 0, 0, 0, 0))
import subprocess
for tool in ["su", "sudo", "mount", "newgrp", "passwd", "ping"]:
    path = __import__("shutil").which(tool)
    if path and not ARGS["weakened"]:
        ran = subprocess.run(["/bin/sh", "-c", f"{path} --version >/dev/null 2>&1; id -u"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        facts["ids after " + tool] = ran.stdout.strip()
twin("call getuid, which returns 1000", raw(102)[0] == 1000)
report()
