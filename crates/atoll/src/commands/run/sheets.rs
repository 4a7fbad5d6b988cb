//! Saved CSV files, made fit for a spreadsheet (`--csv-safe`): what would be a formula is text. A table that cannot be made so is
//! not left behind.

use atoll_core::Execution;
use atoll_engine::SavedFiles;
use atoll_guard::spreadsheet::{BEGINNING, Spreadsheet, is_table, is_text};
use std::fs::File;
use std::io::{BufWriter, Error, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

const PIECE: usize = 64 << 10;
// The first piece tells what it is.
const _: () = assert!(PIECE >= BEGINNING);

/// Of files whose names say that they are tables.
pub(super) fn make_safe(execution: &mut Execution, files: &mut SavedFiles) {
    for file in execution.files.iter_mut().filter(|file| is_table(&file.path)) {
        let Some(place) = file.saved.as_ref().map(PathBuf::from) else {
            continue;
        };
        let Err(error) = rewrite(&place) else { continue };
        let name = file.path.trim_start_matches("/data/output/").to_owned();
        let why = format!("cannot escape formulas in this file: {error}");
        if error.kind() != ErrorKind::InvalidData {
            files.problem.get_or_insert(format!("output file `{name}`: {why}"));
        }
        fs_err::remove_file(&place).ok();
        files.saved.retain(|saved| *saved != place);
        files.skipped.push((name, why));
        file.saved = None;
    }
}

/// Beside it, then in its place: nobody sees a half of it.
fn rewrite(path: &Path) -> std::io::Result<()> {
    let from = File::open(path)?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let new = tempfile::NamedTempFile::new_in(dir.unwrap_or(Path::new(".")))?;
    let mut out = BufWriter::new(new);
    let (mut sheet, mut piece) = (Spreadsheet::default(), Vec::with_capacity(PIECE));
    let mut is_first = true;
    while (&from).take(PIECE as u64).read_to_end(&mut piece)? > 0 {
        if std::mem::take(&mut is_first) && !is_text(piece.get(..BEGINNING).unwrap_or(&piece)) {
            return Err(Error::new(ErrorKind::InvalidData, "not text in a supported encoding"));
        }
        out.write_all(&sheet.pass(&piece))?;
        piece.clear();
    }
    out.write_all(&sheet.end())?;
    let new = out.into_inner().map_err(std::io::IntoInnerError::into_error)?;
    new.as_file().set_permissions(from.metadata()?.permissions())?;
    new.persist(path).map_err(|error| error.error)?;
    Ok(())
}
