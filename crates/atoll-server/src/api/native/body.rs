//! Bodies with input files: JSON with base64, or a form with the request as JSON, the code as text, the files as they are.

use super::wire::{InputContent, RunRequest, SandboxRequest};
use crate::api::budget::Hold;
use crate::api::extract::{body_error, parse, read_json};
use crate::api::gentle::{Gentle, Progress, TooMuch};
use crate::api::object::Object;
use crate::api::{ApiError, AppState, ErrorCode, Meter};
use crate::auth::Caller;
use crate::spool::Folder;
use atoll_core::quantity::show_bytes;
use atoll_engine::{Input, InputError, check_distinct};
use axum::body::Body;
use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{FromRequest, Multipart, Request};
use axum::http::header::CONTENT_TYPE;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::DeserializeOwned;
use tokio::io::AsyncWriteExt;

/// So many times what one request may have is kept of all requests of a tenant.
const AT_ONCE: u64 = 4;

/// A request with its inputs on disk.
#[derive(Debug)]
pub(super) struct Call<T> {
    pub(super) call: T,
    pub(super) inputs: Vec<Input>,
    /// Bytes of the inputs.
    pub(super) bytes: u64,
    pub(super) folder: Folder,
}

/// A request that may have inputs.
pub(super) trait WithInputs: DeserializeOwned + Default {
    fn take_inputs(&mut self) -> Vec<Object<InputContent>>;
    /// The part `code`; false if there is no such part, or if there is code already.
    fn set_code(&mut self, code: String) -> bool;
}

impl WithInputs for RunRequest {
    fn take_inputs(&mut self) -> Vec<Object<InputContent>> {
        std::mem::take(&mut self.inputs)
    }

    fn set_code(&mut self, code: String) -> bool {
        self.code.replace(code).is_none()
    }
}

impl WithInputs for SandboxRequest {
    fn take_inputs(&mut self) -> Vec<Object<InputContent>> {
        std::mem::take(&mut self.inputs)
    }

    fn set_code(&mut self, _code: String) -> bool {
        false
    }
}

/// Reads either kind. Files go to disk as they come.
pub(super) async fn read<T: WithInputs>(
    state: &AppState,
    caller: &Caller,
    request: Request,
) -> Result<Call<T>, ApiError> {
    state.sandboxes.check_day(caller)?;
    let folder = state.spool.folder(&caller.tenant);
    let folder = folder.map_err(|error| ApiError::caused_by(&error))?;
    let mut reading = Reading {
        state,
        call: Call {
            call: T::default(),
            inputs: Vec::new(),
            bytes: 0,
            folder,
        },
        has_request: false,
        code: None,
        hold: request.extensions().get::<Hold>().cloned(),
        text_bytes: 0,
        meter: Meter::new(&state.sandboxes, caller.clone()),
    };
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if kind.is_some_and(|kind| kind.to_ascii_lowercase().starts_with("multipart/form-data")) {
        reading.form(request).await?;
    } else {
        reading.call.call = read_json(request, state).await?;
    }
    for Object(input) in reading.call.call.take_inputs() {
        reading.decode(input).await?;
    }
    Ok(reading.call)
}

struct Reading<'a, T> {
    state: &'a AppState,
    call: Call<T>,
    has_request: bool,
    code: Option<String>,
    hold: Option<Hold>,
    /// Of the parts that are no files.
    text_bytes: usize,
    /// Counts inputs as they come, also those of a request that breaks off.
    meter: Meter,
}

