//! ALTER: where the thing is, and whether a table's rows stay where they can be found.

use super::Decided;
use super::Decision;
use super::Job;
use super::Stop;
use super::column;
use super::constraints;
use super::constraints::Place;
use super::create;
use super::cursor::Cursor;
use super::decided;
use super::objects;
use super::objects::EVERYWHERE_KINDS;
use super::objects::SERVER_KINDS;
use super::place;
use super::place::Use;
use super::refused;
use super::varies::varies;
use crate::catalog::Placement;
use crate::catalog::QualifiedName;
use crate::catalog::Relation;
use crate::catalog::RelationKind;
use crate::error::Error;
use crate::plan::OnShards;
use crate::plan::names;
use crate::plan::names::Named;
use crate::plan::writes::moment;
use crate::sql::lexer::Token;

/// ALTER on a database of several shards.
pub fn plan(job: &Job<'_>) -> Decided {
    let mut rest = job.cursor;
    rest.skip(1);
    if ["trigger", "rule", "policy"].iter().any(|word| rest.word(word)) {
        rest.words(&["if", "exists"]);
        rest.name().filter(|_| rest.word("on")).ok_or_else(|| job.unread())?;
        let table = rest.qualified().ok_or_else(|| job.unread())?;
        return decided(job, &[table], Use::Change);
    }
    if rest.word("statistics") {
        return objects::statistics(job, rest);
    }
    let sequence = rest.word_at(0, "sequence");
    if objects::relation_kind(&mut rest) {
        return relation(job, rest, sequence);
    }
    if let Some(kind) = objects::kind(&mut rest, &SERVER_KINDS) {
        return Err(refused(job, &format!("ALTER {kind}")));
    }
    match objects::kind(&mut rest, &EVERYWHERE_KINDS) {
        Some(kind) if kind == "LARGE OBJECT" => Err(refused(job, "ALTER LARGE OBJECT")),
        Some(kind) if kind == "SCHEMA" => schema(job, rest),
        Some(_) => Ok(Decision::Everywhere(OnShards::All)),
        None => Err(job.unread()),
    }
}

/// Tables are listed by their schemas' names too.
fn schema(job: &Job<'_>, mut rest: Cursor<'_>) -> Decided {
    let name = rest.name().ok_or_else(|| job.unread())?;
    let new = rest.words(&["rename", "to"]).then(|| rest.name()).flatten();
    let listed = job.context.catalog.listed.keys().find(|table| new.is_some() && table.schema == name);
    let taken = job.context.catalog.listed.keys().find(|table| Some(&table.schema) == new.as_ref());
    match listed.or(taken) {
        None => Ok(Decision::Everywhere(OnShards::All)),
        Some(table) => Err(Error::unsupported(format!("renaming schema {name}"))
            .detail(format!("The configuration lists {table}, and where a table is follows from its name."))
            .hint("Change the configuration and the name together, on each shard, while nobody uses the tables.")
            .into()),
    }
}

/// ALTER {TABLE | VIEW | SEQUENCE | INDEX | …} [IF EXISTS] [ONLY] name [*] action, …; what stands alone (RENAME, SET
/// SCHEMA, ATTACH) is a list of one.
fn relation(job: &Job<'_>, mut rest: Cursor<'_>, sequence: bool) -> Decided {
    if rest.words(&["all", "in", "tablespace"]) {
        return Ok(Decision::Everywhere(OnShards::All));
    }
    let if_exists = rest.words(&["if", "exists"]);
    let only = rest.word("only");
    let name = match rest.qualified() {
        Some(name) => name,
        None if only => rest.parens().and_then(|mut inner| inner.qualified()).ok_or_else(|| job.unread())?,
        None => return Err(job.unread()),
    };
    rest.symbol("*");
    let usage = if if_exists { Use::Drop { if_exists } } else { Use::Change };
    let place = decided(job, std::slice::from_ref(&name), usage)?;
    let relation = match names::relation(job.context, &name) {
        Named::Relation(relation) => relation,
        Named::Temporary => return temporary(job, place, rest),
        Named::System | Named::Unknown(_) => return Ok(place),
    };
    place::of_relation(&relation, job.context)?;
    if sequence && let Some(owner) = create::owner(rest) {
        owned(job, &relation, &owner)?;
    }
    for action in rest.items() {
        checked(job, &relation, action)?;
    }
    Ok(place)
}

