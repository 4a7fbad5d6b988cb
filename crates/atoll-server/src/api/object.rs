//! A JSON object and nothing else. Derived types also take a list of their values, without names; nobody means that.

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::{Serialize, Serializer};
use std::marker::PhantomData;

/// What is inside of a body, wherever it is an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OnlyMaps(PhantomData))
    }
}

impl<T: Serialize> Serialize for Object<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

struct OnlyMaps<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OnlyMaps<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Pair {
        a: u8,
        b: Option<Object<Box<Pair>>>,
    }

    #[test]
    fn a_list_of_values_is_no_object() {
        let read = |text: &str| serde_json::from_str::<Object<Pair>>(text).map_err(|error| error.to_string());
        let fine = read(r#"{"a":1,"b":{"a":2}}"#).unwrap().0;
        assert_eq!((fine.a, fine.b.unwrap().0.a), (1, 2));
        assert!(read("[1,null]").unwrap_err().contains("expected an object"));
        assert!(
            read(r#"{"a":1,"b":[2,null]}"#)
                .unwrap_err()
                .contains("expected an object")
        );
        assert!(
            read(r#"{"a":1,"b":{"a":2,"c":3}}"#)
                .unwrap_err()
                .contains("unknown field")
        );
    }
}
