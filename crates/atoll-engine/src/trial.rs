//! A sandbox made for nothing but to see whether it can be: what `atoll doctor` finds out by doing it.
//!
//! No template is needed. The sandbox takes an input, starts one program behind every wall, has the walls read back
//! from the kernel, and ends.

use crate::engine::EngineError;
use crate::input::{Input, prepare_inputs};
use crate::jail::{Interpreter, JailError, JailSandbox, Link, Made, run_dir};
use crate::spool::Spool;
use atoll_core::Limits;
use atoll_jail::plan::{TemplatePlan, Walls};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const TEMPLATE: u32 = 0;

/// Makes a sandbox, uses it, and takes it down. An error names the wall that this host cannot build.
pub async fn try_out(program: &Path, home: &Path) -> Result<(), EngineError> {
    let instance = atoll_core::SandboxId::from_random(crate::random_bytes()).as_str()[3..].to_owned();
    let run_dir = run_dir(home);
    let link = Arc::new(Link::start(program, &instance, &run_dir).await?);
    // Goes with the instance.
    let dir = run_dir.join(format!("{instance}.spool"));
    let tried = in_sandbox(&link, &dir).await;
    link.stop().await;
    tried.map_err(|error| match error {
        EngineError::Jail(error) => link.blame(error).into(),
        other => other,
    })
}

async fn in_sandbox(link: &Arc<Link>, dir: &Path) -> Result<(), EngineError> {
    let tree = dir.join("trial");
    std::fs::create_dir_all(tree.join("kernel")).map_err(JailError::Start)?;
    let input = tree.join("input");
    std::fs::write(&input, "").map_err(JailError::Start)?;
    let plan = TemplatePlan {
        kernel: tree.join("kernel"),
        tree,
        links: Vec::new(),
        env: BTreeMap::new(),
        zygote: None,
        walls: Walls::default(),
    };
    link.open_template(TEMPLATE, plan).await?;
    let (inputs, _copies) = prepare_inputs(&[Input::new(input, None)?], &Spool::open(dir))?;
    let made = Made {
        template: TEMPLATE,
        limits: Limits::SMALL,
        inputs,
        python: false,
        watched: false,
    };
    let (sandbox, _) = JailSandbox::create(Arc::clone(link), made).await?;
    let tried = start_a_program(&sandbox).await;
    sandbox.end().await?;
    Ok(tried?)
}

/// A program that says that it is there and waits: its walls are read back before it counts as started.
async fn start_a_program(sandbox: &JailSandbox) -> Result<(), JailError> {
    let argv = ["/bin/sh", "-c", "printf '0\\n' >&3; read -r end <&3"].map(str::to_owned);
    let env = BTreeMap::new();
    let started = sandbox.start_program(Interpreter::Bash, argv.to_vec(), &env, "/tmp");
    let (mut context, _) = started.await?;
    context.signal(rustix::process::Signal::KILL);
    context.exit().await;
    Ok(())
}
