//! Schema changes, maintenance, TRUNCATE, LOCK: the same text on every shard concerned.
//!
//! Statements are told apart by their tokens, which are certain; the tree is only asked for column lists and queries.

mod checks;
mod cursor;
mod make;

use super::Context;
use super::Effect;
use super::EverywherePlan;
use super::OnShards;
use super::PinReason;
use super::Plan;
use super::RowsPlan;
use super::Target;
use super::UnknownNames;
use super::names;
use super::names::Named;
use super::rows::CHOOSE;
use crate::catalog::Catalog;
use crate::catalog::Placement;
use crate::catalog::Relation;
use crate::catalog::ShardId;
use crate::error::Error;
use crate::sql::Statement;
use crate::sql::command::Command;
pub use cursor::Cursor;

/// What a statement is about, as far as it decides where it runs.
enum Subject {
    /// Relations, by name, that exist.
    Relations { names: Vec<Vec<String>>, if_exists: bool },
    /// Known on every shard: schemas, types, functions, roles, …
    Everywhere,
    /// An index, whose table is the one that counts.
    Indexes { names: Vec<Vec<String>>, if_exists: bool },
    /// Something new.
    Planned(Box<Plan>),
}

/// Plans a schema change or a maintenance command.
pub fn plan(statement: &Statement, context: &Context<'_>) -> Plan {
    let mut cursor = Cursor::new(statement);
    let outside = outside_transaction(statement);
    let effect = match statement.command {
        Command::Lock => Effect::Lock,
        Command::Truncate => Effect::Write,
        Command::Maintenance => Effect::Read,
        _ => Effect::Write,
    };
    let changes_schema = matches!(statement.command, Command::Schema | Command::Truncate);
    if let Some(shard) = context.forced_shard {
        return everywhere(vec![shard], outside, effect, changes_schema);
    }
    let subject = match cursor.word().as_deref() {
        Some("create") => make::create(statement, context, &mut cursor),
        Some("alter") => alter(statement, context, &mut cursor),
        Some("drop") => drop(context, &mut cursor),
        Some("truncate") => listed(&mut cursor, &["table", "only"]),
        Some("lock") => listed(&mut cursor, &["table", "only"]),
        Some("comment") => comment(&mut cursor),
        Some("security") => security_label(&mut cursor),
        Some("grant" | "revoke") => grant(&mut cursor),
        Some("analyze" | "analyse" | "vacuum") => maintained(&mut cursor),
        Some("reindex") => reindex(&mut cursor),
        Some("cluster") => {
            cursor.parenthesised();
            cursor.take("verbose");
            listed(&mut cursor, &["only"])
        }
        Some("refresh") => return refresh(context, &mut cursor),
        _ => Subject::Everywhere,
    };
    match subject {
        Subject::Planned(plan) => *plan,
        Subject::Everywhere => everywhere(context.catalog.all_shards(), outside, effect, changes_schema),
        Subject::Relations { names, if_exists } => match relation_shards(context, &names, if_exists) {
            Ok(shards) => everywhere(shards, outside, effect, changes_schema),
            Err(plan) => *plan,
        },
        Subject::Indexes { names, if_exists } => match index_shards(context, &names, if_exists) {
            Ok(shards) => everywhere(shards, outside, effect, changes_schema),
            Err(plan) => *plan,
        },
    }
}

fn planned(plan: Plan) -> Subject {
    Subject::Planned(Box::new(plan))
}

fn everywhere(shards: Vec<ShardId>, outside_transaction: bool, effect: Effect, changes_schema: bool) -> Plan {
    Plan::Everywhere(EverywherePlan { shards: OnShards::Some(shards), outside_transaction, effect, changes_schema })
}

fn refuse(what: impl Into<String>, hint: &str) -> Plan {
    Plan::Refuse(Error::unsupported(what.into()).hint(hint.to_owned()))
}

