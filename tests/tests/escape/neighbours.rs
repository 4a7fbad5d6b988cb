//! What one sandbox could learn of another, or do to it, in the same engine.

use crate::lab::{engine_without, host_id, processes_of, shown};
use crate::probe::cases;
use anyhow::{Result, ensure};
use atoll_core::Outcome;
use atoll_engine::{Engine, Sandbox, Wall, Warmth};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

async fn two(walls: &[Wall]) -> Result<(Arc<Engine>, Sandbox, Sandbox)> {
    let engine = engine_without(walls).await?;
    let (a, b) = (
        atoll_tests::sandbox(&engine).await?,
        atoll_tests::sandbox(&engine).await?,
    );
    Ok((engine, a, b))
}

async fn end(engine: Arc<Engine>, a: Sandbox, b: Sandbox) -> Result<()> {
    a.end().await?;
    b.end().await?;
    atoll_tests::stop(engine).await
}

/// Runs code and gives what its last line showed.
async fn say(sandbox: &mut Sandbox, code: &str) -> Result<String> {
    let execution = atoll_tests::python(sandbox, code).await?;
    ensure!(
        execution.outcome == Outcome::Ok,
        "{:?} {:?}",
        execution.outcome,
        execution.error
    );
    Ok(shown(&execution))
}

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
const RANDOM: &str = "
import random, uuid, tempfile, secrets, os, ssl
import numpy as np
[random.random(), float(np.random.rand()), float(np.random.default_rng().random()), str(uuid.uuid4()), str(uuid.uuid1()),
 next(tempfile._get_candidate_names()), secrets.token_hex(8), ssl.RAND_bytes(8).hex(), os.urandom(8).hex()]
";

