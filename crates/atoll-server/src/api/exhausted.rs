//! Whether a failure is that the server has no disk space or no file descriptors left, wherever in the chain of causes
//! that stands.
//!
//! Called where errors become responses. A full scratch disk of a sandbox is something else: its agent reports that as a
//! refusal, which has no cause.

use rustix::io::Errno;
use std::error::Error;
use std::io::ErrorKind;
use std::sync::Arc;

pub(super) fn is_disk_full(error: &(dyn Error + 'static)) -> bool {
    any_cause(error, names_full_disk)
}

pub(super) fn is_out_of_descriptors(error: &(dyn Error + 'static)) -> bool {
    any_cause(error, names_descriptors)
}

fn any_cause(error: &(dyn Error + 'static), is_it: fn(&(dyn Error + 'static)) -> bool) -> bool {
    let mut cause = Some(error);
    while let Some(inner) = cause {
        if is_it(inner) {
            return true;
        }
        cause = inner.source();
    }
    false
}

/// Of this process, or of the whole host.
fn names_descriptors(error: &(dyn Error + 'static)) -> bool {
    let errno = match error.downcast_ref::<std::io::Error>() {
        Some(io) => Errno::from_io_error(io),
        None => error.downcast_ref::<Errno>().copied(),
    };
    matches!(errno, Some(Errno::MFILE | Errno::NFILE))
}

fn names_full_disk(error: &(dyn Error + 'static)) -> bool {
    if let Some(io) = error.downcast_ref::<std::io::Error>() {
        return matches!(io.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
    }
    let code = match error.downcast_ref::<Arc<rusqlite::Error>>() {
        Some(shared) => shared.sqlite_error_code(),
        None => error
            .downcast_ref::<rusqlite::Error>()
            .and_then(rusqlite::Error::sqlite_error_code),
    };
    code == Some(rusqlite::ErrorCode::DiskFull)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{ApiError, ErrorCode};
    use crate::store::StoreError;
    use atoll_core::wire::agent::Refusal;
    use atoll_engine::audit::AuditError;
    use atoll_engine::snapshot::SnapshotError;
    use atoll_engine::{EngineError, TierError};

    /// A device that is always full.
    fn full() -> std::io::Error {
        std::fs::write("/dev/full", "x").unwrap_err()
    }

    fn full_database() -> rusqlite::Error {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        let small = "PRAGMA max_page_count = 10; CREATE TABLE t (a)";
        connection.execute_batch(small).unwrap();
        let filled = connection.execute("INSERT INTO t VALUES (zeroblob(1000000))", []);
        filled.unwrap_err()
    }

    #[test]
    fn a_full_disk_of_the_server_is_one_error_wherever_it_is_met() {
        let audit: EngineError = AuditError::Write(full()).into();
        let reserved: EngineError = AuditError::Reserved.into();
        let snapshot: EngineError = SnapshotError::Io(full()).into();
        let carried: EngineError = TierError::Carry(full()).into();
        let errors: [ApiError; 7] = [
            audit.into(),
            reserved.into(),
            snapshot.into(),
            carried.into(),
            StoreError::Sql(full_database()).into(),
            StoreError::Commit(Arc::new(full_database())).into(),
            ApiError::caused_by(&full()),
        ];
        for error in errors {
            assert_eq!(
                (error.code(), error.code().status().as_u16()),
                (ErrorCode::DiskFull, 507)
            );
            assert_eq!(error.message(), "the disk of the server is full");
        }
    }

    #[test]
    fn no_descriptors_are_left_is_one_error_wherever_it_is_met() {
        let audit: EngineError = AuditError::Write(Errno::MFILE.into()).into();
        let start: EngineError = TierError::Start(Errno::NFILE.into()).into();
        let errors: [ApiError; 3] = [audit.into(), start.into(), ApiError::caused_by(&Errno::MFILE)];
        for error in errors {
            assert_eq!(
                (error.code(), error.code().status().as_u16()),
                (ErrorCode::AtCapacity, 503)
            );
            assert_eq!(error.message(), "the server has no file descriptors left");
            assert!(error.retry_after().is_some());
        }
    }

    #[test]
    fn a_full_scratch_disk_and_other_failures_keep_their_codes() {
        let refused: EngineError = TierError::Refused {
            why: Refusal::NoRoom,
            message: "full".to_owned(),
        }
        .into();
        let unwritten: EngineError = AuditError::Write(std::io::Error::other("broken")).into();
        let broken = ApiError::caused_by(&std::io::Error::other("broken"));
        let codes = [ApiError::from(refused), unwritten.into(), broken].map(|error| error.code());
        let expected = [ErrorCode::NoRoom, ErrorCode::AuditUnavailable, ErrorCode::Internal];
        assert_eq!(codes, expected);
    }
}
