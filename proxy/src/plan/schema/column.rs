//! The elements of a table: columns, constraints, LIKE.
//!
//! The words looked for are reserved, so outside parentheses they are what they seem to be.

use super::constraints::Constraint;
use super::constraints::ForeignKey;
use super::cursor::Cursor;
use crate::catalog::Relation;
use crate::sql::lexer::TokenKind;
use crate::sql::names;
use crate::value::KeyType;

/// What is written between the parentheses of CREATE TABLE.
#[derive(Clone, Debug, Default)]
pub struct Elements {
    /// With their places in the list.
    pub columns: Vec<(usize, ColumnSpec)>,
    pub constraints: Vec<Constraint>,
    pub likes: Vec<Like>,
}

#[derive(Clone, Debug)]
pub struct Like {
    pub at: usize,
    pub table: Vec<String>,
    /// INCLUDING INDEXES or ALL
    pub indexes: bool,
}

#[derive(Clone, Debug)]
pub struct ColumnSpec {
    pub name: String,
    /// As written.
    pub type_text: String,
    pub key_type: Option<KeyType>,
    /// A collation of which it is not known whether it compares bytes.
    pub collation: Option<String>,
    /// GENERATED ALWAYS AS (expression)
    pub computed: bool,
}

/// Reads the list; `None` for what cannot be read.
pub fn elements(list: &Cursor<'_>) -> Option<Elements> {
    let mut elements = Elements::default();
    for (at, item) in list.items().into_iter().enumerate() {
        if item.word_at(0, "like") {
            elements.likes.push(like(at, item)?);
        } else if is_table_constraint(&item) {
            elements.constraints.push(table_constraint(item)?);
        } else {
            let (column, constraints) = column(item)?;
            elements.columns.push((at, column));
            elements.constraints.extend(constraints);
        }
    }
    Some(elements)
}

fn like(at: usize, mut item: Cursor<'_>) -> Option<Like> {
    item.skip(1);
    let table = item.qualified()?;
    let mut indexes = false;
    while !item.is_done() {
        let including = item.one_of(&["including", "excluding"])? == "including";
        if item.word_at(0, "all") || item.word_at(0, "indexes") {
            indexes = including;
        }
        item.skip(1);
    }
    Some(Like { at, table, indexes })
}

fn is_table_constraint(item: &Cursor<'_>) -> bool {
    ["constraint", "check", "unique", "primary", "foreign"].iter().any(|word| item.word_at(0, word))
        || (item.word_at(0, "exclude") && (item.word_at(1, "using") || item.symbol_at(1, "(")))
        || (item.word_at(0, "not") && item.word_at(1, "null"))
}

/// [CONSTRAINT name] {CHECK | NOT NULL | UNIQUE | PRIMARY KEY | EXCLUDE | FOREIGN KEY} …
pub fn table_constraint(mut item: Cursor<'_>) -> Option<Constraint> {
    if item.word("constraint") {
        item.name()?;
    }
    if item.word("check") || item.words(&["not", "null"]) {
        return Some(Constraint::Local);
    }
    if item.word("exclude") {
        if item.word("using") {
            item.name()?;
        }
        let elements = item.parens()?;
        return Some(Constraint::Exclude { equal: elements.items().into_iter().filter_map(equal_element).collect() });
    }
    let foreign = item.words(&["foreign", "key"]);
    let primary = !foreign && item.words(&["primary", "key"]);
    if !foreign && !primary && !item.word("unique") {
        return None;
    }
    if foreign {
        let columns = columns(item.parens()?)?;
        let mut key = item.word("references").then(|| references(&mut item))??;
        key.columns = columns;
        return Some(Constraint::Foreign(key));
    }
    nulls_distinct(&mut item);
    if item.words(&["using", "index"]) {
        // the index has been checked when it was made
        return Some(Constraint::Local);
    }
    Some(Constraint::Unique { columns: columns(item.parens()?)?, primary })
}

fn nulls_distinct(item: &mut Cursor<'_>) {
    let _ = item.words(&["nulls", "not", "distinct"]) || item.words(&["nulls", "distinct"]);
}

/// `(a, b)`, also `(a, PERIOD b)` and `(a, b WITHOUT OVERLAPS)`.
fn columns(list: Cursor<'_>) -> Option<Vec<String>> {
    let name = |mut item: Cursor<'_>| {
        if item.tokens.len() > 1 {
            item.word("period");
        }
        item.name()
    };
    list.items().into_iter().map(name).collect()
}

/// `column WITH =`
fn equal_element(mut item: Cursor<'_>) -> Option<String> {
    let name = item.name()?;
    (item.word("with") && item.symbol("=") && item.is_done()).then_some(name)
}

/// A column definition, and its constraints.
pub fn column(mut item: Cursor<'_>) -> Option<(ColumnSpec, Vec<Constraint>)> {
    let name = item.name()?;
    let (type_text, key_type) = type_of(&mut item);
    let mut column = ColumnSpec { name: name.clone(), type_text, key_type, collation: None, computed: false };
    let mut constraints = Vec::new();
    let mut rest = item;
    let mut generated = false;
    while !rest.is_done() {
        if rest.word("unique") {
            constraints.push(Constraint::Unique { columns: vec![name.clone()], primary: false });
        } else if rest.words(&["primary", "key"]) {
            constraints.push(Constraint::Unique { columns: vec![name.clone()], primary: true });
        } else if rest.word("references") {
            let mut key = references(&mut rest)?;
            key.columns = vec![name.clone()];
            constraints.push(Constraint::Foreign(key));
        } else if rest.word("collate") {
            column.collation = unknown_collation(rest.qualified()?);
        } else if rest.word("generated") {
            generated = true;
        } else if generated && rest.word("as") {
            column.computed |= rest.symbol_at(0, "(");
            generated = false;
        } else if rest.parens().is_none() {
            rest.skip(1);
        }
    }
    Some((column, constraints))
}

