//! Texts that are put together: operators, functions and methods on values that are known.

use super::decode::{decoded, from_base64, from_hex, raw, utf8};
use super::tables;
use super::value::{Const, MOST_TEXT, Value};
use ruff_python_ast::Operator;

/// The module that a path reaches through another one: `random._os.system` is `os.system`.
pub(super) fn reached(path: &str) -> Option<String> {
    if !path.split('.').skip(1).any(tables::is_reached) {
        return None;
    }
    let parts: Vec<&str> = path.split('.').collect();
    // Packages that have parts of such names themselves.
    if ["six", "asyncio", "concurrent", "xmlrpc"].contains(&parts[0]) {
        return None;
    }
    let at = 1 + parts.iter().skip(1).position(|part| tables::is_reached(part))?;
    let module = tables::reached_module(parts[at]);
    let rest = parts[at + 1..].iter().copied();
    // `socket.socket` is a class; `os.path.os` is a module again.
    (at > 1 || parts[0] != module).then(|| std::iter::once(module).chain(rest).collect::<Vec<_>>().join("."))
}

pub(super) fn operate(left: &Value, operator: Operator, right: &Value) -> Value {
    if let (Some(one), Some(other)) = (left.int(), right.int()) {
        let number = match operator {
            Operator::Add => one.checked_add(other),
            Operator::Sub => one.checked_sub(other),
            Operator::Mult => one.checked_mul(other),
            Operator::BitXor => Some(one ^ other),
            Operator::BitOr => Some(one | other),
            Operator::BitAnd => Some(one & other),
            Operator::FloorDiv => one.checked_div(other),
            Operator::LShift => u32::try_from(other).ok().and_then(|by| one.checked_shl(by)),
            Operator::RShift => u32::try_from(other).ok().and_then(|by| one.checked_shr(by)),
            Operator::Pow => u32::try_from(other).ok().and_then(|by| one.checked_pow(by)),
            Operator::Div | Operator::Mod | Operator::MatMult => None,
        };
        return number.map_or_else(Value::default, |number| Value::constant(Const::Int(number), false));
    }
    match operator {
        Operator::Add => add(left, right),
        Operator::Mult => repeat(left, right).or_else(|| repeat(right, left)).unwrap_or_default(),
        Operator::Div if left.is("pathlib.Path()") => join_paths(left, right),
        _ => Value::default(),
    }
}

fn add(left: &Value, right: &Value) -> Value {
    match (&left.constant, &right.constant) {
        (Some(Const::Text { text, whole: true }), Some(Const::Text { text: more, whole })) => {
            let text = format!("{text}{more}");
            match text.len() > MOST_TEXT {
                true => Value::default(),
                false => Value::constant(Const::Text { text, whole: *whole }, true),
            }
        }
        (Some(Const::Text { text, .. }), _) => Value::constant(
            Const::Text {
                text: text.clone(),
                whole: false,
            },
            true,
        ),
        (Some(Const::Bytes(bytes)), Some(Const::Bytes(more))) => Value::bytes([&bytes[..], more].concat()),
        (Some(Const::List(items)), Some(Const::List(more))) if items.len() + more.len() <= MOST_TEXT => {
            Value::constant(Const::List([&items[..], more].concat()), true)
        }
        _ => Value::default(),
    }
}

fn repeat(text: &Value, count: &Value) -> Option<Value> {
    let (text, count) = (text.whole_text()?, usize::try_from(count.int()?).ok()?);
    (text.len().checked_mul(count)? <= MOST_TEXT).then(|| Value::text(text.repeat(count), true))
}

fn join_paths(left: &Value, right: &Value) -> Value {
    let joined = match (left.beginning(), right.beginning()) {
        (_, Some((more, whole))) if more.starts_with('/') => Some((more.to_owned(), whole)),
        (Some((place, true)), Some((more, whole))) => Some((format!("{}/{more}", place.trim_end_matches('/')), whole)),
        (Some((place, true)), None) => Some((format!("{}/", place.trim_end_matches('/')), false)),
        (Some((place, false)), _) => Some((place.to_owned(), false)),
        (None, _) => None,
    };
    let mut value = Value::path("pathlib.Path()".to_owned());
    let joined = joined.filter(|(text, _)| text.len() <= MOST_TEXT);
    value.constant = joined.map(|(text, whole)| Const::Text { text, whole });
    value
}

/// As it would be shown by `str`.
pub(super) fn plain(value: &Value) -> Option<String> {
    match &value.constant {
        Some(Const::Text { text, whole: true }) => Some(text.clone()),
        Some(Const::Int(int)) => Some(int.to_string()),
        _ => None,
    }
}

