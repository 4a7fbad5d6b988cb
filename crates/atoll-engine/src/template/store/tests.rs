//! Whole builds of a tiny template, with the Python of the system and nothing to install.

use super::super::meter::tests::Record;
use super::*;
use std::time::Duration;

const RECIPE: &str = "name = \"tiny\"\ndescription = \"Nothing.\"\nbase = \"host\"\npython = \">=3.8\"\n\
                      lock = \"requirements.lock\"\nimports = [\"json\"]\n[env]\nA = \"b\"\n";

/// A data directory with one recipe that installs nothing, built with the Python of the system.
fn store() -> (tempfile::TempDir, TemplateStore) {
    let home = tempfile::tempdir().unwrap();
    write_recipe(home.path(), RECIPE);
    let places = Places::only(Path::new("/usr/bin/python3"));
    let store = TemplateStore {
        home: home.path().to_owned(),
        places,
        patience: Patience::default(),
    };
    (home, store)
}

fn write_recipe(home: &Path, text: &str) {
    let recipe = home.join("recipes/tiny");
    fs::create_dir_all(&recipe).unwrap();
    fs::write(recipe.join("template.toml"), text).unwrap();
    fs::write(recipe.join("requirements.lock"), "# nothing\n").unwrap();
}

fn left(home: &Path) -> Vec<String> {
    let entries = fs::read_dir(home.join("templates")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| !name.ends_with(".lock")).collect()
}

#[test]
fn a_template_is_built_once_and_then_opened() {
    let (_home, store) = store();
    let record = Record::default();
    let built = store.ensure("tiny", &record).unwrap();
    assert_eq!(
        (built.env["A"].as_str(), built.interpreter.as_str()),
        ("b", "/opt/atoll/venv/bin/python")
    );
    assert!(built.tree.join("kernel").is_dir() && built.kernel.join("atoll_kernel").is_dir());
    let steps = record.0.lock().unwrap().len();
    assert!(steps > 5);
    // Where no interpreter is found nothing can be built.
    let places = Places::default();
    let without_python = TemplateStore { places, ..store };
    assert_eq!(without_python.ensure("tiny", &record).unwrap(), built);
    assert_eq!(record.0.lock().unwrap().len(), steps);
}

#[test]
fn a_changed_recipe_is_another_template() {
    let (home, store) = store();
    let record = Record::default();
    let old = store.ensure("tiny", &record).unwrap();
    write_recipe(home.path(), &RECIPE.replace("A = \"b\"", "A = \"c\""));
    assert!(!store.show("tiny").unwrap().info.built, "stale");
    let new = store.ensure("tiny", &record).unwrap();
    assert_ne!(old.tree, new.tree);
    assert_eq!(new.env["A"], "c");
    assert_eq!(old.digest, new.digest, "the files are the same");
}

#[test]
fn a_failed_build_leaves_nothing() {
    let (home, store) = store();
    write_recipe(home.path(), &RECIPE.replace("\"json\"", "\"no_such_module\""));
    let error = store.ensure("tiny", &Record::default()).unwrap_err();
    let text = atoll_jail::chain(&error);
    assert!(text.contains("`tiny`") && text.contains("no_such_module"), "{text}");
    assert!(left(home.path()).is_empty());
}

#[test]
fn two_builders_do_the_work_once() {
    let (home, store) = store();
    let records = [Record::default(), Record::default()];
    let templates: Vec<Template> = std::thread::scope(|scope| {
        let threads = records
            .each_ref()
            .map(|record| scope.spawn(|| store.ensure("tiny", record).unwrap()));
        threads.map(|thread| thread.join().unwrap()).into()
    });
    assert_eq!(templates[0], templates[1]);
    let worked = |record: &&Record| record.0.lock().unwrap().iter().any(|(text, _)| text.contains("import"));
    assert_eq!(records.iter().filter(worked).count(), 1);
    assert_eq!(left(home.path()).len(), 1);
}

#[test]
fn rebuilding_listing_and_removing() {
    let (home, store) = store();
    let record = Record::default();
    let first = store.rebuild("tiny", &record).unwrap().digest;
    assert_eq!(store.rebuild("tiny", &record).unwrap().digest, first);
    let list = store.list().unwrap();
    let names: Vec<(&str, bool)> = list.iter().map(|info| (info.name.as_str(), info.built)).collect();
    assert_eq!(
        names,
        [
            ("python-data", false),
            ("python-full", false),
            ("python-min", false),
            ("tiny", true)
        ]
    );
    assert!(list[3].built_at.as_ref().unwrap().ends_with('Z') && list[3].size_bytes > Some(0));
    assert!(store.show("default").unwrap().packages.len() > 70);
    assert!(store.remove("tiny").unwrap());
    assert!(!store.remove("tiny").unwrap());
    assert!(left(home.path()).is_empty());
    assert!(matches!(store.remove("nobody"), Err(TemplateError::Recipe { .. })));
}

