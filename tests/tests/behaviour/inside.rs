//! The agent's work in a real sandbox: files, watches, terminals, ports, with user code beside it.

use anyhow::{Context, Result, bail};
use atoll_core::wire::agent::ChangeKind::{Created, Permissions, Written};
use atoll_core::wire::agent::{EntryKind, Refusal, TerminalSize};
use atoll_engine::{CommandEvent, CommandSpec, EngineError, TierError};
use atoll_tests::Place;
use std::collections::BTreeMap;
use std::io::Read;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn put(place: &Place, path: &str, bytes: &[u8], metadata: &[(&str, &str)]) -> Result<()> {
    let pairs = metadata.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    let mut upload = place.sandbox.write(path, pairs.collect()).await?;
    upload.push(bytes).await?;
    upload.commit().await?;
    Ok(())
}

async fn get(place: &Place, path: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    place.sandbox.read(path).await?.file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn why<T: std::fmt::Debug>(result: Result<T, EngineError>) -> Result<Refusal> {
    match result {
        Err(EngineError::Tier(TierError::Refused { why, .. })) => Ok(why),
        other => bail!("not refused: {other:?}"),
    }
}

/// Home, temporary files and outputs are different mounts of one file system.
#[tokio::test]
async fn files_move_between_the_places_of_a_sandbox() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    put(&place, "/tmp/a/file", b"bytes", &[]).await?;
    let moved = place.sandbox.rename("/tmp/a", "~/b/c").await?;
    assert_eq!(
        (moved.path.as_str(), moved.kind),
        ("/home/user/b/c", EntryKind::Directory)
    );
    assert_eq!((moved.owner.as_str(), moved.mode), ("user", 0o755));
    place.sandbox.rename("b/c/file", "/data/output/file").await?;
    assert_eq!(get(&place, "/data/output/file").await?, b"bytes");
    let ran = place
        .python("import os; print(os.listdir('/tmp'), os.path.exists('b/c/file'))")
        .await?;
    assert_eq!(ran.stdout, "[] False\n");
    assert_eq!(why(place.sandbox.rename("/etc/passwd", "x").await)?, Refusal::Denied);
    assert_eq!(
        why(place.sandbox.rename("/data/output/file", "/etc/x").await)?,
        Refusal::Denied
    );
    assert_eq!(why(place.sandbox.remove("/home/user").await)?, Refusal::Denied);
    place.end().await
}

#[tokio::test]
async fn metadata_is_seen_inside_and_cannot_be_forged_there() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    put(&place, "file", b"x", &[("author", "me")]).await?;
    let code =
        "import os; print(os.getxattr('file', 'user.e2b.author'))\nos.setxattr('file', 'user.e2b.author', b'you')";
    let ran = place.python(code).await?;
    assert_eq!(ran.stdout, "b'me'\n");
    assert_eq!(ran.error.context("no error")?.name, "PermissionError");
    assert_eq!(place.sandbox.stat("file").await?.metadata["author"], "me");
    place.end().await
}

#[tokio::test]
async fn the_agent_reads_nothing_of_its_own_for_a_client() -> Result<()> {
    let place = Place::new("python-min").await?;
    assert!(get(&place, "/etc/passwd").await?.starts_with(b"root:"));
    for path in [
        "/proc/self/mem",
        "/proc/1/environ",
        "/proc/self/exe",
        "/proc/self/fd/3",
        "/dev/stdin",
        "/dev/tty",
    ] {
        let refused = why(place.sandbox.read(path).await)?;
        let expected = [Refusal::Denied, Refusal::Invalid, Refusal::NotAFile];
        assert!(expected.contains(&refused), "{path}: {refused:?}");
        let upload = put(&place, path, b"x", &[]).await;
        assert!(upload.is_err(), "{path}");
    }
    place.end().await
}