/// Puts items where the marks are.
pub(super) fn fill(pattern: &str, marks: &[&str], items: &[String]) -> Option<String> {
    let mut text = String::new();
    let mut rest = pattern;
    for item in items {
        let (at, mark) = marks
            .iter()
            .filter_map(|mark| Some((rest.find(mark)?, mark)))
            .min_by_key(|(at, _)| *at)?;
        text.push_str(&rest[..at]);
        text.push_str(item);
        rest = &rest[at + mark.len()..];
    }
    text.push_str(rest);
    (text.len() <= MOST_TEXT).then_some(text)
}

pub(super) fn item(list: &Const, at: i64) -> Option<Const> {
    let items = list.items()?;
    let at = if at < 0 {
        items.len().checked_sub(usize::try_from(-at).ok()?)?
    } else {
        usize::try_from(at).ok()?
    };
    items.into_iter().nth(at)
}

type Bound = Option<Option<i64>>;

/// `text[lower:upper:step]`; a bound that is there and not known gives nothing.
pub(super) fn slice(base: &Value, lower: Bound, upper: Bound, step: Bound) -> Value {
    let (Some(constant), false) = (&base.constant, [lower, upper, step].contains(&Some(None))) else {
        return Value::default();
    };
    let Some(items) = constant.items() else {
        return Value::default();
    };
    let (step, length) = (
        step.flatten().unwrap_or(1),
        i64::try_from(items.len()).unwrap_or(i64::MAX),
    );
    let bound =
        |asked: Option<i64>, other: i64| asked.map_or(other, |at| if at < 0 { at.saturating_add(length) } else { at });
    let (least, most) = if step < 0 { (-1, length - 1) } else { (0, length) };
    let (first, end) = if step < 0 { (length - 1, -1) } else { (0, length) };
    let mut at = bound(lower.flatten(), first).clamp(least, most);
    let end = match upper.flatten() {
        None => end,
        asked => bound(asked, end).clamp(least, most),
    };
    let mut taken = Vec::new();
    while step != 0 && (if step < 0 { at > end } else { at < end }) {
        taken.extend(usize::try_from(at).ok().and_then(|at| items.get(at)).cloned());
        at = at.saturating_add(step);
    }
    match constant {
        Const::List(_) => Value::constant(Const::List(taken), true),
        Const::Text { .. } => join("", &taken).map_or_else(Value::default, |text| Value::text(text, true)),
        Const::Bytes(_) => as_bytes(&taken).map_or_else(Value::default, Value::bytes),
        Const::Int(_) => Value::default(),
    }
}

fn join(between: &str, items: &[Const]) -> Option<String> {
    let mut text = String::new();
    for (at, item) in items.iter().enumerate() {
        let Const::Text {
            text: part,
            whole: true,
        } = item
        else {
            return None;
        };
        if at > 0 {
            text.push_str(between);
        }
        text.push_str(part);
        if text.len() > MOST_TEXT {
            return None;
        }
    }
    Some(text)
}

fn as_bytes(items: &[Const]) -> Option<Vec<u8>> {
    let byte = |item: &Const| match item {
        Const::Int(int) => u8::try_from(*int).ok(),
        _ => None,
    };
    items.iter().map(byte).collect()
}

fn chr(value: &Const) -> Option<Const> {
    match value {
        Const::Int(int) => u32::try_from(*int).ok().and_then(char::from_u32).map(Const::of_char),
        _ => None,
    }
}

