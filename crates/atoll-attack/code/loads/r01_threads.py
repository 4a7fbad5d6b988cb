# Claim: a thread bomb is stopped by the process limit. Bound: 200 sleeping threads.
import threading
go = threading.Event()
threads = []
try:
    for n in range(200):
        t = threading.Thread(target=go.wait, daemon=True)
        t.start()
        threads.append(t)
    facts["threads"] = "all"
except RuntimeError:
    facts["threads"] = "stopped"
go.set()
twin("start more than 8 threads", len(threads) > 8)
report()
