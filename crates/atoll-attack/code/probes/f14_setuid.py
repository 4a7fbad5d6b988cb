# Claim: a set-user-ID program gains no privileges: mounts are nosuid, no_new_privs is set, ownership cannot be changed.
# Expected: EPERM on chown; the program runs with the ids of its caller.
# Control: as root outside a sandbox, the same steps run `id` as nobody. Safe: it only drops privileges.
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
twin("run the copy of `id`", said.isdigit())
report()