impl<T: WithInputs> Reading<'_, T> {
    async fn form(&mut self, request: Request) -> Result<(), ApiError> {
        let settings = &self.state.settings;
        let most = settings.max_input_bytes.get() + 2 * settings.max_body_bytes.get();
        let (parts, body) = request.into_parts();
        let (gentle, progress) = Gentle::new(body, most);
        let mut request = Request::from_parts(parts, Body::from_stream(gentle));
        axum::extract::DefaultBodyLimit::disable().apply(&mut request);
        let form = Multipart::from_request(request, &()).await;
        let mut form = form.map_err(|error| ApiError::invalid(error.body_text()))?;
        while let Some(part) = form.next_field().await.map_err(|error| self.broken(&error))? {
            progress.passed_on();
            self.part(part, &progress).await?;
        }
        let set = self.code.take().is_none_or(|code| self.call.call.set_code(code));
        set.then_some(()).ok_or_else(|| {
            ApiError::invalid("the form contains code both in the part `request` and in the part `code`")
        })
    }

    async fn part(&mut self, part: Field<'_>, progress: &Progress) -> Result<(), ApiError> {
        let twice = |name: &str| Err(ApiError::invalid(format!("duplicate form part `{name}`")));
        match part.name() {
            Some("file") => {
                let name = part.file_name().unwrap_or_default().to_owned();
                self.file(&name, part, progress).await
            }
            Some("request") if self.has_request => twice("request"),
            Some("request") => {
                self.has_request = true;
                let text = self.text(part, progress).await?;
                self.call.call = parse(text.as_bytes())?;
                Ok(())
            }
            Some("code") if self.code.is_some() => twice("code"),
            Some("code") if T::default().set_code(String::new()) => {
                self.code = Some(self.text(part, progress).await?);
                Ok(())
            }
            other => Err(ApiError::invalid(format!(
                "unknown form part {:?}; expected `request`, `code` or `file`",
                other.unwrap_or_default()
            ))),
        }
    }

    async fn text(&mut self, mut part: Field<'_>, progress: &Progress) -> Result<String, ApiError> {
        let most = self.state.settings.max_body_bytes;
        let mut bytes = Vec::new();
        while let Some(piece) = part.chunk().await.map_err(|error| self.broken(&error))? {
            progress.passed_on();
            if (bytes.len() + piece.len()) as u64 > most.get() {
                let message = format!("a form part other than `file` exceeds the limit of {most}");
                return Err(ApiError::new(ErrorCode::BodyTooLarge, message));
            }
            self.text_bytes += piece.len();
            if let Some(hold) = &self.hold {
                hold.reach(self.text_bytes).await?;
            }
            bytes.extend_from_slice(&piece);
        }
        String::from_utf8(bytes).map_err(|_| ApiError::invalid("a form part other than `file` is not valid UTF-8"))
    }

    async fn file(&mut self, name: &str, mut part: Field<'_>, progress: &Progress) -> Result<(), ApiError> {
        let mut target = self.begin(name)?;
        while let Some(piece) = part.chunk().await.map_err(|error| self.broken(&error))? {
            progress.passed_on();
            self.write(&mut target, &piece).await?;
        }
        target.flush().await.map_err(|error| ApiError::caused_by(&error))
    }

    async fn decode(&mut self, input: InputContent) -> Result<(), ApiError> {
        let mut target = self.begin(&input.name)?;
        let bytes = STANDARD.decode(&input.content);
        let bytes = bytes.map_err(|error| {
            ApiError::invalid(format!(
                "the content of input `{}` is not valid base64: {error}",
                input.name.escape_debug()
            ))
        })?;
        self.write(&mut target, &bytes).await?;
        target.flush().await.map_err(|error| ApiError::caused_by(&error))
    }

    /// The name is judged before a byte is written.
    fn begin(&mut self, name: &str) -> Result<tokio::fs::File, ApiError> {
        let (path, file) = self.call.folder.create().map_err(|error| ApiError::caused_by(&error))?;
        let refuse = |error: InputError| ApiError::invalid(error.to_string());
        self.call.inputs.push(Input::new(path, Some(name)).map_err(refuse)?);
        check_distinct(&self.call.inputs).map_err(refuse)?;
        Ok(tokio::fs::File::from_std(file))
    }

    async fn write(&mut self, target: &mut tokio::fs::File, bytes: &[u8]) -> Result<(), ApiError> {
        let most = self.state.settings.max_input_bytes;
        self.meter.came(bytes.len());
        self.call.bytes += bytes.len() as u64;
        if self.call.bytes > most.get() {
            let message = format!("the inputs exceed the limit of {most} in total");
            return Err(ApiError::new(ErrorCode::BodyTooLarge, message)
                .hint("the operator can raise the limit with the setting max_input_bytes"));
        }
        let together = most.get().saturating_mul(AT_ONCE);
        if !self.call.folder.keep(bytes.len() as u64, together) {
            let together = show_bytes(together);
            let message = format!("the inputs of the tenant's running requests exceed {together} in total");
            return Err(ApiError::new(ErrorCode::AtCapacity, message)
                .hint("send fewer concurrent requests")
                .retry(5));
        }
        target
            .write_all(bytes)
            .await
            .map_err(|error| ApiError::caused_by(&error))
    }

    fn broken(&self, error: &MultipartError) -> ApiError {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(inner) = cause {
            match inner.downcast_ref::<TooMuch>() {
                Some(TooMuch::Whole) => {
                    return ApiError::new(ErrorCode::BodyTooLarge, "the form exceeds the size limit")
                        .hint("the operator can raise the limit with the settings max_input_bytes and max_body_bytes");
                }
                Some(TooMuch::Kept) => return ApiError::invalid(TooMuch::Kept.to_string()),
                None => cause = inner.source(),
            }
        }
        match body_error(error, self.state) {
            slow if slow.code() == ErrorCode::BodyTimeout => slow,
            _ => ApiError::invalid(format!("invalid form: {}", error.body_text())),
        }
    }
}
