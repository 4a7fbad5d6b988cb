//! A sandbox made for nothing but to see whether it can be: what `atoll doctor` finds out by doing it.
//!
//! No template is needed. The sandbox takes an input, starts one program behind every wall, has the walls read back
//! from the kernel, and ends.

use crate::backend::{Backend, BareSandbox, Interpreter, JailBackend, JailPlan, Made, TierError, run_dir};
use crate::engine::EngineError;
use crate::input::{Input, prepare_inputs};
use crate::spool::Spool;
use atoll_core::{Gives, Limits};
use atoll_jail::plan::{TemplatePlan, Walls};
use std::collections::BTreeMap;
use std::path::Path;

/// Makes a sandbox, uses it, and takes it down. An error names the wall that this host cannot build.
pub async fn try_out(program: &Path, home: &Path) -> Result<(), EngineError> {
    let instance = atoll_jail::new_instance_name(crate::random_bytes());
    let run_dir = run_dir(home);
    // Goes with the instance.
    let dir = run_dir.join(format!("{instance}.spool"));
    let tree = dir.join("trial");
    let plan = JailPlan {
        program: program.to_owned(),
        template: plan(&tree),
        instance,
        run_dir,
        spool: dir.clone(),
    };
    let jail = JailBackend::start_with(plan, || std::fs::create_dir_all(tree.join("kernel"))).await?;
    let tried = in_sandbox(&jail, &dir, &tree).await;
    jail.stop().await;
    tried
}

fn plan(tree: &Path) -> TemplatePlan {
    TemplatePlan {
        kernel: tree.join("kernel"),
        tree: tree.to_owned(),
        root: None,
        links: Vec::new(),
        env: BTreeMap::new(),
        zygote: None,
        runtime: None,
        vm: None,
        walls: Walls::default(),
    }
}

async fn in_sandbox(jail: &JailBackend, dir: &Path, tree: &Path) -> Result<(), EngineError> {
    let input = tree.join("input");
    std::fs::write(&input, "").map_err(TierError::Start)?;
    let (inputs, _copies) = prepare_inputs(&[Input::new(input, None)?], &Spool::open(dir))?;
    let made = Made {
        limits: Limits::SMALL,
        inputs,
        python: false,
        watched: false,
        gives: Gives::ALL,
    };
    let (sandbox, _) = jail.make(made).await?;
    let tried = start_a_program(&sandbox).await;
    sandbox.end().await?;
    Ok(tried.map_err(|error| jail.blame(error))?)
}

/// A program that says that it is there and waits: its walls are read back before it counts as started.
async fn start_a_program(sandbox: &BareSandbox) -> Result<(), TierError> {
    let argv = ["/bin/sh", "-c", "printf '0\\n' >&3; read -r end <&3"].map(str::to_owned);
    let env = BTreeMap::new();
    let started = sandbox.start_program(Interpreter::Bash, argv.to_vec(), &env, "/tmp");
    let (mut context, _) = started.await?;
    sandbox.kill(&context).await?;
    context.exit().await;
    Ok(())
}