/// The sharded table that gets a sequence: ADD GENERATED … AS IDENTITY, and a sequence's OWNED BY.
pub fn numbered(job: &Job<'_>) -> Option<QualifiedName> {
    let mut rest = job.cursor;
    if !job.several() || rest.one_of(&["alter", "create"]).is_none() {
        return None;
    }
    let table = if rest.word("table") {
        rest.words(&["if", "exists"]);
        rest.word("only");
        let table = rest.qualified()?;
        (rest.has("generated") && rest.has("identity")).then_some(table)?
    } else {
        rest.word("sequence").then(|| create::owner(rest)).flatten()?
    };
    match names::relation(job.context, &table) {
        Named::Relation(table) if matches!(table.placement, Placement::Sharded { .. }) => Some(table.name.clone()),
        _ => None,
    }
}

/// A temporary table may get another name, by which the session must know it.
fn temporary(job: &Job<'_>, place: Decision, mut rest: Cursor<'_>) -> Decided {
    if !rest.words(&["rename", "to"]) {
        return Ok(place);
    }
    let new = rest.name().ok_or_else(|| job.unread())?;
    Ok(create::rows_decision(super::temporary(job, &new)))
}

/// A sequence is where the table is that owns it.
fn owned(job: &Job<'_>, sequence: &Relation, owner: &[String]) -> Result<(), Stop> {
    let Named::Relation(table) = names::relation(job.context, owner) else { return Ok(()) };
    let there = place::of_relation(&table, job.context)?;
    if place::of_relation(sequence, job.context)? == there {
        return Ok(());
    }
    Err(Error::unsupported(format!(
        "sequence {} owned by table {}, which is not on the same shards",
        sequence.name, table.name
    ))
    .hint("Create it with OWNED BY from the start, so that it is made where the table is.")
    .into())
}

/// The key's column names; none of a table that is not sharded.
fn key_of(relation: &Relation) -> Vec<String> {
    match Place::of(relation) {
        Some(Place::Sharded { key, .. }) => key,
        _ => Vec::new(),
    }
}

fn checked(job: &Job<'_>, relation: &Relation, action: Cursor<'_>) -> Result<(), Stop> {
    let mut rest = action;
    if rest.word("rename") {
        return rename(job, relation, rest);
    }
    if rest.words(&["set", "schema"]) {
        let schema = rest.name().ok_or_else(|| job.unread())?;
        return renamed(job, relation, QualifiedName { schema, name: relation.name.name.clone() });
    }
    if rest.word("add") {
        return add(job, relation, rest);
    }
    if rest.word("drop") {
        return drop(job, relation, rest);
    }
    if rest.word("alter") {
        return alter_column(job, relation, rest);
    }
    if rest.words(&["attach", "partition"]) || rest.word("inherit") {
        return attach(job, relation, rest, action.word_at(0, "inherit"));
    }
    if rest.words(&["detach", "partition"]) {
        let Some(parts) = rest.qualified() else { return Err(job.unread()) };
        return match names::relation(job.context, &parts) {
            Named::Relation(partition) => detach(job, &partition),
            _ => Ok(()),
        };
    }
    if rest.words(&["no", "inherit"]) {
        return detach(job, relation);
    }
    const HARMLESS: [&str; 22] = [
        "set",
        "reset",
        "owner",
        "enable",
        "disable",
        "force",
        "no",
        "validate",
        "cluster",
        "replica",
        "depends",
        "restart",
        "increment",
        "minvalue",
        "maxvalue",
        "start",
        "cache",
        "cycle",
        "owned",
        "as",
        "options",
        "not",
    ];
    let known = HARMLESS.iter().any(|word| action.word_at(0, word)) || action.is_done();
    if known || action.word_at(0, "of") || matches!(relation.placement, Placement::Single(_)) {
        return Ok(());
    }
    Err(job.unread())
}

/// RENAME TO name, RENAME [COLUMN] a TO b, RENAME CONSTRAINT a TO b
fn rename(job: &Job<'_>, relation: &Relation, mut rest: Cursor<'_>) -> Result<(), Stop> {
    if rest.word("to") {
        let name = rest.name().ok_or_else(|| job.unread())?;
        return renamed(job, relation, QualifiedName { schema: relation.name.schema.clone(), name });
    }
    if rest.word("constraint") {
        return Ok(());
    }
    // COLUMN may be left out
    if rest.word_at(0, "column") && !rest.word_at(1, "to") {
        rest.skip(1);
    }
    let old = rest.name().filter(|_| rest.word("to")).ok_or_else(|| job.unread())?;
    let new = rest.name().ok_or_else(|| job.unread())?;
    key_column(relation, &old, "renaming")?;
    let columns = relation.columns.iter().map(|c| if c.name == old { new.clone() } else { c.name.clone() });
    same_rule(job, relation, &columns.collect::<Vec<_>>())
}