/// PostgreSQL refuses it in a transaction block (PreventInTransactionBlock).
fn outside_transaction(statement: &Statement) -> bool {
    let mut cursor = Cursor::new(statement);
    match cursor.word().as_deref() {
        Some("vacuum") => true,
        Some("create") => {
            cursor.take("unique");
            cursor.take("index") && cursor.take("concurrently")
        }
        Some("drop") => cursor.take("index") && cursor.take("concurrently"),
        Some("reindex") => {
            let options = cursor.parenthesised();
            let whole = matches!(cursor.word().as_deref(), Some("schema" | "database" | "system"));
            whole || cursor.take("concurrently") || options.is_some_and(|o| o.contains("concurrently"))
        }
        Some("cluster") => {
            cursor.parenthesised();
            cursor.take("verbose");
            cursor.at_end()
        }
        Some("alter") => cursor.contains("detach") && cursor.contains("concurrently"),
        _ => false,
    }
}

/// Where a relation is.
pub fn shards_of(catalog: &Catalog, relation: &Relation) -> Vec<ShardId> {
    match &relation.placement {
        Placement::Sharded { .. } | Placement::Reference => catalog.all_shards(),
        Placement::Single(shard) => vec![*shard],
        Placement::Derived | Placement::Ambiguous(_) | Placement::Refused(_) | Placement::System => {
            relation.found_on.clone()
        }
    }
}

/// The shards of several relations, which must be the same for all.
fn relation_shards(context: &Context<'_>, names: &[Vec<String>], if_exists: bool) -> Result<Vec<ShardId>, Box<Plan>> {
    let mut all: Option<Vec<ShardId>> = None;
    let mut unknown = Vec::new();
    for name in names {
        let shards = match names::relation(context, name) {
            Named::Relation(relation) => shards_of(context.catalog, &relation),
            Named::Temporary | Named::System => vec![Catalog::HOME],
            Named::Unknown(name) => {
                unknown.push(name);
                continue;
            }
        };
        match &all {
            Some(known) if *known != shards => {
                return Err(Box::new(refuse(
                    "one statement for tables that are on different shards",
                    "Use one statement for each table.",
                )));
            }
            _ => all = Some(shards),
        }
    }
    match all {
        Some(shards) => Ok(shards),
        None if if_exists || unknown.is_empty() => Ok(context.catalog.all_shards()),
        None => Err(Box::new(Plan::Unknown(UnknownNames { names: unknown }))),
    }
}

fn index_shards(context: &Context<'_>, names: &[Vec<String>], if_exists: bool) -> Result<Vec<ShardId>, Box<Plan>> {
    let mut tables = Vec::new();
    for name in names {
        match index_table(context, name) {
            Some(table) => tables.push(vec![table.schema.clone(), table.name.clone()]),
            None => tables.push(name.clone()),
        }
    }
    relation_shards(context, &tables, if_exists)
}

fn index_table<'c>(context: &Context<'c>, name: &[String]) -> Option<&'c crate::catalog::QualifiedName> {
    let find = |schema: &str, name: &str| {
        let key = crate::catalog::QualifiedName { schema: schema.to_owned(), name: name.to_owned() };
        context.catalog.indexes.get(&key)
    };
    match name {
        [name] => context.search_path.iter().find_map(|schema| find(schema, name)),
        [.., schema, name] => find(schema, name),
        [] => None,
    }
}

/// A comma-separated list of relations, after some noise words.
fn listed(cursor: &mut Cursor<'_>, noise: &[&str]) -> Subject {
    let names = cursor.names(noise);
    if names.is_empty() { Subject::Everywhere } else { Subject::Relations { names, if_exists: false } }
}

/// ANALYZE and VACUUM: options, then tables with columns, or none for all.
fn maintained(cursor: &mut Cursor<'_>) -> Subject {
    cursor.parenthesised();
    while ["full", "freeze", "verbose", "analyze", "analyse"].iter().any(|w| cursor.take(w)) {}
    listed(cursor, &["only"])
}

