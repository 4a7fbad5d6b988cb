//! What code can reach. Each attempt is made outside as well, by the machine's Python, where it must succeed: a probe that
//! cannot find anything would prove nothing.

use crate::{engine, sandbox};
use anyhow::{Result, ensure};
use atoll_tests::python;
use std::net::TcpListener;
use std::process::Command;

/// The same code outside of any sandbox, with what it needs.
fn outside(code: &str, secret: &str) -> Result<String> {
    let mut command = Command::new("python3");
    let ran = command.args(["-c", code]).env("ATOLL_CANARY", secret).output()?;
    Ok(String::from_utf8_lossy(&ran.stdout).into_owned())
}

async fn inside(code: &str) -> Result<String> {
    let engine = engine().await?;
    let mut one = sandbox(&engine).await?;
    let ran = python(&mut one, code).await?;
    engine.stop().await;
    // Not the traceback: it quotes the code.
    let error = ran.error.map(|error| format!("{}: {}", error.name, error.value));
    Ok(format!("{}{}{}", ran.stdout, ran.stderr, error.unwrap_or_default()))
}

/// Found outside, and not inside.
async fn walled_off(code: &str, secret: &str) -> Result<String> {
    let control = outside(code, secret)?;
    ensure!(control.contains(secret), "the control found nothing: {control}");
    let seen = inside(code).await?;
    ensure!(!seen.contains(secret), "found inside: {seen}");
    Ok(seen)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_environment() -> Result<()> {
    walled_off("import os\nprint(dict(os.environ))", "canary-of-the-environment").await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_file_of_the_host() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("secret");
    std::fs::write(&path, "canary-of-a-file")?;
    let shown = path.display();
    walled_off(
        &format!("print(open({:?}).read())", shown.to_string()),
        "canary-of-a-file",
    )
    .await?;
    Ok(())
}

/// A link, and a way up: both are followed outside.
#[tokio::test(flavor = "multi_thread")]
async fn no_way_out_of_a_place() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("secret");
    std::fs::write(&path, "canary-behind-a-link")?;
    let target = path.display().to_string();
    let code = format!(
        "import os, tempfile\nd = tempfile.mkdtemp()\nups = '../' * 40\n\
         for name, way in (('a', {target:?}), ('b', ups + {target:?}.lstrip('/'))):\n\
         \x20   try:\n        os.symlink(way, d + '/' + name)\n        print(open(d + '/' + name).read())\n\
         \x20   except OSError as error:\n        print(error)\n\
         try:\n    print(open(d + '/' + ups + {target:?}.lstrip('/')).read())\nexcept OSError as error:\n    print(error)"
    );
    let seen = walled_off(&code, "canary-behind-a-link").await?;
    ensure!(seen.contains("Error") || seen.contains("Errno"), "{seen}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_socket() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let code = format!("import socket\nsocket.create_connection(('127.0.0.1', {port}), timeout=5)\nprint('connected')");
    walled_off(&code, "connected").await?;
    listener.set_nonblocking(true)?;
    let knocks = std::iter::from_fn(|| listener.accept().ok()).count();
    ensure!(knocks == 1, "{knocks} connections, and one was the control's");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn no_program_and_no_process() -> Result<()> {
    let code = "import subprocess\nprint(subprocess.run(['echo', 'started'], capture_output=True, text=True).stdout)";
    walled_off(code, "started").await?;
    Ok(())
}

/// What `componentize-py` needs at build time is not for code.
#[tokio::test(flavor = "multi_thread")]
async fn modules_of_the_builder_are_not_importable() -> Result<()> {
    let code = "for name in ('atoll_app', 'componentize_py_runtime', 'componentize_py_types', 'componentize_py_async_support', \
                'poll_loop', 'wit_world'):\n    try:\n        __import__(name)\n        print('imported', name)\n    \
                except ModuleNotFoundError:\n        pass\nimport sys\nprint(sys.path)";
    ensure!(inside(code).await? == "['', '/python']\n");
    Ok(())
}

/// Calls of the builder's compiled module, which code can bring back: `call_import` reaches `next` and `say` of the host, and
/// any other function number is a trap of this context.
const BUILDER_CALLS: [&str; 6] = [
    "builder.call_import(99, [])",
    "builder.call_import(1, [])",
    "builder.call_import(1, [7])",
    "builder.call_import(1, ['no message of ours'])",
    "builder.drop_resource(0, 0)",
    "builder.drop_resource(99, 1)",
];

#[tokio::test(flavor = "multi_thread")]
async fn calls_of_the_builder_end_at_most_their_own_context() -> Result<()> {
    let engine = engine().await?;
    let (mut one, mut other) = (sandbox(&engine).await?, sandbox(&engine).await?);
    for call in BUILDER_CALLS {
        let code = format!(
            "import sys\ndel sys.modules['componentize_py_runtime']\nimport componentize_py_runtime as builder\n{call}"
        );
        let ran = python(&mut one, &code).await?;
        for sandbox in [&mut one, &mut other] {
            let after = python(sandbox, "print(6 * 7)").await?;
            ensure!(after.stdout == "42\n", "{call}: {ran:?}, then {after:?}");
        }
    }
    engine.stop().await;
    Ok(())
}
