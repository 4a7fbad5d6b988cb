# Claim: all common ways to start threads and processes work, because clone3 returns ENOSYS instead of EPERM.
# Expected: ok for each; ENOSYS for clone3.
# Control: without seccomp, clone3 with an invalid size returns EINVAL. Safe: no process is created.
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
# A function of a file, because a started interpreter cannot know what was only typed.
with open("/home/user/p07_module.py", "w") as f:
    f.write("def double(x):\n    return 2 * x\n")
import multiprocessing, p07_module
for kind in ["fork", "spawn", "forkserver"]:
    with multiprocessing.get_context(kind).Pool(2) as pool:
        done = pool.map_async(p07_module.double, [1, 2]).get(60)
    facts["multiprocessing " + kind] = "ok" if done == [2, 4] else "no"
pid = os.posix_spawnp("true", ["true"], os.environ)
facts["by path"] = "ok" if os.waitpid(pid, 0)[1] == 0 else "no"
twin("start threads and processes (the results of this probe)", True)
report()
