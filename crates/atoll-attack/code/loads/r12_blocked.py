# Claim: code that blocks on a pipe without a writer is stopped at the deadline. Bound: 8 s, over any grace period.
import threading
os.mkfifo("/tmp/wait")
threading.Timer(8, lambda: os.open("/tmp/wait", os.O_WRONLY | os.O_NONBLOCK)).start()
while True:
    try:
        os.open("/tmp/wait", os.O_RDONLY)
        break
    except BaseException:
        pass
facts["waited"] = "to the end"
report()