#[test]
fn an_older_build_goes_unless_it_is_used() {
    let (home, store) = store();
    let record = Record::default();
    let first = store.ensure("tiny", &record).unwrap();
    write_recipe(home.path(), &RECIPE.replace("A = \"b\"", "A = \"c\""));
    let second = store.ensure("tiny", &record).unwrap();
    assert!(
        first.tree.is_dir() && left(home.path()).len() == 2,
        "the first is held by this test"
    );
    let info = store.show("tiny").unwrap().info;
    let others: Vec<_> = info.other_builds.iter().map(|other| other.in_use).collect();
    assert_eq!((info.built, others), (true, vec![Some(true)]));
    drop((first, second));
    write_recipe(home.path(), &RECIPE.replace("A = \"b\"", "A = \"d\""));
    assert!(
        !store.show("tiny").unwrap().info.other_builds.is_empty(),
        "listed until then"
    );
    let third = store.ensure("tiny", &record).unwrap();
    assert_eq!(left(home.path()).len(), 1);
    assert!(third.tree.is_dir() && store.show("tiny").unwrap().info.other_builds.is_empty());
}

#[test]
fn old_builds_of_others_links_and_unmarked_ones_stay() {
    let (home, store) = store();
    let templates = store.templates();
    let elsewhere = home.path().join("elsewhere");
    for path in [
        templates.join("other-0123456789ab"),
        templates.join("tiny-0123456789ab"),
        elsewhere.clone(),
    ] {
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("kept"), "").unwrap();
    }
    super::super::using::prepare(&templates.join("other-0123456789ab")).unwrap();
    super::super::using::prepare(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, templates.join("tiny-ba9876543210")).unwrap();
    store.ensure("tiny", &Record::default()).unwrap();
    let kept =
        ["other-0123456789ab", "tiny-0123456789ab", "tiny-ba9876543210"].map(|name| templates.join(name).join("kept"));
    assert!(kept.iter().all(|file| file.is_file()), "{:?}", left(home.path()));
}

#[test]
fn a_used_template_is_not_removed_on_request() {
    let (_home, store) = store();
    let template = store.ensure("tiny", &Record::default()).unwrap();
    assert!(matches!(store.remove("tiny"), Err(TemplateError::InUse { .. })));
    assert!(template.tree.is_dir());
    drop(template);
    assert!(store.remove("tiny").unwrap());
}

#[test]
fn a_build_without_room_does_not_start() {
    let (home, store) = store();
    write_recipe(
        home.path(),
        &RECIPE.replace("imports", "room_mib = 1099511627776\nimports"),
    );
    let error = store.ensure("tiny", &Record::default()).unwrap_err();
    assert!(matches!(error, TemplateError::Room { .. }) && error.hint().unwrap().contains("ATOLL_HOME"));
    let text = atoll_jail::chain(&error);
    assert!(text.contains("`tiny`") && text.contains("1099511627776 MiB"), "{text}");
    assert!(left(home.path()).is_empty());
}

#[test]
fn an_installer_that_hangs_is_ended_and_leaves_nothing() {
    let (home, mut store) = store();
    let lock = format!("x==1 --hash=sha256:{}\n", "0".repeat(64));
    fs::write(home.path().join("recipes/tiny/requirements.lock"), lock).unwrap();
    let uv = home.path().join("uv");
    fs::write(&uv, "#!/bin/sh\necho Resolving\nsleep 1000 & sleep 1000\n").unwrap();
    fs::set_permissions(&uv, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    store.places = store.places.with_programs_in(home.path());
    let mut ensure = |stall| {
        store.patience.stall = stall;
        let error = store.ensure("tiny", &Record::default()).unwrap_err();
        let text = atoll_jail::chain(&error);
        // On a busy host a program may need longer to begin.
        text.contains("Resolving").then_some((stall, error, text))
    };
    let stalls = [600, 6_000, 60_000].map(Duration::from_millis);
    let (stall, error, text) = stalls.into_iter().find_map(&mut ensure).unwrap();
    assert!(text.contains(&format!("made no progress for {stall:?}")), "{text}");
    assert!(error.hint().unwrap().contains("network") && left(home.path()).is_empty());
    assert!(
        BuildLock::attempt(&store.templates(), "tiny").unwrap().is_some(),
        "no orphan holds the lock"
    );
}

#[test]
fn a_template_that_is_being_built_is_not_removed() {
    let (_home, store) = store();
    store.ensure("tiny", &Record::default()).unwrap();
    let _lock = BuildLock::attempt(&store.templates(), "tiny").unwrap().unwrap();
    assert!(matches!(store.remove("tiny"), Err(TemplateError::Busy { .. })));
}
