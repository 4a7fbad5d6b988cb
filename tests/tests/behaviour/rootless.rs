//! The same binary started by an ordinary user: it works, says what is weaker, and leaves nothing.

use anyhow::{Context, Result};
use atoll_core::Outcome;
use atoll_tests::server::Server;
use atoll_tests::user::User;
use serde_json::json;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;

const USER: u32 = 12345;

/// One test, because one user has one set of processes to count.
#[test]
fn an_ordinary_user_gets_the_same_answers_and_an_honest_receipt() -> Result<()> {
    let user = User::new(USER)?;
    let before = user.processes();
    prints_and_keeps_files(&user)?;
    says_what_is_weaker(&user)?;
    is_told_that_gvisor_needs_root(&user)?;
    has_no_network(&user)?;
    is_watched_in_a_dry_run(&user)?;
    is_limited(&user)?;
    cannot_read_what_the_user_cannot(&user)?;
    assert_eq!(user.processes(), before, "nothing of the user runs on");
    assert_eq!(user.run_files(), Vec::<PathBuf>::new(), "no lock file or spool is left");
    Ok(())
}

/// On a server the interpreter is warm: its libraries have reserved more than the limit before the code begins.
#[test]
fn warm_code_of_an_ordinary_user_has_the_memory_that_it_is_promised() -> Result<()> {
    let user = User::with_template(12_350, "python-data")?;
    let mut serve = user.command(&user.path("atoll").to_string_lossy());
    serve.args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
    let server = Server::spawn(&user.path("home"), &mut serve)?;
    let run = |code: &str| server.json("POST", "/v1/run", &json!({"code": code}))?.json();
    let chart = "import os, pandas as pd, matplotlib.pyplot as plt\n\
                 pd.DataFrame({'city': ['a', 'b'], 'sales': [5, 7]}).groupby('city').sales.sum().plot.bar()\n\
                 plt.show()\nblock = bytearray(200 << 20)\nprint(os.system('true'))";
    let drawn = run(chart)?;
    assert_eq!(
        (&drawn["outcome"], &drawn["stdout"]),
        (&"ok".into(), &"0\n".into()),
        "{drawn}"
    );
    assert!(drawn["results"][0]["data"]["image/png"].is_string(), "{drawn}");
    let greedy = run("x = bytearray(1 << 30)\nfor i in range(0, 1 << 30, 4096): x[i] = 1")?;
    assert_eq!(greedy["outcome"], "memory_limit", "{greedy}");
    Ok(())
}

