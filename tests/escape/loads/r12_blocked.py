# Claim: waiting for a pipe that nobody opens ends at the deadline. Bound: 3 seconds.
import threading
os.mkfifo("/tmp/wait")
threading.Timer(3, lambda: os.open("/tmp/wait", os.O_WRONLY | os.O_NONBLOCK)).start()
while True:
    try:
        os.open("/tmp/wait", os.O_RDONLY)
        break
    except BaseException:
        pass
facts["waited"] = "to the end"
report()
