//! Whether constraints can hold when each shard sees only its own rows.

use super::Job;
use super::Stop;
use super::cursor::Cursor;
use super::place;
use crate::catalog::ListedTable;
use crate::catalog::MapId;
use crate::catalog::Placement;
use crate::catalog::QualifiedName;
use crate::catalog::Relation;
use crate::catalog::ShardId;
use crate::error::Error;
use crate::plan::OnShards;
use crate::plan::names;
use crate::plan::names::Named;

/// A constraint of a table, as far as it concerns several shards.
#[derive(Clone, Debug)]
pub enum Constraint {
    /// It looks at one row, or at an index that has been checked.
    Local,
    Unique {
        columns: Vec<String>,
        primary: bool,
    },
    /// EXCLUDE: the columns that are compared by `=`.
    Exclude {
        equal: Vec<String>,
    },
    Foreign(ForeignKey),
}

#[derive(Clone, Debug)]
pub struct ForeignKey {
    pub columns: Vec<String>,
    pub table: Vec<String>,
    /// Empty: the primary key.
    pub referenced: Vec<String>,
    /// Columns that SET NULL or SET DEFAULT names.
    pub sets: Vec<String>,
    /// SET NULL or SET DEFAULT of all columns.
    pub sets_all: bool,
    /// ON UPDATE CASCADE
    pub cascades: bool,
}

/// Where a table is, with the names of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Sharded { map: MapId, key: Vec<String> },
    Reference,
    Single(ShardId),
}

impl Place {
    /// `None` for views, and for tables that must not be used.
    pub fn of(relation: &Relation) -> Option<Place> {
        Some(match &relation.placement {
            Placement::Sharded { map, key } => {
                let name = |column: &usize| Some(relation.columns.get(*column)?.name.clone());
                Place::Sharded { map: *map, key: key.iter().map(name).collect::<Option<_>>()? }
            }
            Placement::Reference => Place::Reference,
            Placement::Single(shard) => Place::Single(*shard),
            Placement::Ambiguous(_) | Placement::Derived | Placement::Refused(_) | Placement::System => return None,
        })
    }

    pub fn listed(listed: ListedTable) -> Place {
        match listed {
            ListedTable::Sharded { map, key } => Place::Sharded { map, key },
            ListedTable::Reference => Place::Reference,
            ListedTable::Single(shard) => Place::Single(shard),
        }
    }

    pub fn shards(&self) -> OnShards {
        match self {
            Place::Sharded { .. } | Place::Reference => OnShards::All,
            Place::Single(shard) => place::at(*shard),
        }
    }
}

/// A table whose constraints are checked.
pub struct Table<'a> {
    pub name: &'a QualifiedName,
    pub place: &'a Place,
    /// Constraints of the same statement, for references to the table itself.
    pub own: &'a [Constraint],
}

/// # Errors
/// The constraint cannot hold over several shards, or it refers to what nobody knows.
pub fn check(job: &Job<'_>, table: &Table<'_>, constraint: &Constraint) -> Result<(), Stop> {
    match (constraint, table.place) {
        (Constraint::Unique { columns, primary }, Place::Sharded { key, .. }) => {
            unique(table.name, key, columns, if *primary { "a primary key" } else { "a unique constraint" })
        }
        (Constraint::Exclude { equal }, Place::Sharded { key, .. }) => {
            unique(table.name, key, equal, "an exclusion constraint")
        }
        (Constraint::Foreign(foreign), _) => foreign_key(job, table, foreign),
        (Constraint::Local | Constraint::Unique { .. } | Constraint::Exclude { .. }, _) => Ok(()),
    }
}

/// Rows that are equal in the key columns are on one shard, so a constraint with all of them can be held by it.
///
/// # Errors
/// A key column is missing.
pub fn unique(table: &QualifiedName, key: &[String], columns: &[String], what: &str) -> Result<(), Stop> {
    let missing: Vec<&str> = key.iter().filter(|k| !columns.contains(k)).map(String::as_str).collect();
    if missing.is_empty() && !key.is_empty() {
        return Ok(());
    }
    Err(Error::unsupported(format!("{what} on sharded table {table} without its shard key"))
        .detail("A shard cannot know what the others hold.")
        .hint(format!("Add {} to it{}.", missing.join(" and "), if what.starts_with("an ex") { " WITH =" } else { "" }))
        .into())
}

/// The plain columns of an index; a key with a collation of its own is not counted, since it may be equal where the
/// bytes are not.
pub fn index_columns(elements: &Cursor<'_>) -> Vec<String> {
    let column = |mut item: Cursor<'_>| {
        let name = item.name()?;
        let plain = !item.symbol_at(0, "(") && !item.symbol_at(0, ".") && !item.has("collate");
        plain.then_some(name)
    };
    elements.items().into_iter().filter_map(column).collect()
}

