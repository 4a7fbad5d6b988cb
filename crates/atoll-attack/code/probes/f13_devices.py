# Claim: device nodes cannot be created; only six harmless devices and the sandbox's own terminals exist.
# Expected: EPERM on creation (a FIFO is allowed), ENOENT on open; there is no controlling terminal, and a new terminal
# is number 0. Control: without seccomp and Landlock, node 0:0 is created. Safe: 0:0 is a whiteout, not a device.
import stat
for name, kind, dev in [("char 0:0", stat.S_IFCHR, 0), ("char 1:3", stat.S_IFCHR, os.makedev(1, 3)), ("block 254:0", stat.S_IFBLK, os.makedev(254, 0))]:
    facts["make " + name] = tried(os.mknod, "/tmp/node" + name.replace(" ", "").replace(":", "_"), kind | 0o600, dev)
for name in ["mem", "kmsg", "kvm", "fuse", "net/tun", "vsock", "vhost-vsock", "vda", "sda", "console", "loop-control", "userfaultfd", "cpu_dma_latency", "hwrng", "pts/0", "mapper/control"]:
    facts["open " + name] = opened("/dev/" + name)
facts["controlling terminal"] = opened("/dev/tty")
master, slave = os.openpty()
facts["own terminals"] = os.ttyname(slave) + ": " + " ".join(sorted(os.listdir("/dev/pts")))
twin("create a FIFO in /tmp", tried(os.mkfifo, "/tmp/fifo") == "ok")
twin("open /dev/null", opened("/dev/null", os.O_RDWR) == "ok")
report()
