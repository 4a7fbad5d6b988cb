//! The warm interpreters of a template, as their spawner sees them: one that forks, perhaps one that gets ready to
//! follow it, and those that have been followed. Started, restarted, rotated; what they are asked is in `asked.rs`.

use super::asked::Asked;
use super::fork::{Event, Owner};
use super::live::Live;
use crate::channel::{self, ChannelError};
use crate::filter::Filters;
use crate::plan::{Mode, TemplatePlan};
use crate::step::StepError;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::event::Timespec;
use rustix::fd::OwnedFd;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A zygote that dies this often before it was ever ready is not started again.
const MAX_FAILED_STARTS: u32 = 3;
/// How long a zygote that is replaced may take to answer what it was asked. A fork takes milliseconds.
const LAST_WORDS: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// After a successor that did not start, the present zygote is kept for so long before the next try.
const RETRY_AFTER: Duration = Duration::from_secs(60);

pub(super) struct Zygotes {
    pub(super) template: Rc<TemplatePlan>,
    mode: Mode,
    /// The one that forks.
    pub(super) present: Option<Live>,
    /// One that imports and warms up; when it is ready, it takes the place of the present one.
    pub(super) starting: Option<Live>,
    /// Those that were replaced and have not ended yet. Their channels are read once more at their end.
    retired: Vec<Live>,
    pub(super) asked: Asked,
    /// Live forks by pid.
    pub(super) forks: HashMap<i32, Child>,
    failed_starts: u32,
    pub(super) last_failure: String,
    /// No successor is tried before.
    not_before: Option<Instant>,
}

/// A fork that has been made: who it is for, and which zygote waits for its end.
pub(super) struct Child {
    pub(super) owner: Owner,
    pub(super) zygote: i32,
}

/// Which of two zygotes speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Present,
    Starting,
}

impl Zygotes {
    pub(super) fn new(template: Rc<TemplatePlan>, mode: Mode) -> Self {
        Self {
            template,
            mode,
            present: None,
            starting: None,
            retired: Vec::new(),
            asked: Asked::default(),
            forks: HashMap::new(),
            failed_starts: 0,
            last_failure: String::new(),
            not_before: None,
        }
    }

    /// Those that may have something to say.
    pub(super) fn channels(&self) -> impl Iterator<Item = (Place, &OwnedFd)> {
        let both = [(Place::Present, &self.present), (Place::Starting, &self.starting)];
        both.into_iter().filter_map(|(place, live)| {
            let live = live.as_ref().filter(|one| !one.hung_up)?;
            Some((place, &live.channel))
        })
    }

    pub(super) fn start(&mut self) -> Result<(), StepError> {
        if let Some(plan) = &self.template.zygote {
            self.last_failure.clear();
            self.starting = Some(Live::start(plan, &self.template.env, self.mode)?);
        }
        Ok(())
    }

    /// A successor for the present zygote, which forks until the other is ready. Its forks go on living.
    pub(super) fn rotate(&mut self) -> Result<(), StepError> {
        if self.starting.is_some() {
            return Ok(());
        }
        self.failed_starts = 0;
        self.start()
    }

    /// Starts a successor if the present zygote is old, has forked often, or has many living forks, each of which makes
    /// the next one dearer.
    pub(super) fn rotate_if_due(&mut self) {
        let (Some(plan), Some(present)) = (&self.template.zygote, &self.present) else {
            return;
        };
        let rules = plan.rotation;
        let due = present.forks >= rules.max_forks
            || present.began.elapsed() >= Duration::from_secs(rules.max_age_seconds)
            || self.living_forks_of(present.pid) >= rules.max_living_forks;
        let allowed = self.not_before.is_none_or(|then| Instant::now() >= then);
        // One that cannot be started is no reason to stop: the present one goes on.
        if due && allowed && self.rotate().is_err() {
            self.not_before = Some(Instant::now() + RETRY_AFTER);
        }
    }

    fn living_forks_of(&self, zygote: i32) -> u64 {
        self.forks.values().filter(|child| child.zygote == zygote).count() as u64
    }

    /// How long the one that starts may still take.
    pub(super) fn time_to_start(&self) -> Option<Duration> {
        let (plan, starting) = (self.template.zygote.as_ref()?, self.starting.as_ref()?);
        let whole = Duration::from_secs(plan.rotation.start_seconds);
        (!starting.hung_up).then(|| whole.saturating_sub(starting.began.elapsed()))
    }

    /// Ends one that took too long to start. It is not tried again: what hangs once hangs again.
    pub(super) fn expire(&mut self) -> Vec<Event> {
        if self.time_to_start() != Some(Duration::ZERO) {
            return Vec::new();
        }
        let seconds = self
            .template
            .zygote
            .as_ref()
            .map_or(0, |plan| plan.rotation.start_seconds);
        let message = format!("timed out: not ready after {seconds} s; check the template's preload and warm-up code");
        self.failed_starts = MAX_FAILED_STARTS;
        self.last_failure.clone_from(&message);
        self.hang_up(Place::Starting);
        if self.present.is_some() {
            Vec::new()
        } else {
            vec![Event::Failed(message)]
        }
    }

