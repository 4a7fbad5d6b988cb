//! More messages than any channel holds, through jailer and spawner and back, at an engine that reads late.

use anyhow::{Context, Result, bail, ensure};
use atoll_core::{Limits, SandboxId};
use atoll_jail::channel::{self, ChannelError};
use atoll_jail::plan::{FromJailer, GENERATION, TemplatePlan, ToJailer, Walls};
use atoll_tests::{binary, home, template};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

const FLOOD: u32 = 3000;

/// A jailer without an engine: this test speaks to it.
struct Jailer {
    channel: OwnedFd,
    process: Child,
}

impl Jailer {
    fn start() -> Result<Self> {
        let (channel, theirs) = channel::pair()?;
        let process = Command::new(binary())
            .arg("__jailer")
            .env_clear()
            .stdin(Stdio::from(theirs))
            .spawn()
            .context("start the jailer")?;
        let jailer = Self { channel, process };
        jailer.send(&ToJailer::Hello {
            generation: GENERATION,
            instance: atoll_jail::new_instance_name(rand()),
            run_dir: run_dir(),
        })?;
        let FromJailer::Hello { .. } = jailer.receive()? else {
            bail!("no hello");
        };
        Ok(jailer)
    }

    fn send(&self, message: &ToJailer) -> Result<()> {
        Ok(channel::send(&self.channel, message, &[])?)
    }

    fn receive(&self) -> Result<FromJailer> {
        Ok(channel::receive(&self.channel)?.0)
    }

    fn receive_until(&self, wanted: impl Fn(&FromJailer) -> bool) -> Result<()> {
        loop {
            let message = self.receive()?;
            if wanted(&message) {
                return Ok(());
            }
            ensure!(
                !matches!(message, FromJailer::SandboxFailed { .. } | FromJailer::Ended { .. }),
                "{message:?}"
            );
        }
    }

    /// The next answer must be the one to this request. Waits for it; sending stays without waiting.
    fn hear_refusal(&self, asked: u32) -> Result<()> {
        rustix::io::ioctl_fionbio(&self.channel, false)?;
        let message = self.receive()?;
        ensure!(
            matches!(&message, FromJailer::ContextFailed { context, .. } if *context == asked),
            "{asked}: {message:?}"
        );
        Ok(rustix::io::ioctl_fionbio(&self.channel, true)?)
    }

    /// Hangs up, which ends everything below it.
    fn stop(mut self) -> Result<()> {
        drop(self.channel);
        ensure!(self.process.wait()?.success(), "the jailer failed");
        Ok(())
    }
}

/// Where all instances of this machine know each other: one that looked elsewhere would take the others for dead.
fn run_dir() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        PathBuf::from("/run/atoll")
    } else {
        home().join("run")
    }
}

fn rand() -> [u8; 16] {
    let mut bytes = [0; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).ok();
    bytes
}

/// A template without an interpreter: no context can start, and each request is answered with a refusal.
fn plan() -> Result<TemplatePlan> {
    let template = template("python-min")?;
    Ok(TemplatePlan {
        tree: template.tree,
        kernel: template.kernel,
        root: None,
        links: Vec::new(),
        env: template.env,
        zygote: None,
        runtime: None,
        vm: None,
        walls: Walls::default(),
    })
}

#[test]
fn a_flood_in_both_directions_is_answered_to_the_last_message() -> Result<()> {
    let jailer = Jailer::start()?;
    jailer.send(&ToJailer::OpenTemplate {
        template: 0,
        plan: Box::new(plan()?),
    })?;
    let id = SandboxId::from_random(rand());
    let (_agent, theirs) = channel::pair()?;
    let create = ToJailer::CreateSandbox {
        sandbox: id.clone(),
        template: 0,
        limits: Limits::default(),
        watched: false,
        keeper: false,
        context: None,
        vm: None,
    };
    channel::send(&jailer.channel, &create, &[theirs.as_fd()])?;
    jailer.receive_until(|message| matches!(message, FromJailer::SandboxReady { .. }))?;
    // From here on every message goes to the spawner and comes back; we read only when nothing more can be sent.
    rustix::io::ioctl_fionbio(&jailer.channel, true)?;
    let mut answered = 0;
    for context in 0..FLOOD {
        let request = ToJailer::StartContext {
            sandbox: id.clone(),
            context,
        };
        while let Err(error) = channel::send(&jailer.channel, &request, &[]) {
            ensure!(matches!(error, ChannelError::Socket(Errno::AGAIN)), "{error}");
            jailer.hear_refusal(answered)?;
            answered += 1;
        }
    }
    for context in answered..FLOOD {
        jailer.hear_refusal(context)?;
    }
    rustix::io::ioctl_fionbio(&jailer.channel, false)?;
    jailer.stop()
}
