//! One execution: code goes in, output comes out, and the end is judged by facts of the kernel.

use crate::backend::{BareSandbox, Context, Happened, Interpreter, TierError};
use crate::capture::Capture;
use crate::control::Control;
use crate::guarded::{Arrived, Care, Guarded};
use crate::results::{Results, Taken};
use crate::share::Room;
use crate::stat::{ProcessStat, of_process};
use atoll_core::execution::{CodeError, LiveUsage, RichResult, Truncated, Usage};
use atoll_core::quantity::show_millis;
use atoll_core::wire::agent::Ask;
use atoll_core::wire::kernel::{FromKernel, ToKernel};
use atoll_core::{ExecutionId, Limits, Outcome};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

/// How long code may take to end after it was interrupted, before it is killed.
const GRACE: Duration = Duration::from_secs(2);
/// How long a shell or Python may take to end before it is reminded of its interrupt.
const AGAIN: Duration = Duration::from_millis(200);
/// Code that changes between its streams more often than this has them in order one by one only.
const MOST_TURNS: u32 = 20_000;
/// How often the used processor time is looked at.
const TICK: Duration = Duration::from_millis(50);
/// How often the caller is told what the code uses.
const TOLD_EVERY: Duration = Duration::from_secs(1);
/// Less free scratch than this is none: a program fails before it has used the last page.
const NO_ROOM_BYTES: u64 = 64 << 10;

