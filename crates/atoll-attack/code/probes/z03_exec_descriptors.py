# Claim: a program started from the context inherits its three streams only.
# Expected: 0 1 2.
# Control: with a descriptor passed on purpose, the same check finds it. Safe: an own pipe.
import subprocess
extra = os.pipe() if ARGS["planted"] else ()
code = "import os;print(*[f for f in range(1024) if os.path.lexists('/proc/self/fd/%d'%f) and os.readlink('/proc/self/fd/%d'%f).find('/proc/')<0])"
ran = subprocess.run([sys.executable or "/usr/bin/python3", "-I", "-c", code], capture_output=True, text=True, stdin=subprocess.DEVNULL, pass_fds=extra)
facts["inherited"] = "0 1 2" if ran.stdout.strip() == "0 1 2" else ("more" if ARGS["planted"] else ran.stdout.strip() + ran.stderr[-200:])
ran = subprocess.run([sys.executable or "/usr/bin/python3", "-I", "-c", code], capture_output=True, text=True, stdin=subprocess.DEVNULL, close_fds=False)
facts["without close_fds"] = ran.stdout.strip()
twin("the child ran", ran.returncode == 0)
report()
