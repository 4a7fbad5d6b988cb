//! `atoll audit report` and `verify-report`: which code ran, who approved it, in which tier, and which data left.

mod text;

use super::{filter, indexed};
use crate::args::{ReportArgs, VerifyReportArgs};
use crate::commands::template::print;
use crate::output::{Failure, visible};
use atoll_core::SandboxId;
use atoll_core::outcome::ExitStatus;
use atoll_engine::audit::{
    AuditError, AuditLog, AuditOptions, Index, MAX_PAGE, ProvenReport, PublicKey, ReportError, ReportQuery, View,
    check_page, make_page,
};
use std::fs::Permissions;
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

pub(super) fn run(dir: &Path, args: ReportArgs) -> Result<ExitStatus, Failure> {
    let html = args.html.clone();
    let index = indexed(dir)?;
    let query = query(&index, args)?;
    let Some(path) = html else {
        let entries = query.entries(&index).map_err(|error| failure(&error))?;
        return print(&text::report(&query, &entries));
    };
    let page = signed_page(dir, &index, query)?;
    write(&path, &page).map_err(|error| Failure::usage(format!("cannot write `{}`: {error}", path.display())))?;
    print(&visible(&format!("report written to {}\n", path.display())))
}

/// A server signs new records every few seconds. A report needs the key anyway, so new records are signed here.
fn signed_page(dir: &Path, index: &Index, query: ReportQuery) -> Result<String, Failure> {
    let page = match make_page(index, query.clone()) {
        Err(ReportError::Unsigned) => {
            let log = AuditLog::open(AuditOptions::new(dir.to_owned()));
            log.and_then(|log| log.checkpoint())
                .map_err(|error| Failure::ours(&error))?;
            // The same index: records that a server has written since then are not in it, and may not be signed.
            make_page(index, query)
        }
        page => page,
    };
    page.map_err(|error| failure(&error))
}

fn query(index: &Index, args: ReportArgs) -> Result<ReportQuery, Failure> {
    if args.sandbox.is_none() && args.api_key.is_none() && args.since.is_none() && args.until.is_none() {
        return Err(Failure::usage(
            "no entries selected for the report: use --sandbox, --api-key, --since or --until",
        ));
    }
    let query = ReportQuery {
        sandbox: args.sandbox.as_deref().map(sandbox).transpose()?,
        since: args.since.as_deref().map(filter::since).transpose()?,
        until: args.until.as_deref().map(filter::moment).transpose()?,
        ..ReportQuery::default()
    };
    match args.api_key {
        Some(name) => query.of_key(index, name).map_err(|error| Failure::ours(&error)),
        None => Ok(query),
    }
}

/// All entries of a sandbox.
pub(super) fn of_sandbox(index: &Index, id: &str) -> Result<Vec<View>, Failure> {
    let query = ReportQuery {
        sandbox: Some(sandbox(id)?),
        ..ReportQuery::default()
    };
    query.entries(index).map_err(|error| failure(&error))
}

fn sandbox(text: &str) -> Result<SandboxId, Failure> {
    let bad = || Failure::usage(format!("invalid sandbox id `{}`: expected sbx…", visible(text)));
    SandboxId::parse(text).ok_or_else(bad)
}

fn failure(error: &ReportError) -> Failure {
    match error {
        ReportError::Empty | ReportError::TooLarge | ReportError::Unsigned => Failure::bad(error),
        ReportError::Log(AuditError::Key { .. }) => Failure {
            hint: Some(
                "HTML reports are signed: run the command on the host of the log, as the user who owns the signing key"
                    .to_owned(),
            ),
            ..Failure::bad(error)
        },
        ReportError::Log(_) | ReportError::Line(_) | ReportError::Chain(_) | ReportError::Spelling(_) => {
            Failure::ours(error)
        }
    }
}

/// For its owner only, as the log is: it has what is private.
fn write(path: &Path, page: &str) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    // Of a file that was there before.
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(page.as_bytes())
}

pub(super) fn check(args: &VerifyReportArgs) -> Result<ExitStatus, Failure> {
    let key = PublicKey::read(&args.key).map_err(|error| Failure::bad(&error))?;
    let page =
        read(&args.file).map_err(|error| Failure::usage(format!("cannot read `{}`: {error}", args.file.display())))?;
    match check_page(&page, &key) {
        Ok(report) => print(&verified(&report, &key)),
        Err(bad) => {
            print(&visible(&format!("report not verified: {bad}\n")))?;
            Ok(ExitStatus::CodeFailed)
        }
    }
}

/// Bytes of a stranger: a longer file is no report.
fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path)?;
    file.take(MAX_PAGE as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn verified(report: &ProvenReport, key: &PublicKey) -> String {
    let text = text::report(&report.query, &report.entries);
    let (entries, place) = (report.entries.len(), report.checkpoint);
    let note = report.other_version.as_ref().map(|version| {
        format!(
            "note: written by Atoll {version}. The records below are verified; the page in the file is not, so do not rely on \
             what a browser shows\n\n"
        )
    });
    format!(
        "{}{text}\nreport verified: {entries} entries, key {key}\ncheckpoint {}:{}\n",
        note.as_deref().unwrap_or_default(),
        place.seq,
        place.hash
    )
}
