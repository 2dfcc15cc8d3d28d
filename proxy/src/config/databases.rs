//! As written → as used: databases with their shards, tables, column rules and functions.

use crate::config::CommitMode;
use crate::config::Database;
use crate::config::Endpoint;
use crate::config::FunctionConfig;
use crate::config::Login;
use crate::config::MapConfig;
use crate::config::RunsOn;
use crate::config::Secret;
use crate::config::Shard;
use crate::config::TableConfig;
use crate::config::TablePlace;
use crate::config::UnlistedTables;
use crate::config::check::Checker;
use crate::config::mistake::At;
use crate::config::mistake::Place;
use crate::config::mistake::choices_text;
use crate::config::name;
use crate::config::shard_maps::shard_map;
use crate::config::units;
use crate::config::url;
use crate::config::written::ColumnRuleFile;
use crate::config::written::DatabaseFile;
use crate::config::written::FunctionFile;
use crate::config::written::ShardFile;
use crate::config::written::TableFile;
use crate::limits;
use std::collections::HashMap;

/// Shards of one database: a shard's position must fit in 16 bits, and scattering over more is hopeless.
const MAX_SHARDS: usize = 1024;
/// The console's name.
const CONSOLE: &str = "shardway";

pub fn databases(checker: &Checker<'_>, files: &[DatabaseFile]) -> Vec<Database> {
    files.iter().map(|file| database(checker, file)).collect()
}

/// The names that the rest of a database may refer to.
pub struct Names<'a> {
    pub shards: Vec<&'a str>,
    pub maps: Vec<&'a str>,
    /// Columns of each map's key, as written: right even where a map has mistakes.
    pub key_lengths: Vec<usize>,
}

