# Claim: programs can run from scratch directories (documented) but not from /dev/shm; memfd_secret is not available.
# Expected: ok from /tmp and /home/user, EACCES from /dev/shm; ENOSYS for memfd_secret.
# Control: as an unsandboxed process, a program runs from the host's /dev/shm. Safe: a copy of `true`, then removed.
import shutil, subprocess
def run_from(directory):
    path = directory + "/true-%d" % os.getpid()
    shutil.copy("/usr/bin/true", path)
    try:
        return tried(lambda: subprocess.run([path], check=True))
    finally:
        os.unlink(path)
facts["from /dev/shm"] = run_from("/dev/shm")
if not ARGS["outside"]:
    facts["from /tmp"] = run_from("/tmp")
    facts["from /home/user"] = run_from("/home/user")
    facts["memfd_secret"] = call(447, 0)
    def map_shm():
        import mmap
        fd = os.open("/dev/shm/m", os.O_CREAT | os.O_RDWR)
        os.write(fd, b"\xc3" * 4096)
        try:
            mmap.mmap(fd, 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
        finally:
            os.close(fd)
    facts["map /dev/shm to execute"] = tried(map_shm)
twin("run `true`", subprocess.run(["true"]).returncode == 0)
report()
