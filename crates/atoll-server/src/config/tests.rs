//! Settings from four sources.

use super::*;
use std::path::Path;

fn env(pairs: &[(&str, &str)]) -> Environment {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn from_file(text: &str) -> Result<Resolved, ConfigError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("atoll.toml");
    fs_err::write(&path, text).unwrap();
    resolve(&Sources {
        file: Some(path),
        ..Sources::default()
    })
}

fn refusal(text: &str) -> String {
    from_file(text).unwrap_err().to_string()
}

#[test]
fn a_flag_beats_a_variable_beats_the_file_beats_the_default() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("atoll.toml");
    fs_err::write(&path, "max_connections = 1\nmax_sandboxes = 1\nprofile = \"data\"\n").unwrap();
    let resolved = resolve(&Sources {
        flags: vec![("max_connections", "3".to_owned())],
        environment: env(&[("ATOLL_MAX_CONNECTIONS", "2"), ("ATOLL_MAX_SANDBOXES", "2")]),
        file: None,
        usual_file: Some(path.clone()),
    })
    .unwrap();
    let settings = &resolved.settings;
    assert_eq!((settings.max_connections.get(), settings.max_sandboxes.get()), (3, 2));
    assert_eq!(settings.profile, ProfileName::Data);
    let source = |name| {
        let index = SETTINGS.iter().position(|setting| setting.name == name).unwrap();
        resolved.sources[index].clone()
    };
    assert_eq!(source("max_connections"), Source::Flag("max-connections".to_owned()));
    assert_eq!(
        source("max_sandboxes"),
        Source::Variable("ATOLL_MAX_SANDBOXES".to_owned())
    );
    assert_eq!(source("profile"), Source::File(path));
    assert_eq!(source("listen"), Source::Default);
}

#[test]
fn an_unknown_name_is_refused_with_the_nearest() {
    assert!(refusal("lisen = \"127.0.0.1:1\"").contains("did you mean `listen`?"));
    assert!(refusal("[pool]\nmni = 1").contains("did you mean `pool.min`?"));
    let far = refusal("colour = \"blue\"");
    assert!(
        far.contains("unknown setting `colour`") && !far.contains("did you mean"),
        "{far}"
    );
    let refused = resolve(&Sources {
        environment: env(&[("ATOLL_LISEN", "x")]),
        ..Sources::default()
    });
    assert!(refused.unwrap_err().to_string().contains("ATOLL_LISTEN"));
}

#[test]
fn variables_of_others_do_not_matter() {
    let environment = env(&[
        ("ATOLL_HOME", "/x"),
        ("ATOLL_SERVICE_HOST", "10.0.0.1"),
        ("ATOLL_BIN", "x"),
    ]);
    let resolved = resolve(&Sources {
        environment,
        ..Sources::default()
    });
    assert_eq!(resolved.unwrap().settings, Settings::default());
}

#[test]
fn values_have_types_and_ranges() {
    assert!(refusal("max_connections = 0").contains("allowed 1 to 1000000"));
    assert!(refusal("max_connections = \"many\"").contains("invalid value `many`"));
    assert!(refusal("max_connections = [\"1\"]").contains("not a list"));
    let address = refusal("listen = \"nowhere\"");
    assert!(
        address.contains("`listen`") && address.contains("`nowhere`: expected ADDRESS:PORT such as 127.0.0.1:7070")
    );
    assert!(refusal("profile = \"huge\"").contains("one of: small, data"));
    assert!(refusal("allowed_hosts = \"a\"").contains("a list of strings"));
    assert!(refusal("cors_origins = [\"*\"]").contains("invalid origin"));
    assert!(refusal("insecure_no_auth = \"yes\"").contains("expected true or false"));
    assert!(refusal("domain = 2026-01-01").contains("a date"));
    assert!(refusal("[otlp]\nendpoint = \"collector\"").contains("expected an http:// or https:// URL"));
    assert!(refusal("listen = ").contains("is not valid TOML"));
}

