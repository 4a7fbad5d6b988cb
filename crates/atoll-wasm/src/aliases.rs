//! Names of executions for code that is not given randomness: counted, in place of the engine's random ones.
//!
//! Only the texts of messages are looked at, and the one name in each is exchanged: all else is passed on as it was written.

use serde::Deserialize;
use std::sync::{Mutex, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct Aliases(Mutex<Current>);

/// The execution that runs in the context.
#[derive(Debug, Default)]
struct Current {
    count: u64,
    name: String,
}

#[derive(Deserialize)]
struct Named {
    id: String,
}

impl Current {
    fn alias(&self) -> String {
        format!("exec_{}", self.count)
    }
}

impl Aliases {
    /// A message of the engine, as code may see it.
    pub(crate) fn inside(&self, text: String) -> String {
        let Ok(Named { id }) = serde_json::from_str(&text) else {
            return text;
        };
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        current.count += 1;
        let alias = current.alias();
        let inside = text.replace(&id, &alias);
        current.name = id;
        inside
    }

    /// A message of the context, as the engine knows it. Its name comes before all that code has a say in, so the first one that
    /// is found is meant.
    pub(crate) fn outside(&self, text: &str) -> String {
        let current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = format!("\"{}\"", current.alias());
        text.replacen(&own, &format!("\"{}\"", current.name), 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_counted_inside_and_the_engines_outside() {
        let aliases = Aliases::default();
        for (count, real) in [(1, "exec_q2w3"), (2, "exec_r4t5")] {
            let told = aliases.inside(format!("{{\"type\":\"run\",\"id\":\"{real}\",\"code\":\"1\"}}"));
            assert_eq!(
                told,
                format!("{{\"type\":\"run\",\"id\":\"exec_{count}\",\"code\":\"1\"}}")
            );
            let said = aliases.outside(&format!(
                "{{\"type\": \"done\", \"id\": \"exec_{count}\", \"value\": 0.1}}"
            ));
            assert_eq!(
                said,
                format!("{{\"type\": \"done\", \"id\": \"{real}\", \"value\": 0.1}}")
            );
        }
        assert_eq!(aliases.inside("{\"type\":\"warm\"}".into()), "{\"type\":\"warm\"}");
        assert_eq!(aliases.outside("no frame"), "no frame");
    }
}
