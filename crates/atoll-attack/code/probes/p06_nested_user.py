# Claim: capabilities cannot be regained: two layers block user namespaces, and tools that use them fail.
# Expected: EPERM or ENOSPC; CapEff stays zero.
# Control: outside a sandbox, an unprivileged child creates a user namespace and has all capabilities in it.
# Safe: the child exits immediately.
import subprocess
def capabilities():
    return [l.split()[1] for l in open("/proc/self/status") if l.startswith("CapEff")][0]
def nested():
    if ARGS["outside"] and os.getuid() == 0:
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
    answer = call(272, 0x10000000)
    return answer + (" none" if int(capabilities(), 16) == 0 else " all")
facts["user namespace"] = in_child(nested)
if not ARGS["outside"]:
    for tool in [["unshare", "-Ur", "true"], ["setpriv", "--reuid=0", "true"], ["bwrap", "--bind", "/", "/", "true"], ["su", "-c", "true"], ["newuidmap", "1", "0", "0", "1"]]:
        try:
            facts["tool " + tool[0]] = "worked" if subprocess.run(tool, capture_output=True, timeout=60, stdin=subprocess.DEVNULL).returncode == 0 else "failed"
        except FileNotFoundError:
            facts["tool " + tool[0]] = "absent"
        except PermissionError:
            facts["tool " + tool[0]] = "failed"
    facts["capabilities"] = capabilities()
twin("run `true`", subprocess.run(["true"]).returncode == 0)
report()
