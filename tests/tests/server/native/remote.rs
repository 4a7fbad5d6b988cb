//! `atoll run --server` and `atoll sandbox`: the same words and exit codes as without a server.

use atoll_tests::process::eventually;
use atoll_tests::server::{Server, atoll_in};
use atoll_tests::tls::{Front, certificate};
use atoll_tests::{Ran, run_command};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

struct Both {
    server: Server,
    home: tempfile::TempDir,
}

impl Both {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let server = Server::start(home.path(), &[]).unwrap();
        Self { server, home }
    }

    fn url(&self) -> String {
        format!("http://{}", self.server.api)
    }

    /// The same run here and on the server, each in a directory of its own.
    fn run(&self, args: &[&str]) -> [(Ran, tempfile::TempDir); 2] {
        let url = self.url();
        [&["--template", "python-min"][..], &["--server", &url]].map(|place| {
            let dir = tempfile::tempdir().unwrap();
            let mut command = atoll_in(self.home.path());
            command.arg("run").args(args).args(place).current_dir(dir.path());
            (run_command(&mut command).unwrap(), dir)
        })
    }
}

fn files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let Ok(entries) = std::fs::read_dir(dir.join("atoll-out")) else {
        return Vec::new();
    };
    let mut files: Vec<(String, Vec<u8>)> = entries
        .flatten()
        .map(|entry| {
            (
                entry.file_name().to_string_lossy().into_owned(),
                std::fs::read(entry.path()).unwrap(),
            )
        })
        .collect();
    files.sort();
    files
}

#[test]
fn a_run_on_a_server_says_and_saves_the_same() {
    let both = Both::new();
    let input = both.home.path().join("a \"b\".txt");
    std::fs::write(&input, "x".repeat(300_000)).unwrap();
    let input = input.to_str().unwrap();
    let code = "import os, sys\ntext = open('/data/input/a \"b\".txt').read()\nprint(len(text), os.environ['WHO'])\n\
                os.write(1, b'\\xff\\xfe')\nprint('warned', file=sys.stderr)\n\
                open('/data/output/big', 'w').write(text * 2)\nopen('/data/output/empty', 'w')\n6 * 7";
    let args = ["-c", code, "--in", input, "--env", "WHO=me"];
    let [(here, here_dir), (there, there_dir)] = both.run(&args);
    assert_eq!(
        (there.code, &there.stdout, &there.stderr),
        (here.code, &here.stdout, &here.stderr)
    );
    assert!(
        there.stderr.contains("result: 42") && there.stderr.contains("saved: atoll-out/big"),
        "{there:?}"
    );
    assert_eq!(files(there_dir.path()), files(here_dir.path()));
    assert_eq!(files(there_dir.path()).len(), 2);
}

#[test]
fn an_input_directory_is_the_same() {
    let both = Both::new();
    let data = both.home.path().join("given");
    std::fs::create_dir_all(data.join("sub")).unwrap();
    std::fs::write(data.join("sub/a.csv"), "a,b").unwrap();
    let code = "print(open('/data/input/given/sub/a.csv').read())";
    for (ran, _dir) in both.run(&["-c", code, "--in", data.to_str().unwrap()]) {
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "a,b\n"), "{ran:?}");
    }
}

#[test]
fn tables_for_a_spreadsheet_are_the_same() {
    let code = "open('/data/output/a.csv', 'w').write('=1')\nopen('/data/output/b.csv', 'wb').write(bytes(9))";
    let [(here, here_dir), (there, there_dir)] = Both::new().run(&["--csv-safe", "-c", code]);
    assert_eq!((there.code, &there.stderr), (here.code, &here.stderr));
    let wanted = [("a.csv".to_owned(), b"'=1".to_vec())];
    assert_eq!(files(there_dir.path()), wanted, "{there:?}");
    assert_eq!(files(here_dir.path()), wanted);
}

#[test]
fn objects_and_exit_codes_are_the_same() {
    let both = Both::new();
    for (args, code) in [
        (&["-c", "print(1)"][..], 0),
        (&["-c", "1 / 0"], 1),
        (&["-c", "while True: pass", "--timeout", "500ms"], 4),
        (&["-c", "exit 3", "--lang", "bash"], 1),
        (&["-c", "open('/data/output/a', 'w').write('a')"], 0),
    ] {
        let words: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
        let objects = both.run(&words).map(|(ran, _dir)| {
            assert_eq!(ran.code, Some(code), "{args:?}: {ran:?}");
            let mut object: Value = serde_json::from_str(&ran.stdout).unwrap();
            for personal in ["execution_id", "sandbox_id", "context_id", "usage", "receipt"] {
                object.as_object_mut().unwrap().remove(personal).unwrap();
            }
            object["provenance"]
                .as_object_mut()
                .unwrap()
                .remove("execution_id")
                .unwrap();
            object
        });
        assert_eq!(objects[0], objects[1], "{args:?}");
    }
    for (args, code) in [
        (&["-c", ""][..], 2),
        (&["-c", "1", "--memory", "1KiB"], 2),
        (&["-c", "1", "--tier", "microvm"], 5),
        (&["-c", "1", "--template", "nothing"], 2),
        (&["-c", "1", "--memory", "900GiB"], 2),
        (&["-c", "1", "--server", "https://127.0.0.1"], 2),
        (&["-c", "1", "--server", "http://127.0.0.1:1"], 2),
    ] {
        let server = if args.contains(&"--server") {
            vec![]
        } else {
            vec!["--server".to_owned(), both.url()]
        };
        let ran = run_command(atoll_in(both.home.path()).arg("run").args(args).args(server)).unwrap();
        assert_eq!(ran.code, Some(code), "{args:?}: {ran:?}");
        assert!(ran.stderr.starts_with("error: "), "{args:?}: {ran:?}");
    }
}

