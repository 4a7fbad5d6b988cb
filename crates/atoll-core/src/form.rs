//! The forms in which code offers a value, by MIME type. They come from a sandbox, so they are never a tree in memory: a
//! form is a text, or the text of one JSON value, and takes no more than that. Reading one checks all of it and leaves out
//! spaces, so what is written again is JSON on one line.

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::fmt;
use std::ops::Index;

/// A value has a handful of forms. More than this many are not taken.
const MOST_FORMS: usize = 100;
/// Readers of JSON take 128 levels; an answer has some of its own around a form.
const MOST_DEEP: usize = 100;

/// One form of a value.
#[derive(Clone, Debug)]
pub enum Form {
    Text(String),
    Json(Box<RawValue>),
}

impl Form {
    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Json(_) => None,
        }
    }

    /// A value whose JSON was written by somebody else; `None` if that is no JSON.
    pub fn of_json(text: String) -> Option<Self> {
        RawValue::from_string(text).ok().map(Self::Json)
    }

    /// Its length as JSON.
    pub fn json_length(&self) -> u64 {
        match self {
            Self::Text(text) => length_of(text),
            Self::Json(json) => json.get().len() as u64,
        }
    }
}

impl From<&str> for Form {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl PartialEq for Form {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(one), Self::Text(other)) => one == other,
            (Self::Json(one), Self::Json(other)) => one.get() == other.get(),
            (Self::Text(_), Self::Json(_)) | (Self::Json(_), Self::Text(_)) => false,
        }
    }
}

impl PartialEq<&str> for Form {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == Some(*other)
    }
}

impl Serialize for Form {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => text.serialize(serializer),
            Self::Json(json) => json.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Form {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let copied = serde_json::value::to_raw_value(&serde_transcode::Transcoder::new(deserializer));
        let json = copied.map_err(D::Error::custom)?;
        match json.get() {
            text if text.starts_with('"') => serde_json::from_str(text).map(Self::Text).map_err(D::Error::custom),
            value if depth(value) > MOST_DEEP => Err(D::Error::custom("value is nested too deeply")),
            _ => Ok(Self::Json(json)),
        }
    }
}

/// How many lists and objects lie in each other.
fn depth(json: &str) -> usize {
    let (mut now, mut most, mut quoted, mut escaped) = (0usize, 0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            b'[' | b'{' if !quoted => now += 1,
            b']' | b'}' if !quoted => now -= 1,
            _ => {}
        }
        most = most.max(now);
    }
    most
}

/// Of a value as JSON, without making it.
pub fn length_of(value: &(impl Serialize + ?Sized)) -> u64 {
    let mut count = Count(0);
    serde_json::to_writer(&mut count, value).map_or(u64::MAX, |()| count.0)
}

struct Count(u64);

impl std::io::Write for Count {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Forms by their names, each name once, in the order of the names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forms(Vec<(String, Form)>);

impl Forms {
    pub fn get(&self, name: &str) -> Option<&Form> {
        self.iter().find(|(known, _)| *known == name).map(|(_, form)| form)
    }

    pub fn insert(&mut self, name: String, form: Form) {
        match self.0.binary_search_by(|(known, _)| known.cmp(&name)) {
            Ok(at) => self.0[at] = (name, form),
            Err(at) => self.0.insert(at, (name, form)),
        }
    }

    pub fn remove(&mut self, name: &str) -> Option<Form> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(at).1)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Form)> {
        self.0.iter().map(|(name, form)| (name.as_str(), form))
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(name, _)| name)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl IntoIterator for Forms {
    type Item = (String, Form);
    type IntoIter = std::vec::IntoIter<(String, Form)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// An empty text if there is no form of that name.
impl Index<&str> for Forms {
    type Output = Form;

    fn index(&self, name: &str) -> &Form {
        self.get(name).unwrap_or(const { &Form::Text(String::new()) })
    }
}

impl FromIterator<(String, Form)> for Forms {
    fn from_iter<I: IntoIterator<Item = (String, Form)>>(forms: I) -> Self {
        let mut all = Self::default();
        forms.into_iter().for_each(|(name, form)| all.insert(name, form));
        all
    }
}

impl Serialize for Forms {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Forms {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Forms;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a map of at most {MOST_FORMS} media types")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Forms, A::Error> {
        let mut forms = Forms::default();
        while let Some((name, form)) = map.next_entry()? {
            forms.insert(name, form);
            if forms.0.len() > MOST_FORMS {
                return Err(A::Error::custom("too many media types for one value"));
            }
        }
        forms.0.shrink_to_fit();
        Ok(forms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Forms, serde_json::Error> {
        serde_json::from_str(json)
    }

    #[test]
    fn what_is_written_is_what_was_read_on_one_line() {
        let forms = read("{\"b\":\n[1,\r\n {\"k\": \"a\\u000ab \\u00e9\"}, -1.5e3, null],\n\"a\": \"x\\ny\"}").unwrap();
        assert_eq!(forms["a"], "x\ny");
        let json = serde_json::to_string(&forms).unwrap();
        assert_eq!(json, "{\"a\":\"x\\ny\",\"b\":[1,{\"k\":\"a\\nb é\"},-1500.0,null]}");
        assert_eq!(read(&json).unwrap(), forms);
        assert_eq!(
            forms["b"].json_length() + forms["a"].json_length() + 11,
            json.len() as u64
        );
    }

    #[test]
    fn what_no_reader_would_take_is_refused() {
        let many: Vec<String> = (0..=MOST_FORMS).map(|at| format!("\"{at}\":0")).collect();
        let nested = |levels: usize| format!("{{\"a\":{}\"]]\\\"]\"{}}}", "[".repeat(levels), "]".repeat(levels));
        let deep = nested(MOST_DEEP + 1);
        assert!(read(&nested(MOST_DEEP)).is_ok());
        let bad = [
            "{\"a\":\"\\ud800\"}",
            "{\"a\":1e999}",
            "{\"a\":[}",
            "[]",
            &format!("{{{}}}", many.join(",")),
            &deep,
        ];
        for json in bad {
            assert!(read(json).is_err(), "{json}");
        }
        assert!(read(&format!("{{{}}}", many[1..].join(","))).is_ok());
    }

    #[test]
    fn a_name_is_there_once() {
        let mut forms = read("{\"a\":1,\"a\":\"2\",\"b\":3}").unwrap();
        assert_eq!(forms.remove("a"), Some(Form::from("2")));
        assert!(forms.get("a").is_none() && !forms.is_empty());
        assert_eq!(forms["a"], "");
    }
}
