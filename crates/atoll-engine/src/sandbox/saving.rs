//! A sandbox written to files: for a snapshot, or because it is paused.

use super::Walled;
use crate::backend::{Files, TierError};
use crate::contexts::{Seat, Slot};
use crate::engine::EngineError;
use crate::snapshot::{SavedSlot, SavedState, SnapshotError};
use std::sync::Arc;

impl Walled {
    /// Writes the sandbox to two files and lets it go on. Waits for what runs in its contexts; what else runs stands still
    /// meanwhile.
    pub(crate) async fn save(&self, files: Files) -> Result<SavedState, EngineError> {
        self.may_be_saved()?;
        let still = self.contexts.still().await;
        self.bare.freeze(true).await?;
        let saved = self.save_still(&still, files, true).await;
        let moves = self.bare.freeze(false).await;
        drop(still);
        let saved = saved?;
        moves?;
        Ok(saved)
    }

    /// The same for one whose processes stand still already, and stay so. Nothing that somebody waits for may be under way: its
    /// wall can go then, and all that is known of it is in the files.
    pub(crate) async fn save_paused(&self, files: Files) -> Result<SavedState, EngineError> {
        let still = self.contexts.still_now().ok_or(SnapshotError::Busy)?;
        self.save_still(&still, files, false).await
    }

    /// Whether a pause can bring it to disk.
    pub(crate) fn may_be_put_away(&self) -> Result<(), EngineError> {
        self.may_be_saved()?;
        match self.once || !self.commands.list().is_empty() {
            true => Err(SnapshotError::Busy.into()),
            false => Ok(()),
        }
    }

    /// For copies, or for one that takes its place.
    async fn save_still(
        &self,
        still: &[(Arc<Slot>, Seat)],
        files: Files,
        copies: bool,
    ) -> Result<SavedState, EngineError> {
        let slots = still.iter().map(|(slot, seat)| slot.saved(seat.as_ref(), copies));
        let slots = slots.collect::<Result<Vec<SavedSlot>, TierError>>()?;
        let contexts = slots.iter().filter_map(|slot| slot.context).collect();
        let talk = self.bare.save(contexts, files).await?.talk;
        Ok(SavedState { talk, slots })
    }

    fn may_be_saved(&self) -> Result<(), EngineError> {
        if self.saves_for.is_none() {
            return Err(TierError::NotInTier(self.bare.tier).into());
        }
        if !crate::lock::lock(&self.known).is_empty() {
            return Err(SnapshotError::HasSecrets.into());
        }
        match self.inputs.is_empty() {
            true => Ok(()),
            false => Err(SnapshotError::HasInputs.into()),
        }
    }
}
