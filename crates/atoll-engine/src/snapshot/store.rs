//! All snapshots of a data directory, by tenant. One process has them; at its start what a crash has left is removed.

use super::draft::{self, Draft, FACTS, UNFINISHED};
use super::{MOST, MOST_BYTES, Snapshot, SnapshotError};
use crate::backend::{Files, digest};
use crate::lock::lock;
use atoll_core::SnapshotId;
use fs_err as fs;
use std::collections::BTreeMap;
use std::io::Seek;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

#[derive(Debug)]
pub(crate) struct Snapshots {
    dir: PathBuf,
    all: Mutex<BTreeMap<SnapshotId, Arc<Snapshot>>>,
}

impl Snapshots {
    pub(crate) fn open(home: &Path) -> Self {
        let dir = home.join("snapshots");
        let mut all = BTreeMap::new();
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            let name = entry.file_name();
            match read(&entry.path()) {
                Some(found) if !found.passing => drop(all.insert(found.id.clone(), Arc::new(found))),
                // Of one that nobody can read nothing is known: it stays for its owner to look at.
                None if !name.to_string_lossy().starts_with(UNFINISHED) => {}
                _ => drop(fs::remove_dir_all(entry.path())),
            }
        }
        let all = Mutex::new(all);
        Self { dir, all }
    }

    /// Of a tenant, the newest first.
    pub(crate) fn of(&self, tenant: &str) -> Vec<Arc<Snapshot>> {
        let all = lock(&self.all);
        let own = all.values().filter(|one| one.tenant == tenant && one.is_listed());
        let mut own: Vec<Arc<Snapshot>> = own.cloned().collect();
        own.sort_by_key(|one| std::cmp::Reverse(one.created_ms));
        own
    }

    pub(crate) fn find(&self, tenant: &str, id: &SnapshotId) -> Option<Arc<Snapshot>> {
        let found = lock(&self.all).get(id).cloned();
        found.filter(|one| one.tenant == tenant && one.is_listed())
    }

    /// Sandboxes that were paused, of all tenants.
    pub(crate) fn paused(&self) -> Vec<Arc<Snapshot>> {
        let all = lock(&self.all);
        all.values().filter(|one| one.life.is_some()).cloned().collect()
    }

    /// Refused before any work, if there is no room for one more.
    pub(crate) fn begin(&self, tenant: &str) -> Result<Draft, SnapshotError> {
        check(&lock(&self.all), tenant, 0)?;
        Ok(Draft::begin(&self.dir)?)
    }

    /// Reads all of it once: not on a thread that serves others.
    pub(crate) fn finish(&self, draft: Draft, facts: Snapshot) -> Result<Arc<Snapshot>, SnapshotError> {
        let facts = Arc::new(draft.finish(facts)?);
        let mut all = lock(&self.all);
        let fits = check(&all, &facts.tenant, facts.bytes);
        if fits.is_err() {
            fs::remove_dir_all(self.place(&facts.id)).ok();
        }
        fits?;
        all.insert(facts.id.clone(), Arc::clone(&facts));
        Ok(facts)
    }

    /// Its files, if they are what was saved. Reads all of them, like [`Self::finish`].
    pub(crate) fn files(&self, snapshot: &Snapshot) -> Result<Files, SnapshotError> {
        let mut files = draft::open(&self.place(&snapshot.id))?;
        if digest(&mut files)? != snapshot.sha256 {
            return Err(snapshot.blame(SnapshotError::Damaged(snapshot.id.clone())));
        }
        for file in &mut files {
            file.rewind()?;
        }
        Ok(files.map(Into::into))
    }

    /// Whether it was there.
    pub(crate) fn remove(&self, tenant: &str, id: &SnapshotId) -> Result<bool, SnapshotError> {
        let mut all = lock(&self.all);
        if all.get(id).is_none_or(|one| one.tenant != tenant) {
            return Ok(false);
        }
        // Under a name that the next start removes, if this is not finished.
        let gone = self.dir.join(format!("{UNFINISHED}{id}"));
        fs::rename(self.place(id), &gone)?;
        all.remove(id);
        drop(all);
        fs::remove_dir_all(&gone)?;
        Ok(true)
    }

    fn place(&self, id: &SnapshotId) -> PathBuf {
        self.dir.join(id.as_str())
    }
}

