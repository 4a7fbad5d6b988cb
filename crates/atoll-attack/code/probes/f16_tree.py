# Claim: the shared read-only tree cannot be changed: no write, mapping, unnamed file, lease, attribute or splice.
# Expected: each attempt is refused; the host's digest of the file (in the same page cache) is unchanged.
# Control: as an unsandboxed process, the same attempts change a copy. Safe: the attack created the copy.
import fcntl, mmap
target = ARGS["canary"] + "/copy-of-env" if ARGS["outside"] else "/usr/bin/env"
p = lambda s: ctypes.c_char_p(s.encode())
facts["open to write"] = opened(target, os.O_RDWR)
facts["truncate"] = tried(os.truncate, target, os.stat(target).st_size)
facts["unnamed file"] = tried(lambda: os.close(os.open(os.path.dirname(target), os.O_TMPFILE | os.O_RDWR)))
facts["chmod"] = tried(os.chmod, target, 0o755)
facts["utime"] = tried(os.utime, target)
fd = os.open(target, os.O_RDONLY)
if not ARGS["outside"]:
    def shared_map():
        try:
            mmap.mmap(fd, 4096, mmap.MAP_SHARED, mmap.PROT_WRITE | mmap.PROT_READ)
        except PermissionError as e:
            raise OSError(e.errno, "")
    facts["map shared"] = tried(shared_map)
    def map_then_protect():
        m = _libc.mmap
        m.restype = ctypes.c_void_p
        at = m(None, ctypes.c_size_t(4096), 1, 1, fd, ctypes.c_long(0))
        if _libc.mprotect(ctypes.c_void_p(at), ctypes.c_size_t(4096), 3) != 0:
            raise OSError(ctypes.get_errno(), "")
    facts["protect afterwards"] = tried(map_then_protect)
    facts["fallocate"] = call(285, fd, 0, 0, 16)
    facts["sendfile into it"] = call(40, fd, fd, None, 1)
    facts["copy_file_range"] = call(326, fd, None, fd, None, 1, 0)
    facts["reopen by magic link"] = opened(f"/proc/self/fd/{fd}", os.O_RDWR)
    r, w = os.pipe()
    os.write(w, b"x")
    facts["splice"] = call(275, r, None, fd, None, 1, 0)
    facts["vmsplice"] = call(278, w, None, 0, 0)
    facts["tee"] = call(276, r, w, 1, 0)
    facts["lease"] = call(72, fd, 1024, 0)
    facts["FS_IOC_SETFLAGS"] = call(16, fd, 0x40086602, BAD)
    facts["FITRIM"] = call(16, fd, 0xC0185879, BAD)
    facts["FICLONE"] = call(16, fd, 0x40049409, fd)
    facts["FS_IOC_ENABLE_VERITY"] = call(16, fd, 0x40806685, BAD)
twin("read the file", len(os.read(fd, 4)) == 4)
report()
