//! The pure part of the placement check: configuration + what the shards say → what must be proven by looking at rows.

use crate::config::Database;
use crate::config::MapFunction;
use crate::config::TablePlace;
use crate::config::UnlistedTables;
use crate::config::placement::Entries;
use crate::config::placement::effective;
use crate::control::record::Record;
use crate::control::verify::TableFacts;
use crate::control::verify::key_columns;
use crate::error::Error;
use crate::error::codes;
use crate::value::KeyType;
use std::collections::BTreeMap;

/// Problems that one message lists.
const LISTED_PROBLEMS: usize = 10;

/// What one shard says.
#[derive(Clone, Debug)]
pub struct ShardFacts {
    pub record: Option<Record>,
    pub tables: Vec<TableFacts>,
}

#[derive(Clone, Debug)]
pub enum Decision {
    /// Every shard that answers has this placement on record.
    OnRecord {
        away: Vec<usize>,
    },
    /// These must hold before the placement may be used and recorded.
    Verify {
        tasks: Vec<Task>,
        away: Vec<usize>,
    },
    Undecided {
        away: Vec<usize>,
        reason: Error,
    },
    Refused(Error),
}

/// One thing to prove about a table. Shards are positions in the configuration.
#[derive(Clone, Debug)]
pub enum Task {
    /// Every row on `shard` belongs there.
    InPlace { table: TableFacts, shard: usize, map: usize, key: Vec<(String, KeyType)> },
    /// There is no row on `shard`; `home` says where the table belongs.
    Empty { table: TableFacts, shard: usize, home: String },
    /// The rows are the same on all these shards.
    Equal { table: TableFacts, shards: Vec<usize> },
    /// Already known to be wrong.
    Problem(Problem),
}

impl Task {
    /// The shard whose turn it is.
    pub fn first_shard(&self) -> usize {
        match self {
            Task::InPlace { shard, .. } | Task::Empty { shard, .. } => *shard,
            Task::Equal { shards, .. } => shards.first().copied().unwrap_or(0),
            Task::Problem(_) => 0,
        }
    }
}

/// What is wrong with a table: a clause whose subject is the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// As in the entries of a placement.
    pub table: String,
    pub what: String,
    /// Nothing is known to be wrong, but the rows cannot be read.
    pub unreadable: bool,
}

impl Problem {
    pub fn new(table: &TableFacts, what: String) -> Problem {
        Problem { table: table.sql_name(), what, unreadable: false }
    }

    pub fn unreadable(table: &TableFacts, shard: &str, error: &Error) -> Problem {
        let what = format!("cannot be verified on shard \"{shard}\": {}", error.message);
        Problem { unreadable: true, ..Problem::new(table, what) }
    }

    pub fn error(&self) -> Error {
        Error::new(codes::INVALID_PARAMETER_VALUE, format!("table {} {}", self.table, self.what))
    }
}

/// `facts`: one for each shard of `database`, `None` where it is away. `entries` and `hash` are those of `database`.
pub fn decide(database: &Database, entries: &Entries, hash: &str, facts: &[Option<ShardFacts>]) -> Decision {
    let away: Vec<usize> =
        facts.iter().enumerate().filter(|(_, fact)| fact.is_none()).map(|(shard, _)| shard).collect();
    if away.len() == facts.len() {
        return Decision::Undecided { away, reason: cannot_reach(database, facts) };
    }
    if let Some(error) = identity(database, facts) {
        return Decision::Refused(error);
    }
    let mut records = facts.iter().flatten().map(|fact| fact.record.as_ref());
    if records.clone().all(|record| record.is_some_and(|record| record.hash == hash)) {
        return Decision::OnRecord { away };
    }
    if !away.is_empty() && records.any(|record| record.is_some()) {
        return Decision::Undecided { away, reason: cannot_reach(database, facts) };
    }
    if let Some(error) = removed_shards(entries, facts) {
        return Decision::Refused(error);
    }
    Decision::Verify { tasks: tasks(database, entries, facts), away }
}

fn refused(database: &Database, what: &str) -> Error {
    let message = format!("the configuration of database \"{}\" {what}", database.name);
    Error::new(codes::INVALID_PARAMETER_VALUE, message)
}