/// What the caller sees while the code runs.
#[derive(Debug)]
pub enum Output<'a> {
    Stdout(&'a [u8]),
    Stderr(&'a [u8]),
    Result(&'a RichResult),
    /// The result with this index, counted from the last clearing, is another one now.
    Updated(usize, &'a RichResult),
    /// The results so far are gone. Text stays.
    Cleared,
    /// Before it begins: it waits for the answer to this question of its policy.
    Held(&'a str),
    /// Once a second while it runs.
    Usage(LiveUsage),
}

pub type Sink<'a> = &'a mut (dyn FnMut(Output<'_>) + Send);

/// What one execution gave, before files and receipt are added.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) id: ExecutionId,
    pub(crate) outcome: Outcome,
    pub(crate) exit_code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) truncated: Truncated,
    pub(crate) results: Vec<RichResult>,
    pub(crate) error: Option<CodeError>,
    pub(crate) usage: Usage,
    /// Processes of the code that the kernel ended because memory ran out.
    pub(crate) oom_kills: u64,
    pub(crate) refused_processes: u64,
    /// As many processes and threads as are allowed are there.
    pub(crate) processes_are_full: bool,
    /// The scratch files have no room left.
    pub(crate) scratch_is_full: bool,
    /// The interpreter is still there and can take the next execution.
    pub(crate) context_lives: bool,
}

/// A piece of code with everything it needs.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) id: ExecutionId,
    pub(crate) code: &'a str,
    pub(crate) env: &'a BTreeMap<String, String>,
    pub(crate) limits: &'a Limits,
    pub(crate) control: &'a Control,
    pub(crate) room: Room,
    /// What is done to what comes out.
    pub(crate) care: Care,
    /// Nothing follows it in its context: what it leaves to be done is waited for.
    pub(crate) once: bool,
}

/// Why and how far a running execution is being stopped.
enum Stop {
    No,
    Asked {
        why: Outcome,
        again_at: Instant,
        kill_at: Instant,
    },
    Killed {
        why: Outcome,
    },
}

impl Stop {
    fn why(&self) -> Option<Outcome> {
        match self {
            Self::No => None,
            Self::Asked { why, .. } | Self::Killed { why } => Some(*why),
        }
    }
}

struct Run<'a, 'b> {
    sandbox: &'a BareSandbox,
    context: &'a mut Context,
    limits: &'a Limits,
    sink: Sink<'b>,
    id: ExecutionId,
    stdout: Capture,
    stderr: Capture,
    results: Results,
    guarded: Guarded,
    error: Option<CodeError>,
    stop: Stop,
    started: Instant,
    /// When the caller was told last what the code uses.
    told_at: Instant,
    cpu_before: u64,
    oom_before: u64,
    refused_before: u64,
    /// How often the order of the two streams was asked for.
    turns: u32,
    /// What the watcher last saw, where there is no cgroup.
    watched_cpu_ms: u64,
    watched_peak: u64,
}

enum Finish {
    Done { exit_code: Option<i32> },
    Gone,
}

/// Runs `job` in `context` to its end.
pub(crate) async fn execute(
    sandbox: &BareSandbox,
    context: &mut Context,
    job: Job<'_>,
    sink: Sink<'_>,
) -> Result<Ended, TierError> {
    let results = Results::new(job.limits.rich_output.get(), job.room.clone());
    let mut run = Run::new(sandbox, context, job.id, job.limits, results, sink);
    let capture = || Capture::new(job.limits.text_output.get()).within(&job.room);
    run.stdout = capture().hiding(job.care.hides.as_ref());
    run.stderr = capture().hiding(job.care.hides.as_ref());
    run.guarded = Guarded::new(job.care);
    if run.is_counted_inside() {
        run.cpu_before = sandbox.usage(u64::MAX).await?.cpu_ms * 1_000_000;
    }
    let id = run.id.clone();
    let most_bytes = job.limits.rich_output.get();
    let late = sleep_until(run.started + job.limits.wall.duration());
    let begun = tokio::select! {
        begun = run.context.begin(id.as_str(), job.code, job.env, most_bytes, job.once) => Ok(begun?),
        () = late => Err(Outcome::Timeout),
        () = job.control.interrupted() => Err(Outcome::Interrupted),
    };
    // A context that does not even take the code is not asked to stop.
    if let Err(why) = begun {
        run.stop = Stop::Killed { why };
        run.kill().await?;
    }
    let finish = run.watch(job.control).await?;
    run.take_printed();
    run.take_rest();
    run.judge(finish).await
}

impl<'a, 'b> Run<'a, 'b> {
    fn new(
        sandbox: &'a BareSandbox,
        context: &'a mut Context,
        id: ExecutionId,
        limits: &'a Limits,
        results: Results,
        sink: Sink<'b>,
    ) -> Self {
        let cpu_before = cpu_nanos(sandbox, context);
        let (oom_before, refused_before) = (sandbox.stats.oom_kills(), sandbox.stats.refused_processes());
        Self {
            sandbox,
            context,
            limits,
            sink,
            id,
            stdout: Capture::new(limits.text_output.get()),
            stderr: Capture::new(limits.text_output.get()),
            results,
            guarded: Guarded::new(Care::default()),
            error: None,
            stop: Stop::No,
            started: Instant::now(),
            told_at: Instant::now(),
            cpu_before,
            oom_before,
            refused_before,
            turns: 0,
            watched_cpu_ms: 0,
            watched_peak: 0,
        }
    }

    /// Follows the execution until it is done or its interpreter is gone.
    async fn watch(&mut self, control: &Control) -> Result<Finish, TierError> {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // What a context says can be there faster than it is read: clocks and neighbours come in between.
            tokio::task::consume_budget().await;
            let deadline = self.started + self.limits.wall.duration() + control.extension();
            let (again_at, kill_at) = match self.stop {
                Stop::Asked { again_at, kill_at, .. } => (again_at, kill_at),
                Stop::No | Stop::Killed { .. } => (deadline, deadline),
            };
            tokio::select! {
                biased;
                () = sleep_until(deadline), if matches!(self.stop, Stop::No) => self.ask_to_stop(Outcome::Timeout).await?,
                () = control.interrupted() => self.ask_to_stop(Outcome::Interrupted).await?,
                () = control.extended() => {}
                () = sleep_until(kill_at), if matches!(self.stop, Stop::Asked { .. }) => self.kill().await?,
                () = sleep_until(again_at), if self.can_be_reminded() => self.ask_again().await?,
                _ = tick.tick(), if matches!(self.stop, Stop::No) => {
                    self.look_at_usage().await?;
                    if !control.is_held() && self.told_at.elapsed() >= TOLD_EVERY {
                        self.tell_usage(deadline);
                    }
                }
                Some(arrived) = self.guarded.next(), if self.guarded.is_busy() => self.take_result(arrived),
                happened = self.context.next(), if !self.guarded.is_busy() => {
                    if let Some(finish) = self.take(happened) {
                        return Ok(finish);
                    }
                }
            }
        }
    }

    /// Processor time has no limit of the kernel per execution; memory has none where there is no cgroup.
    async fn look_at_usage(&mut self) -> Result<(), TierError> {
        if self.sandbox.stats.cpu_nanos().is_none() {
            let used = self.sandbox.usage(self.limits.memory.get()).await?;
            self.watched_cpu_ms = used.cpu_ms;
            self.watched_peak = self.watched_peak.max(used.memory_bytes);
            if used.memory_bytes > self.limits.memory.get() {
                self.stop = Stop::Killed {
                    why: Outcome::MemoryLimit,
                };
                return self.sandbox.agent.tell(Ask::KillAll).await;
            }
        }
        if self.cpu_used_ms() > self.limits.cpu_time.get() {
            self.ask_to_stop(Outcome::CpuLimit).await?;
        }
        Ok(())
    }

    fn tell_usage(&mut self, deadline: Instant) {
        self.told_at = Instant::now();
        let used = self.usage();
        let allowed = deadline.saturating_duration_since(self.started);
        (self.sink)(Output::Usage(LiveUsage {
            elapsed_ms: used.wall_ms,
            deadline_ms: u64::try_from(allowed.as_millis()).unwrap_or(u64::MAX),
            cpu_ms: used.cpu_ms,
            cpu_limit_ms: self.limits.cpu_time.get(),
            peak_memory_bytes: used.peak_memory_bytes,
            memory_limit_bytes: self.limits.memory.get(),
        }));
    }

    async fn ask_to_stop(&mut self, why: Outcome) -> Result<(), TierError> {
        match self.stop {
            Stop::No => {
                let now = Instant::now();
                self.stop = Stop::Asked {
                    why,
                    again_at: now + AGAIN,
                    kill_at: now + GRACE,
                };
                match self.context.interpreter {
                    Interpreter::Python => self.sandbox.interrupt(self.context).await?,
                    Interpreter::Node => self.context.say(&ToKernel::Interrupt),
                    Interpreter::Bash => self.sandbox.interrupt_shell(self.context, false).await?,
                }
                Ok(())
            }
            // Asked twice: somebody is in a hurry.
            Stop::Asked { .. } => self.kill().await,
            Stop::Killed { .. } => Ok(()),
        }
    }

    fn can_be_reminded(&self) -> bool {
        matches!(self.stop, Stop::Asked { .. }) && !matches!(self.context.interpreter, Interpreter::Node)
    }

    async fn ask_again(&mut self) -> Result<(), TierError> {
        if let Stop::Asked { again_at, .. } = &mut self.stop {
            *again_at = Instant::now() + AGAIN;
        }
        match self.context.interpreter {
            Interpreter::Python => self.sandbox.end_wait(self.context).await,
            Interpreter::Bash => self.sandbox.interrupt_shell(self.context, true).await,
            Interpreter::Node => Ok(()),
        }
    }

    async fn kill(&mut self) -> Result<(), TierError> {
        let why = self.stop.why().unwrap_or(Outcome::Killed);
        self.stop = Stop::Killed { why };
        self.sandbox.kill(self.context).await
    }

    fn take(&mut self, happened: Happened) -> Option<Finish> {
        match happened {
            Happened::Gone => return Some(Finish::Gone),
            Happened::Status(status) => {
                return Some(Finish::Done {
                    exit_code: Some(status),
                });
            }
            Happened::Said(FromKernel::Done { id, exit_code }) if id == self.id.as_str() => {
                return Some(Finish::Done { exit_code });
            }
            Happened::Said(FromKernel::Result {
                id,
                main,
                data,
                chart,
                display_id,
                update,
            }) if id == self.id.as_str() => {
                let result = RichResult {
                    main,
                    data,
                    chart,
                    ..RichResult::default()
                };
                let arrived = self.guarded.take(Arrived {
                    result,
                    display_id,
                    update,
                });
                arrived.into_iter().for_each(|arrived| self.take_result(arrived));
            }
            Happened::Said(FromKernel::Turn) if self.turns < MOST_TURNS => {
                self.turns += 1;
                self.take_printed();
                self.context.say(&ToKernel::Turn);
            }
            Happened::Said(FromKernel::Clear { id, wait }) if id == self.id.as_str() => self.clear(wait),
            Happened::Said(FromKernel::Error {
                id,
                name,
                value,
                traceback,
            }) if id == self.id.as_str() => {
                self.error = Some(CodeError { name, value, traceback });
            }
            Happened::Said(FromKernel::Dropped { .. }) | Happened::TooLong => self.results.truncated = true,
            Happened::Said(_) => {}
            output => self.take_output(output),
        }
        None
    }

    fn take_printed(&mut self) {
        for left in self.context.drain() {
            self.take_output(left);
        }
    }

    fn take_output(&mut self, happened: Happened) {
        match happened {
            Happened::Stdout(piece) => {
                let kept = self.stdout.push(&piece);
                (self.sink)(Output::Stdout(&kept));
            }
            Happened::Stderr(piece) => {
                let kept = self.stderr.push(&piece);
                (self.sink)(Output::Stderr(&kept));
            }
            _ => {}
        }
    }

    /// What was held back because it could have been the beginning of a secret.
    fn take_rest(&mut self) {
        let (stdout, stderr) = (self.stdout.rest(), self.stderr.rest());
        if !stdout.is_empty() {
            (self.sink)(Output::Stdout(&stdout));
        }
        if !stderr.is_empty() {
            (self.sink)(Output::Stderr(&stderr));
        }
    }

    fn take_result(&mut self, arrived: Arrived) {
        if self.results.before_next() {
            (self.sink)(Output::Cleared);
        }
        let taken = self.results.take(arrived.result, arrived.display_id, arrived.update);
        let output = match taken {
            Taken::Added => self.results.last().map(Output::Result),
            Taken::Updated(index) => self.results.get(index).map(|result| Output::Updated(index, result)),
            Taken::LeftOut => None,
        };
        if let Some(output) = output {
            (self.sink)(output);
        }
    }

    fn clear(&mut self, wait: bool) {
        if self.results.clear(wait) {
            (self.sink)(Output::Cleared);
        }
    }

    /// Whether only the agent knows what it uses: there is no cgroup and no pidfd to ask.
    fn is_counted_inside(&self) -> bool {
        self.sandbox.stats.cpu_nanos().is_none() && self.context.pidfd.is_none()
    }

    /// How it ended. What the kernel says counts more than what the interpreter says.
    async fn judge(mut self, finish: Finish) -> Result<Ended, TierError> {
        if self.is_counted_inside()
            && let Ok(used) = self.sandbox.usage(u64::MAX).await
        {
            self.watched_cpu_ms = used.cpu_ms;
            self.watched_peak = self.watched_peak.max(used.memory_bytes);
        }
        self.sandbox.recount().await;
        let usage = self.usage();
        let (outcome, exit_code, signal, lives) = match finish {
            Finish::Done { exit_code } => (self.outcome_of_done(exit_code), exit_code, None, true),
            Finish::Gone => {
                let (code, signal) = self.context.exit().await;
                self.sandbox.recount().await;
                (self.outcome_of_exit(code, signal), code, signal, false)
            }
        };
        // A shell goes on when a command has failed; that command has said so.
        let has_complained = outcome == Outcome::Error || (outcome == Outcome::Ok && self.stderr.len() > 0);
        let scratch_is_full = has_complained && self.scratch_is_full().await;
        let processes_are_full = has_complained && self.processes_are_full().await;
        Ok(Ended {
            id: self.id,
            outcome,
            exit_code,
            signal,
            truncated: Truncated {
                stdout: self.stdout.truncated,
                stderr: self.stderr.truncated,
                results: self.results.truncated,
            },
            stdout: self.stdout.into_text(),
            stderr: self.stderr.into_text(),
            results: self.results.into_list(),
            error: self.error,
            usage,
            refused_processes: self
                .sandbox
                .stats
                .refused_processes()
                .saturating_sub(self.refused_before),
            oom_kills: self.sandbox.stats.oom_kills().saturating_sub(self.oom_before),
            processes_are_full,
            scratch_is_full,
            context_lives: lives,
        })
    }

    async fn scratch_is_full(&mut self) -> bool {
        matches!(self.sandbox.scratch().await, Ok((bytes, inodes)) if bytes < NO_ROOM_BYTES || inodes == 0)
    }

    /// Asked where no cgroup counts refusals.
    async fn processes_are_full(&mut self) -> bool {
        let counted = self.sandbox.has_cgroups();
        let used = if counted {
            None
        } else {
            self.sandbox.usage(u64::MAX).await.ok()
        };
        used.is_some_and(|used| used.tasks + 1 >= self.limits.processes.get())
    }

    fn outcome_of_done(&self, exit_code: Option<i32>) -> Outcome {
        if let Some(why) = self.stop.why() {
            return why;
        }
        match &self.error {
            Some(error) if self.is_refused_memory(error) => Outcome::MemoryLimit,
            Some(error) if error.name == "KeyboardInterrupt" => Outcome::Interrupted,
            Some(_) => Outcome::Error,
            None if exit_code.is_some_and(|code| code != 0) => Outcome::Error,
            None => Outcome::Ok,
        }
    }

    /// With a cgroup the kernel tells when memory runs out. Without one an rlimit refuses the allocation, which only the
    /// interpreter sees: an error that no line of the code has raised by itself.
    fn is_refused_memory(&self, error: &CodeError) -> bool {
        let raised =
            crate::hint::innermost_line(error).is_some_and(|line| line.split_whitespace().any(|w| w == "raise"));
        !self.sandbox.has_cgroups() && error.name.ends_with("MemoryError") && !raised
    }

    fn outcome_of_exit(&self, code: Option<i32>, signal: Option<i32>) -> Outcome {
        if self.sandbox.stats.oom_kills() > self.oom_before {
            return Outcome::MemoryLimit;
        }
        match (self.stop.why(), code, signal) {
            (Some(why), _, _) => why,
            (None, Some(0), _) => Outcome::Ok,
            (None, Some(_), _) => Outcome::Error,
            (None, None, Some(9)) => Outcome::Killed,
            (None, None, _) => Outcome::Crashed,
        }
    }

    fn cpu_used_ms(&self) -> u64 {
        let used = cpu_nanos(self.sandbox, self.context).saturating_sub(self.cpu_before) / 1_000_000;
        used.max(self.watched_cpu_ms.saturating_sub(self.cpu_before / 1_000_000))
    }

    fn usage(&self) -> Usage {
        let of_sandbox = self.sandbox.stats.peak_bytes();
        let peak = of_sandbox.or_else(|| process_of(self.context).map(|process| process.peak_bytes));
        Usage {
            wall_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            cpu_ms: self.cpu_used_ms(),
            peak_memory_bytes: peak.unwrap_or(0).max(self.watched_peak),
            output_bytes: (self.stdout.len() + self.stderr.len()) as u64 + self.results.given(),
            net_in_bytes: 0,
            net_out_bytes: 0,
        }
    }
}

fn cpu_nanos(sandbox: &BareSandbox, context: &Context) -> u64 {
    let of_sandbox = sandbox.stats.cpu_nanos();
    let used = of_sandbox.or_else(|| process_of(context).map(|process| process.cpu_nanos));
    context.reading.added_to(used)
}

fn process_of(context: &Context) -> Option<ProcessStat> {
    context.pidfd.as_ref().and_then(of_process)
}

/// The number behind a limit, in words: `memory_limit: 512 MiB`.
pub(crate) fn limit_in_words(outcome: Outcome, limits: &Limits) -> Option<String> {
    match outcome {
        Outcome::Timeout => Some(format!("timeout: {}", limits.wall)),
        Outcome::CpuLimit => Some(format!("cpu_limit: {}", show_millis(limits.cpu_time.get()))),
        Outcome::MemoryLimit => Some(format!("memory_limit: {}", limits.memory)),
        _ => None,
    }
}
