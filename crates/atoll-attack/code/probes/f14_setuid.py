# Claim: a set-user-id program gives nothing: scratch is nosuid, no_new_privs is on, no other id can own a file.
# Expected: EPERM for giving the file away; the program runs with the ids of its caller.
# Control: outside, as root, the same steps make `id` run as nobody. Safe: it goes down, not up; own directory.
import shutil, subprocess
base = ARGS["canary"] if ARGS["outside"] else "/home/user"
copy = base + "/id-copy"
shutil.copy("/usr/bin/id", copy)
facts["give away"] = tried(os.chown, copy, 65534, 65534)
os.chmod(copy, 0o6755)
said = subprocess.run([copy, "-u"], capture_output=True, text=True).stdout.strip()
facts["runs as"] = "caller" if said == str(os.getuid()) else "other"
os.unlink(copy)
if not ARGS["outside"]:
    facts["mounts"] = " ".join(sorted({"nosuid" if os.statvfs(p).f_flag & os.ST_NOSUID else p for p in ["/", "/usr", "/opt/atoll", "/home/user", "/tmp", "/data/output", "/mnt/data", "/dev/shm", "/data/input", "/proc"]}))
    facts["no_new_privs"] = str(raw(157, 39, 0, 0, 0, 0)[0])
twin("the copy ran at all", said.isdigit())
report()