fn reindex(cursor: &mut Cursor<'_>) -> Subject {
    cursor.parenthesised();
    let kind = cursor.word();
    cursor.take("concurrently");
    let names = cursor.names(&[]);
    match kind.as_deref() {
        Some("index") => Subject::Indexes { names, if_exists: false },
        Some("table") => Subject::Relations { names, if_exists: false },
        // REINDEX SYSTEM and DATABASE name the database, which may be called otherwise on each shard
        Some("schema") => Subject::Everywhere,
        _ => planned(refuse("REINDEX DATABASE or SYSTEM", "Use REINDEX SCHEMA or REINDEX TABLE.")),
    }
}

fn refresh(context: &Context<'_>, cursor: &mut Cursor<'_>) -> Plan {
    cursor.take("materialized");
    cursor.take("view");
    cursor.take("concurrently");
    let names = cursor.names(&[]);
    match relation_shards(context, &names, false) {
        Err(plan) => *plan,
        // what it reads is where it was made: a query over several shards cannot be one
        Ok(shards) if shards.len() == 1 => everywhere(shards, false, Effect::Write, false),
        Ok(_) => refuse(
            "REFRESH MATERIALIZED VIEW of a view that is on several shards",
            "Refresh it on each shard with SET shardway.shard, if it only reads reference tables.",
        ),
    }
}

fn comment(cursor: &mut Cursor<'_>) -> Subject {
    cursor.take("on");
    on_object(cursor)
}

fn security_label(cursor: &mut Cursor<'_>) -> Subject {
    cursor.take("label");
    if cursor.take("for") {
        cursor.word();
    }
    cursor.take("on");
    on_object(cursor)
}

/// `TABLE t`, `COLUMN t.c`, `CONSTRAINT c ON t`, …
fn on_object(cursor: &mut Cursor<'_>) -> Subject {
    let kind = cursor.word();
    match kind.as_deref() {
        Some("table" | "view" | "sequence") => one_relation(cursor),
        Some("materialized" | "foreign") => {
            cursor.word();
            one_relation(cursor)
        }
        Some("index") => Subject::Indexes { names: cursor.names(&[]), if_exists: false },
        Some("column") => {
            let mut name = cursor.name().unwrap_or_default();
            name.pop();
            Subject::Relations { names: vec![name], if_exists: false }
        }
        Some("constraint" | "trigger" | "policy" | "rule") => on_table(cursor),
        Some("database" | "tablespace") => {
            planned(refuse("a command on a database or tablespace", "Run it on the servers."))
        }
        _ => Subject::Everywhere,
    }
}

fn one_relation(cursor: &mut Cursor<'_>) -> Subject {
    match cursor.name() {
        Some(name) => Subject::Relations { names: vec![name], if_exists: false },
        None => Subject::Everywhere,
    }
}

/// `name ON [TABLE] t`
fn on_table(cursor: &mut Cursor<'_>) -> Subject {
    let if_exists = cursor.if_exists();
    cursor.name();
    if !cursor.take("on") || cursor.take("domain") {
        return Subject::Everywhere;
    }
    match cursor.name() {
        Some(name) => Subject::Relations { names: vec![name], if_exists },
        None => Subject::Everywhere,
    }
}

fn grant(cursor: &mut Cursor<'_>) -> Subject {
    if !cursor.skip_to("on") {
        // membership in a role
        return Subject::Everywhere;
    }
    let kinds = [
        "schema",
        "function",
        "procedure",
        "routine",
        "all",
        "language",
        "large",
        "type",
        "domain",
        "foreign",
        "parameter",
    ];
    if cursor.is_any(&kinds) {
        return Subject::Everywhere;
    }
    if cursor.is_any(&["database", "tablespace"]) {
        return planned(refuse("GRANT or REVOKE on a database or tablespace", "Run it on the servers."));
    }
    if !cursor.take("table") {
        cursor.take("sequence");
    }
    listed(cursor, &[])
}

