//! `process.Process`: commands and terminals. They go on when a client disconnects; whoever comes later listens again.

mod call;
mod end;
mod input;

pub(super) use input::{close_stdin, send_input, stream_input};

use super::connect::{Item, failed_stream, invalid, one_envelope, stream, unary};
use super::reach::with_names;
use super::route::{Inside, word};
use super::words;
use crate::api::{ApiError, AppState, ErrorCode, Meter};
use crate::auth::Caller;
use atoll_engine::session::{NextPause, Session};
use atoll_engine::{Command, CommandEvent, CommandSpec, EngineError, Listener, Refusals};
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use call::{CommandCall, PtySize, Selector, StartCall};
use end::end_of;
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often an idle stream shows that it lives, if the client does not say.
const KEEPALIVE: Duration = Duration::from_secs(90);
const MAX_TAG_BYTES: usize = 1_024;

type Answer = Result<Json<Value>, ApiError>;

pub(super) async fn start(
    State(state): State<AppState>,
    caller: Caller,
    inside: Inside,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let may = state.sandboxes.check_day_of(inside.session.id());
    let begun = match may {
        Ok(()) => begin(&state, &inside, &headers, &body).await,
        Err(used_up) => Err(used_up),
    };
    match begun {
        Ok((followed, command)) => {
            let meter = Meter::new(&state.sandboxes, caller);
            meter.came(body.len());
            meter.answer(follow(followed, &command, keepalive(&headers)))
        }
        Err(error) => failed_stream(error),
    }
}

/// It is kept as long as the command is known.
fn short_tag(tag: String) -> Result<String, ApiError> {
    match tag.len() <= MAX_TAG_BYTES {
        true => Ok(tag),
        false => Err(ApiError::invalid(format!(
            "the tag of a command must have at most {MAX_TAG_BYTES} bytes"
        ))),
    }
}

/// What a client listens to.
struct Followed {
    /// Holds the sandbox while somebody listens.
    session: Arc<Session>,
    listener: Listener,
    /// Set when the command was killed because its time was over.
    late: Arc<AtomicBool>,
    /// What the sandbox had been refused before.
    before: Refusals,
    paused: NextPause,
}

impl Followed {
    /// What comes next, and whether it is the last.
    async fn next(&mut self, keepalive: Duration) -> (Vec<Item>, bool) {
        let heard = tokio::select! {
            biased;
            heard = tokio::time::timeout(keepalive, self.listener.next()) => heard,
            () = &mut self.paused => return (vec![Item::Error(was_paused())], true),
        };
        match heard {
            Err(_) => (vec![Item::Message(json!({"event": {"keepalive": {}}}))], false),
            Ok(None) => (vec![Item::Lost], true),
            Ok(Some(said)) => {
                let is_last = matches!(said, CommandEvent::End(_));
                (self.told(said), is_last)
            }
        }
    }

    fn told(&self, said: CommandEvent) -> Vec<Item> {
        match said {
            CommandEvent::End(_) if self.late.load(Ordering::Acquire) => vec![Item::Error(too_late())],
            // The end of the sandbox has killed it. Clients report that only if the connection breaks off.
            CommandEvent::End(end) if end.signal.is_some() && self.session.end_reason().is_some() => vec![Item::Lost],
            CommandEvent::End(_) => self.note().into_iter().chain([said]).map(message).collect(),
            said => vec![message(said)],
        }
    }

    /// Which limit the command has met, for a reader of its stderr.
    fn note(&self) -> Option<CommandEvent> {
        let note = words::note(&self.session.hint_since(self.before)?);
        Some(CommandEvent::Stderr(format!("{note}\n").into_bytes()))
    }
}

fn message(said: CommandEvent) -> Item {
    Item::Message(event(said))
}

