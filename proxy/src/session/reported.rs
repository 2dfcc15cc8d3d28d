//! The parameters that servers report, as the client knows them.

use std::collections::BTreeMap;

/// Reported parameters; what every statement asks for is kept apart, so that it costs no look-up.
#[derive(Debug, Default)]
pub struct Reported {
    values: BTreeMap<String, String>,
    /// standard_conforming_strings is on: backslashes in plain strings are plain.
    conforming: bool,
}

impl Reported {
    pub fn new(values: BTreeMap<String, String>) -> Reported {
        let mut reported = Reported { values, conforming: true };
        reported.look();
        reported
    }

    fn look(&mut self) {
        self.conforming = self.values.get("standard_conforming_strings").is_none_or(|v| v == "on");
    }

    pub fn conforming_strings(&self) -> bool {
        self.conforming
    }

    pub fn get(&self, name: &str) -> Option<&String> {
        self.values.get(name)
    }

    /// The value that the client knew before.
    pub fn insert(&mut self, name: String, value: String) -> Option<String> {
        let known = self.values.insert(name, value);
        self.look();
        known
    }
}
