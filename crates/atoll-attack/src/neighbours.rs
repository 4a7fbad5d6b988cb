//! What one sandbox could learn of another, or do to it, in the same engine.

use crate::bench::{end, execute, python, sandbox, say};
use crate::case::cases;
use crate::processes::{host_id, processes_of};
use atoll_core::{Language, Outcome};
use atoll_engine::Wall;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const WATCH: &str = "
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
def watch(path):
    fd = libc.inotify_init1(0o4000)
    return (fd, libc.inotify_add_watch(fd, path, 0x21)) if fd >= 0 else (fd, ctypes.get_errno())
";
const DNOTIFY: &str = "
import fcntl, signal, os
seen = []
signal.signal(signal.SIGRTMIN, lambda *a: seen.append(1))
def notify(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.fcntl(fd, 10, signal.SIGRTMIN)
        fcntl.fcntl(fd, 1026, 0x80000001)
        return 'armed'
    except OSError as e:
        return e.errno
";
const KNOCK: &str = "
import socket, errno
def knock(name):
    with socket.socket(socket.AF_UNIX) as s:
        try:
            s.connect('\\0' + name)
            return 'ok'
        except OSError as e:
            return errno.errorcode[e.errno]
";

cases! {
    F17 {
        id: "F17",
        claim: "A sandbox cannot observe which shared files other sandboxes open",
        expected: "inotify on the shared tree is refused, or reports no events of the neighbour",
        oracle: "the neighbour opens the watched file",
        twin: "reading the watched file works",
        control: "without seccomp, the watch reports the neighbour's open (both sandboxes belong to the attack)",
    } |bench, _lab, shown| {
        let watched = |walls: &'static [Wall], by_itself: bool| async move {
            let (engine, mut a, mut b) = bench.two(walls).await?;
            say(&mut a, &format!("{WATCH}\nw = watch(b'/usr/bin/env')\nopen('/usr/bin/env','rb').read(1)\ntry: os.read(w[0], 4096)\nexcept Exception: pass")).await?;
            say(if by_itself { &mut a } else { &mut b }, "open('/usr/bin/env','rb').read(4)").await?;
            let seen = say(&mut a, "try: n = len(os.read(w[0], 4096)) if w[0] >= 0 else 0\nexcept OSError: n = 0\nn").await?;
            end(&engine, [a, b]).await?;
            Ok::<_, crate::AttackError>(seen)
        };
        let seen = watched(&[], false).await?;
        shown.holds(seen == "0", format!("inotify reported {seen} bytes of events from the neighbour, expected 0"));
        // Where each sandbox has a kernel of its own, the watch sees its own process only.
        let seen = watched(&[Wall::Seccomp], bench.ground.has_own_kernel()).await?;
        shown.control(seen != "0", format!("without seccomp, inotify reported {seen} bytes of events, expected more than 0"));
    }
    F17B {
        id: "F17b",
        claim: "Directory notifications (F_NOTIFY) on shared directories are refused",
        expected: "fcntl(F_NOTIFY) on a shared directory is refused, and no signal arrives",
        oracle: "the neighbour reads a file in the watched directory",
        twin: "opening the directory works",
        control: "without seccomp, the signal arrives (both sandboxes belong to the attack)",
    } |bench, _lab, shown| {
        let watched = |walls: &'static [Wall], by_itself: bool| async move {
            let (engine, mut a, mut b) = bench.two(walls).await?;
            say(&mut a, &format!("{DNOTIFY}\narmed = notify('/usr/bin')")).await?;
            say(if by_itself { &mut a } else { &mut b }, "open('/usr/bin/env','rb').read(4)").await?;
            let seen = say(&mut a, "(armed == 'armed', len(seen) > 0)").await?;
            end(&engine, [a, b]).await?;
            Ok::<_, crate::AttackError>(seen)
        };
        let seen = watched(&[], false).await?;
        shown.holds(seen == "(False, False)", format!("(watch armed, signal received) is {seen}, expected (False, False)"));
        let seen = watched(&[Wall::Seccomp], bench.ground.has_own_kernel()).await?;
        shown.control(seen == "(True, True)", format!("without seccomp, (watch armed, signal received) is {seen}, expected (True, True)"));
    }
    F20 {
        id: "F20",
        claim: "A new sandbox finds nothing left by an ended one",
        expected: "the scratch directories do not contain the old files, and new memory is zeroed",
        oracle: "the host's /tmp and /dev/shm do not contain the files",
        twin: "the first sandbox writes and reads its files",
        control: "a second execution in the same sandbox finds the file (the sandbox belongs to the attack)",
    } |bench, _lab, shown| {
        let (engine, mut a, b) = bench.two(&[]).await?;
        say(&mut a, "for p in ['/tmp','/var/tmp','/app','/dev/shm','/home/user','/mnt/data','/data/output']: open(p+'/stale-77c1','w').write('S'*5000)").await?;
        let again = say(&mut a, "open('/dev/shm/stale-77c1').read(3)").await?;
        shown.control(again == "'SSS'", format!("a second execution in the same sandbox reads {again}, expected 'SSS'"));
        let on_host = ["/dev/shm/stale-77c1", "/tmp/stale-77c1"].iter().any(|path| Path::new(path).exists());
        shown.holds(!on_host, "the files do not exist in the host's /tmp and /dev/shm");
        a.end().await?;
        let mut c = sandbox(&engine).await?;
        let found = say(&mut c, "import os,mmap\nx=[p for p in ['/tmp','/var/tmp','/app','/dev/shm','/home/user','/mnt/data','/data/output'] if os.path.exists(p+'/stale-77c1')]\nm=mmap.mmap(-1,8<<20,flags=mmap.MAP_PRIVATE)\nf=open('/dev/shm/new','wb+'); f.truncate(4<<20)\n(x, m[:]==bytes(8<<20), f.read()==bytes(4<<20))").await?;
        shown.holds(found == "([], True, True)", format!("in a new sandbox, (old files, memory zeroed, shared memory zeroed) is {found}, expected ([], True, True)"));
        end(&engine, [c, b]).await?;
    }
    F21 {
        id: "F21",
        claim: "Code that a sandbox plants for later interpreter starts never runs in another sandbox or in the zygote",
        expected: "other sandboxes, including one created afterwards, have none of the files and none of the effects",
        oracle: "code in two other sandboxes, one of them created afterwards, searches for the files and effects",
        twin: "the planting sandbox finds its own files",
        control: "a second interpreter in the planting sandbox runs the planted file if PYTHONPATH points to it (the sandbox belongs to the attack)",
    } |bench, _lab, shown| {
        let (engine, mut a, mut b) = bench.two(&[]).await?;
        say(&mut a, "import os,site,sys\nv='python%d.%d'%sys.version_info[:2]\nfor d in ['/home/user/.local/lib/'+v+'/site-packages','/home/user/.config/matplotlib','/tmp/p']:\n    os.makedirs(d,exist_ok=True)\n    for n in ['sitecustomize.py','usercustomize.py','x.pth','matplotlibrc']: open(d+'/'+n,'w').write('import os; os.environ[\"PLANTED\"]=\"1\"')\nopen('/home/user/random.py','w').write('planted=1')\nos.environ['LD_PRELOAD']='/tmp/x.so'; os.environ['PYTHONPATH']='/tmp/p'").await?;
        let own = say(&mut a, "os.path.exists('/home/user/random.py')").await?;
        shown.works(own == "True", "the planting sandbox finds its own files");
        let mut c = sandbox(&engine).await?;
        for other in [&mut b, &mut c] {
            let found = say(other, "import os,random,sys\n[p for p in ['/home/user/.local','/tmp/p','/home/user/random.py'] if os.path.exists(p)] + [k for k in os.environ if k in ('PLANTED','LD_PRELOAD','PYTHONPATH')] + [1]*hasattr(random,'planted')").await?;
            shown.holds(found == "[]", format!("planted files and effects in another sandbox: {found}, expected []"));
        }
        c.end().await?;
        let bred = say(&mut a, "import subprocess\nsubprocess.run([sys.executable,'-c','import os;print(os.environ.get(\"PLANTED\"))'],env={'PYTHONPATH':'/tmp/p'},capture_output=True,text=True).stdout.strip()").await?;
        shown.control(bred == "'1'", format!("the planted file set PLANTED={bred} in a second interpreter, expected '1'"));
        end(&engine, [a, b]).await?;
    }
    P03B {
        id: "P03b",
        claim: "kill(-1, 9) kills only the sandbox's own processes",
        expected: "the execution is reported as killed; the neighbour keeps its state; the sandbox opens a new context",
        oracle: "the neighbour's context still returns its state",
        twin: "the same sandbox works before and after the kill",
        control: "the other processes of the same sandbox are killed (the sandbox belongs to the attack)",
    } |bench, _lab, shown| {
        let (engine, mut a, mut b) = bench.two(&[]).await?;
        say(&mut b, "x = 41").await?;
        shown.works(say(&mut a, "6*7").await? == "42", "the sandbox works before the kill");
        let code = "import os,time\nif os.fork()==0:\n    os.kill(-1,9)\n    os._exit(0)\ntime.sleep(600)";
        let killed = python(&mut a, code).await?;
        shown.control(killed.outcome == Outcome::Killed, format!("outcome of the execution in the same sandbox: `{}`, expected `killed`", killed.outcome));
        let kept = python(&mut b, "x + 1").await?;
        shown.holds(crate::bench::shown(&kept) == "42", "the neighbour keeps its state");
        shown.works(say(&mut a, "6*7").await? == "42", "the sandbox opens a new context");
        end(&engine, [a, b]).await?;
    }
    P16B {
        id: "P16b",
        claim: "Abstract sockets of a sandbox cannot be reached or listed by other sandboxes or by its other contexts",
        expected: "connections are refused; without Landlock, the network namespace alone still isolates another sandbox",
        oracle: "the listener's accept queue stays empty",
        twin: "the listener accepts a connection from its own process",
        control: "without Landlock, another context in the same network namespace connects (the sandbox belongs to the attack)",
    } |bench, _lab, shown| {
        let knocks = |walls: &'static [Wall]| async move {
            let (engine, mut a, mut b) = bench.two(walls).await?;
            let heard = "s.settimeout(0)\ndef heard():\n    try: s.accept(); return True\n    except BlockingIOError: return False\n";
            let own = say(&mut a, &format!("{KNOCK}\ns=socket.socket(socket.AF_UNIX); s.bind('\\0meeting'); s.listen()\n{heard}\n(knock('meeting'), heard())")).await?;
            let far = say(&mut b, &format!("{KNOCK}\n(knock('meeting'), 'meeting' in open('/proc/self/net/unix').read())")).await?;
            let far = (far, say(&mut a, "heard()").await?);
            let near = format!("python3 -I - <<'END'\n{KNOCK}\nprint(knock('meeting'))\nEND");
            let near = execute(&mut a, Language::Bash, &near).await?.stdout;
            let near = (near.trim().to_owned(), say(&mut a, "heard()").await?);
            end(&engine, [a, b]).await?;
            Ok::<_, crate::AttackError>((own, far, near))
        };
        let (own, far, near) = knocks(&[]).await?;
        shown.works(own == "('ok', True)", format!("a connection from the listener's own process: (result, accepted) is {own}, expected ('ok', True)"));
        let refused = matches!(far.0.as_str(), "('ECONNREFUSED', False)" | "('EPERM', False)") && far.1 == "False";
        shown.holds(refused, format!("a connection from another sandbox: ((result, name listed), accepted) is {far:?}, expected ECONNREFUSED or EPERM, and no name or connection"));
        let (far, near) = match bench.ground.has_landlock() {
            false => (far, near),
            true => {
                shown.holds(near == ("EPERM".into(), "False".into()), format!("a connection from another context: (result, accepted) is {near:?}, expected EPERM and no connection"));
                let (_, far, near) = knocks(&[Wall::Landlock]).await?;
                (far, near)
            }
        };
        let alone = far == ("('ECONNREFUSED', False)".into(), "False".into());
        shown.holds(alone, format!("without Landlock, a connection from another sandbox: ((result, name listed), accepted) is {far:?}, expected ECONNREFUSED, and no name or connection"));
        shown.control(near == ("ok".into(), "True".into()), format!("without Landlock, a connection from another context: (result, accepted) is {near:?}, expected ok and a connection"));
    }
    P23B {
        id: "P23b",
        claim: "Two sandboxes run as two different host users",
        expected: "the host user ids differ, and both are in the range reserved for sandboxes",
        oracle: "the receipts, which are read back from the kernel, and /proc/<pid>/status of both sandboxes",
        twin: "both sandboxes have running processes",
        control: "two contexts of one sandbox have the same host user id (the sandbox belongs to the attack)",
    } |bench, _lab, shown| {
        let (engine, mut a, mut b) = bench.two(&[]).await?;
        let (x, y) = (host_id(&python(&mut a, "1").await?)?, host_id(&python(&mut b, "1").await?)?);
        shown.holds(x != y && x >= 0x7000_0000 && y >= 0x7000_0000, format!("host user ids are {x} and {y}, expected two different ids of at least 0x70000000"));
        shown.works(processes_of(x).len() >= 2 && processes_of(y).len() >= 2, "both sandboxes have at least two processes with their host user id");
        let bash = host_id(&execute(&mut a, Language::Bash, "true").await?)?;
        shown.control(bash == x, format!("another context of the first sandbox has host user id {bash}, expected the same id as the first context"));
        end(&engine, [a, b]).await?;
    }
    Z10 {
        id: "Z10",
        claim: "Hooks of one sandbox (fork, exit, signal) never run in the zygote or in another sandbox",
        expected: "other sandboxes, including one created afterwards, show no effect of the hooks",
        oracle: "code in two other sandboxes looks for the hooks' marker, file and signal handler",
        twin: "forking works in the other sandboxes",
        control: "in the planting sandbox, the hook runs at the next fork (the sandbox belongs to the attack)",
    } |bench, _lab, shown| {
        let (engine, mut a, mut b) = bench.two(&[]).await?;
        say(&mut a, "import os,atexit,signal,sys,builtins\nbuiltins.mark=[]\nos.register_at_fork(before=lambda: builtins.mark.append('fork'))\natexit.register(lambda: open('/tmp/exit','w'))\nsignal.signal(signal.SIGUSR1,lambda *a: builtins.mark.append('signal'))").await?;
        let own = say(&mut a, "p=os.fork()\nif p==0: os._exit(0)\nos.waitpid(p,0); builtins.mark").await?;
        shown.control(own == "['fork']", format!("hooks that ran in the planting sandbox: {own}, expected ['fork']"));
        let mut c = sandbox(&engine).await?;
        for other in [&mut b, &mut c] {
            let found = say(other, "import os,builtins,signal\np=os.fork()\nif p==0: os._exit(0)\nos.waitpid(p,0)\n(getattr(builtins,'mark',None), os.path.exists('/tmp/exit'), signal.getsignal(signal.SIGUSR1)==signal.SIG_DFL)").await?;
            shown.holds(found == "(None, False, True)", format!("in another sandbox, (marker, exit file, default signal handler) is {found}, expected (None, False, True)"));
        }
        c.end().await?;
        end(&engine, [a, b]).await?;
    }
    Z16B {
        id: "Z16b",
        claim: "Every context has its own session keyring",
        expected: "the keyring ids of two sandboxes and of two contexts of one sandbox differ (read without seccomp, which blocks keyctl)",
        oracle: "the attack compares the ids",
        twin: "a context reads the id of its keyring",
        control: "without the keyring layer, two contexts of one sandbox share a keyring (the sandbox belongs to the attack)",
    } |bench, _lab, shown| {
        let ask = "import ctypes\nlibc=ctypes.CDLL(None)\nlibc.syscall(250,0,-3,0,0,0)";
        let numbers = |walls: &'static [Wall]| async move {
            let (engine, mut a, mut b) = bench.two(walls).await?;
            let first = say(&mut a, ask).await?;
            python(&mut a, "import os; os._exit(0)").await?;
            let all = (first, say(&mut a, ask).await?, say(&mut b, ask).await?);
            end(&engine, [a, b]).await?;
            Ok::<_, crate::AttackError>(all)
        };
        let (x, y, z) = numbers(&[Wall::Seccomp]).await?;
        shown.works(x.parse::<i64>().is_ok_and(|number| number > 0), format!("the keyring id of a context is {x}, expected a positive number"));
        shown.holds(x != y && y != z && x != z, format!("the keyring ids are {x}, {y} and {z}, expected three different ids"));
        let (x, y, _) = numbers(&[Wall::Seccomp, Wall::Keyring]).await?;
        shown.control(x == y, format!("without the keyring layer, the keyring ids of two contexts are {x} and {y}, expected the same id"));
    }
    Z17 {
        id: "Z17",
        claim: "PID 1 cannot be inspected by its own user",
        expected: "the /proc files of PID 1, which is not dumpable, belong to root; those of the context's process belong to the sandbox's user",
        oracle: "the owners of /proc/<pid>/mem, read on the host",
        twin: "the host finds the context's process",
        control: "without the non-dumpable flag, the /proc files of PID 1 belong to the sandbox's user (the sandbox belongs to the attack)",
    } |bench, _lab, shown| {
        let owners = |walls: &'static [Wall]| async move {
            let engine = bench.engine(walls).await?;
            let mut a = sandbox(&engine).await?;
            let id = host_id(&python(&mut a, "1").await?)?;
            let owner = |inside_is_one: bool| {
                let (pid, _) = *processes_of(id).iter().find(|(_, inside)| (*inside == 1) == inside_is_one)?;
                std::fs::metadata(format!("/proc/{pid}/mem")).ok().map(|meta| meta.uid() == id)
            };
            let owners = (owner(true), owner(false));
            end(&engine, [a]).await?;
            Ok::<_, crate::AttackError>(owners)
        };
        let (first, own) = owners(&[]).await?;
        shown.works(own == Some(true), "the /proc files of the context's process belong to the sandbox's user");
        shown.holds(first == Some(false), "the /proc files of PID 1 belong to a different user");
        let (first, _) = owners(&[Wall::Undumpable]).await?;
        shown.control(first == Some(true), "without the non-dumpable flag, the /proc files of PID 1 belong to the sandbox's user");
    }
    Z18 {
        id: "Z18",
        claim: "Variables, open files, threads and patched builtins never reach a later sandbox",
        expected: "a new sandbox contains none of them",
        oracle: "code in a sandbox created afterwards looks for them",
        twin: "builtins work in the new sandbox",
        control: "the next execution in the same sandbox sees them (the sandbox belongs to the attack)",
    } |bench, _lab, shown| {
        let (engine, mut a, b) = bench.two(&[]).await?;
        say(&mut a, "import builtins,threading,time,json\nbuiltins.bin=lambda x: 77\nimport string; string.digits=None\nleft=1\nf=open('/tmp/f','w')\nthreading.Thread(target=time.sleep,args=(600,),daemon=True).start()").await?;
        let own = say(&mut a, "(left, bin(1))").await?;
        shown.control(own == "(1, 77)", format!("the next execution in the same sandbox sees {own}, expected (1, 77)"));
        let mut c = sandbox(&engine).await?;
        let found = say(&mut c, "import threading,string\n('left' in globals(), bin(1), threading.active_count(), string.digits)").await?;
        shown.holds(found == "(False, '0b1', 1, '0123456789')", format!("in a new sandbox, (variable exists, bin(1), threads, string.digits) is {found}, expected (False, '0b1', 1, '0123456789')"));
        c.end().await?;
        end(&engine, [a, b]).await?;
    }
}