fn alter(statement: &Statement, context: &Context<'_>, cursor: &mut Cursor<'_>) -> Subject {
    match cursor.word().as_deref() {
        Some("table") => alter_table(statement, context, cursor),
        Some("view" | "sequence") => {
            let if_exists = cursor.if_exists();
            named(cursor, if_exists)
        }
        Some("materialized") => {
            cursor.word();
            let if_exists = cursor.if_exists();
            named(cursor, if_exists)
        }
        Some("foreign") if cursor.take("table") => {
            let if_exists = cursor.if_exists();
            cursor.take("only");
            named(cursor, if_exists)
        }
        Some("index") => {
            let if_exists = cursor.if_exists();
            match cursor.name() {
                Some(name) => Subject::Indexes { names: vec![name], if_exists },
                None => Subject::Everywhere,
            }
        }
        Some("trigger" | "policy" | "rule") => on_table(cursor),
        Some("system") => planned(refuse("ALTER SYSTEM", "Run it on each server.")),
        Some("database" | "tablespace") => {
            planned(refuse("ALTER DATABASE or ALTER TABLESPACE", "Run it on each server."))
        }
        Some("subscription") => planned(refuse("subscriptions", CHOOSE)),
        _ => Subject::Everywhere,
    }
}

fn named(cursor: &mut Cursor<'_>, if_exists: bool) -> Subject {
    match cursor.name() {
        Some(name) => Subject::Relations { names: vec![name], if_exists },
        None => Subject::Everywhere,
    }
}

fn alter_table(statement: &Statement, context: &Context<'_>, cursor: &mut Cursor<'_>) -> Subject {
    if cursor.take("all") {
        return Subject::Everywhere;
    }
    let if_exists = cursor.if_exists();
    cursor.take("only");
    let Some(name) = cursor.name() else { return Subject::Everywhere };
    if let Named::Relation(relation) = names::relation(context, &name)
        && context.catalog.shards.len() > 1
        && let Err(error) = checks::altered(statement, context, &relation, cursor)
    {
        return planned(Plan::Refuse(error));
    }
    if matches!(names::relation(context, &name), Named::Unknown(_)) && index_table(context, &name).is_some() {
        // ALTER TABLE works on indexes too
        return Subject::Indexes { names: vec![name], if_exists };
    }
    Subject::Relations { names: vec![name], if_exists }
}

fn drop(context: &Context<'_>, cursor: &mut Cursor<'_>) -> Subject {
    let kind = cursor.word();
    match kind.as_deref() {
        Some("materialized") => {
            cursor.take("view");
        }
        Some("foreign") if !cursor.take("table") => return Subject::Everywhere,
        Some("trigger" | "policy" | "rule") => return on_table(cursor),
        Some("database" | "tablespace") => {
            return planned(refuse("DROP DATABASE or DROP TABLESPACE", "Run it on the server."));
        }
        Some("subscription") => return planned(refuse("subscriptions", CHOOSE)),
        Some("table" | "view" | "sequence" | "index" | "foreign") => {}
        _ => return Subject::Everywhere,
    }
    cursor.take("concurrently");
    let if_exists = cursor.if_exists();
    let names = cursor.names(&[]);
    if kind.as_deref() == Some("index") {
        return Subject::Indexes { names, if_exists };
    }
    let temporary = names.iter().all(|n| matches!(names::relation(context, n), Named::Temporary));
    if temporary && !names.is_empty() {
        return planned(Plan::Rows(RowsPlan::at(Target::Home, Effect::Write)));
    }
    Subject::Relations { names, if_exists }
}

/// A plan for what makes a temporary table: the session keeps its home connection.
fn temporary(name: Vec<String>) -> Plan {
    let mut plan = RowsPlan::at(Target::Home, Effect::Write);
    plan.pins = Some(PinReason::TemporaryTable);
    plan.makes.temporary = name.last().cloned().into_iter().collect();
    Plan::Rows(plan)
}