#[test]
fn a_help_text_has_the_default_unless_it_is_off() {
    let help = |name: &str| {
        let setting = SETTINGS.iter().find(|setting| setting.name == name).unwrap();
        setting.help(&Settings::default())
    };
    assert!(help("listen").ends_with(" [default: 127.0.0.1:7070]"));
    assert!(help("audit.sync").contains(" [default: "));
    assert!(help("cors_origins").ends_with("from a browser"));
    assert!(help("audit.keep").ends_with("[none: never]"));
}

#[test]
fn values_must_fit_together() {
    assert!(refusal("listen = \"0.0.0.0:7070\"\ninsecure_no_auth = true").contains("loopback"));
    assert!(from_file("listen = \"[::1]:7070\"\ninsecure_no_auth = true").is_ok());
    assert!(refusal("[pool]\nmin = 5\nmax = 4").contains("greater than pool.max"));
    assert!(refusal("[lifetime]\nidle = \"2h\"\nhard = \"1h\"").contains("greater than lifetime.hard"));
    assert!(refusal("listen = \"127.0.0.1:7071\"").contains("both"));
    assert!(refusal("[approval]\nwebhook_url = \"http://a.test/\"").contains("requires approval.webhook_secret_file"));
    assert!(refusal("[tls]\ncert = \"/a.pem\"").contains("tls.cert requires tls.key"));
    assert!(refusal("[tls]\nkey = \"/a.pem\"").contains("tls.key requires tls.cert"));
    assert!(refusal("[tls]\nmode = \"local\"\nkey = \"/a.pem\"").contains("remove tls.cert and tls.key"));
    assert!(from_file("[tls]\ncert = \"/a.pem\"\nkey = \"/b.pem\"").is_ok());
}

#[test]
fn a_file_that_was_named_must_exist_and_the_usual_one_need_not() {
    let missing = Some("/nonexistent/atoll.toml".into());
    let named = Sources {
        file: missing.clone(),
        ..Sources::default()
    };
    assert!(matches!(resolve(&named), Err(ConfigError::Read { .. })));
    let usual = Sources {
        usual_file: missing,
        ..Sources::default()
    };
    assert!(resolve(&usual).is_ok());
}

#[test]
fn what_is_printed_can_be_read_again() {
    let text = "listen = \"[::1]:1\"\nallowed_hosts = [\"a.test\", \"*.b.test:8\"]\ndomain = \"s.test\"\n\
                max_body_bytes = 1025\nidle_timeout = \"1500ms\"\n[quota]\nlive_sandboxes = 3\nbytes_per_day = \"1GiB\"\n\
                [policy]\ndefault = \"guarded\"\n[policy.tenants]\nacme = \"strict\"\nlab = \"open\"\n";
    let resolved = from_file(text).unwrap();
    let printed = print(&resolved);
    assert!(
        printed.contains("atoll.toml") && printed.contains("# default"),
        "{printed}"
    );
    assert_eq!(from_file(&printed).unwrap().settings, resolved.settings, "{printed}");
}

#[test]
fn the_path_of_a_webhook_is_neither_printed_nor_told_in_errors() {
    let with = |url: &str| format!("[approval]\nwebhook_url = \"{url}\"\nwebhook_secret_file = \"/a/file\"");
    let resolved = from_file(&with("https://a.test:8443/hush")).unwrap();
    let printed = print(&resolved);
    assert!(
        printed.contains("\"https://a.test:8443/…\"") && !printed.contains("hush"),
        "{printed}"
    );
    assert!(!format!("{:?}", resolved.settings).contains("hush"));
    for bad in ["https://u:hush@a.test/", "gopher://a.test/hush", "hush"] {
        let why = refusal(&with(bad));
        assert!(
            why.contains("approval.webhook_url") && !why.contains("hush"),
            "{bad}: {why}"
        );
    }
    // What was printed is not taken for the address itself.
    assert!(from_file(&printed).is_err());
}

#[test]
fn policies_of_tenants_are_a_table_or_pairs() {
    let flags = Sources {
        flags: vec![("policy.tenants", "acme=strict, lab=open".to_owned())],
        ..Sources::default()
    };
    let by_flag = resolve(&flags).unwrap().settings.policy.tenants;
    let by_file = from_file("[policy.tenants]\nacme = \"strict\"\nlab = \"open\"").unwrap();
    assert_eq!((by_flag.len(), &by_flag), (2, &by_file.settings.policy.tenants));
    for bad in [
        "tenants = \"a\"",
        "tenants = [\"a=b\"]",
        "tenants = { A = \"b\" }",
        "tenants = { a = 1 }",
        "default = {}",
    ] {
        refusal(&format!("[policy]\n{bad}"));
    }
}

