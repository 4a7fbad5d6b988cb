# Claim: Landlock alone denies access to a file that mounts and file modes would allow.
# Expected: EACCES by path, by directory descriptor and through /proc/self/root; stat still works.
# Control: without Landlock the file opens. Safe: the file exists in every sandbox for this probe only.
path = "/run/landlock/canary"
facts["open"] = read_one(path)
facts["through /proc/self/root"] = read_one("/proc/self/root" + path)
facts["through /proc/self/cwd"] = read_one("/proc/self/cwd/../.." + path)
d = os.open("/run/landlock", os.O_RDONLY | os.O_DIRECTORY)
facts["openat"] = tried(lambda: os.close(os.open("canary", os.O_RDONLY, dir_fd=d)))
os.chdir("/run/landlock")
facts["from its directory"] = read_one("canary")
pfd = os.open(path, os.O_PATH)
facts["reopen an O_PATH descriptor"] = opened(f"/proc/self/fd/{pfd}")
facts["execute"] = tried(os.execv, path, ["x"])
os.chdir("/home/user")
twin("stat the file; its mode lets everyone read it", os.stat(path).st_mode & 0o444 == 0o444)
report()