impl<'a> Names<'a> {
    fn of(file: &'a DatabaseFile) -> Names<'a> {
        let text = |name: &'a Option<At<String>>| name.as_ref().map_or("", |at| at.value.as_str());
        Names {
            shards: file.shards.iter().map(|shard| text(&shard.name)).collect(),
            maps: file.maps.iter().map(|map| text(&map.name)).collect(),
            key_lengths: file.maps.iter().map(|map| map.key.as_ref().map_or(0, |key| key.value.len())).collect(),
        }
    }

    /// The position of a shard; a wrong name is told.
    pub fn shard(&self, checker: &Checker<'_>, at: &At<String>) -> Option<usize> {
        position(checker, "shard", &self.shards, at)
    }

    fn map(&self, checker: &Checker<'_>, at: &At<String>) -> Option<usize> {
        position(checker, "shard map", &self.maps, at)
    }
}

fn position(checker: &Checker<'_>, what: &str, names: &[&str], at: &At<String>) -> Option<usize> {
    let found = names.iter().position(|name| !name.is_empty() && *name == at.value);
    if found.is_none() {
        let known: Vec<&str> = names.iter().copied().filter(|name| !name.is_empty()).collect();
        checker.add(&at.place, format!("unknown {what} \"{}\"; {}", at.value, choices_text(&at.value, &known)));
    }
    found
}

fn database(checker: &Checker<'_>, file: &DatabaseFile) -> Database {
    if file.name == CONSOLE {
        checker.add(&file.place, "the name \"shardway\" belongs to the console; use another");
    }
    if file.name.is_empty() || file.name.contains('\0') {
        checker.add(&file.place, "expected the database's name");
    }
    let names = Names::of(file);
    let control = file.control.as_ref().and_then(|at| control_login(checker, at));
    let unlisted = [
        ("single", UnlistedTables::Single),
        ("reference", UnlistedTables::Reference),
        ("refuse", UnlistedTables::Refuse),
    ];
    let commits = [("two_phase", CommitMode::TwoPhase), ("one_phase", CommitMode::OnePhase)];
    let memory = file.merge_memory.as_ref().and_then(|at| checker.take(at, |text| units::size(text)));
    checker.unique("shard map", file.maps.iter().filter_map(|map| map.name.as_ref()));
    Database {
        name: file.name.clone(),
        unlisted: checker.choice(&file.unlisted_tables, &unlisted).unwrap_or(UnlistedTables::Single),
        shards: shards(checker, file),
        control,
        maps: maps(checker, &names, file),
        tables: tables(checker, &names, &file.tables),
        column_rules: column_rules(checker, &names, &file.column_rules),
        functions: file.functions.iter().filter_map(|section| function(checker, &names, section)).collect(),
        merge_bytes: memory.unwrap_or(limits::MERGE_BYTES),
        commit: checker.choice(&file.commit, &commits).unwrap_or(CommitMode::TwoPhase),
    }
}

/// `user:password`; the whole or the password alone may be `env:` or `file:`.
fn control_login(checker: &Checker<'_>, at: &At<String>) -> Option<Login> {
    let parse = |text: &String| {
        let text = checker.resolve(text)?;
        let (user, password) = match text.split_once(':') {
            Some((user, password)) => (user, Some(Secret(checker.resolve(password)?))),
            None => (text.as_str(), None),
        };
        if user.is_empty() {
            return Err("expected \"user:password\"".to_owned());
        }
        Ok(Login { user: user.to_owned(), password })
    };
    checker.take(at, parse)
}

fn shards(checker: &Checker<'_>, file: &DatabaseFile) -> Vec<Shard> {
    if file.shards.is_empty() {
        let key = file.place.child("shard").key;
        checker.missing(
            &file.place,
            "shard",
            format!("missing: expected at least one [[{key}]] with name and primary"),
        );
    }
    if let Some(over) = file.shards.get(MAX_SHARDS) {
        checker.add(&over.place, format!("a database has at most {MAX_SHARDS} shards"));
    }
    checker.unique("shard", file.shards.iter().filter_map(|shard| shard.name.as_ref()));
    let mut seen: HashMap<(String, u16, String), &Place> = HashMap::new();
    let mut shards = Vec::new();
    for section in &file.shards {
        let Some(shard) = shard(checker, section, file.control.is_some()) else { continue };
        let end = &shard.primary;
        // Two shards in one database would hold the same tables twice.
        if let Some(other) = seen.insert((end.host.clone(), end.port, end.database.clone()), &section.place) {
            let place = section.place.child("primary");
            checker.add(&place, format!("the same database as {} on line {}", other.key, other.line));
        }
        shards.push(shard);
    }
    shards
}

fn shard(checker: &Checker<'_>, file: &ShardFile, has_control: bool) -> Option<Shard> {
    let name = checker.required(&file.place, "name", &file.name);
    if let Some(at) = name {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if at.value.is_empty() || at.value.len() > 63 || !at.value.bytes().all(plain) {
            checker.add(&at.place, "expected 1 to 63 letters, digits, \"_\" or \"-\"");
        }
    }
    let primary = checker.required(&file.place, "primary", &file.primary);
    let endpoint = primary.and_then(|at| endpoint(checker, at));
    if let (Some(at), Some(None), false) = (primary, endpoint.as_ref().map(|end| end.login.as_ref()), has_control) {
        let hint = "expected postgresql://user:password@…, or `control` in the database's table";
        checker.add(&at.place, format!("no login for the proxy itself: {hint}"));
    }
    for replica in file.replicas.iter().flat_map(|at| &at.value) {
        // Checked so that a file stays right; reads from replicas are not there yet.
        endpoint_of_replica(checker, replica);
    }
    Some(Shard { name: name?.value.clone(), primary: endpoint? })
}

fn endpoint(checker: &Checker<'_>, at: &At<String>) -> Option<Endpoint> {
    checker.take(at, |text| url::endpoint(&checker.resolve(text)?))
}

fn endpoint_of_replica(checker: &Checker<'_>, at: &At<String>) {
    let _: Option<Endpoint> = endpoint(checker, at);
}

fn maps(checker: &Checker<'_>, names: &Names<'_>, file: &DatabaseFile) -> Vec<MapConfig> {
    file.maps.iter().filter_map(|section| shard_map(checker, names, section)).collect()
}

fn tables(checker: &Checker<'_>, names: &Names<'_>, files: &[TableFile]) -> Vec<TableConfig> {
    let mut seen: HashMap<(String, String), usize> = HashMap::new();
    let mut tables = Vec::new();
    for file in files {
        let name_at = checker.required(&file.place, "name", &file.name);
        let place = table_place(checker, names, file);
        let name = name_at.and_then(|at| Some((at, checker.take(at, |text| name::qualified(text))?)));
        let Some((at, (schema, name))) = name else { continue };
        if let Some(line) = seen.insert((schema.clone(), name.clone()), at.place.line) {
            checker.add(&at.place, format!("table {schema}.{name} is there already, on line {line}"));
        }
        if schema == "shardway" || schema == "pg_catalog" || schema == "information_schema" {
            checker.add(&at.place, format!("tables of the schema {schema} cannot be placed"));
        }
        tables.extend(place.map(|place| TableConfig { schema, name, place }));
    }
    tables
}

fn table_place(checker: &Checker<'_>, names: &Names<'_>, file: &TableFile) -> Option<TablePlace> {
    let is_reference = file.reference.as_ref().is_some_and(|at| at.value);
    let said = usize::from(file.shard_map.is_some()) + usize::from(file.shard.is_some()) + usize::from(is_reference);
    let expected = "expected one of: shard_map with key, reference = true, shard = \"NAME\"";
    if said != 1 {
        let what = if said == 0 { "nothing says where the table's rows live" } else { "its place is said twice" };
        checker.add(&file.place, format!("{what}; {expected}"));
        return None;
    }
    if let (Some(at), None) = (&file.key, &file.shard_map) {
        checker.add(&at.place, "only a table with shard_map has a key");
    }
    if let Some(at) = &file.shard {
        return names.shard(checker, at).map(TablePlace::Single);
    }
    match &file.shard_map {
        Some(at) => sharded(checker, names, file, at),
        None => Some(TablePlace::Reference),
    }
}

fn sharded(checker: &Checker<'_>, names: &Names<'_>, file: &TableFile, map_at: &At<String>) -> Option<TablePlace> {
    let map = names.map(checker, map_at);
    let key_at = checker.required(&file.place, "key", &file.key)?;
    let mut key: Vec<String> = Vec::new();
    for at in &key_at.value {
        let column = checker.take(at, |text| name::column(text))?;
        if key.contains(&column) {
            checker.add(&at.place, format!("column {column} is in the key twice"));
        }
        key.push(column);
    }
    let expected = map.and_then(|map| names.key_lengths.get(map)).copied().filter(|length| *length > 0);
    if let Some(expected) = expected.filter(|expected| *expected != key.len()) {
        let columns = if expected == 1 { "1 column".to_owned() } else { format!("{expected} columns") };
        let map = &map_at.value;
        checker.add(&key_at.place, format!("the key of shard map \"{map}\" has {columns}, this one {}", key.len()));
    }
    Some(TablePlace::Sharded { map: map?, key })
}

fn column_rules(checker: &Checker<'_>, names: &Names<'_>, files: &[ColumnRuleFile]) -> Vec<(String, usize)> {
    let mut rules: Vec<(String, usize)> = Vec::new();
    for file in files {
        let column_at = checker.required(&file.place, "column", &file.column);
        let map_at = checker.required(&file.place, "shard_map", &file.shard_map);
        let column = column_at.and_then(|at| checker.take(at, |text| name::column(text)));
        let map = map_at.and_then(|at| Some((at, names.map(checker, at)?)));
        if let (Some(at), Some(column)) = (column_at, &column)
            && rules.iter().any(|(other, _)| other == column)
        {
            checker.add(&at.place, format!("there is a rule for column {column} already"));
        }
        if let Some((at, map)) = map
            && names.key_lengths.get(map).is_some_and(|length| *length > 1)
        {
            checker
                .add(&at.place, format!("the key of shard map \"{}\" has several columns, a rule names one", at.value));
        }
        rules.extend(column.zip(map.map(|(_, map)| map)));
    }
    rules
}

fn function(checker: &Checker<'_>, names: &Names<'_>, file: &FunctionFile) -> Option<FunctionConfig> {
    let name_at = checker.required(&file.place, "name", &file.name);
    let name = name_at.and_then(|at| checker.take(at, |text| name::qualified(text)));
    checker.required(&file.place, "runs_on", &file.runs_on);
    let choices = [("any", Where::Any), ("home", Where::Home), ("key", Where::Key)];
    let runs_on = match checker.choice(&file.runs_on, &choices) {
        Some(Where::Key) => by_key(checker, names, file),
        other => {
            for place in [file.argument.as_ref().map(|at| &at.place), file.shard_map.as_ref().map(|at| &at.place)] {
                place
                    .into_iter()
                    .for_each(|place| checker.add(place, "only a function with runs_on = \"key\" has this"));
            }
            other.map(|other| if matches!(other, Where::Any) { RunsOn::Any } else { RunsOn::Home })
        }
    };
    let (schema, name) = name?;
    let stateless = file.stateless.as_ref().is_some_and(|at| at.value);
    Some(FunctionConfig { schema, name, runs_on: runs_on?, stateless })
}

#[derive(Clone, Copy)]
enum Where {
    Any,
    Home,
    Key,
}

/// The argument is counted from 1 in the file, as in `$1`.
fn by_key(checker: &Checker<'_>, names: &Names<'_>, file: &FunctionFile) -> Option<RunsOn> {
    let map_at = checker.required(&file.place, "shard_map", &file.shard_map);
    let argument_at = checker.required(&file.place, "argument", &file.argument);
    let map = map_at.and_then(|at| names.map(checker, at));
    if let (Some(at), Some(map)) = (map_at, map)
        && names.key_lengths.get(map).is_some_and(|length| *length > 1)
    {
        checker
            .add(&at.place, format!("the key of shard map \"{}\" has several columns, a function names one", at.value));
    }
    let position = checker.integer(&file.argument, 1, 100, 1);
    argument_at?;
    Some(RunsOn::Key { argument: usize::try_from(position - 1).ok()?, map: map? })
}
