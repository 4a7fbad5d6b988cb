# Claim: no device node can be made and none but the six harmless ones exists; terminals are the sandbox's own.
# Expected: EPERM for making one (a pipe may be made), ENOENT for opening one; no controlling terminal, and a new one is the first there is.
# Control: without seccomp and Landlock, the node 0:0 (a whiteout, no device) is made. Safe: it opens nothing.
import stat
for name, kind, dev in [("char 0:0", stat.S_IFCHR, 0), ("char 1:3", stat.S_IFCHR, os.makedev(1, 3)), ("block 254:0", stat.S_IFBLK, os.makedev(254, 0))]:
    facts["make " + name] = tried(os.mknod, "/tmp/node" + name.replace(" ", "").replace(":", "_"), kind | 0o600, dev)
for name in ["mem", "kmsg", "kvm", "fuse", "net/tun", "vsock", "vhost-vsock", "vda", "sda", "console", "loop-control", "userfaultfd", "cpu_dma_latency", "hwrng", "pts/0", "mapper/control"]:
    facts["open " + name] = opened("/dev/" + name)
facts["controlling terminal"] = opened("/dev/tty")
master, slave = os.openpty()
facts["own terminals"] = os.ttyname(slave) + ": " + " ".join(sorted(os.listdir("/dev/pts")))
twin("a pipe can be made", tried(os.mkfifo, "/tmp/fifo") == "ok")
twin("/dev/null opens", opened("/dev/null", os.O_RDWR) == "ok")
report()
