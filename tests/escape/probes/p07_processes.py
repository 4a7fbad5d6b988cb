# Claim: ordinary ways to start threads and processes all work, because clone3 says ENOSYS and not EPERM.
# Expected: ok each; clone3 ENOSYS.
# Control: without seccomp clone3 with a bad size answers EINVAL. Safe: no process is made.
import subprocess, threading
facts["clone3"] = call(435, None, 0)
done = []
t = threading.Thread(target=lambda: done.append(1))
t.start()
t.join()
facts["thread"] = "ok" if done else "no"
facts["subprocess"] = "ok" if subprocess.run(["true"]).returncode == 0 else "no"
pid = os.posix_spawn("/usr/bin/true", ["true"], {})
facts["posix_spawn"] = "ok" if os.waitpid(pid, 0)[1] == 0 else "no"
facts["fork"] = "ok" if in_child(lambda: "here") == "here" else "no"
import multiprocessing
with multiprocessing.get_context("fork").Pool(2) as pool:
    facts["multiprocessing fork"] = "ok" if pool.map(abs, [-1, -2]) == [1, 2] else "no"
with multiprocessing.get_context("forkserver").Pool(1) as pool:
    facts["multiprocessing forkserver"] = "ok" if pool.map(abs, [-1]) == [1] else "no"
twin("this very list is the twin", True)
report()