fn check(all: &BTreeMap<SnapshotId, Arc<Snapshot>>, tenant: &str, more: u64) -> Result<(), SnapshotError> {
    let own = || all.values().filter(|one| one.tenant == tenant);
    if own().count() >= MOST {
        return Err(SnapshotError::TooMany);
    }
    match own().map(|one| one.bytes).sum::<u64>() + more <= MOST_BYTES {
        true => Ok(()),
        false => Err(SnapshotError::TooLarge),
    }
}

fn read(dir: &Path) -> Option<Snapshot> {
    let facts: Snapshot = serde_json::from_slice(&fs::read(dir.join(FACTS)).ok()?).ok()?;
    let named = dir.file_name().is_some_and(|name| name == facts.id.as_str());
    named.then_some(facts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    fn facts(id: &SnapshotId, tenant: &str, passing: bool) -> Snapshot {
        let text = format!(
            r#"{{"id":"{id}","tenant":"{tenant}","name":null,"sandbox":"sbxa","template":"t","tier":"gvisor",
            "created_ms":1,"bytes":0,"limits":{},"passing":{passing},"env":{{}},"saves_for":"x",
            "state":{{"talk":{{"request":1,"stream":7}},"slots":[]}},"sha256":""}}"#,
            serde_json::to_string(&atoll_core::Limits::SMALL).unwrap()
        );
        serde_json::from_str(&text).unwrap()
    }

    fn add(all: &Snapshots, tenant: &str, passing: bool) -> Result<Arc<Snapshot>, SnapshotError> {
        let draft = all.begin(tenant)?;
        let [memory, _] = draft.files()?;
        std::fs::File::from(memory).write_all(b"memory")?;
        let facts = facts(&draft.id, tenant, passing);
        all.finish(draft, facts)
    }

    #[test]
    fn a_snapshot_is_found_again_by_its_tenant_only_and_goes_with_its_files() {
        let home = tempfile::tempdir().unwrap();
        let id = add(&Snapshots::open(home.path()), "a", false).unwrap().id.clone();
        let all = Snapshots::open(home.path());
        let found = all.find("a", &id).unwrap();
        assert_eq!((found.bytes, all.of("a").len(), all.of("b").len()), (6, 1, 0));
        assert!(all.find("b", &id).is_none() && !all.remove("b", &id).unwrap());
        let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(
            (mode(all.place(&id)), mode(all.place(&id).join("memory"))),
            (0o700, 0o600)
        );
        assert!(all.files(&found).is_ok());
        fs::write(all.place(&id).join("memory"), b"memorz").unwrap();
        assert!(matches!(all.files(&found), Err(SnapshotError::Damaged(_))));
        assert!(all.remove("a", &id).unwrap() && !all.remove("a", &id).unwrap());
        assert_eq!(fs::read_dir(home.path().join("snapshots")).unwrap().count(), 0);
    }

    #[test]
    fn what_was_not_finished_is_none_and_is_swept() {
        let home = tempfile::tempdir().unwrap();
        let all = Snapshots::open(home.path());
        let draft = all.begin("a").unwrap();
        draft.files().unwrap();
        // As a crash leaves it.
        std::mem::forget(draft);
        add(&all, "a", true).unwrap();
        assert_eq!(fs::read_dir(home.path().join("snapshots")).unwrap().count(), 2);
        assert!(Snapshots::open(home.path()).of("a").is_empty());
        assert_eq!(fs::read_dir(home.path().join("snapshots")).unwrap().count(), 0);
        drop(all.begin("a").unwrap());
        assert_eq!(fs::read_dir(home.path().join("snapshots")).unwrap().count(), 0);
    }

    #[test]
    fn a_tenant_has_a_bound_and_others_have_their_own() {
        let home = tempfile::tempdir().unwrap();
        let all = Snapshots::open(home.path());
        for _ in 0..MOST {
            add(&all, "a", false).unwrap();
        }
        assert!(matches!(add(&all, "a", false), Err(SnapshotError::TooMany)));
        assert!(add(&all, "b", false).is_ok());
    }
}
