//! Files of a sandbox that was given secrets: text loses them on its way out, piece by piece. In other files they stay, and a
//! header names them.

use atoll_engine::OpenFile;
use atoll_guard::redact::FileRedaction;
use axum::body::{Body, Bytes};
use axum::http::HeaderName;
use futures_util::{StreamExt, stream};

/// The secrets that stay in a file, for its reader.
pub(crate) fn note(open: &OpenFile) -> Option<[(HeaderName, String); 1]> {
    let names = open.redaction.as_ref()?.unredacted();
    (!names.is_empty()).then(|| [(HeaderName::from_static("atoll-unredacted"), names.join(", "))])
}

/// What a piece holds back comes with the next, or at the end.
pub(crate) fn through(body: Body, redaction: Option<FileRedaction>) -> Body {
    let Some(redaction) = redaction.filter(FileRedaction::is_text) else {
        return body;
    };
    let pieces = body.into_data_stream().map(Some).chain(stream::iter([None]));
    let passed = pieces.scan(redaction, |redaction, piece| {
        let passed = match piece {
            Some(Ok(piece)) => Ok(Bytes::from(redaction.pass(&piece).into_owned())),
            Some(Err(error)) => Err(error),
            None => Ok(redaction.finish().into()),
        };
        std::future::ready(Some(passed))
    });
    Body::from_stream(passed)
}
