# Claim: watches of descriptors count as memory of the sandbox. Bound: 500 sets of 480 watches, about 50 MB, and 24 MiB besides.
# Where the memory is measured, the watches are all that the load holds.
import select
fds = [os.eventfd(0) for _ in range(480)]
sets, besides = [], bytearray(b"x" * (0 if ARGS["measured"] else 24 << 20))
for n in range(500):
    watch = select.epoll()
    sets.append(watch)
    for fd in fds:
        watch.register(fd, select.EPOLLIN)
facts["watches"] = "all"
report()
