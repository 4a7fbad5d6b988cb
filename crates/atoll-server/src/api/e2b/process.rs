//! `process.Process`: commands and terminals. They go on when a client disconnects; whoever comes later listens again.

use super::connect::{EnvelopeReader, Item, failed_stream, invalid, one_envelope, stream, unary};
use super::reach::with_names;
use super::route::{Inside, word};
use crate::api::budget::Hold;
use crate::api::{ApiError, AppState, ErrorCode};
use atoll_core::wire::agent::TerminalSize;
use atoll_engine::session::Session;
use atoll_engine::{Command, CommandEnd, CommandEvent, CommandSpec, Listener};
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often an idle stream shows that it lives, if the client does not say.
const KEEPALIVE: Duration = Duration::from_secs(90);

#[derive(Debug, Deserialize)]
pub(super) struct StartCall {
    process: ProcessConfig,
    pty: Option<Pty>,
    tag: Option<String>,
    stdin: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct ProcessConfig {
    cmd: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    envs: BTreeMap<String, String>,
    cwd: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Pty {
    size: Option<PtySize>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct PtySize {
    #[serde(default)]
    cols: u32,
    #[serde(default)]
    rows: u32,
}

impl From<PtySize> for TerminalSize {
    fn from(size: PtySize) -> Self {
        let bounded = |n: u32| u16::try_from(n.max(1)).unwrap_or(u16::MAX);
        Self {
            columns: bounded(size.cols),
            rows: bounded(size.rows),
        }
    }
}

/// Which command is meant.
#[derive(Debug, Deserialize)]
struct Selector {
    pid: Option<u32>,
    tag: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CommandCall {
    process: Selector,
    input: Option<Input>,
    signal: Option<Value>,
    pty: Option<Pty>,
}

#[derive(Debug, Deserialize)]
struct Input {
    stdin: Option<String>,
    pty: Option<String>,
}

type Answer = Result<Json<Value>, ApiError>;

pub(super) async fn start(State(state): State<AppState>, inside: Inside, headers: HeaderMap, body: Bytes) -> Response {
    let may = state.sandboxes.check_day_of(inside.session.id());
    let begun = match may {
        Ok(()) => begin(&inside, &headers, &body).await,
        Err(used_up) => Err(used_up),
    };
    match begun {
        Ok((followed, command)) => follow(followed, &command, keepalive(&headers)),
        Err(error) => failed_stream(error),
    }
}

/// What a client listens to.
struct Followed {
    /// Holds the sandbox while somebody listens.
    _session: Arc<Session>,
    listener: Listener,
    /// Set when the command was killed because its time was over.
    late: Arc<AtomicBool>,
}

async fn begin(inside: &Inside, headers: &HeaderMap, body: &[u8]) -> Result<(Followed, Arc<Command>), ApiError> {
    let call: StartCall = one_envelope(headers, body)?;
    let limit = lifetime(headers)?;
    let _using = inside.session.begin_use()?;
    let terminal = call
        .pty
        .map(|pty| pty.size.unwrap_or(PtySize { cols: 80, rows: 24 }).into());
    let mut argv = vec![call.process.cmd];
    argv.extend(call.process.args);
    let spec = CommandSpec {
        argv,
        env: with_names(&inside.session, call.process.envs),
        cwd: call.process.cwd,
        stdin: call.stdin.unwrap_or(true),
        terminal,
        tag: call.tag,
    };
    let (command, listener) = inside.sandbox().spawn(spec).await?;
    let late = Arc::new(AtomicBool::new(false));
    if let Some(limit) = limit {
        tokio::spawn(end_in_time(Arc::clone(&command), limit, Arc::clone(&late)));
    }
    let followed = Followed {
        _session: Arc::clone(&inside.session),
        listener,
        late,
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
        command.signal(9);
    }
}

/// In Connect's words `deadline_exceeded`, by which clients tell a late command from a killed one.
fn too_late() -> ApiError {
    ApiError::new(
        ErrorCode::BodyTimeout,
        "the command did not end in its time and was killed",
    )
}

fn keepalive(headers: &HeaderMap) -> Duration {
    let seconds = word(headers, "keepalive-ping-interval").and_then(|text| text.parse().ok());
    seconds.filter(|s| *s > 0).map_or(KEEPALIVE, Duration::from_secs)
}

pub(super) async fn connect(inside: Inside, headers: HeaderMap, body: Bytes) -> Response {
    let found = one_envelope::<CommandCall>(&headers, &body).and_then(|call| find(&inside.session, &call.process));
    match found {
        Ok(command) => {
            let followed = Followed {
                _session: inside.session,
                listener: command.listen(),
                late: Arc::default(),
            };
            follow(followed, &command, keepalive(&headers))
        }
        Err(error) => failed_stream(error),
    }
}

/// First its number, then what it says, last its end.
fn follow(followed: Followed, command: &Command, keepalive: Duration) -> Response {
    let start = json!({"event": {"start": {"pid": command.info.pid}}});
    let started = futures_util::stream::once(async { Item::Message(start) });
    let said = futures_util::stream::unfold(Some(followed), move |state| async move {
        let mut followed = state?;
        match tokio::time::timeout(keepalive, followed.listener.next()).await {
            Err(_) => Some((Item::Message(json!({"event": {"keepalive": {}}})), Some(followed))),
            Ok(Some(CommandEvent::End(_))) if followed.late.load(Ordering::Acquire) => {
                Some((Item::Error(too_late()), None))
            }
            Ok(Some(CommandEvent::End(end))) => Some((Item::Message(event(CommandEvent::End(end))), None)),
            Ok(Some(said)) => Some((Item::Message(event(said)), Some(followed))),
            Ok(None) => Some((Item::Lost, None)),
        }
    });
    stream(started.chain(said))
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

fn end_of(end: CommandEnd) -> Value {
    match (end.code, end.signal) {
        (Some(0), _) => json!({"exitCode": 0, "exited": true, "status": "exit status 0"}),
        (Some(code), _) => {
            let status = format!("exit status {code}");
            json!({"exitCode": code, "exited": true, "status": status, "error": status})
        }
        (None, signal) => {
            let status = format!("signal: {}", signal_name(signal.unwrap_or(9)));
            json!({"exitCode": -1, "exited": false, "status": status, "error": status})
        }
    }
}

/// In Go's words, which the clients show.
fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "hangup",
        2 => "interrupt",
        3 => "quit",
        4 => "illegal instruction",
        6 => "aborted",
        7 => "bus error",
        8 => "floating point exception",
        9 => "killed",
        11 => "segmentation fault",
        13 => "broken pipe",
        14 => "alarm clock",
        15 => "terminated",
        other => return format!("signal {other}"),
    };
    name.to_owned()
}

fn find(session: &Session, selector: &Selector) -> Result<Arc<Command>, ApiError> {
    let commands = session.commands();
    match (selector.pid, &selector.tag) {
        (Some(pid), _) => commands.find(pid).ok_or_else(|| unknown(&format!("pid {pid}"))),
        (None, Some(tag)) => commands.find_by_tag(tag).ok_or_else(|| unknown(&format!("tag {tag}"))),
        (None, None) => Err(invalid("the process is not named")),
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

pub(super) async fn send_input(inside: Inside, body: Bytes) -> Answer {
    let call: CommandCall = unary(&body)?;
    let _using = inside.session.begin_use()?;
    let command = alive(&inside.session, &call.process)?;
    feed(&command, call.input).await?;
    Ok(Json(json!({})))
}

async fn feed(command: &Command, input: Option<Input>) -> Result<(), ApiError> {
    let input = input.ok_or_else(|| invalid("there is no input"))?;
    let text = match (input.pty, input.stdin, command.info.spec.terminal) {
        (Some(text), _, Some(_)) | (None, Some(text), None) => text,
        (Some(_), _, None) => return Err(invalid("this process has no terminal")),
        (None, Some(_), Some(_)) => return Err(invalid("a terminal takes `pty` input")),
        (None, None, _) => return Err(invalid("there is no input")),
    };
    let bytes = STANDARD.decode(text).map_err(|_| invalid("the input is not base64"))?;
    match command.write(&bytes).await? {
        true => Ok(()),
        false => Err(ApiError::new(
            ErrorCode::Internal,
            "the process reads no input: stdin is closed or not enabled",
        )),
    }
}

/// Input as a stream: the first message names the process, the others carry bytes.
pub(super) async fn stream_input(inside: Inside, hold: Hold, body: Body) -> Response {
    match take_input(&inside, &hold, body).await {
        Ok(()) => stream(futures_util::stream::once(async { Item::Message(json!({})) })),
        Err(error) => failed_stream(error),
    }
}

#[derive(Debug, Deserialize)]
struct InputMessage {
    start: Option<InputStart>,
    data: Option<InputData>,
}

#[derive(Debug, Deserialize)]
struct InputStart {
    process: Selector,
}

#[derive(Debug, Deserialize)]
struct InputData {
    input: Option<Input>,
}

async fn take_input(inside: &Inside, hold: &Hold, body: Body) -> Result<(), ApiError> {
    let mut pieces = body.into_data_stream();
    let mut reader = EnvelopeReader::default();
    let mut command = None;
    while let Some(piece) = pieces.next().await {
        reader.feed(&piece.map_err(|_| invalid("the input broke off"))?);
        hold.reach(reader.len()).await?;
        while let Some(message) = reader.next()? {
            let message: InputMessage = unary(&message)?;
            match (message.start, message.data, &command) {
                (Some(start), _, _) => command = Some(alive(&inside.session, &start.process)?),
                (None, Some(data), Some(command)) => feed(command, data.input).await?,
                (None, Some(_), None) => return Err(invalid("the first message must name the process")),
                (None, None, _) => {}
            }
        }
    }
    Ok(())
}

pub(super) async fn send_signal(inside: Inside, body: Bytes) -> Answer {
    let call: CommandCall = unary(&body)?;
    let command = alive(&inside.session, &call.process)?;
    let signal = match call.signal {
        Some(Value::String(name)) if name == "SIGNAL_SIGKILL" => 9,
        Some(Value::String(name)) if name == "SIGNAL_SIGTERM" => 15,
        Some(Value::Number(number)) if number.as_i64() == Some(9) => 9,
        Some(Value::Number(number)) if number.as_i64() == Some(15) => 15,
        _ => return Err(invalid("the signal must be SIGNAL_SIGKILL or SIGNAL_SIGTERM")),
    };
    match command.signal(signal) {
        true => Ok(Json(json!({}))),
        false => Err(unknown(&format!("pid {}", command.info.pid))),
    }
}

pub(super) async fn close_stdin(inside: Inside, body: Bytes) -> Answer {
    let call: CommandCall = unary(&body)?;
    let command = alive(&inside.session, &call.process)?;
    if command.info.spec.terminal.is_some() {
        return Err(invalid(
            "a terminal's input cannot be closed; send it the end-of-file character",
        ));
    }
    match command.close_stdin().await {
        true => Ok(Json(json!({}))),
        false => Err(ApiError::new(
            ErrorCode::Conflict,
            "stdin is not enabled or closed already",
        )),
    }
}

pub(super) async fn update(inside: Inside, body: Bytes) -> Answer {
    let call: CommandCall = unary(&body)?;
    let command = alive(&inside.session, &call.process)?;
    if let Some(size) = call.pty.and_then(|pty| pty.size)
        && !command.resize(size.into()).await
    {
        return Err(ApiError::new(ErrorCode::Conflict, "this process has no terminal"));
    }
    Ok(Json(json!({})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_in_the_words_that_clients_show() {
        let end = |code, signal| end_of(CommandEnd { code, signal });
        assert_eq!(
            end(Some(0), None),
            json!({"exitCode": 0, "exited": true, "status": "exit status 0"})
        );
        assert_eq!(end(Some(3), None)["error"], "exit status 3");
        assert_eq!(
            (&end(None, Some(9))["exitCode"], &end(None, Some(9))["error"]),
            (&json!(-1), &json!("signal: killed"))
        );
    }

    #[test]
    fn a_size_of_nothing_becomes_the_smallest() {
        let size = TerminalSize::from(PtySize { cols: 0, rows: 1 << 20 });
        assert_eq!((size.columns, size.rows), (1, u16::MAX));
    }
}
