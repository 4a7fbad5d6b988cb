# Claim: code that blocks on a pipe without a writer is stopped at the deadline. Bound: 8 s, over any grace period; 120 s
# where a limit must stop it, because a busy host may stop it late.
import threading
os.mkfifo("/tmp/wait")
threading.Timer(120 if ARGS["bounded"] else 8, lambda: os.open("/tmp/wait", os.O_WRONLY | os.O_NONBLOCK)).start()
while True:
    try:
        os.open("/tmp/wait", os.O_RDONLY)
        break
    except BaseException:
        pass
facts["waited"] = "to the end"
report()
