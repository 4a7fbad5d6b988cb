//! The process of a sandbox: started with an empty environment, given its component, ended by force.

use super::dir::Dir;
use crate::backend::agent::Agent;
use crate::backend::descriptors::{receive_on, send_on, watch};
use crate::backend::{OpenInput, TierError};
use atoll_core::wire::agent::Answer;
use atoll_core::{Gives, Limits};
use atoll_jail::channel;
use atoll_wasm::component::Checked;
use atoll_wasm::start::{Locked, Start};
use rustix::fd::AsFd;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::sync::{Notify, watch as states};

/// Words of a process that failed to start.
const MOST_WORDS: u64 = 4096;

/// All processes of a backend.
#[derive(Clone, Debug, Default)]
pub(super) struct Live(Arc<Processes>);

#[derive(Debug, Default)]
struct Processes {
    count: states::Sender<usize>,
    stopping: states::Sender<bool>,
}

impl Processes {
    async fn is_stopping(&self) {
        self.stopping.subscribe().wait_for(|stopping| *stopping).await.ok();
    }
}

impl Live {
    pub(super) async fn stop(&self) {
        self.0.stopping.send_replace(true);
        self.0.count.subscribe().wait_for(|count| *count == 0).await.ok();
    }
}

/// A sandbox's process. Dropped, it ends.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) locked: Locked,
    dir: Arc<Dir>,
    kill: Arc<Notify>,
    ended: states::Receiver<bool>,
}

impl Process {
    pub(super) async fn start(
        program: &Path,
        component: &Checked,
        dir: Dir,
        (limits, gives): (Limits, Gives),
        live: &Live,
    ) -> Result<(Agent, Self), TierError> {
        let (ours, theirs) = channel::pair().map_err(TierError::Channel)?;
        let mut child = Command::new(program)
            .arg("__wasm")
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(TierError::Start)?;
        let ours = watch(ours)?;
        let start = Start {
            limits,
            gives,
            stdlib: component.stdlib.clone(),
            files: dir.path.clone(),
            user: dir.user,
        };
        send_on(&ours, &start, &[component.file.as_fd()]).await?;
        let locked = match receive_on::<Locked>(&ours).await {
            Ok((locked, _)) => locked,
            Err(_) => return Err(TierError::Sandbox(words_of(&mut child).await)),
        };
        let (agent, mut hello) = Agent::start(ours.into_inner())?;
        match hello.next().await? {
            (Answer::Ready, _) => {}
            _ => return Err(TierError::Agent),
        }
        Ok((agent, Self::watch_over(child, dir, locked, live)))
    }

    fn watch_over(mut child: Child, dir: Dir, locked: Locked, live: &Live) -> Self {
        let pid = child.id().unwrap_or(0);
        let kill = Arc::new(Notify::new());
        let dir = Arc::new(dir);
        let (end, ended) = states::channel(false);
        let (live, asked, files) = (Arc::clone(&live.0), Arc::clone(&kill), Arc::clone(&dir));
        live.count.send_modify(|count| *count += 1);
        tokio::spawn(async move {
            tokio::select! {
                _ = child.wait() => {}
                () = asked.notified() => {}
                () = live.is_stopping() => {}
            }
            // One that has ended already needs no end.
            child.kill().await.ok();
            // Many files take their time.
            tokio::task::spawn_blocking(move || files.remove()).await.ok();
            end.send_replace(true);
            live.count.send_modify(|count| *count -= 1);
        });
        Self {
            pid,
            locked,
            dir,
            kill,
            ended,
        }
    }

    pub(super) fn lay(&self, inputs: &[OpenInput]) -> std::io::Result<()> {
        self.dir.lay(inputs)
    }

    pub(super) async fn end(&self) {
        self.kill.notify_one();
        self.ended().await;
    }

    pub(super) fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    pub(super) async fn ended(&self) {
        self.ended.clone().wait_for(|ended| *ended).await.ok();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill.notify_one();
    }
}

/// What it said before it ended.
async fn words_of(child: &mut Child) -> String {
    let mut words = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        stderr.take(MOST_WORDS).read_to_end(&mut words).await.ok();
    }
    let words = String::from_utf8_lossy(&words).trim().to_owned();
    match words.is_empty() {
        true => "the sandbox process exited during startup".to_owned(),
        false => words,
    }
}
