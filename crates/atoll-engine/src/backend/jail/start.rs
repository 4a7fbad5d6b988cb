//! Contexts that the jailer forks from the template's warm interpreter.

use super::mailbox::{Letters, Topic};
use super::wall::JailWall;
use crate::backend::TierError;
use crate::backend::context::{Context, Interpreter, Parts};
use crate::backend::start::{Ends, Inspected, Parent};
use atoll_jail::plan::{FromJailer, ToJailer};
use rustix::fd::{AsFd, OwnedFd};

/// A context that was asked for and has not answered yet.
pub(super) struct AskedContext {
    pub(super) number: u32,
    letters: Letters,
    ours: [OwnedFd; 3],
}

impl AskedContext {
    /// Also returns the context's own ends: control socket, stdout, stderr.
    pub(super) fn new(wall: &JailWall) -> Result<(Self, [OwnedFd; 3]), TierError> {
        let number = wall.next_context();
        let Ends { ours, theirs } = Ends::make()?;
        let letters = wall.mailbox.listen(Topic::Context(number));
        Ok((Self { number, letters, ours }, theirs))
    }

    /// Waits for a fork of the zygote. Its walls are read back as soon as it has locked itself down, while it gets ready;
    /// it has no code to run before both are done.
    pub(super) async fn start(mut self, wall: &JailWall) -> Result<Inspected, TierError> {
        let failed = |why: String| TierError::Context(format!("{why}{}", wall.link.complaint()));
        let explain = |error: TierError| match error {
            TierError::Context(why) => failed(why),
            other => other,
        };
        let pidfd = match self.letters.next().await? {
            (FromJailer::ContextStarted { .. }, fds) => fds.into_iter().next(),
            (FromJailer::ContextFailed { message, .. }, _) => return Err(failed(message)),
            (other, _) => {
                return Err(TierError::Context(format!(
                    "unexpected message from the jailer: {other:?}"
                )));
            }
        };
        let parts = Parts {
            pidfd,
            parent: Parent::Jailer(self.letters),
            process: None,
        };
        let mut context = Context::new(Interpreter::Python, self.ours, parts)?;
        wall.watch_context(&mut context).await?;
        context.wait_locked().await.map_err(explain)?;
        let asked = wall.ask_inspect(&context).await?;
        context.wait_ready().await.map_err(explain)?;
        let layers = asked.layers().await?;
        Ok((context, layers))
    }
}

impl JailWall {
    pub(super) async fn fork_python(&self) -> Result<Inspected, TierError> {
        let (asked, theirs) = AskedContext::new(self)?;
        let message = ToJailer::StartContext {
            sandbox: self.id.clone(),
            context: asked.number,
        };
        self.link.send(&message, &theirs.each_ref().map(AsFd::as_fd)).await?;
        drop(theirs);
        asked.start(self).await
    }
}
