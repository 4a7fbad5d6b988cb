# Claim: a started program inherits only the three standard streams.
# Expected: 0 1 2.
# Control: the same check finds a descriptor that is passed deliberately. Safe: it is the probe's own pipe.
import subprocess
extra = os.pipe() if ARGS["planted"] else ()
code = "import os;print(*[f for f in range(1024) if os.path.lexists('/proc/self/fd/%d'%f) and os.readlink('/proc/self/fd/%d'%f).find('/proc/')<0])"
ran = subprocess.run([sys.executable or "/usr/bin/python3", "-I", "-c", code], capture_output=True, text=True, stdin=subprocess.DEVNULL, pass_fds=extra)
facts["inherited"] = "0 1 2" if ran.stdout.strip() == "0 1 2" else ("more" if ARGS["planted"] else ran.stdout.strip() + ran.stderr[-200:])
ran = subprocess.run([sys.executable or "/usr/bin/python3", "-I", "-c", code], capture_output=True, text=True, stdin=subprocess.DEVNULL, close_fds=False)
facts["without close_fds"] = ran.stdout.strip()
twin("run a child interpreter", ran.returncode == 0)
report()
