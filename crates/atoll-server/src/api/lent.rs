//! A file of a sandbox on its way out. It is let go when the sandbox ends, however slowly its client reads: what is open keeps
//! the files of a sandbox, and the memory that they are in.

use atoll_engine::session::{LongUse, Session};
use axum::body::{Body, Bytes};
use futures_util::stream;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// What is read at once: large pieces make few turns.
const PIECE: u64 = 1 << 20;

/// The file for as long as its sandbox is there.
type Slot = Arc<Mutex<Option<Arc<File>>>>;

struct Lent {
    slot: Slot,
    at: u64,
    size: u64,
    /// Dropped with the answer.
    _reader: oneshot::Sender<()>,
    _using: LongUse,
}

/// The first `size` bytes as the body of an answer; not more than was promised, if the file grows meanwhile. While it is being
/// read the sandbox is used.
pub(crate) fn lend(session: &Arc<Session>, using: LongUse, file: File, size: u64) -> Body {
    let slot: Slot = Arc::new(Mutex::new(Some(Arc::new(file))));
    let (reader, gone) = oneshot::channel();
    tokio::spawn(let_go(Arc::clone(session), Arc::clone(&slot), gone));
    let lent = Lent {
        slot,
        at: 0,
        size,
        _reader: reader,
        _using: using,
    };
    Body::from_stream(stream::unfold(lent, async |lent| lent.next().await))
}

async fn let_go(session: Arc<Session>, slot: Slot, reader: oneshot::Receiver<()>) {
    tokio::select! {
        () = session.gone() => drop(slot.lock().unwrap_or_else(PoisonError::into_inner).take()),
        _ = reader => {}
    }
}

impl Lent {
    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        let length = PIECE.min(self.size - self.at);
        if length == 0 {
            return None;
        }
        let piece = self.read(length).await;
        match &piece {
            Ok(bytes) => self.at += bytes.len() as u64,
            Err(_) => self.size = self.at,
        }
        Some((piece, self))
    }

    async fn read(&self, length: u64) -> io::Result<Bytes> {
        let file = self.slot.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let file = file.ok_or_else(|| io::Error::other("the sandbox has ended"))?;
        let at = self.at;
        let reading = tokio::task::spawn_blocking(move || piece_of(&file, at, length));
        reading.await.map_err(io::Error::other)?
    }
}

fn piece_of(file: &File, at: u64, length: u64) -> io::Result<Bytes> {
    let mut piece = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    loop {
        match file.read_at(&mut piece, at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                piece.truncate(count);
                return Ok(piece.into());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
