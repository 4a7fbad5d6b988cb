//! A file on its way to a spreadsheet: piece by piece through the output guard, or refused before its first byte is sent.

use crate::api::ApiError;
use atoll_guard::spreadsheet::{BEGINNING, Spreadsheet, is_table, is_text};
use axum::body::{Body, Bytes};
use futures_util::{StreamExt, stream};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

pub(super) fn check_name(path: &str) -> Result<(), ApiError> {
    match is_table(path) {
        true => Ok(()),
        false => Err(refusal(
            "`spreadsheet` is supported only for files with a name ending in .csv or .tsv",
        )),
    }
}

/// Gives the file back if its beginning is text.
pub(super) async fn check_text(file: File) -> Result<File, ApiError> {
    let looking = tokio::task::spawn_blocking(move || Ok((has_text(&file)?, file)));
    let looked: io::Result<(bool, File)> = looking.await.map_err(io::Error::other).flatten();
    match looked.map_err(|error| ApiError::caused_by(&error))? {
        (true, file) => Ok(file),
        (false, _) => Err(refusal(
            "`spreadsheet` requires a text file in UTF-8 or another ASCII-compatible encoding",
        )),
    }
}

fn has_text(file: &File) -> io::Result<bool> {
    let mut beginning = vec![0; BEGINNING];
    let count = file.read_at(&mut beginning, 0)?;
    beginning.truncate(count);
    Ok(is_text(&beginning))
}

fn refusal(message: &str) -> ApiError {
    ApiError::invalid(message).hint("omit `spreadsheet` to download the file unchanged")
}

/// What a piece holds back comes with the next, or at the end.
pub(super) fn through(body: Body) -> Body {
    let pieces = body.into_data_stream().map(Some).chain(stream::iter([None]));
    let written = pieces.scan(Spreadsheet::default(), |sheet, piece| {
        let written = match piece {
            Some(Ok(piece)) => Ok(Bytes::from(sheet.pass(&piece))),
            Some(Err(error)) => Err(error),
            None => Ok(sheet.end().into()),
        };
        std::future::ready(Some(written))
    });
    Body::from_stream(written)
}
