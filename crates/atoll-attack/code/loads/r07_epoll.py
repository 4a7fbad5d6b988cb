# Claim: epoll watches count as memory of the sandbox. Bound: 500 sets of 480 watches, about 50 MB, plus 24 MiB of heap.
# When the memory is measured, the load holds only the watches.
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