/// Collations that PostgreSQL brings are deterministic; a user's may not be.
fn unknown_collation(parts: Vec<String>) -> Option<String> {
    let builtin = match parts.as_slice() {
        [schema, _] => schema == "pg_catalog",
        [name] => matches!(name.as_str(), "C" | "POSIX" | "default" | "ucs_basic" | "C.utf8" | "C.UTF-8"),
        _ => false,
    };
    (!builtin).then(|| parts.join("."))
}

/// Steps over a type: all up to the first word of a constraint.
pub fn type_of(item: &mut Cursor<'_>) -> (String, Option<KeyType>) {
    const ENDS: [&str; 16] = [
        "constraint",
        "not",
        "null",
        "check",
        "default",
        "generated",
        "unique",
        "primary",
        "references",
        "collate",
        "deferrable",
        "initially",
        "storage",
        "compression",
        "options",
        "using",
    ];
    let is_end = |index: usize| {
        let with = item.word_at(index, "with") && !item.word_at(index + 1, "time");
        index > 0 && (with || ENDS.iter().any(|word| item.word_at(index, word)))
    };
    let end = item.top_level().map(|(index, _)| index).find(|index| is_end(*index));
    // a column of a partition may have no type
    let starts_with_end = ["with", "constraint", "not", "null", "check", "default", "unique", "primary", "references"]
        .iter()
        .any(|word| item.word_at(0, word));
    let end = if starts_with_end { 0 } else { end.unwrap_or(item.tokens.len()) };
    let written = item.part(0, end);
    item.skip(end);
    (written.rest().to_owned(), key_type(written))
}

fn key_type(written: Cursor<'_>) -> Option<KeyType> {
    let mut written = written;
    if written.word_at(0, "pg_catalog") && written.symbol_at(1, ".") {
        written.skip(2);
    }
    let mut spelled = String::new();
    for token in written.tokens {
        let text = token.text(written.text);
        let piece = match token.kind {
            TokenKind::Word | TokenKind::Integer => text.to_ascii_lowercase(),
            // "char" is another type than char
            TokenKind::QuotedIdent => names::unquote(text).filter(|name| name != "char")?,
            _ => text.to_owned(),
        };
        let glued = spelled.is_empty() || spelled.ends_with('(') || matches!(piece.as_str(), "(" | ")" | ",");
        if !glued {
            spelled.push(' ');
        }
        spelled.push_str(&piece);
    }
    let name = match spelled.as_str() {
        "smallserial" | "serial2" => "smallint",
        "serial" | "serial4" => "integer",
        "bigserial" | "serial8" => "bigint",
        other => other,
    };
    let varying = name.strip_prefix("char varying").map(|rest| format!("varchar{rest}"));
    KeyType::parse_name(varying.as_deref().unwrap_or(name))
}

/// Whether a type makes a sequence.
pub fn is_serial(type_text: &str) -> bool {
    matches!(
        type_text.to_ascii_lowercase().as_str(),
        "smallserial" | "serial2" | "serial" | "serial4" | "bigserial" | "serial8"
    )
}

/// From behind REFERENCES: `table [(columns)] [MATCH kind] [ON DELETE action] [ON UPDATE action]`.
fn references(rest: &mut Cursor<'_>) -> Option<ForeignKey> {
    let table = rest.qualified()?;
    let referenced = rest.parens().map(columns).map_or(Some(Vec::new()), |names| names)?;
    if rest.word("match") {
        rest.skip(1);
    }
    let mut key =
        ForeignKey { columns: Vec::new(), table, referenced, sets: Vec::new(), sets_all: false, cascades: false };
    loop {
        let update = if rest.words(&["on", "update"]) {
            true
        } else if rest.words(&["on", "delete"]) {
            false
        } else {
            return Some(key);
        };
        if rest.word("set") {
            rest.one_of(&["null", "default"])?;
            match rest.name_list() {
                Some(columns) => key.sets.extend(columns),
                None => key.sets_all = true,
            }
        } else if rest.word("cascade") {
            key.cascades |= update;
        } else if !rest.words(&["no", "action"]) && !rest.word("restrict") {
            return None;
        }
    }
}

/// The columns that a child, a partition or a LIKE takes from a table.
pub fn of_relation(relation: &Relation) -> Vec<ColumnSpec> {
    let column = |column: &crate::catalog::Column| ColumnSpec {
        name: column.name.clone(),
        type_text: column.type_name.clone(),
        key_type: KeyType::parse_name(&column.type_name),
        collation: (column.collation == crate::catalog::Collation::Nondeterministic)
            .then(|| "that is nondeterministic".to_owned()),
        computed: false,
    };
    relation.columns.iter().map(column).collect()
}