fn cannot_reach(database: &Database, facts: &[Option<ShardFacts>]) -> Error {
    let names: Vec<&str> = database
        .shards
        .iter()
        .zip(facts)
        .filter(|(_, fact)| fact.is_none())
        .map(|(shard, _)| shard.name.as_str())
        .collect();
    let message = format!("the placement of database \"{}\" is not verified yet", database.name);
    let detail = format!("These shards cannot be reached: {}.", names.join(", "));
    Error::new(codes::CONNECTION_FAILURE, message).detail(detail)
}

/// A shard that was another one, or one of another installation.
fn identity(database: &Database, facts: &[Option<ShardFacts>]) -> Option<Error> {
    let mut first: Option<(&str, &str)> = None;
    for (shard, fact) in database.shards.iter().zip(facts) {
        let Some(record) = fact.as_ref().and_then(|fact| fact.record.as_ref()) else { continue };
        if record.shard != shard.name {
            let what = format!("calls a shard \"{}\" that is \"{}\" on record", shard.name, record.shard);
            let hint = "Give the shards the addresses that they had.";
            return Some(refused(database, &what).hint(hint));
        }
        let (installation, other) = first.get_or_insert((&record.installation, &shard.name));
        if *installation != record.installation {
            let what = format!("joins shards of two installations: \"{other}\" and \"{}\"", shard.name);
            let hint = "Give the shards the addresses that they had. A shard that is to be used anew must be emptied \
                        first, and its schema shardway dropped.";
            return Some(refused(database, &what).hint(hint));
        }
    }
    None
}

/// A shard on record that is not configured any more cannot be asked what it holds.
fn removed_shards(entries: &Entries, facts: &[Option<ShardFacts>]) -> Option<Error> {
    if facts.iter().flatten().all(|fact| fact.tables.iter().all(|table| !table.filled)) {
        return None;
    }
    let records = facts.iter().flatten().filter_map(|fact| fact.record.as_ref());
    let mut removed: Vec<&str> = records
        .flat_map(|record| record.entries.keys())
        .filter(|key| key.0 == "shard" && !entries.contains_key(*key))
        .map(|(_, name)| name.as_str())
        .collect();
    removed.sort_unstable();
    removed.dedup();
    if removed.is_empty() {
        return None;
    }
    let message =
        format!("the configuration would make rows unfindable: it leaves out the shards {}", removed.join(", "));
    let hint = "Put them back. When their rows have been moved to the others by hand, drop the schema shardway on the \
                others: all rows are verified then.";
    Some(Error::new(codes::INVALID_PARAMETER_VALUE, message).hint(hint))
}

/// A table on all shards that have it.
struct Table<'a> {
    on: Vec<(usize, &'a TableFacts)>,
}

fn tables<'a>(entries: &Entries, facts: &'a [Option<ShardFacts>]) -> BTreeMap<String, Table<'a>> {
    let mut tables: BTreeMap<String, Table<'_>> = BTreeMap::new();
    for (shard, fact) in facts.iter().enumerate() {
        for table in fact.iter().flat_map(|fact| &fact.tables) {
            tables.entry(table.sql_name()).or_insert(Table { on: Vec::new() }).on.push((shard, table));
        }
    }
    tables.retain(|name, table| {
        let listed = entries.contains_key(&("table".to_owned(), name.clone()));
        listed || table.on.iter().any(|(_, one)| !one.child)
    });
    tables
}

fn tasks(database: &Database, entries: &Entries, facts: &[Option<ShardFacts>]) -> Vec<Task> {
    let mut tasks = Vec::new();
    for (name, table) in tables(entries, facts) {
        let unproven: Vec<(usize, &TableFacts)> =
            table.on.iter().copied().filter(|(shard, one)| !is_on_record(entries, facts, *shard, &name, one)).collect();
        let filled = unproven.iter().copied().filter(|(_, one)| one.filled);
        match place_of(database, &table) {
            // The only shard has every row that has a place at all.
            Place::Sharded { map, .. } if database.shards.len() == 1 && is_total(database, map) => {}
            Place::Sharded { map, key } => {
                filled.for_each(|(shard, one)| tasks.push(in_place(database, shard, one, map, &key)))
            }
            Place::Single(home) => {
                let name = database.shards.get(home).map_or("?", |shard| shard.name.as_str());
                let home_text = format!("on shard \"{name}\"");
                let elsewhere = filled.filter(|(shard, _)| *shard != home);
                let empty = |(shard, one): (usize, &TableFacts)| Task::Empty {
                    table: one.clone(),
                    shard,
                    home: home_text.clone(),
                };
                tasks.extend(elsewhere.map(empty));
            }
            Place::Reference => tasks.extend(reference(database, facts, &table, &unproven)),
            Place::SingleWhereFound => tasks.extend(single_where_found(facts, &name, &table)),
            Place::Refused => {}
        }
    }
    tasks
}

