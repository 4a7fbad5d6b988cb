//! Output files of a run: collected to a folder on disk before the sandbox ends, then handed out in pieces or at once.

use super::dry::Dry;
use super::execute::{Ends, Finished};
use super::wire::OutputFiles;
use crate::api::ApiError;
use crate::approvals::HeldFiles;
use crate::limits::Slot;
use crate::spool::Folder;
use atoll_core::execution::{Execution, LeftOutFile};
use atoll_engine::session::Session;
use atoll_engine::{OutDir, Sandbox};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::io::AsyncReadExt;

/// Bytes of one piece; in base64 it is a third more. A multiple of three, so that only the last piece is padded.
const PIECE: usize = 192 << 10;

/// Files that are still to be handed out. Without the folder they would be gone.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    files: VecDeque<(usize, String, PathBuf)>,
    reading: Option<(String, tokio::fs::File, u64)>,
    bytes: u64,
    _folder: Option<Folder>,
    /// Files on our disk that nobody fetches count as the sandbox that made them.
    _slot: Option<Arc<Slot>>,
}

/// Takes the files out of the sandbox, if the code ran at all.
pub(super) async fn collect(
    sandbox: &Sandbox,
    session: &Session,
    done: Result<Execution, ApiError>,
    ends: Ends,
    dry: Option<&Dry>,
) -> Finished {
    let Ends {
        wanted, folder, slot, ..
    } = ends;
    let none = |done| Finished {
        done,
        outputs: Outputs::default(),
    };
    let Ok(mut execution) = done else { return none(done) };
    let out = (wanted == OutputFiles::Content || dry.is_some()).then(|| OutDir::later(folder.path().join("out")));
    let collected = match sandbox.collect_into(out).await {
        Ok((collected, _)) => collected,
        Err(error) => return none(Err(session.blame(error).into())),
    };
    execution.left_out = collected.left_out();
    execution.files = collected.files;
    if let Some(dry) = dry {
        execution.dry_run = sandbox.dry_run(&execution.files, &dry.inputs).await;
    }
    let mut outputs = Outputs {
        _folder: Some(folder),
        ..Outputs::default()
    };
    for (index, file) in execution.files.iter_mut().enumerate() {
        // Where it lies here is of no use to the client.
        if let Some(place) = file.saved.take() {
            outputs.bytes += file.size;
            outputs.files.push_back((index, file.path.clone(), place.into()));
        }
    }
    outputs._slot = (outputs.bytes > 0).then_some(slot);
    Finished {
        done: Ok(execution),
        outputs,
    }
}

impl Outputs {
    /// Of all files together.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The files of a dry run, which do not go out with its answer.
    pub(super) fn hold(&mut self) -> HeldFiles {
        self.bytes = 0;
        HeldFiles {
            files: self.files.drain(..).map(|(_, path, place)| (path, place)).collect(),
            _folder: self._folder.take(),
            _slot: self._slot.take(),
        }
    }

    /// All at once, into the answer; files beyond `most` bytes are left out and said so.
    pub(super) async fn fill(self, execution: &mut Execution, most: u64) -> std::io::Result<()> {
        let mut left = most;
        for (index, path, place) in self.files {
            let Some(file) = execution.files.get_mut(index) else {
                continue;
            };
            if file.size > left {
                let why = "too large for this response; request a stream of events (Accept: text/event-stream)";
                execution.left_out.count += 1;
                execution.left_out.files.push(LeftOutFile {
                    path,
                    why: why.to_owned(),
                });
                continue;
            }
            let bytes = tokio::fs::read(place).await?;
            left = left.saturating_sub(bytes.len() as u64);
            file.content = Some(STANDARD.encode(bytes));
        }
        Ok(())
    }

    /// The next piece as an event's value; `None` after the last.
    pub(super) async fn next(&mut self) -> std::io::Result<Option<Value>> {
        let (path, mut file, offset) = match self.reading.take() {
            Some(reading) => reading,
            None => match self.files.pop_front() {
                Some((_, path, place)) => (path, tokio::fs::File::open(place).await?, 0),
                None => return Ok(None),
            },
        };
        let mut piece = Vec::with_capacity(PIECE);
        (&mut file).take(PIECE as u64).read_to_end(&mut piece).await?;
        let last = piece.len() < PIECE;
        let value = json!({"path": path, "offset": offset, "content": STANDARD.encode(&piece), "last": last});
        if !last {
            self.reading = Some((path, file, offset + piece.len() as u64));
        }
        Ok(Some(value))
    }
}