cases! { CASES:
    f17_inotify {
        id: "F17",
        claim: "Nobody can watch which shared files other sandboxes open",
        expected: "inotify cannot be had on the shared tree, or shows no event of a neighbour",
        oracle: "the neighbour opened the very file",
        twin: "plain reading of the watched file works",
        control: "without seccomp the watch shows the neighbour's open (both sandboxes are the test's)",
    } {
        let watched = |walls: &'static [Wall]| async move {
            let (engine, mut a, mut b) = two(walls).await?;
            say(&mut a, &format!("{WATCH}\nw = watch(b'/usr/bin/env')\nopen('/usr/bin/env','rb').read(1)\ntry: os.read(w[0], 4096)\nexcept Exception: pass")).await?;
            say(&mut b, "open('/usr/bin/env','rb').read(4)").await?;
            let seen = say(&mut a, "try: n = len(os.read(w[0], 4096)) if w[0] >= 0 else 0\nexcept OSError: n = 0\nn").await?;
            end(engine, a, b).await?;
            anyhow::Ok(seen != "0")
        };
        ensure!(!watched(&[]).await?, "a sandbox saw its neighbour open a file");
        ensure!(watched(&[Wall::Seccomp]).await?, "the control did not breach");
    }
    f17_dnotify {
        id: "F17b",
        claim: "The older way to watch directories (F_NOTIFY) is shut, too",
        expected: "fcntl(F_NOTIFY) on a shared directory is refused, or no signal comes",
        oracle: "the neighbour read a file of the very directory",
        twin: "the directory itself opens",
        control: "without seccomp the signal comes (both sandboxes are the test's)",
    } {
        let watched = |walls: &'static [Wall]| async move {
            let (engine, mut a, mut b) = two(walls).await?;
            say(&mut a, &format!("{DNOTIFY}\narmed = notify('/usr/bin')")).await?;
            say(&mut b, "open('/usr/bin/env','rb').read(4)").await?;
            let seen = say(&mut a, "(armed == 'armed', len(seen) > 0)").await?;
            end(engine, a, b).await?;
            anyhow::Ok(seen)
        };
        let strict = watched(&[]).await?;
        ensure!(strict == "(False, False)", "a sandbox saw its neighbour read a directory: {strict}");
        let open = watched(&[Wall::Seccomp]).await?;
        ensure!(open == "(True, True)", "the control did not breach: {open}");
    }
    f18_locks {
        id: "F18",
        claim: "Locks on shared files hold up no neighbour",
        expected: "with every library file locked, a neighbour still imports and computes in its usual time",
        oracle: "the neighbour's time",
        twin: "the locks were taken",
        control: "a neighbour that asks for the same lock is refused: locks do cross (a known covert channel, not promised)",
    } {
        let (engine, mut a, mut b) = two(&[]).await?;
        let locked = say(&mut a, "import fcntl,os,glob\nfs=[]\nfor p in glob.glob('/opt/atoll/python/lib/python3*/*.py')[:300]+glob.glob('/usr/lib/x86_64-linux-gnu/*.so*')[:300]:\n    f=open(p,'rb')\n    try: fcntl.flock(f,fcntl.LOCK_EX|fcntl.LOCK_NB); fs.append(f)\n    except OSError: pass\nlen(fs) > 100").await?;
        ensure!(locked == "True", "the twin is dead");
        let begun = Instant::now();
        ensure!(say(&mut b, "import csv, decimal, sqlite3, email.message, http.client\n6*7").await? == "42");
        ensure!(begun.elapsed() < Duration::from_secs(5), "took {:?}", begun.elapsed());
        let same = say(&mut b, "import fcntl,glob\ndef held(p):\n    try: fcntl.flock(open(p,'rb'),fcntl.LOCK_EX|fcntl.LOCK_NB)\n    except OSError: return True\nany(held(p) for p in glob.glob('/opt/atoll/python/lib/python3*/*.py')[:300])").await?;
        ensure!(same == "True", "the control did not breach");
        end(engine, a, b).await?;
    }
    f21_planted_code {
        id: "F21",
        claim: "Code planted for a later start reaches no other sandbox and no zygote",
        expected: "a sandbox made afterwards has none of the files and none of the effects",
        oracle: "the data directory of the host holds no such file",
        twin: "the planting sandbox reads its own files back",
        control: "a second interpreter in the planting sandbox runs the planted file, when told where it is (own sandbox)",
    } {
        let (engine, mut a, mut b) = two(&[]).await?;
        say(&mut a, "import os,site,sys\nv='python%d.%d'%sys.version_info[:2]\nfor d in ['/home/user/.local/lib/'+v+'/site-packages','/home/user/.config/matplotlib','/tmp/p']:\n    os.makedirs(d,exist_ok=True)\n    for n in ['sitecustomize.py','usercustomize.py','x.pth','matplotlibrc']: open(d+'/'+n,'w').write('import os; os.environ[\"PLANTED\"]=\"1\"')\nopen('/home/user/random.py','w').write('planted=1')\nos.environ['LD_PRELOAD']='/tmp/x.so'; os.environ['PYTHONPATH']='/tmp/p'").await?;
        ensure!(say(&mut a, "os.path.exists('/home/user/random.py')").await? == "True", "the twin is dead");
        let mut c = atoll_tests::sandbox(&engine).await?;
        for other in [&mut b, &mut c] {
            let found = say(other, "import os,random,sys\n[p for p in ['/home/user/.local','/tmp/p','/home/user/random.py'] if os.path.exists(p)] + [k for k in os.environ if k in ('PLANTED','LD_PRELOAD','PYTHONPATH')] + [1]*hasattr(random,'planted')").await?;
            ensure!(found == "[]", "found in another sandbox: {found}");
        }
        c.end().await?;
        let bred = say(&mut a, "import subprocess\nsubprocess.run([sys.executable,'-c','import os;print(os.environ.get(\"PLANTED\"))'],env={'PYTHONPATH':'/tmp/p'},capture_output=True,text=True).stdout.strip()").await?;
        ensure!(bred == "'1'", "the control did not breach: {bred}");
        end(engine, a, b).await?;
    }
    f20_stale {
        id: "F20",
        claim: "A later sandbox finds nothing that an ended one left",
        expected: "scratch places are empty, new shared memory is zero",
        oracle: "the same names on the host's /tmp and /dev/shm do not exist",
        twin: "the first sandbox wrote and read its file",
        control: "within one sandbox a second execution does find the file (own sandbox)",
    } {
        let (engine, mut a, b) = two(&[]).await?;
        say(&mut a, "for p in ['/tmp','/dev/shm','/home/user','/mnt/data','/data/output']: open(p+'/stale-77c1','w').write('S'*5000)").await?;
        ensure!(say(&mut a, "open('/dev/shm/stale-77c1').read(3)").await? == "'SSS'", "the control did not breach");
        ensure!(!std::path::Path::new("/dev/shm/stale-77c1").exists() && !std::path::Path::new("/tmp/stale-77c1").exists());
        a.end().await?;
        let mut c = atoll_tests::sandbox(&engine).await?;
        let found = say(&mut c, "import os,mmap\nx=[p for p in ['/tmp','/dev/shm','/home/user','/mnt/data','/data/output'] if os.path.exists(p+'/stale-77c1')]\nm=mmap.mmap(-1,8<<20,flags=mmap.MAP_PRIVATE)\nf=open('/dev/shm/new','wb+'); f.truncate(4<<20)\n(x, m[:]==bytes(8<<20), f.read()==bytes(4<<20))").await?;
        ensure!(found == "([], True, True)", "{found}");
        end(engine, c, b).await?;
    }
    p03_kill_all {
        id: "P03b",
        claim: "kill(-1, 9) ends the own processes only",
        expected: "the execution is reported as killed; the neighbour keeps its state; the sandbox takes a new context",
        oracle: "the neighbour's context answers with its state",
        twin: "the same sandbox computes before and after",
        control: "the sender's own siblings do die (processes of the same sandbox)",
    } {
        let (engine, mut a, mut b) = two(&[]).await?;
        say(&mut b, "x = 41").await?;
        ensure!(say(&mut a, "6*7").await? == "42");
        let code = "import os,time\nif os.fork()==0:\n    os.kill(-1,9)\n    os._exit(0)\ntime.sleep(20)";
        let killed = atoll_tests::python(&mut a, code).await?;
        ensure!(killed.outcome == Outcome::Killed, "the control did not breach: {:?}", killed.outcome);
        ensure!(say(&mut b, "x + 1").await? == "42", "the neighbour lost its state");
        ensure!(say(&mut a, "6*7").await? == "42", "the sandbox takes no new context");
        end(engine, a, b).await?;
    }
    p16_neighbours {
        id: "P16b",
        claim: "Abstract names of one sandbox cannot be reached or listed by another, nor by another context of the same",
        expected: "refused; without Landlock the network namespace alone still refuses the neighbour",
        oracle: "the listener's own queue stays empty",
        twin: "the listener hears its own process",
        control: "in the same network namespace (another context) and without Landlock the same knock is heard (own sandbox)",
    } {
        let knocks = |walls: &'static [Wall]| async move {
            let (engine, mut a, mut b) = two(walls).await?;
            let heard = "s.settimeout(0)\ndef heard():\n    try: s.accept(); return True\n    except BlockingIOError: return False\n";
            let own = say(&mut a, &format!("{KNOCK}\ns=socket.socket(socket.AF_UNIX); s.bind('\\0meeting'); s.listen()\n{heard}\n(knock('meeting'), heard())")).await?;
            ensure!(own == "('ok', True)", "the twin is dead: {own}");
            let far = say(&mut b, &format!("{KNOCK}\n(knock('meeting'), 'meeting' in open('/proc/self/net/unix').read())")).await?;
            let far = (far, say(&mut a, "heard()").await?);
            let near = format!("python3 -I - <<'END'\n{KNOCK}\nprint(knock('meeting'))\nEND");
            let near = atoll_tests::execute(&mut a, atoll_core::Language::Bash, &near).await?.stdout;
            let near = (near.trim().to_owned(), say(&mut a, "heard()").await?);
            end(engine, a, b).await?;
            anyhow::Ok((far, near))
        };
        let (far, near) = knocks(&[]).await?;
        ensure!(matches!(far.0.as_str(), "('ECONNREFUSED', False)" | "('EPERM', False)") && far.1 == "False", "a neighbour was heard: {far:?}");
        ensure!(near == ("EPERM".into(), "False".into()), "another context was heard: {near:?}");
        let (far, near) = knocks(&[Wall::Landlock]).await?;
        ensure!(far == ("('ECONNREFUSED', False)".into(), "False".into()), "the network namespace alone: {far:?}");
        ensure!(near == ("ok".into(), "True".into()), "the control did not breach: {near:?}");
    }
    p23_unique_ids {
        id: "P23b",
        claim: "Two sandboxes are two users of the host",
        expected: "different host ids, none below the range of sandboxes",
        oracle: "the receipts, read back from the kernel, and /proc/<pid>/status of both",
        twin: "both have processes",
        control: "two contexts of one sandbox do share their id (own sandbox)",
    } {
        let (engine, mut a, mut b) = two(&[]).await?;
        let first = atoll_tests::python(&mut a, "1").await?;
        let (x, y) = (host_id(&first)?, host_id(&atoll_tests::python(&mut b, "1").await?)?);
        ensure!(x != y && x >= 0x7000_0000 && y >= 0x7000_0000, "{x} {y}");
        ensure!(processes_of(x).len() >= 2 && processes_of(y).len() >= 2, "the twin is dead");
        let bash = atoll_tests::execute(&mut a, atoll_core::Language::Bash, "true").await?;
        ensure!(host_id(&bash)? == x, "the control did not breach");
        end(engine, a, b).await?;
    }
    z05_randomness {
        id: "Z05",
        claim: "Two forks of one warm zygote draw different numbers everywhere",
        expected: "every source differs: random, numpy old and new, uuid, tempfile, secrets, ssl",
        oracle: "both lists are compared here",
        twin: "each source gives a value",
        control: "two plain forks inside one sandbox, not reseeded, draw the same from numpy (own processes)",
    } {
        let engine = atoll_tests::engine("python-data", Warmth::Warm, atoll_engine::Walls::default()).await?;
        let (mut a, mut b) = (atoll_tests::sandbox(&engine).await?, atoll_tests::sandbox(&engine).await?);
        let list = |text: String| text.trim_matches(['[', ']']).split(',').map(|s| s.trim().to_owned()).collect::<Vec<_>>();
        let (x, y) = (list(say(&mut a, RANDOM).await?), list(say(&mut b, RANDOM).await?));
        ensure!(x.len() == 9 && y.len() == 9, "the twin is dead: {x:?}");
        let same: Vec<_> = x.iter().zip(&y).filter(|(x, y)| x == y).collect();
        ensure!(same.is_empty(), "the same in both: {same:?}");
        let forks = say(&mut a, "def draw():\n    r,w=os.pipe()\n    if os.fork()==0:\n        os.write(w,str(np.random.rand()).encode()); os._exit(0)\n    os.wait(); return os.read(r,99)\ndraw()==draw()").await?;
        ensure!(forks == "True", "the control did not breach");
        end(engine, a, b).await?;
    }
    z10_fork_hooks {
        id: "Z10",
        claim: "Hooks of one sandbox (at fork, at exit, on signals) never run in the zygote or another sandbox",
        expected: "a sandbox made afterwards shows no trace of them",
        oracle: "no marker appears in the neighbour's memory of modules or files",
        twin: "the neighbour forks and exits as usual",
        control: "in the planting sandbox itself the hook runs at the next fork (own sandbox)",
    } {
        let (engine, mut a, mut b) = two(&[]).await?;
        say(&mut a, "import os,atexit,signal,sys,builtins\nbuiltins.mark=[]\nos.register_at_fork(before=lambda: builtins.mark.append('fork'))\natexit.register(lambda: open('/tmp/exit','w'))\nsignal.signal(signal.SIGUSR1,lambda *a: builtins.mark.append('signal'))").await?;
        ensure!(say(&mut a, "p=os.fork()\nif p==0: os._exit(0)\nos.waitpid(p,0); builtins.mark").await? == "['fork']", "the control did not breach");
        let mut c = atoll_tests::sandbox(&engine).await?;
        for other in [&mut b, &mut c] {
            let found = say(other, "import os,builtins,signal\np=os.fork()\nif p==0: os._exit(0)\nos.waitpid(p,0)\n(getattr(builtins,'mark',None), os.path.exists('/tmp/exit'), signal.getsignal(signal.SIGUSR1)==signal.SIG_DFL)").await?;
            ensure!(found == "(None, False, True)", "{found}");
        }
        c.end().await?;
        end(engine, a, b).await?;
    }
    z16_own_keyring {
        id: "Z16b",
        claim: "Every context has a session keyring of its own",
        expected: "different numbers in two sandboxes and in two contexts of one (asked below the filter)",
        oracle: "the numbers are compared here",
        twin: "the keyring has a number",
        control: "without the keyring step two contexts of one sandbox share it (own sandbox)",
    } {
        let ask = "import ctypes\nlibc=ctypes.CDLL(None)\nlibc.syscall(250,0,-3,0,0,0)";
        let numbers = |walls: &'static [Wall]| async move {
            let (engine, mut a, mut b) = two(walls).await?;
            let first = say(&mut a, ask).await?;
            atoll_tests::python(&mut a, "import os; os._exit(0)").await?;
            let all = (first, say(&mut a, ask).await?, say(&mut b, ask).await?);
            end(engine, a, b).await?;
            anyhow::Ok(all)
        };
        let (x, y, z) = numbers(&[Wall::Seccomp]).await?;
        ensure!(x != y && y != z && x != z && x.parse::<i64>()? > 0, "{x} {y} {z}");
        let (x, y, _) = numbers(&[Wall::Seccomp, Wall::Keyring]).await?;
        ensure!(x == y, "the control did not breach: {x} {y}");
    }
    z17_dumpable {
        id: "Z17",
        claim: "PID 1 cannot be looked into by its own user",
        expected: "its files in /proc belong to root (not dumpable), while the user's process owns its own",
        oracle: "the owners of /proc/<pid>/mem on the host",
        twin: "the user's process is found",
        control: "without that wall the files of PID 1 belong to the sandbox's id (own sandbox)",
    } {
        let owners = |walls: &'static [Wall]| async move {
            let engine = engine_without(walls).await?;
            let mut a = atoll_tests::sandbox(&engine).await?;
            let id = host_id(&atoll_tests::python(&mut a, "1").await?)?;
            let owner = |inside_is_one: bool| {
                let (pid, _) = *processes_of(id).iter().find(|(_, inside)| (*inside == 1) == inside_is_one)?;
                std::fs::metadata(format!("/proc/{pid}/mem")).ok().map(|meta| meta.uid() == id)
            };
            let owners = (owner(true), owner(false));
            a.end().await?;
            atoll_tests::stop(engine).await?;
            anyhow::Ok(owners)
        };
        let owned = owners(&[]).await?;
        ensure!(owned == (Some(false), Some(true)), "PID 1 is dumpable, or the twin is dead: {owned:?}");
        let owned = owners(&[Wall::Undumpable]).await?;
        ensure!(owned == (Some(true), Some(true)), "the control did not breach: {owned:?}");
    }
    z18_nothing_stays {
        id: "Z18",
        claim: "Names, open files, threads and patched builtins of one tenant never reach the next",
        expected: "a new sandbox shows none of them",
        oracle: "asked in a sandbox that was made afterwards",
        twin: "builtins work there",
        control: "the next execution in the same sandbox does see them (own sandbox)",
    } {
        let (engine, mut a, b) = two(&[]).await?;
        say(&mut a, "import builtins,threading,time,json\nbuiltins.bin=lambda x: 77\nimport string; string.digits=None\nleft=1\nf=open('/tmp/f','w')\nthreading.Thread(target=time.sleep,args=(30,),daemon=True).start()").await?;
        ensure!(say(&mut a, "(left, bin(1))").await? == "(1, 77)", "the control did not breach");
        let mut c = atoll_tests::sandbox(&engine).await?;
        let found = say(&mut c, "import threading,string\n('left' in globals(), bin(1), threading.active_count(), string.digits)").await?;
        ensure!(found == "(False, '0b1', 1, '0123456789')", "{found}");
        c.end().await?;
        end(engine, a, b).await?;
    }
}