/// Whether this shard's rows of the table were written under the place that is wanted.
fn is_on_record(entries: &Entries, facts: &[Option<ShardFacts>], shard: usize, name: &str, table: &TableFacts) -> bool {
    let record = facts.get(shard).and_then(Option::as_ref).and_then(|fact| fact.record.as_ref());
    record.is_some_and(|record| {
        effective(&record.entries, name, table.column_names()) == effective(entries, name, table.column_names())
    })
}

enum Place {
    Sharded { map: usize, key: Vec<String> },
    Reference,
    Single(usize),
    SingleWhereFound,
    Refused,
}

/// The same choice as `config::placement::effective` makes among the entries.
fn place_of(database: &Database, table: &Table<'_>) -> Place {
    let Some((_, facts)) = table.on.first() else { return Place::Refused };
    let listed = database.tables.iter().find(|one| one.schema == facts.schema && one.name == facts.name);
    if let Some(listed) = listed {
        return match &listed.place {
            TablePlace::Sharded { map, key } => Place::Sharded { map: *map, key: key.clone() },
            TablePlace::Reference => Place::Reference,
            TablePlace::Single(shard) => Place::Single(*shard),
        };
    }
    let rule = facts.column_names().find_map(|column| database.column_rules.iter().find(|(name, _)| name == column));
    match (rule, database.unlisted) {
        (Some((column, map)), _) => Place::Sharded { map: *map, key: vec![column.clone()] },
        (None, UnlistedTables::Reference) => Place::Reference,
        (None, UnlistedTables::Single) => Place::SingleWhereFound,
        (None, UnlistedTables::Refuse) => Place::Refused,
    }
}

fn in_place(database: &Database, shard: usize, table: &TableFacts, map: usize, key: &[String]) -> Task {
    let Some(map_config) = database.maps.get(map) else {
        return Task::Problem(Problem::new(table, "is on a shard map that does not exist".to_owned()));
    };
    match key_columns(map_config, key, table) {
        Ok(key) => Task::InPlace { table: table.clone(), shard, map, key },
        Err(what) => Task::Problem(Problem::new(table, what)),
    }
}

/// Whether every key has a place.
fn is_total(database: &Database, map: usize) -> bool {
    database.maps.get(map).is_some_and(|map| places_every_key(&map.function))
}

fn places_every_key(function: &MapFunction) -> bool {
    match function {
        MapFunction::Hash(_) => true,
        MapFunction::List { default, .. } => default.is_some(),
        MapFunction::Range(_) => false,
        MapFunction::Groups { first, groups, .. } => places_every_key(first) && groups.iter().all(places_every_key),
    }
}

/// The copies must be equal if one of them was not written as a copy.
fn reference(
    database: &Database,
    facts: &[Option<ShardFacts>],
    table: &Table<'_>,
    unproven: &[(usize, &TableFacts)],
) -> Option<Task> {
    let answering: Vec<usize> =
        facts.iter().enumerate().filter(|(_, fact)| fact.is_some()).map(|(shard, _)| shard).collect();
    let missing = answering.iter().find(|shard| table.on.iter().all(|(has, _)| has != *shard));
    let (_, filled) = table.on.iter().find(|(_, one)| one.filled)?;
    if let Some(missing) = missing {
        let name = database.shards.get(*missing).map_or("?", |shard| shard.name.as_str());
        let what = format!("is a reference table and is not there on shard \"{name}\"");
        return Some(Task::Problem(Problem::new(filled, what)));
    }
    let shards = table.on.iter().map(|(shard, _)| *shard).collect();
    (!unproven.is_empty()).then(|| Task::Equal { table: (*filled).clone(), shards })
}

