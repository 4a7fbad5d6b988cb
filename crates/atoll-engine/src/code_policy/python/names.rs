//! What names stand for in a piece of code. One table for the whole of it: a name may be any of the things it was ever bound to.

use super::tables;
use super::value::Value;
use std::collections::HashMap;

#[derive(Clone, Debug, Default)]
struct Binding {
    value: Value,
    /// Bound to different constants: none of them is known.
    mixed: bool,
    /// A function or class of the code itself.
    own: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    bound: HashMap<String, Binding>,
    /// Attributes that the code sets: `self.run = os.system`.
    attributes: HashMap<String, Value>,
    /// Modules of which all names were imported.
    stars: Vec<String>,
}

impl Names {
    pub(super) fn bind(&mut self, name: &str, value: Value) {
        let binding = self.bound.entry(name.to_owned()).or_default();
        for path in &value.paths {
            binding.value.add_path(path.clone());
        }
        match (&binding.value.constant, &value.constant) {
            (None, Some(_)) if !binding.mixed => {
                binding.value.constant = value.constant;
                binding.value.built = value.built;
            }
            (Some(own), Some(other)) if own == other => {}
            (Some(_), _) => {
                binding.value.constant = None;
                binding.mixed = true;
            }
            (None, _) => binding.mixed |= value.constant.is_none() && value.paths.is_empty(),
        }
    }

    /// A function or class: it hides a builtin of the same name.
    pub(super) fn define(&mut self, name: &str) {
        self.bound.entry(name.to_owned()).or_default().own = true;
    }

    /// `del name`: the builtin is back.
    pub(super) fn forget(&mut self, name: &str) {
        if let Some(binding) = self.bound.get_mut(name) {
            binding.own = false;
        }
    }

    pub(super) fn bind_attribute(&mut self, name: &str, value: &Value) {
        let bound = self.attributes.entry(name.to_owned()).or_default();
        value.paths.iter().for_each(|path| bound.add_path(path.clone()));
    }

    pub(super) fn attribute(&self, name: &str) -> Value {
        self.attributes.get(name).cloned().unwrap_or_default()
    }

    pub(super) fn star(&mut self, module: &str) {
        if !self.stars.iter().any(|one| one == module) {
            self.stars.push(module.to_owned());
        }
    }

    pub(super) fn find(&self, name: &str) -> Value {
        let binding = self.bound.get(name);
        let mut value = binding.map(|binding| binding.value.clone()).unwrap_or_default();
        let is_own = binding.is_some_and(|binding| binding.own);
        if !is_own && tables::BUILTINS.contains(&name) {
            value.add_path(format!("builtins.{name}"));
        } else if name == "__builtins__" {
            value.add_path("builtins".to_owned());
        } else if binding.is_none() {
            self.stars
                .iter()
                .for_each(|module| value.add_path(format!("{module}.{name}")));
            // Cells before this one may have imported it.
            if tables::is_reached(name) && !name.starts_with('_') {
                value.add_path(name.to_owned());
            }
        }
        value
    }

    /// Whether a name is only a function or class of the code itself.
    pub(super) fn is_own(&self, name: &str) -> bool {
        let binding = self.bound.get(name);
        binding.is_some_and(|binding| binding.own && binding.value.paths.is_empty() && !binding.mixed)
    }

    /// What this code binds a name to, without the builtin of that name.
    pub(super) fn bound_to(&self, name: &str) -> Option<&Value> {
        self.bound.get(name).map(|binding| &binding.value)
    }

    /// Whether this code binds a name, anywhere.
    pub(super) fn is_bound(&self, name: &str) -> bool {
        self.bound.contains_key(name)
    }

    /// One value only, for as long as a comprehension's element is looked at. Gives what was there before.
    pub(super) fn put(&mut self, name: &str, value: Value) -> Before {
        let binding = Binding {
            value,
            ..Binding::default()
        };
        Before(self.bound.insert(name.to_owned(), binding))
    }

    pub(super) fn restore(&mut self, name: &str, before: Before) {
        match before.0 {
            Some(before) => drop(self.bound.insert(name.to_owned(), before)),
            None => drop(self.bound.remove(name)),
        }
    }
}

/// What a name stood for.
#[derive(Debug)]
pub(super) struct Before(Option<Binding>);