/// A listed table is listed by its name.
fn renamed(job: &Job<'_>, relation: &Relation, new: QualifiedName) -> Result<(), Stop> {
    let listed = &job.context.catalog.listed;
    let name = match (listed.contains_key(&relation.name), listed.contains_key(&new)) {
        (true, _) => &relation.name,
        (_, true) => &new,
        _ => return Ok(()),
    };
    Err(Error::unsupported(format!("renaming table {} to {new}", relation.name))
        .detail(format!("The configuration lists {name}, and where a table is follows from its name."))
        .hint("Change the configuration and the name together, on each shard, while nobody uses the table.")
        .into())
}

/// # Errors
/// It is a column of the shard key.
fn key_column(relation: &Relation, column: &str, doing: &str) -> Result<(), Stop> {
    if !key_of(relation).iter().any(|key| key == column) {
        return Ok(());
    }
    Err(Error::unsupported(format!("{doing} column {column}, which is in the shard key of table {}", relation.name))
        .hint("Create a table with the new key, and copy the rows.")
        .into())
}

/// Whether a table is still sharded as it is, once it has these columns.
fn same_rule(job: &Job<'_>, relation: &Relation, columns: &[String]) -> Result<(), Stop> {
    let catalog = job.context.catalog;
    if relation.kind == RelationKind::View || catalog.column_rules.is_empty() {
        return Ok(());
    }
    let before = catalog.listed_place(&relation.name, relation.columns.iter().map(|c| c.name.as_str()));
    let after = catalog.listed_place(&relation.name, columns.iter().map(String::as_str));
    if before == after {
        return Ok(());
    }
    Err(Error::unsupported(format!("a column of table {} by which tables are sharded", relation.name))
        .detail("A rule of the configuration says so, and the rows that are there would be in other places.")
        .hint("List the table in the configuration, or create another one with the column.")
        .into())
}

/// ADD [COLUMN] [IF NOT EXISTS] name type …, ADD [CONSTRAINT name] constraint
fn add(job: &Job<'_>, relation: &Relation, mut rest: Cursor<'_>) -> Result<(), Stop> {
    if relation.kind == RelationKind::View {
        return Ok(());
    }
    let Some(place) = Place::of(relation) else { return Err(job.unread()) };
    let is_constraint =
        ["constraint", "check", "unique", "primary", "foreign", "not"].iter().any(|w| rest.word_at(0, w))
            || (rest.word_at(0, "exclude") && (rest.word_at(1, "using") || rest.symbol_at(1, "(")));
    if is_constraint {
        let constraint = column::table_constraint(rest).ok_or_else(|| job.unread())?;
        let own = [constraint.clone()];
        let table = constraints::Table { name: &relation.name, place: &place, own: &own };
        return constraints::check(job, &table, &constraint);
    }
    if rest.word_at(0, "column") && !rest.is_done() {
        rest.skip(1);
    }
    if rest.words(&["if", "not", "exists"]) {
        let mut name = rest;
        let there = name.name().is_some_and(|name| relation.columns.iter().any(|c| c.name == name));
        if there {
            return Ok(());
        }
    }
    let (spec, constraints) = column::column(rest).ok_or_else(|| job.unread())?;
    let mut columns: Vec<String> = relation.columns.iter().map(|c| c.name.clone()).collect();
    columns.push(spec.name.clone());
    same_rule(job, relation, &columns)?;
    let table = constraints::Table { name: &relation.name, place: &place, own: &constraints };
    for constraint in &constraints {
        constraints::check(job, &table, constraint)?;
    }
    filled(job, relation, &spec, rest)
}

/// A new column's value in the rows that are there must not depend on the shard.
fn filled(job: &Job<'_>, relation: &Relation, spec: &column::ColumnSpec, definition: Cursor<'_>) -> Result<(), Stop> {
    if matches!(relation.placement, Placement::Single(_)) {
        return Ok(());
    }
    let what = if column::is_serial(&spec.type_text) {
        Some(spec.type_text.to_ascii_lowercase())
    } else if definition.has("identity") {
        Some("GENERATED AS IDENTITY".to_owned())
    } else {
        let found = varies(&definition, job.context);
        if found.is_some() && without_times(&definition, |timeless| varies(timeless, job.context)).is_none() {
            job.stamped.replace(Some(relation.name.clone()));
            return Ok(());
        }
        found
    };
    let Some(what) = what else { return Ok(()) };
    Err(Error::unsupported(format!("adding column {} with {what} to table {}", spec.name, relation.name))
        .detail("Each shard would fill the rows that it has with values of its own.")
        .hint("Add the column without it, fill the rows, then use ALTER COLUMN … SET DEFAULT.")
        .into())
}

