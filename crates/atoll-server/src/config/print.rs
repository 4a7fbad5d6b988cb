//! `atoll serve --print-config`: every setting with its value and where that came from. The output is TOML itself.

use super::table::{Kind, SETTINGS, Setting};
use super::{Resolved, Settings, Source};

pub fn print(resolved: &Resolved) -> String {
    let mut text = String::new();
    let mut table = "";
    for (setting, source) in SETTINGS.iter().zip(&resolved.sources) {
        let (next, key) = setting.name.split_once('.').unwrap_or(("", setting.name));
        if next != table {
            text.push_str(&format!("\n[{next}]\n"));
            table = next;
        }
        text.push_str(&line(key, setting, &resolved.settings, source));
    }
    text
}

fn line(key: &str, setting: &Setting, settings: &Settings, source: &Source) -> String {
    let value = written(setting.kind, &setting.value(settings));
    format!("{:<44} # {source}\n", format!("{key} = {value}"))
}

fn written(kind: Kind, value: &str) -> String {
    let quoted = |word: &str| toml::Value::String(word.to_owned()).to_string();
    match kind {
        Kind::Flag => value.to_owned(),
        Kind::Number | Kind::Optional if value.parse::<u64>().is_ok() => value.to_owned(),
        Kind::Number | Kind::Optional | Kind::Text => quoted(value),
        Kind::List => {
            let words = value.split(',').filter(|word| !word.is_empty());
            format!("[{}]", words.map(quoted).collect::<Vec<_>>().join(", "))
        }
        Kind::Map => {
            let pairs = value.split(',').filter_map(|pair| pair.split_once('='));
            let pairs = pairs.map(|(name, value)| format!("{} = {}", quoted(name), quoted(value)));
            match pairs.collect::<Vec<_>>().join(", ") {
                none if none.is_empty() => "{}".to_owned(),
                pairs => format!("{{ {pairs} }}"),
            }
        }
    }
}
