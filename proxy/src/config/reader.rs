//! Reads TOML tables key by key: checks each value's TOML type, keeps where it stands, and tells unknown keys.

use crate::config::mistake::At;
use crate::config::mistake::Mistakes;
use crate::config::mistake::Place;
use crate::config::mistake::choices_text;
use crate::config::mistake::join;
use std::cell::RefCell;
use toml::Spanned;
use toml::de::DeTable;
use toml::de::DeValue;

/// One table of the file. Every key that is asked for counts as known; [`Section::finish`] tells the others.
pub struct Section<'a> {
    table: &'a DeTable<'a>,
    place: Place,
    known: RefCell<Vec<&'static str>>,
    mistakes: &'a Mistakes,
}

/// A key value as written: one literal for each key column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Literal {
    pub text: String,
    /// Written as a TOML integer; else a string or a date.
    pub is_integer: bool,
}

impl<'a> Section<'a> {
    pub fn root(table: &'a DeTable<'a>, mistakes: &'a Mistakes) -> Section<'a> {
        Section::new(table, Place { line: 1, key: String::new() }, mistakes)
    }

    fn new(table: &'a DeTable<'a>, place: Place, mistakes: &'a Mistakes) -> Section<'a> {
        Section { table, place, known: RefCell::new(Vec::new()), mistakes }
    }

    pub fn place(&self) -> Place {
        self.place.clone()
    }

    /// Tells every key that nobody asked for.
    pub fn finish(self) {
        let mut known = self.known.into_inner();
        known.sort_unstable();
        for (key, _) in self.table.iter() {
            let name: &str = key.get_ref();
            if !known.contains(&name) {
                let place = Place { line: self.mistakes.line(key.span().start), key: join(&self.place.key, name) };
                self.mistakes.add(&place, format!("unknown key; {}", choices_text(name, &known)));
            }
        }
    }

    pub fn text(&self, key: &'static str) -> Option<At<String>> {
        self.value(key).and_then(|(place, value)| self.text_of(place, value))
    }

    pub fn boolean(&self, key: &'static str) -> Option<At<bool>> {
        let (place, value) = self.value(key)?;
        match value.as_bool() {
            Some(value) => Some(At { place, value }),
            None => self.wrong(&place, "true or false", value),
        }
    }

    pub fn integer(&self, key: &'static str) -> Option<At<i64>> {
        let (place, value) = self.value(key)?;
        match value.as_integer().and_then(|int| i64::from_str_radix(int.as_str(), int.radix()).ok()) {
            Some(value) => Some(At { place, value }),
            None => self.wrong(&place, "an integer", value),
        }
    }

    pub fn texts(&self, key: &'static str) -> Option<At<Vec<At<String>>>> {
        let (place, elements) = self.array(key, "an array of strings")?;
        let value = elements.into_iter().filter_map(|(at, value)| self.text_of(at, value)).collect();
        Some(At { place, value })
    }

    /// A key value: a literal, or an array with one literal for each key column.
    pub fn key_value(&self, key: &'static str) -> Option<At<Vec<Literal>>> {
        let (place, value) = self.value(key)?;
        self.key_value_of(place, value)
    }

    /// An array of key values.
    pub fn key_values(&self, key: &'static str) -> Option<At<Vec<At<Vec<Literal>>>>> {
        let (place, elements) = self.array(key, "an array of key values")?;
        let value = elements.into_iter().filter_map(|(at, value)| self.key_value_of(at, value)).collect();
        Some(At { place, value })
    }

    pub fn section(&self, key: &'static str) -> Option<Section<'a>> {
        let (place, value) = self.value(key)?;
        self.section_of(place, value)
    }

    /// `[[key]]`, or an array of inline tables.
    pub fn sections(&self, key: &'static str) -> Vec<Section<'a>> {
        let elements = self.array(key, "an array of tables").map(|(_, elements)| elements).unwrap_or_default();
        elements.into_iter().filter_map(|(place, value)| self.section_of(place, value)).collect()
    }

    /// Every entry of this table, each of which must be a table, in the order of the file.
    pub fn named_sections(&self) -> Vec<(String, Section<'a>)> {
        let mut entries: Vec<_> = self.table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let named = entries.into_iter().filter_map(|(key, value)| {
            let name: &str = key.get_ref();
            let place = Place { line: self.mistakes.line(key.span().start), key: join(&self.place.key, name) };
            Some((name.to_owned(), self.section_of(place, value.get_ref())?))
        });
        named.collect()
    }

    /// Tells that this table must not be here.
    pub fn refuse(&self, message: &str) {
        self.mistakes.add(&self.place, message);
    }

    fn value(&self, key: &'static str) -> Option<(Place, &'a DeValue<'a>)> {
        self.known.borrow_mut().push(key);
        let (name, value) = self.table.iter().find(|(name, _)| name.get_ref() == key)?;
        let place = Place { line: self.mistakes.line(name.span().start), key: join(&self.place.key, key) };
        Some((place, value.get_ref()))
    }

    #[allow(clippy::type_complexity, reason = "elements with their places, used twice and only here")]
    fn array(&self, key: &'static str, expected: &str) -> Option<(Place, Vec<(Place, &'a DeValue<'a>)>)> {
        let (place, value) = self.value(key)?;
        let Some(array) = value.as_array() else {
            return self.wrong(&place, expected, value);
        };
        let elements =
            array.iter().enumerate().map(|(i, element)| (self.element_place(&place, i, element), element.get_ref()));
        Some((place.clone(), elements.collect()))
    }

    fn element_place(&self, array: &Place, position: usize, element: &Spanned<DeValue<'a>>) -> Place {
        let line = match element.span().start {
            0 => array.line,
            start => self.mistakes.line(start),
        };
        Place { line, key: format!("{}[{position}]", array.key) }
    }

    fn section_of(&self, place: Place, value: &'a DeValue<'a>) -> Option<Section<'a>> {
        match value.as_table() {
            Some(table) => Some(Section::new(table, place, self.mistakes)),
            None => self.wrong(&place, "a table", value),
        }
    }

    fn text_of(&self, place: Place, value: &'a DeValue<'a>) -> Option<At<String>> {
        match value.as_str() {
            Some(text) => Some(At { place, value: text.to_owned() }),
            None => self.wrong(&place, "a string", value),
        }
    }

    fn key_value_of(&self, place: Place, value: &'a DeValue<'a>) -> Option<At<Vec<Literal>>> {
        let literals = match value.as_array() {
            None => literal(value).map(|one| vec![one]),
            Some(array) => array.iter().map(|element| literal(element.get_ref())).collect(),
        };
        match literals {
            Some(value) => Some(At { place, value }),
            None => self.wrong(&place, "a string or an integer, or an array with one for each key column", value),
        }
    }

    fn wrong<T>(&self, place: &Place, expected: &str, found: &DeValue<'_>) -> Option<T> {
        self.mistakes.add(place, format!("expected {expected}, not {}", kind(found)));
        None
    }
}

fn literal(value: &DeValue<'_>) -> Option<Literal> {
    match value {
        DeValue::String(text) => Some(Literal { text: text.to_string(), is_integer: false }),
        DeValue::Datetime(date) => Some(Literal { text: date.to_string(), is_integer: false }),
        DeValue::Integer(int) => {
            let value = i128::from_str_radix(int.as_str(), int.radix()).ok()?;
            Some(Literal { text: value.to_string(), is_integer: true })
        }
        DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}
