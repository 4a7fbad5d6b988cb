//! Which Linux user a client wants to be: every sandbox has one, and asking for another is refused.

use crate::api::{ApiError, ErrorCode};
use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const USER: &str = "user";

/// By a name in the address; nothing said means the one there is.
pub(super) fn check(name: Option<&str>) -> Result<(), ApiError> {
    match name {
        None | Some("" | USER) => Ok(()),
        Some(other) => Err(ApiError::new(
            ErrorCode::Unauthenticated,
            format!("unknown user '{other}'; the only user in the sandbox is '{USER}'"),
        )),
    }
}

/// By `Authorization: Basic`, as calls inside a sandbox say it. Other kinds of authorization name no user.
pub(super) fn check_headers(headers: &HeaderMap) -> Result<(), ApiError> {
    check(basic(headers).as_deref())
}

fn basic(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, coded) = value.split_once(' ')?;
    let is_basic = scheme.eq_ignore_ascii_case("basic");
    let bytes = is_basic.then(|| STANDARD.decode(coded.trim()).ok()).flatten()?;
    let text = String::from_utf8_lossy(&bytes);
    Some(text.split(':').next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(value: &str) -> Result<(), ApiError> {
        let value = value.parse().unwrap();
        check_headers(&HeaderMap::from_iter([(header::AUTHORIZATION, value)]))
    }

    #[test]
    fn only_the_one_user_can_be_asked_for() {
        let basic = |text: &str| format!("Basic {}", STANDARD.encode(text));
        assert!(check_headers(&HeaderMap::new()).is_ok());
        assert!(said(&basic("user:")).is_ok() && said(&basic(":")).is_ok());
        assert!(said("Bearer root").is_ok());
        let refused = said(&basic("root:")).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::Unauthenticated);
        assert!(refused.message().contains("unknown user 'root'"), "{refused:?}");
        assert!(said(&basic("root:").replace("Basic", "basic")).is_err());
    }
}
