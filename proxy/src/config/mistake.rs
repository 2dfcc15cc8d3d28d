//! What is wrong in a configuration file, collected so that all of it is told at once.

use std::cell::RefCell;
use std::fmt;

/// One mistake. Displayed as `file:line: dotted.key: message`, which editors can jump to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistake {
    pub file: String,
    /// From 1.
    pub line: usize,
    /// Dotted, with positions (from 0) in arrays of tables: `database.shop.table[2].key`. Empty for the whole file.
    pub key: String,
    /// What is wrong and what was expected: lower-case, no full stop. Never holds a secret.
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file, self.line)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

/// Where something stands in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub line: usize,
    pub key: String,
}

impl Place {
    /// The place of a key that ought to be in the table at this place.
    pub fn child(&self, key: &str) -> Place {
        Place { line: self.line, key: join(&self.key, key) }
    }
}

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At<T> {
    pub place: Place,
    pub value: T,
}

/// Collects mistakes; shared by the readers of all tables of one file.
pub struct Mistakes {
    file: String,
    /// Byte offset at which each line starts.
    line_starts: Vec<usize>,
    list: RefCell<Vec<Mistake>>,
}

impl Mistakes {
    pub fn new(file: &str, text: &str) -> Mistakes {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        Mistakes {
            file: file.to_owned(),
            line_starts: std::iter::once(0).chain(ends).collect(),
            list: RefCell::new(Vec::new()),
        }
    }

    /// The line (from 1) of a byte offset.
    pub fn line(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= offset).max(1)
    }

    pub fn add(&self, place: &Place, message: impl Into<String>) {
        let mistake =
            Mistake { file: self.file.clone(), line: place.line, key: place.key.clone(), message: message.into() };
        self.list.borrow_mut().push(mistake);
    }

    /// Whether something about this key was told already.
    pub fn told(&self, place: &Place) -> bool {
        self.list.borrow().iter().any(|mistake| mistake.key == place.key)
    }

    pub fn is_empty(&self) -> bool {
        self.list.borrow().is_empty()
    }

    /// In the order of the file, each once.
    pub fn into_sorted(self) -> Vec<Mistake> {
        let mut list = self.list.into_inner();
        list.sort();
        list.dedup();
        list
    }
}

/// `a.b`, with the second part quoted where TOML would need it.
pub fn join(path: &str, key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    let key = if bare { key.to_owned() } else { format!("{key:?}") };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

/// The choice that was probably meant, if one is near: at most two letters away, or a third of the word.
pub fn nearest<'a>(word: &str, choices: &[&'a str]) -> Option<&'a str> {
    let bound = (word.chars().count() / 3).clamp(1, 2);
    let near = choices.iter().map(|choice| (distance(word, choice), *choice)).min_by_key(|(far, _)| *far)?;
    (near.0 <= bound).then_some(near.1)
}

/// How a list of choices is told: `a, b, c`, with a suggestion before it.
pub fn choices_text(word: &str, choices: &[&str]) -> String {
    let list = if choices.is_empty() { "none".to_owned() } else { choices.join(", ") };
    match nearest(word, choices) {
        Some(near) => format!("did you mean \"{near}\"? (choices: {list})"),
        None => format!("choices: {list}"),
    }
}

/// Levenshtein's distance, in characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = i;
        let mut last = i + 1;
        let mut next = vec![last];
        for (right, above) in b.iter().zip(row.iter().skip(1)) {
            let cost = diagonal + usize::from(left != *right);
            last = cost.min(last + 1).min(above + 1);
            diagonal = *above;
            next.push(last);
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}