async fn begin(
    state: &AppState,
    inside: &Inside,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<(Followed, Arc<Command>), ApiError> {
    let call: StartCall = one_envelope(headers, body)?;
    let limit = lifetime(headers)?;
    let paused = inside.session.next_pause();
    let _using = inside.session.begin_use()?;
    let terminal = call
        .pty
        .map(|pty| pty.0.size.map_or(PtySize { cols: 80, rows: 24 }, |size| size.0).into());
    let process = call.process.0;
    let mut argv = vec![process.cmd];
    argv.extend(process.args);
    let spec = CommandSpec {
        argv,
        env: with_names(&inside.session, process.envs),
        cwd: process.cwd,
        stdin: call.stdin.unwrap_or(true),
        terminal,
        tag: call.tag.map(short_tag).transpose()?,
    };
    let before = inside.session.refusals();
    let _permit = state.sandboxes.permit_start(&inside.session)?;
    let started = inside.sandbox()?.spawn(spec).await;
    if let Err(EngineError::Policy(refused)) = &started {
        state.sandboxes.count_denied_command(&inside.session, refused);
    }
    let (command, listener) = started?;
    let late = Arc::new(AtomicBool::new(false));
    if let Some(limit) = limit {
        tokio::spawn(end_in_time(Arc::clone(&command), limit, Arc::clone(&late)));
    }
    let followed = Followed {
        session: Arc::clone(&inside.session),
        listener,
        late,
        before,
        paused,
    };
    Ok((followed, command))
}

/// The client's time limit is the command's: it is killed then.
fn lifetime(headers: &HeaderMap) -> Result<Option<Duration>, ApiError> {
    let Some(text) = word(headers, "connect-timeout-ms") else {
        return Ok(None);
    };
    let millis: u64 = text
        .parse()
        .map_err(|_| invalid("Connect-Timeout-Ms is not a number"))?;
    Ok((millis > 0).then(|| Duration::from_millis(millis)))
}

async fn end_in_time(command: Arc<Command>, limit: Duration, late: Arc<AtomicBool>) {
    if tokio::time::timeout(limit, command.wait()).await.is_err() {
        late.store(true, Ordering::Release);
        command.signal(9).await;
    }
}

/// It goes on with the resume, and a client may listen again.
fn was_paused() -> ApiError {
    ApiError::new(ErrorCode::Conflict, words::paused("connect to the process again"))
}

/// In Connect's words `deadline_exceeded`, by which clients tell a late command from a killed one.
fn too_late() -> ApiError {
    ApiError::new(ErrorCode::BodyTimeout, "the command timed out and was killed")
}

fn keepalive(headers: &HeaderMap) -> Duration {
    let seconds = word(headers, "keepalive-ping-interval").and_then(|text| text.parse().ok());
    seconds.filter(|s| *s > 0).map_or(KEEPALIVE, Duration::from_secs)
}

pub(super) async fn connect(
    State(state): State<AppState>,
    caller: Caller,
    inside: Inside,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let paused = inside.session.next_pause();
    match attach(&state, &inside, &headers, &body).await {
        Ok((listener, command)) => {
            let followed = Followed {
                before: inside.session.refusals(),
                session: inside.session,
                listener,
                late: Arc::default(),
                paused,
            };
            let meter = Meter::new(&state.sandboxes, caller);
            meter.answer(follow(followed, &command, keepalive(&headers)))
        }
        Err(error) => failed_stream(error),
    }
}

async fn attach(
    state: &AppState,
    inside: &Inside,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<(Listener, Arc<Command>), ApiError> {
    state.sandboxes.check_day_of(inside.session.id())?;
    let call = one_envelope::<CommandCall>(headers, body)?;
    let command = find(&inside.session, &call.process.0)?;
    let listener = inside.sandbox()?.attach(&command).await?;
    Ok((listener, command))
}

/// First its number, then what it says, last its end.
fn follow(followed: Followed, command: &Command, keepalive: Duration) -> Response {
    let start = json!({"event": {"start": {"pid": command.info.pid}}});
    let started = futures_util::stream::once(async { Item::Message(start) });
    let said = futures_util::stream::unfold(Some(followed), move |state| async move {
        let mut followed = state?;
        let (items, is_last) = followed.next(keepalive).await;
        Some((items, (!is_last).then_some(followed)))
    });
    stream(started.chain(said.flat_map(futures_util::stream::iter)))
}

fn event(event: CommandEvent) -> Value {
    let data = |name: &str, bytes: &[u8]| json!({"event": {"data": {name: STANDARD.encode(bytes)}}});
    match event {
        CommandEvent::Stdout(bytes) => data("stdout", &bytes),
        CommandEvent::Stderr(bytes) => data("stderr", &bytes),
        CommandEvent::Terminal(bytes) => data("pty", &bytes),
        CommandEvent::End(end) => json!({"event": {"end": end_of(end)}}),
    }
}

fn find(session: &Session, selector: &Selector) -> Result<Arc<Command>, ApiError> {
    let commands = session.commands();
    match (selector.pid, &selector.tag) {
        (Some(pid), _) => commands.find(pid).ok_or_else(|| unknown(&format!("pid {pid}"))),
        (None, Some(tag)) => commands.find_by_tag(tag).ok_or_else(|| unknown(&format!("tag {tag}"))),
        (None, None) => Err(invalid("the request must select a process by `pid` or `tag`")),
    }
}

fn unknown(name: &str) -> ApiError {
    ApiError::new(ErrorCode::NotFound, format!("process with {name} not found"))
}

/// One that still runs.
fn alive(session: &Session, selector: &Selector) -> Result<Arc<Command>, ApiError> {
    let command = find(session, selector)?;
    match command.end() {
        None => Ok(command),
        Some(_) => Err(unknown(&format!("pid {}", command.info.pid))),
    }
}

pub(super) async fn list(inside: Inside) -> Answer {
    let all = inside.session.commands().list();
    let shown = all.iter().map(|command| {
        let spec = &command.info.spec;
        let (cmd, args) = spec
            .argv
            .split_first()
            .map_or(("", &[][..]), |(cmd, args)| (cmd.as_str(), args));
        let mut config = json!({"cmd": cmd, "args": args, "envs": spec.env});
        if let Some(cwd) = &spec.cwd {
            config["cwd"] = json!(cwd);
        }
        let mut info = json!({"config": config, "pid": command.info.pid});
        if let Some(tag) = &spec.tag {
            info["tag"] = json!(tag);
        }
        info
    });
    Ok(Json(json!({"processes": shown.collect::<Vec<Value>>()})))
}

pub(super) async fn send_signal(inside: Inside, body: Bytes) -> Answer {
    let call: CommandCall = unary(&body)?;
    let command = alive(&inside.session, &call.process.0)?;
    let signal = match call.signal {
        Some(Value::String(name)) if name == "SIGNAL_SIGKILL" => 9,
        Some(Value::String(name)) if name == "SIGNAL_SIGTERM" => 15,
        Some(Value::Number(number)) if number.as_i64() == Some(9) => 9,
        Some(Value::Number(number)) if number.as_i64() == Some(15) => 15,
        _ => return Err(invalid("the signal must be SIGNAL_SIGKILL or SIGNAL_SIGTERM")),
    };
    match inside.sandbox()?.signal(&command, signal).await? {
        true => Ok(Json(json!({}))),
        false => Err(unknown(&format!("pid {}", command.info.pid))),
    }
}

pub(super) async fn update(inside: Inside, body: Bytes) -> Answer {
    let call: CommandCall = unary(&body)?;
    let command = alive(&inside.session, &call.process.0)?;
    if let Some(size) = call.pty.and_then(|pty| pty.0.size)
        && !command.resize(size.0.into()).await
    {
        return Err(ApiError::new(ErrorCode::Conflict, "the process has no terminal"));
    }
    Ok(Json(json!({})))
}
