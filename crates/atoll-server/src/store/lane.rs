//! One thread with one connection, fed by a bounded queue: nothing that blocks runs on the server's own threads.
//!
//! Jobs that wait at the same moment share one commit. A job's answer is given only after that commit.

use super::StoreError;
use rusqlite::{Connection, TransactionBehavior};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

const QUEUE: usize = 1_024;
/// How many jobs one commit may carry.
const BATCH: usize = 64;

/// Why there is no commit: all jobs that share it are told.
type CommitFault = Arc<rusqlite::Error>;
/// Tells the waiting caller, once it is known whether the commit went well.
type Answer = Box<dyn FnOnce(Result<(), CommitFault>) + Send>;
/// Works on the connection, or hears why there is none. The flag says whether its changes are to be kept.
type Job = Box<dyn FnOnce(Result<&Connection, CommitFault>) -> (Answer, bool) + Send>;

#[derive(Clone, Debug)]
pub(super) struct Lane {
    jobs: mpsc::Sender<Job>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaneKind {
    Reader,
    Writer,
}

impl Lane {
    pub(super) fn start(connection: Connection, kind: LaneKind) -> Result<Self, StoreError> {
        let (jobs, queue) = mpsc::channel(QUEUE);
        let name = match kind {
            LaneKind::Reader => "store-reader",
            LaneKind::Writer => "store-writer",
        };
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || serve(connection, kind, queue))
            .map_err(StoreError::Place)?;
        Ok(Self { jobs })
    }

    /// Runs `work` on the lane's thread. Once it is queued it is done, even if nobody waits for the answer any more.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (tell, told) = oneshot::channel();
        // The caller may have gone away.
        let job = job(work, move |done| drop(tell.send(done)));
        self.jobs.send(job).await.map_err(|_| StoreError::Stopped)?;
        told.await.map_err(|_| StoreError::Stopped)?
    }

    /// The same without waiting: `failed` hears of it if it could not be done.
    pub(super) fn post(
        &self,
        work: impl FnOnce(&Connection) -> Result<(), StoreError> + Send + 'static,
        failed: impl FnOnce(StoreError) + Send + 'static,
    ) {
        let job = job(work, move |done| {
            if let Err(error) = done {
                failed(error);
            }
        });
        // A full queue is waited for aside. A lane without a thread is told to those who wait for answers.
        if let Err(mpsc::error::TrySendError::Full(job)) = self.jobs.try_send(job)
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let jobs = self.jobs.clone();
            runtime.spawn(async move { jobs.send(job).await.ok() });
        }
    }
}

/// Work whose outcome is told after the commit.
fn job<T: Send + 'static>(
    work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    tell: impl FnOnce(Result<T, StoreError>) + Send + 'static,
) -> Job {
    Box::new(move |connection| {
        let done = connection.map_err(StoreError::Commit).and_then(work);
        let keep = done.is_ok();
        let answer: Answer = Box::new(move |committed| {
            tell(done.and_then(|value| committed.map(|()| value).map_err(StoreError::Commit)));
        });
        (answer, keep)
    })
}

fn serve(mut connection: Connection, kind: LaneKind, mut queue: mpsc::Receiver<Job>) {
    while let Some(job) = queue.blocking_recv() {
        match kind {
            LaneKind::Reader => job(Ok(&connection)).0(Ok(())),
            LaneKind::Writer => commit_together(&mut connection, job, &mut queue),
        }
    }
}

fn commit_together(connection: &mut Connection, first: Job, queue: &mut mpsc::Receiver<Job>) {
    let transaction = match connection.transaction_with_behavior(TransactionBehavior::Immediate) {
        Ok(transaction) => transaction,
        Err(error) => return first(Err(Arc::new(error))).0(Ok(())),
    };
    let mut answers = vec![in_savepoint(&transaction, first)];
    while answers.len() < BATCH
        && let Ok(job) = queue.try_recv()
    {
        answers.push(in_savepoint(&transaction, job));
    }
    let committed = transaction.commit().map_err(Arc::new);
    for answer in answers {
        answer(committed.clone());
    }
}

/// A job that fails leaves nothing behind and does not hurt its neighbours.
fn in_savepoint(connection: &Connection, job: Job) -> Answer {
    if let Err(error) = connection.execute_batch("SAVEPOINT job") {
        return job(Err(Arc::new(error))).0;
    }
    let (answer, keep) = job(Ok(connection));
    let end = if keep {
        "RELEASE job"
    } else {
        "ROLLBACK TO job; RELEASE job"
    };
    match connection.execute_batch(end) {
        Ok(()) => answer,
        Err(error) => Box::new(move |_| answer(Err(Arc::new(error)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(number: i64) -> impl FnOnce(&Connection) -> Result<(), StoreError> + Send + 'static {
        move |connection| {
            connection.execute("INSERT INTO t VALUES (?1, 0)", [number])?;
            connection.execute("INSERT INTO t VALUES (?1, ?2)", [100 + number, number % 2])?;
            Ok(())
        }
    }

    /// Starts a lane and a job that holds it until `jobs` have been queued: all of them share one commit.
    async fn together(connection: Connection, jobs: i64) -> Vec<Result<(), StoreError>> {
        let lane = Lane::start(connection, LaneKind::Writer).unwrap();
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let mut tasks = tokio::task::JoinSet::new();
        let first = lane.clone();
        let held = tokio::spawn(async move { first.run(move |_| wait.recv().map_err(|_| StoreError::Stopped)).await });
        for number in 0..jobs {
            let lane = lane.clone();
            tasks.spawn(async move { (number, lane.run(insert(number)).await) });
        }
        let waiting = usize::try_from(jobs).unwrap();
        while lane.jobs.max_capacity() - lane.jobs.capacity() < waiting {
            tokio::task::yield_now().await;
        }
        go.send(()).unwrap();
        held.await.unwrap().unwrap();
        let mut done = tasks.join_all().await;
        done.sort_by_key(|(number, _)| *number);
        done.into_iter().map(|(_, done)| done).collect()
    }

    #[tokio::test]
    async fn a_failed_job_leaves_nothing_and_does_not_hurt_its_neighbours() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let connection = Connection::open(&path).unwrap();
        let table = "PRAGMA journal_mode = wal; CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER CHECK (b = 0))";
        connection.execute_batch(table).unwrap();
        let done = together(connection, 9).await;
        // The second insert of every odd job breaks the check: its first one must be gone, too.
        let fine: Vec<bool> = done.iter().map(Result::is_ok).collect();
        assert_eq!(fine, [true, false, true, false, true, false, true, false, true]);
        let reader = Connection::open(&path).unwrap();
        let rows: Vec<i64> = {
            let mut select = reader.prepare("SELECT a FROM t ORDER BY a").unwrap();
            select
                .query_map([], |row| row.get(0))
                .unwrap()
                .map(Result::unwrap)
                .collect()
        };
        assert_eq!(rows, [0, 2, 4, 6, 8, 100, 102, 104, 106, 108]);
    }
}