fn foreign_key(job: &Job<'_>, table: &Table<'_>, foreign: &ForeignKey) -> Result<(), Stop> {
    let (target, itself) = match names::relation(job.context, &foreign.table) {
        Named::Relation(relation) if relation.name != *table.name => (Some(relation), false),
        Named::Relation(relation) => (Some(relation), true),
        Named::Unknown(name) if name == *table.name => (None, true),
        Named::Unknown(name) => return Err(Stop::Unknown(vec![name])),
        // PostgreSQL says that this cannot be
        Named::Temporary | Named::System => return Ok(()),
    };
    let there = match (&target, itself) {
        (_, true) => table.place.clone(),
        (Some(relation), false) => {
            place::of_relation(relation, job.context)?;
            // PostgreSQL refuses references to views
            let Some(place) = Place::of(relation) else { return Ok(()) };
            place
        }
        (None, false) => return Err(job.unread()),
    };
    let name = target.as_ref().map_or_else(|| table.name.clone(), |relation| relation.name.clone());
    match (table.place, &there) {
        (Place::Sharded { map, key }, Place::Sharded { map: other, key: their_key }) => {
            if map != other {
                return Err(apart(table, &name, "They are sharded by different shard maps.").into());
            }
            let referenced = referenced(table, foreign, target.as_deref(), itself)?;
            let paired = key
                .iter()
                .zip(their_key)
                .all(|(mine, theirs)| foreign.columns.iter().zip(&referenced).any(|(a, b)| a == mine && b == theirs));
            if !paired {
                let detail = format!(
                    "A row and the one that it refers to can be on different shards unless ({}) refers to ({}).",
                    key.join(", "),
                    their_key.join(", ")
                );
                return Err(apart(table, &name, detail)
                    .hint("Put the shard key columns into the foreign key on both sides.")
                    .into());
            }
            sets_no_key(table, foreign, key)
        }
        (Place::Sharded { key, .. }, Place::Reference) => sets_no_key(table, foreign, key),
        (Place::Reference | Place::Single(_), Place::Reference) => Ok(()),
        (Place::Single(a), Place::Single(b)) if a == b => Ok(()),
        (Place::Single(_), Place::Single(_)) => Err(apart(table, &name, "They are on different shards.").into()),
        (Place::Sharded { .. } | Place::Reference, Place::Single(_)) => {
            Err(apart(table, &name, format!("Table {name} is on one shard only."))
                .hint("Make it a reference table.")
                .into())
        }
        (Place::Reference | Place::Single(_), Place::Sharded { .. }) => {
            Err(apart(table, &name, format!("The rows of {name} are spread over the shards.")).into())
        }
    }
}

fn apart(table: &Table<'_>, name: &QualifiedName, detail: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::unsupported(format!("a foreign key from table {} to {name}", table.name))
        .detail(detail)
        .hint("Leave the foreign key out, or keep both tables together.")
}

/// An action must not move a row to another shard.
fn sets_no_key(table: &Table<'_>, foreign: &ForeignKey, key: &[String]) -> Result<(), Stop> {
    let sets = |column: &&String| {
        foreign.sets.contains(column) || ((foreign.sets_all || foreign.cascades) && foreign.columns.contains(column))
    };
    match key.iter().find(sets) {
        None => Ok(()),
        Some(column) => Err(Error::unsupported(format!(
            "a foreign key of table {} whose action sets shard key column {column}",
            table.name
        ))
        .detail("The row would belong to another shard.")
        .hint("Use NO ACTION, RESTRICT or ON DELETE CASCADE, or name other columns in SET NULL (…).")
        .into()),
    }
}

/// The columns that a foreign key refers to, in order.
fn referenced(
    table: &Table<'_>,
    foreign: &ForeignKey,
    target: Option<&Relation>,
    itself: bool,
) -> Result<Vec<String>, Stop> {
    if !foreign.referenced.is_empty() {
        return Ok(foreign.referenced.clone());
    }
    let own = table.own.iter().find_map(|constraint| match constraint {
        Constraint::Unique { columns, primary: true } if itself => Some(columns.clone()),
        _ => None,
    });
    if let Some(columns) = own {
        return Ok(columns);
    }
    // which of its unique keys is the primary one is not known; if only one fits there is no doubt
    let keys: Vec<Vec<String>> = target
        .into_iter()
        .flat_map(|relation| {
            let names = |key: &Vec<usize>| {
                key.iter().map(|column| Some(relation.columns.get(*column)?.name.clone())).collect::<Option<Vec<_>>>()
            };
            relation.unique.iter().filter_map(names).collect::<Vec<_>>()
        })
        .collect();
    let mut fitting = keys.into_iter().filter(|key| key.len() == foreign.columns.len());
    match (fitting.next(), fitting.next()) {
        (Some(key), None) => Ok(key),
        _ => Err(Error::unsupported(format!(
            "a foreign key of table {} that does not name the columns it refers to",
            table.name
        ))
        .hint("Write REFERENCES table (columns).")
        .into()),
    }
}