#[test]
fn ctrl_c_interrupts_the_code_on_the_server() {
    let both = Both::new();
    let mut command = atoll_in(both.home.path());
    command.args(["run", "--server", &both.url(), "-c"]);
    command.arg("try:\n    print('go', flush=True)\n    while True: pass\nexcept KeyboardInterrupt:\n    print('told')\n    raise");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(stdout.next().unwrap().unwrap(), "go");
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT).unwrap();
    assert_eq!(stdout.next().unwrap().unwrap(), "told");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let live = both
        .server
        .send("GET", "/v1/sandboxes?state=running", None)
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(live["sandboxes"], json!([]));
}

#[test]
fn a_key_is_taken_from_the_environment_first() {
    let both = Both::new();
    let run = |key: &str| {
        let mut command = atoll_in(both.home.path());
        run_command(
            command
                .env("ATOLL_API_KEY", key)
                .args(["run", "-c", "print(1)", "--server", &both.url()]),
        )
        .unwrap()
    };
    assert_eq!(run(&both.server.key).stdout, "1\n");
    let refused = run("e2b_0000000000000000000000000000000000000000");
    assert_eq!(refused.code, Some(2));
    assert!(
        refused.stderr.contains("not valid") && refused.stderr.contains("hint: "),
        "{refused:?}"
    );
}

#[test]
fn sandboxes_are_listed_shown_and_killed() {
    let both = Both::new();
    let id = both.server.sandbox(&json!({})).unwrap();
    let url = both.url();
    let sandbox = |args: &[&str]| {
        run_command(
            atoll_in(both.home.path())
                .arg("sandbox")
                .args(args)
                .args(["--server", &url]),
        )
        .unwrap()
    };
    let listed = sandbox(&["ls"]);
    assert!(
        listed.stdout.starts_with(&id) && listed.stdout.contains("running"),
        "{listed:?}"
    );
    let listed: Value = serde_json::from_str(&sandbox(&["ls", "--json"]).stdout).unwrap();
    assert_eq!(listed["sandboxes"][0]["id"], json!(id));
    assert!(sandbox(&["show", &id]).stdout.contains("running"));
    let killed = sandbox(&["kill", &id]);
    assert_eq!(
        (killed.code, killed.stdout),
        (Some(0), format!("{id} has ended: killed_by_tenant\n"))
    );
    assert_eq!(sandbox(&["ls"]).stdout, "");
    eventually("the end is written down", || {
        sandbox(&["ls", "--all"]).stdout.contains("killed_by_tenant")
    })
    .unwrap();
    let shown: Value = serde_json::from_str(&sandbox(&["show", &id, "--json"]).stdout).unwrap();
    assert_eq!(shown["reason"], "killed_by_tenant");
    for unknown in ["nobody", "sbxaaaaaaaaaaaaaaaaaaaaaaaaaa"] {
        let refused = sandbox(&["show", unknown]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains("no such sandbox"), "{refused:?}");
    }
}

/// Whom `--cacert` names is trusted, and nobody else.
#[test]
fn an_https_server_is_reached_by_those_who_trust_its_authority() {
    let both = Both::new();
    let (authority, config) = certificate("127.0.0.1").unwrap();
    let (stranger, _) = certificate("127.0.0.1").unwrap();
    let front = Front::start(config, both.server.api).unwrap();
    let run = |authority: &str| {
        let file = both.home.path().join("ca.pem");
        std::fs::write(&file, authority).unwrap();
        let mut command = atoll_in(both.home.path());
        command.args([
            "run",
            "-c",
            "print(6 * 7)",
            "--server",
            &format!("https://{}", front.address),
        ]);
        run_command(command.arg("--cacert").arg(file)).unwrap()
    };
    let ran = run(&authority);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "42\n"), "{ran:?}");
    let refused = run(&stranger);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{refused:?}");
    assert!(refused.stderr.contains("certificate"), "{refused:?}");
}