#[tokio::test]
async fn a_watch_sees_uploads_and_user_code_and_no_shared_tree() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let mut watch = place.sandbox.watch("", true).await?;
    put(&place, "file", b"x", &[]).await?;
    let mut seen = Vec::new();
    for _ in 0..3 {
        let change = watch.next().await.context("no change")?;
        seen.push((change.name, change.kind));
    }
    let file = || "file".to_owned();
    assert_eq!(seen, [(file(), Created), (file(), Permissions), (file(), Written)]);
    place
        .python("import os; os.makedirs('d/e'); open('d/e/f', 'w').write('y')")
        .await?;
    let mut last = watch.next().await.context("no change")?;
    assert_eq!((last.name.as_str(), last.kind), ("d", Created));
    while (last.name.as_str(), last.kind) != ("d/e/f", Written) {
        last = watch.next().await.context("no change")?;
    }
    place.sandbox.unwatch(watch).await?;
    for path in ["/usr", "/opt/atoll", "/data/input", "/proc"] {
        assert_eq!(why(place.sandbox.watch(path, false).await)?, Refusal::Denied, "{path}");
    }
    place.end().await
}

#[tokio::test]
async fn a_terminal_inside_is_one_of_the_sandbox() -> Result<()> {
    let place = Place::new("python-min").await?;
    let size = TerminalSize { columns: 91, rows: 17 };
    let script = "tty; stty size; echo loud > /dev/tty; exit 4";
    let spec = CommandSpec {
        argv: ["/bin/bash", "-c", script].map(str::to_owned).to_vec(),
        terminal: Some(size),
        ..CommandSpec::default()
    };
    let (_command, mut listener) = place.sandbox.spawn(spec).await?;
    let (mut text, mut code) = (Vec::new(), None);
    while let Some(event) = listener.next().await {
        match event {
            CommandEvent::Terminal(bytes) => text.extend(bytes),
            CommandEvent::End(end) => code = end.code,
            CommandEvent::Stdout(_) | CommandEvent::Stderr(_) => bail!("a terminal has one stream"),
        }
    }
    assert_eq!(
        (String::from_utf8_lossy(&text).as_ref(), code),
        ("/dev/pts/0\r\n17 91\r\nloud\r\n", Some(4))
    );
    place.end().await
}

#[tokio::test]
async fn a_server_inside_is_reached_through_the_agent() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let code = "import socket, threading\ns = socket.create_server(('127.0.0.1', 8000))\n\
        def serve():\n    c, _ = s.accept()\n    c.sendall(c.recv(9).upper())\n    c.close()\n\
        threading.Thread(target=serve, daemon=True).start()";
    place.python(code).await?;
    let (mut stream, _visit) = place.sandbox.connect(8000).await?;
    stream.write_all(b"ping").await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    assert_eq!(text, "PING");
    assert_eq!(why(place.sandbox.connect(8001).await)?, Refusal::NotListening);
    place.end().await
}

#[tokio::test]
async fn a_command_gets_the_users_environment_and_a_clear_refusal() -> Result<()> {
    let place = Place::new("python-min").await?;
    let spec = |argv: &[&str], cwd: &str| CommandSpec {
        argv: argv.iter().map(|&word| word.to_owned()).collect(),
        env: BTreeMap::from([("ASKED".to_owned(), "yes".to_owned())]),
        cwd: Some(cwd.to_owned()),
        ..CommandSpec::default()
    };
    let (_command, mut listener) = place
        .sandbox
        .spawn(spec(&["bash", "-c", "echo $HOME $USER $ASKED; pwd"], "/tmp"))
        .await?;
    let mut text = Vec::new();
    while let Some(event) = listener.next().await {
        if let CommandEvent::Stdout(bytes) = event {
            text.extend(bytes);
        }
    }
    assert_eq!(String::from_utf8_lossy(&text), "/home/user user yes\n/tmp\n");
    assert_eq!(
        why(place.sandbox.spawn(spec(&["bash"], "/none")).await.map(drop))?,
        Refusal::Invalid
    );
    assert_eq!(
        why(place.sandbox.spawn(spec(&["none"], "/tmp")).await.map(drop))?,
        Refusal::NotFound
    );
    place.end().await
}