/// A function whose result can be told.
pub(super) fn call(function: &Value, arguments: &[Value], count: usize) -> Option<Value> {
    if arguments.len() != count {
        return None;
    }
    let made = |constant: Option<Const>| constant.map(|constant| Value::constant(constant, true));
    let first = arguments.first();
    for path in &function.paths {
        let folded = match (path.as_str(), first) {
            ("builtins.chr", Some(value)) => made(value.constant.as_ref().and_then(chr)),
            ("builtins.ord", Some(value)) => made(
                value
                    .whole_text()
                    .and_then(|text| text.chars().next())
                    .map(|c| Const::Int(i64::from(u32::from(c)))),
            ),
            ("builtins.str", Some(value)) if count == 1 => plain(value).map(|text| Value::text(text, value.built)),
            ("builtins.str", Some(value)) => made(raw(value).and_then(utf8)),
            ("builtins.bytes" | "builtins.bytearray", Some(value)) => match &value.constant {
                Some(Const::List(items)) => as_bytes(items).map(Value::bytes),
                _ => raw(value).map(Value::bytes),
            },
            (
                "builtins.bytes.fromhex"
                | "builtins.bytearray.fromhex"
                | "binascii.unhexlify"
                | "binascii.a2b_hex"
                | "base64.b16decode",
                Some(value),
            ) => raw(value).and_then(|text| from_hex(&text)).map(Value::bytes),
            (
                "base64.b64decode"
                | "base64.urlsafe_b64decode"
                | "base64.standard_b64decode"
                | "base64.decodebytes"
                | "binascii.a2b_base64",
                Some(value),
            ) => raw(value).and_then(|text| from_base64(&text)).map(Value::bytes),
            ("codecs.decode" | "codecs.encode", Some(value)) => decoded(value, arguments.get(1)),
            ("builtins.list" | "builtins.tuple", Some(value)) => {
                made(value.constant.as_ref().and_then(Const::items).map(Const::List))
            }
            ("builtins.reversed", Some(value)) => made(
                value
                    .constant
                    .as_ref()
                    .and_then(Const::items)
                    .map(|items| Const::List(items.into_iter().rev().collect())),
            ),
            ("builtins.map", Some(function)) if function.is("builtins.chr") => {
                let items = arguments
                    .get(1)
                    .and_then(|list| list.constant.as_ref())
                    .and_then(Const::items);
                made(
                    items
                        .and_then(|items| items.iter().map(chr).collect::<Option<Vec<_>>>())
                        .map(Const::List),
                )
            }
            ("os.path.join", Some(_)) => Some(
                arguments
                    .iter()
                    .skip(1)
                    .fold(as_path(first), |place, more| join_paths(&place, more)),
            ),
            ("os.path.expanduser" | "os.path.abspath" | "os.fspath", Some(value)) => Some(value.clone()),
            _ => None,
        };
        if folded.is_some() {
            return folded;
        }
    }
    None
}

fn as_path(value: Option<&Value>) -> Value {
    value.cloned().unwrap_or_default()
}

/// A method of a text, of bytes or of a path whose result can be told.
pub(super) fn method(owner: &Value, name: &str, arguments: &[Value]) -> Option<Const> {
    let argument = |at: usize| arguments.get(at).and_then(Value::whole_text);
    let text_of = |text: String| (text.len() <= MOST_TEXT).then_some(Const::Text { text, whole: true });
    match (&owner.constant, name) {
        (Some(Const::Text { .. }), "joinpath") => {
            let joined = arguments
                .iter()
                .fold(owner.clone(), |place, more| join_paths(&place, more));
            joined.constant
        }
        (Some(Const::Text { text, .. }), "with_suffix" | "with_name" | "resolve" | "expanduser" | "absolute") => {
            Some(Const::Text {
                text: text.clone(),
                whole: false,
            })
        }
        (Some(Const::Text { text, whole: true }), _) => match name {
            "join" => match &arguments.first()?.constant {
                Some(list) => join(text, &list.items()?).and_then(text_of),
                None => None,
            },
            "replace" if !argument(0)?.is_empty() => text_of(text.replace(argument(0)?, argument(1)?)),
            "lower" | "casefold" => text_of(text.to_lowercase()),
            "upper" => text_of(text.to_uppercase()),
            "strip" if arguments.is_empty() => text_of(text.trim().to_owned()),
            "strip" => text_of(
                text.trim_matches(|c| argument(0).is_some_and(|set| set.contains(c)))
                    .to_owned(),
            ),
            "swapcase" => text_of(
                text.chars()
                    .map(|c| {
                        if c.is_uppercase() {
                            c.to_ascii_lowercase()
                        } else {
                            c.to_ascii_uppercase()
                        }
                    })
                    .collect(),
            ),
            "encode" => Some(Const::Bytes(text.clone().into_bytes())),
            "removeprefix" => text_of(text.strip_prefix(argument(0)?).unwrap_or(text).to_owned()),
            "removesuffix" => text_of(text.strip_suffix(argument(0)?).unwrap_or(text).to_owned()),
            "format" => {
                let items: Option<Vec<String>> = arguments.iter().map(plain).collect();
                items
                    .and_then(|items| fill(text, &["{}", "{0}", "{1}", "{2}", "{3}"], &items))
                    .and_then(text_of)
            }
            "split" => {
                let parts: Vec<&str> = match arguments.is_empty() {
                    true => text.split_whitespace().collect(),
                    false => text.split(argument(0).filter(|by| !by.is_empty())?).collect(),
                };
                Some(Const::List(
                    parts
                        .iter()
                        .map(|part| Const::Text {
                            text: (*part).to_owned(),
                            whole: true,
                        })
                        .collect(),
                ))
            }
            _ => None,
        },
        (Some(Const::Bytes(bytes)), "decode") => utf8(bytes.clone()),
        (Some(Const::Bytes(bytes)), "hex") => text_of(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        _ => None,
    }
}