fn prints_and_keeps_files(user: &User) -> Result<()> {
    let ran = user.run(&["run", "--template", "python-min", "-c", "print('hello')"])?;
    assert_eq!(
        (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
        (Some(0), "hello\n", "")
    );
    let input = user.path("cwd/in.txt");
    fs::write(&input, "mine")?;
    fs::set_permissions(&input, Permissions::from_mode(0o600))?;
    chown(&input, Some(USER), Some(USER))?;
    let code = "import os\nopen('/data/output/o.txt', 'w').write(open('/data/input/in.txt').read().upper())\nprint(os.getuid())";
    let ran = user.run(&["run", "--template", "python-min", "--in", "in.txt", "-c", code])?;
    assert_eq!(
        (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
        (Some(0), "1000\n", "saved: atoll-out/o.txt\n")
    );
    assert_eq!(fs::read_to_string(user.path("cwd/atoll-out/o.txt"))?, "MINE");
    let bash = user.json(&["--lang", "bash", "-c", "echo hi; exit 3"])?;
    assert_eq!(
        (bash.outcome, bash.exit_code, bash.stdout.as_str()),
        (Outcome::Error, Some(3), "hi\n")
    );
    Ok(())
}

fn is_watched_in_a_dry_run(user: &User) -> Result<()> {
    let code = "import os, socket\nos.system('uname >/dev/null')\ntry: socket.create_connection(('rootless.example', 1), 5)\nexcept OSError: pass";
    let told = user
        .json(&["--dry-run", "-c", code])?
        .dry_run
        .context("no dry run")?
        .attempts;
    assert_eq!((told.hosts[0].host.as_str(), told.hosts.len()), ("rootless.example", 1));
    let started: Vec<&str> = told.processes.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(started, ["/bin/sh", "/usr/bin/uname"]);
    Ok(())
}

fn says_what_is_weaker(user: &User) -> Result<()> {
    let layers = user.json(&["-c", "1"])?.receipt.layers;
    assert_eq!(
        (&layers["mode"], &layers["cgroups"]),
        (&"rootless".into(), &serde_json::Value::Null)
    );
    assert_eq!(
        (&layers["capabilities"], &layers["no_new_privs"]),
        (&"none".into(), &true.into())
    );
    assert_eq!(
        (&layers["seccomp"]["mode"], &layers["landlock"]["proven"]),
        (&"2".into(), &true.into())
    );
    let weaker = layers["weaker"].as_array().context("weaker")?;
    assert!(
        weaker
            .iter()
            .any(|point| point.as_str().is_some_and(|text| text.starts_with("no cgroup"))),
        "{weaker:?}"
    );
    let doctor = user.run(&["doctor", "--json"])?;
    let report: serde_json::Value = serde_json::from_str(&doctor.stdout)?;
    assert_eq!((doctor.code, &report["mode"]), (Some(0), &"rootless".into()));
    assert_eq!(
        report["tiers"][0]["weaker"].as_array(),
        Some(weaker),
        "doctor and receipt agree"
    );
    Ok(())
}

fn is_told_that_gvisor_needs_root(user: &User) -> Result<()> {
    let report: serde_json::Value = serde_json::from_str(&user.run(&["doctor", "--json"])?.stdout)?;
    let mut tiers = report["tiers"].as_array().context("tiers")?.iter();
    let gvisor = tiers.find(|tier| tier["tier"] == "gvisor").context("gvisor")?;
    assert_eq!(gvisor["available"], false, "{gvisor}");
    let layer = &gvisor["layers"][0];
    assert_eq!((&layer["name"], &layer["available"]), (&"ids".into(), &false.into()));
    let words = |part: &serde_json::Value| part.as_str().unwrap_or_default().to_owned();
    assert!(
        words(&layer["detail"]).contains("an unprivileged user has only one"),
        "{layer}"
    );
    assert!(words(&gvisor["fix"]).starts_with("run Atoll as root"), "{gvisor}");
    Ok(())
}

fn has_no_network(user: &User) -> Result<()> {
    let code = "import socket\ns = socket.socket()\ns.settimeout(5)\ns.connect(('192.0.2.1', 80))";
    let refused = user.json(&["-c", code])?;
    let error = refused.error.context("no error")?;
    assert_eq!(
        (refused.outcome, error.value.as_str()),
        (
            Outcome::Error,
            "[Errno 101] Network is unreachable (no network in this sandbox)"
        )
    );
    assert_eq!(refused.hint.map(|hint| hint.rule), Some("net: none".into()));
    Ok(())
}

fn is_limited(user: &User) -> Result<()> {
    let greedy = "x = bytearray(1 << 30)\nfor i in range(0, 1 << 30, 4096): x[i] = 1";
    let memory = user.json(&["--memory", "128MiB", "-c", greedy])?;
    assert_eq!(
        (memory.outcome, memory.hint.map(|hint| hint.rule)),
        (Outcome::MemoryLimit, Some("memory_limit: 128 MiB".into()))
    );
    let words = user.json(&["-c", "raise MemoryError"])?;
    assert_eq!(words.outcome, Outcome::Error, "a word is no fact: {words:?}");
    let late = "import socket\ns = socket.socketpair()[0]\ns.setblocking(False)\ns.recv(1)";
    assert_eq!(
        user.json(&["-c", late])?.hint,
        None,
        "an answer that is late is no lack of processes"
    );
    hides_no_memory(user)?;
    let family = "import os, signal\nfor _ in range(4):\n    if os.fork() == 0:\n        x = bytearray(60 << 20)\n\
                  \x20       for i in range(0, len(x), 4096): x[i] = 1\n        signal.pause()\nsignal.pause()";
    let together = user.json(&["--memory", "128MiB", "-c", family])?;
    assert_eq!(together.outcome, Outcome::MemoryLimit, "four of 60 MiB: {together:?}");
    for code in ["while True: pass", "import time; time.sleep(1000)"] {
        let late = user.json(&["--timeout", "1s", "-c", code])?;
        assert_eq!(
            (late.outcome, late.hint.map(|hint| hint.rule)),
            (Outcome::Timeout, Some("timeout: 1 s".into())),
            "{code}"
        );
    }
    let fork = "import os, signal\nwhile True:\n    if os.fork() == 0: signal.pause()";
    let bomb = user.json(&["-c", fork])?;
    assert_eq!(
        (bomb.outcome, bomb.hint.map(|hint| hint.rule)),
        (Outcome::Error, Some("processes: 64".into()))
    );
    Ok(())
}

/// Memory that nobody could count is refused; what lies in files is counted and stopped.
fn hides_no_memory(user: &User) -> Result<()> {
    let hidden = "import mmap, os\n\
                  def tried(f):\n    try: f()\n    except OSError as e: return type(e).__name__\n    return 'done'\n\
                  zero = lambda how: mmap.mmap(os.open('/dev/zero', how), 4096, prot=mmap.PROT_READ)\n\
                  print(tried(lambda: os.memfd_create('a')), tried(lambda: mmap.mmap(-1, 4096)),\n\
                        tried(lambda: zero(os.O_RDWR)), tried(lambda: zero(os.O_RDONLY)),\n\
                        tried(lambda: mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE)))";
    let refused = user.json(&["-c", hidden])?;
    let words = "PermissionError PermissionError PermissionError done done\n";
    assert_eq!(refused.stdout, words, "{refused:?}");
    let files = "import mmap, signal\nf = open('/dev/shm/big', 'wb+'); f.truncate(90 << 20)\nm = mmap.mmap(f.fileno(), 90 << 20)\n\
                 for i in range(0, len(m), 4096): m[i] = 1\nsignal.pause()";
    let stopped = user.json(&["--memory", "64MiB", "-c", files])?;
    assert_eq!(stopped.outcome, Outcome::MemoryLimit, "{stopped:?}");
    Ok(())
}

fn cannot_read_what_the_user_cannot(user: &User) -> Result<()> {
    let secret = user.path("cwd/secret.csv");
    fs::write(&secret, "not yours")?;
    fs::set_permissions(&secret, Permissions::from_mode(0o600))?;
    let asked = user.run(&["run", "--template", "python-min", "--in", "secret.csv", "-c", "1"])?;
    let sentence = "error: cannot read input `secret.csv`: Permission denied (os error 13)\n";
    assert_eq!((asked.code, asked.stderr.as_str()), (Some(2), sentence));
    let code = user.run(&["run", "secret.csv"])?;
    assert_eq!(
        (code.code, code.stderr.as_str()),
        (
            Some(2),
            "error: cannot read code from `secret.csv`: Permission denied (os error 13)\n"
        )
    );
    Ok(())
}