/// A table that was split or copied and is listed no more must not have rows on several shards. One that never was is
/// the catalog's to judge, when it is used.
fn single_where_found(facts: &[Option<ShardFacts>], name: &str, table: &Table<'_>) -> Option<Task> {
    let was_placed = table.on.iter().any(|(shard, one)| {
        let record = facts.get(*shard).and_then(Option::as_ref).and_then(|fact| fact.record.as_ref());
        let place = record.and_then(|record| effective(&record.entries, name, one.column_names()));
        place.is_some_and(|place| place.starts_with("sharded") || place.starts_with("reference"))
    });
    let filled: Vec<&TableFacts> = table.on.iter().filter(|(_, one)| one.filled).map(|(_, one)| *one).collect();
    match filled.as_slice() {
        [first, _, ..] if was_placed => {
            let what = "is not listed any more, but may hold rows on several shards";
            Some(Task::Problem(Problem::new(first, what.to_owned())))
        }
        _ => None,
    }
}

/// One error that names the tables, what changed, and what to do.
pub fn refusal(database: &Database, facts: &[Option<ShardFacts>], entries: &Entries, problems: &[Problem]) -> Error {
    let mut names: Vec<&str> = problems.iter().map(|problem| problem.table.as_str()).collect();
    names.dedup();
    let mut details: Vec<String> =
        problems.iter().take(LISTED_PROBLEMS).map(|problem| format!("{} {}.", problem.table, problem.what)).collect();
    for name in names.iter().take(LISTED_PROBLEMS) {
        details.extend(change(facts, entries, name));
    }
    let message = format!("would make rows of these tables unfindable: {}", names.join(", "));
    refused(database, &message).detail(details.join(" ")).hint(hint(database, facts, problems))
}

/// "…: on record as …, now …", where there is a record.
fn change(facts: &[Option<ShardFacts>], entries: &Entries, name: &str) -> Option<String> {
    let columns = table_facts(facts, name)?;
    let records = facts.iter().flatten().filter_map(|fact| fact.record.as_ref());
    let now = effective(entries, name, columns.column_names())?;
    let mut before = records.filter_map(|record| effective(&record.entries, name, columns.column_names()));
    let before = before.find(|before| *before != now)?;
    Some(format!("{name} is on record as {}, and now is {}.", shortened(before), shortened(now)))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{} …", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// What to do: for a hash map that was placed by default, the very settings that keep its placement.
fn hint(database: &Database, facts: &[Option<ShardFacts>], problems: &[Problem]) -> String {
    if problems.iter().all(|problem| problem.unreadable) {
        return "Let the control login read these tables, past row security too: it must verify their rows.".to_owned();
    }
    let on_record = |problem: &Problem| {
        let columns = table_facts(facts, &problem.table)?;
        let mut records = facts.iter().flatten().filter_map(|fact| fact.record.as_ref());
        records
            .find_map(|record| written_placement(effective(&record.entries, &problem.table, columns.column_names())?))
    };
    let by_default = database.maps.iter().any(|map| map.placed_by_default);
    match problems.iter().find_map(on_record).filter(|_| by_default) {
        Some(settings) => format!("To keep every bucket where it is, write into the shard map: {settings}"),
        None => "Write the shard maps as they were when the rows were written, or move the rows first.".to_owned(),
    }
}

fn table_facts<'a>(facts: &'a [Option<ShardFacts>], name: &str) -> Option<&'a TableFacts> {
    facts.iter().flatten().flat_map(|fact| &fact.tables).find(|table| table.sql_name() == name)
}

/// `… hash 4: 0-1 s0, 2-3 s1` → the setting as the configuration file has it.
fn written_placement(place: &str) -> Option<String> {
    // the groups of a map of two levels say their shards themselves
    let (before, after) = place.split_once(" hash ")?;
    if before.contains(" by ") {
        return None;
    }
    let (buckets, runs) = after.split_once(": ")?;
    let runs = runs.split_once(" pins: ").map_or(runs, |(runs, _)| runs);
    let part = |run: &str| {
        let (buckets, shard) = run.split_once(' ')?;
        Some(format!("{{ buckets = \"{buckets}\", shard = \"{shard}\" }}"))
    };
    let parts: Vec<String> = runs.split(", ").map(part).collect::<Option<_>>()?;
    Some(format!("buckets = {buckets} and placement = [ {} ]", parts.join(", ")))
}

#[cfg(test)]
mod tests;
