# Claim: waiting for a pipe that nobody opens ends at the deadline. Bound: 8 seconds, more than any grace.
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