    /// A child of the spawner has ended. If it was a zygote: what follows from that.
    pub(super) fn ended(&mut self, pid: i32, how: &str, filters: &Filters) -> Result<Option<Vec<Event>>, StepError> {
        let is = |live: &Option<Live>| live.as_ref().is_some_and(|live| live.pid == pid);
        if is(&self.present) {
            return self.present_ended(how).map(Some);
        }
        if is(&self.starting) {
            return self.starting_ended(how, filters).map(Some);
        }
        let Some(at) = self.retired.iter().position(|one| one.pid == pid) else {
            return Ok(None);
        };
        let former = self.retired.swap_remove(at);
        let mut events = self.last_reports(&former);
        events.extend(self.lost_forks(pid));
        Ok(Some(events))
    }

    /// Exits that a retired zygote reported after its replacement.
    fn last_reports(&mut self, former: &Live) -> Vec<Event> {
        let mut events = Vec::new();
        while former.speaks_within(AT_ONCE) {
            match channel::receive_bytes(&former.channel) {
                Ok((body, fds)) => events.extend(self.hear_reply(&body, fds)),
                Err(_) => break,
            }
        }
        events
    }

    /// The zygote is gone: another one, unless one is on its way.
    fn present_ended(&mut self, how: &str) -> Result<Vec<Event>, StepError> {
        let mut events = vec![Event::Failed(how.to_owned())];
        events.extend(self.hear_out(AT_ONCE));
        let dead = self.present.take();
        events.extend(dead.into_iter().flat_map(|dead| self.lost_forks(dead.pid)));
        if self.starting.is_none() {
            self.failed_starts = 0;
            self.start()?;
        }
        Ok(events)
    }

    /// It has ended before it was ready. If that goes on, who waits for a fork is told so.
    fn starting_ended(&mut self, how: &str, filters: &Filters) -> Result<Vec<Event>, StepError> {
        let mut events = Vec::new();
        // What it said before it died tells more than how it died.
        let unread = self
            .starting
            .as_ref()
            .is_some_and(|live| !live.hung_up && live.speaks_within(AT_ONCE));
        if unread {
            events.extend(self.hear(Place::Starting, filters).unwrap_or_default());
        }
        self.starting = None;
        self.failed_starts += 1;
        if self.present.is_some() {
            self.not_before = Some(Instant::now() + RETRY_AFTER);
            return Ok(events);
        }
        if self.last_failure.is_empty() {
            events.push(Event::Failed(how.to_owned()));
        }
        if self.failed_starts < MAX_FAILED_STARTS {
            self.start()?;
            return Ok(events);
        }
        if self.last_failure.is_empty() {
            self.last_failure = how.to_owned();
        }
        events.extend(self.asked.refuse_waiting(&self.last_failure));
        Ok(events)
    }

    /// The first message of a zygote tells whether it is warm. Then it is armed, and takes the place of the present one,
    /// which is heard out first.
    pub(super) fn hear_first(&mut self, body: &[u8], filters: &Filters) -> Result<Vec<Event>, ChannelError> {
        let first: Map<String, Value> = serde_json::from_slice(body).map_err(ChannelError::Read)?;
        if first.get("type").and_then(Value::as_str) != Some("ready") {
            let message = first.get("message").and_then(Value::as_str);
            self.last_failure = message.unwrap_or("the zygote failed to start").to_owned();
            let failed = Event::Failed(self.last_failure.clone());
            return Ok(if self.present.is_some() {
                Vec::new()
            } else {
                vec![failed]
            });
        }
        let Some(starting) = &self.starting else {
            return Ok(Vec::new());
        };
        match starting.arm(filters, self.template.walls.bits()) {
            Err(ChannelError::Closed) => return Ok(self.hang_up(Place::Starting)),
            armed => armed?,
        }
        let mut events = self.hear_out(LAST_WORDS);
        if let Some(former) = self.present.take() {
            former.retire();
            self.retired.push(former);
        }
        self.present = self.starting.take().map(|live| live.ready(&first));
        self.failed_starts = 0;
        events.push(Event::Ready(first));
        events.extend(self.send_waiting());
        Ok(events)
    }

    /// A zygote has closed its channel or must go. It is on its way out, or is helped; its end is reaped by pid.
    pub(super) fn hang_up(&mut self, place: Place) -> Vec<Event> {
        let live = match place {
            Place::Present => &mut self.present,
            Place::Starting => &mut self.starting,
        };
        if let Some(live) = live {
            live.hung_up = true;
            live.kill();
        }
        match place {
            Place::Present => self.asked.fail_all(),
            Place::Starting => Vec::new(),
        }
    }

    /// A fork whose zygote is gone has ended.
    pub(super) fn forget(&mut self, pid: i32) -> Option<Owner> {
        self.forks.remove(&pid).map(|child| child.owner)
    }

    /// Forks of a dead zygote are our children now. One that is not has ended and was reaped by the zygote, which
    /// could not say so any more.
    fn lost_forks(&mut self, zygote: i32) -> Vec<Event> {
        let of_it = |(_, child): &(&i32, &Child)| child.zygote == zygote;
        let pids: Vec<i32> = self.forks.iter().filter(of_it).map(|(pid, _)| *pid).collect();
        pids.into_iter().filter_map(|pid| self.lost_fork(pid)).collect()
    }

    fn lost_fork(&mut self, pid: i32) -> Option<Event> {
        let end = match waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, code)) => (Some(code), None),
            Ok(WaitStatus::Signaled(_, signal, _)) => (None, Some(signal as i32)),
            Ok(_) => return None,
            Err(_) => (None, None),
        };
        Some(self.forget(pid)?.exited(end))
    }
}