#[test]
fn the_example_file_says_the_defaults() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/atoll.toml");
    let text = fs_err::read_to_string(&path).unwrap();
    // Each setting stands there commented out, with its default and with its meaning.
    let spelled: String = text
        .lines()
        .map(|line| line.strip_prefix("#: ").unwrap_or(line))
        .fold(String::new(), |all, line| all + line + "\n");
    let resolved = from_file(&spelled).unwrap();
    assert_eq!(resolved.settings, Settings::default());
    for (setting, source) in SETTINGS.iter().zip(&resolved.sources) {
        assert_ne!(*source, Source::Default, "{} is not in the example", setting.name);
        assert!(
            text.contains(setting.about),
            "the meaning of {} is not in the example",
            setting.name
        );
    }
    assert_eq!(from_file(&text).unwrap().settings, Settings::default());
}

#[test]
fn every_setting_has_its_own_flag_and_variable() {
    let mut names: Vec<String> = SETTINGS
        .iter()
        .flat_map(|setting| [setting.flag(), setting.variable()])
        .collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), SETTINGS.len() * 2);
}

#[test]
fn commands_look_at_the_settings_of_the_audit_log_and_at_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("atoll.toml");
    let text = "listen = 7\nnobody_knows = 1\n[audit]\ndir = \"/of/the/file\"\nrecord = \"code\"\n";
    fs_err::write(&path, text).unwrap();
    let read = |environment: Environment| {
        resolve_audit(&Sources {
            environment,
            usual_file: Some(path.clone()),
            ..Sources::default()
        })
    };
    let audit = read(env(&[("ATOLL_LISTEN", "x"), ("ATOLL_AUDIT_SYNC", "true")])).unwrap();
    assert_eq!(
        (audit.dir.as_deref(), audit.record, audit.sync),
        (Some("/of/the/file"), RecordLevel::Code, true)
    );
    let audit = read(env(&[("ATOLL_AUDIT_DIR", "/of/the/variable")])).unwrap();
    assert_eq!(audit.dir.as_deref(), Some("/of/the/variable"));
    assert!(read(env(&[("ATOLL_AUDIT_DIR", "elsewhere")])).is_err());
    assert!(read(env(&[("ATOLL_AUDIT_DYR", "/a")])).is_err(), "a mistyped name");
    assert!(
        read(env(&[("ATOLL_AUDIT_KEEP_BYTES", "20MiB")])).is_err(),
        "less than two files"
    );
}

#[test]
fn commands_look_at_the_settings_of_tiers_and_miss_no_mistyped_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("atoll.toml");
    let read = |text: &str, environment: Environment| {
        fs_err::write(&path, text).unwrap();
        resolve_tiers(&Sources {
            environment,
            usual_file: Some(path.clone()),
            ..Sources::default()
        })
    };
    let text = "listen = 7\n[tiers]\ngvisor_min_release = 20240513\ncontainer_runtime = \"kata-runtime\"\n";
    let tiers = read(text, env(&[])).unwrap();
    assert_eq!(
        (tiers.gvisor_min_release, tiers.runtime),
        (Some(20_240_513), Some(atoll_engine::RuntimeKind::Kata))
    );
    let tiers = read(text, env(&[("ATOLL_TIERS_CONTAINER_RUNTIME", "runc")])).unwrap();
    assert_eq!(tiers.runtime, Some(atoll_engine::RuntimeKind::Runc));
    assert!(read("[tiers]\ngvisor_min_relase = 20240513\n", env(&[])).is_err());
    assert!(read("[tiers]\ncontainer_runtime = \"runsc\"\n", env(&[])).is_err());
    for no_day in ["new", "2024", "99", "20241399", "20240532", "2024-05-13"] {
        let told = read("", env(&[("ATOLL_TIERS_GVISOR_MIN_RELEASE", no_day)])).unwrap_err();
        assert!(told.to_string().contains("20240513"), "{told}");
    }
}