/// Reads a definition as if the calls that tell the transaction's time were not there.
fn without_times<T>(definition: &Cursor<'_>, read: impl FnOnce(&Cursor<'_>) -> T) -> T {
    let calls = moment::moments(definition.text, definition.tokens);
    let is_call = |n: &usize| calls.iter().any(|call| (call.first..=call.last).contains(n));
    let tokens: Vec<Token> =
        definition.tokens.iter().enumerate().filter(|(n, _)| !is_call(n)).map(|(_, token)| *token).collect();
    read(&Cursor { text: definition.text, tokens: &tokens })
}

/// DROP [COLUMN] [IF EXISTS] name, DROP CONSTRAINT …
fn drop(job: &Job<'_>, relation: &Relation, mut rest: Cursor<'_>) -> Result<(), Stop> {
    if rest.word_at(0, "constraint") && rest.tokens.len() > 1 {
        return Ok(());
    }
    if rest.word_at(0, "column") {
        rest.skip(1);
    }
    rest.words(&["if", "exists"]);
    let column = rest.name().ok_or_else(|| job.unread())?;
    key_column(relation, &column, "dropping")?;
    let columns = relation.columns.iter().map(|c| c.name.clone()).filter(|name| *name != column);
    same_rule(job, relation, &columns.collect::<Vec<_>>())
}

/// ALTER [COLUMN] name {[SET DATA] TYPE …, SET DEFAULT …, …}, ALTER CONSTRAINT …
fn alter_column(job: &Job<'_>, relation: &Relation, mut rest: Cursor<'_>) -> Result<(), Stop> {
    if rest.word_at(0, "constraint") && rest.tokens.len() > 1 {
        return Ok(());
    }
    if rest.word_at(0, "column") {
        rest.skip(1);
    }
    let Some(column) = rest.name() else {
        // a column of an index, by its number
        return if rest.is_done() { Err(job.unread()) } else { Ok(()) };
    };
    if rest.word("type") || rest.words(&["set", "data", "type"]) {
        key_column(relation, &column, "changing the type of")?;
        if let Some(using) = rest.find("using")
            && !matches!(relation.placement, Placement::Single(_))
            && let Some(what) = varies(&rest.part(using + 1, rest.tokens.len()), job.context)
        {
            return Err(Error::unsupported(format!("changing column {column} of table {} by {what}", relation.name))
                .detail("Each shard would give the rows that it has values of its own.")
                .hint("Use an expression that is the same on all shards.")
                .into());
        }
    }
    Ok(())
}

/// ATTACH PARTITION child …, and INHERIT parent.
fn attach(job: &Job<'_>, relation: &Relation, mut rest: Cursor<'_>, is_child: bool) -> Result<(), Stop> {
    let parts = rest.qualified().ok_or_else(|| job.unread())?;
    if relation.kind != RelationKind::Partitioned && relation.kind != RelationKind::Table {
        return Ok(());
    }
    let other = match names::relation(job.context, &parts) {
        Named::Relation(other) => other,
        Named::Unknown(name) => {
            // ALTER INDEX … ATTACH PARTITION index
            return if place::index_table(&parts, job.context).is_some() {
                Ok(())
            } else {
                Err(Stop::Unknown(vec![name]))
            };
        }
        Named::Temporary | Named::System => return Err(job.unread()),
    };
    place::of_relation(&other, job.context)?;
    if Place::of(relation) == Place::of(&other) {
        return Ok(());
    }
    let (parent, child) = if is_child { (&other.name, &relation.name) } else { (&relation.name, &other.name) };
    Err(Error::unsupported(format!("table {child} below {parent}, which is not on the same shards by the same key"))
        .hint("Create it with PARTITION OF or INHERITS, or list it as its parent is.")
        .into())
}

/// A table that loses its parent must be listed as the parent is, or its rows cannot be found.
fn detach(job: &Job<'_>, child: &Relation) -> Result<(), Stop> {
    let catalog = job.context.catalog;
    let own = catalog.listed_place(&child.name, child.columns.iter().map(|c| c.name.as_str())).map(Place::listed);
    let place = Place::of(child);
    let stays = match (&own, &place) {
        (Some(own), Some(place)) => own == place,
        (None, Some(Place::Single(_))) => true,
        (None, Some(Place::Reference)) => catalog.unlisted == crate::catalog::Unlisted::Reference,
        _ => false,
    };
    if stays {
        return Ok(());
    }
    Err(Error::unsupported(format!("taking table {} out of its parent", child.name))
        .detail("Where it is follows from its parent, and it is not listed itself.")
        .hint("List it in the configuration as its parent is, then repeat this.")
        .into())
}
