//! CREATE TABLE: where the new table is, and whether its keys and constraints can hold over several shards.

use super::Decided;
use super::Decision;
use super::Job;
use super::Stop;
use super::column;
use super::column::ColumnSpec;
use super::column::Elements;
use super::constraints;
use super::constraints::Place;
use super::create::Queried;
use super::create::not_listed;
use super::create::query_plan;
use super::create::rows_decision;
use super::create::runs_on;
use super::create::stopped;
use super::cursor::Cursor;
use super::only_shard;
use super::place;
use super::reads;
use super::temporary;
use crate::catalog::Catalog;
use crate::catalog::ListedTable;
use crate::catalog::MapId;
use crate::catalog::QualifiedName;
use crate::catalog::Relation;
use crate::catalog::RelationKind;
use crate::catalog::ShardId;
use crate::catalog::Unlisted;
use crate::catalog::build::fits;
use crate::error::Error;
use crate::error::SqlState;
use crate::plan::Effect;
use crate::plan::OnShards;
use crate::plan::PinReason;
use crate::plan::Target;
use crate::plan::names;
use crate::plan::names::Named;
use std::sync::Arc;

/// `invalid_table_definition`
const INVALID_TABLE: SqlState = SqlState::new(b"42P16");

/// What CREATE TABLE says of a table that is not made of a query.
struct NewTable {
    name: Vec<String>,
    /// `None`: of a type, whose columns nobody knows here.
    elements: Option<Elements>,
    inherits: Vec<Vec<String>>,
    partition_of: Option<Vec<String>>,
}

fn read(rest: Cursor<'_>) -> Option<NewTable> {
    let mut rest = rest;
    rest.words(&["if", "not", "exists"]);
    let name = rest.qualified()?;
    let mut table = NewTable { name, elements: Some(Elements::default()), inherits: Vec::new(), partition_of: None };
    if rest.word("of") {
        rest.qualified()?;
        table.elements = None;
    } else {
        if rest.words(&["partition", "of"]) {
            table.partition_of = Some(rest.qualified()?);
        }
        match rest.parens() {
            Some(elements) => table.elements = Some(column::elements(&elements)?),
            None if table.partition_of.is_some() => {}
            None => return None,
        }
    }
    if rest.word("inherits") {
        let parents = rest.parens()?;
        table.inherits = place::name_list(&parents, |_| {})?;
    }
    Some(table)
}

/// CREATE [TEMPORARY] TABLE on a database of several shards, from behind the word TABLE.
pub fn create(job: &Job<'_>, is_temporary: bool, rest: Cursor<'_>) -> Decided {
    if let Some(queried) = Queried::read(rest) {
        return made_of_query(job, &queried, is_temporary);
    }
    let table = read(rest).ok_or_else(|| job.unread())?;
    let Some(name) = place::created(&table.name, job.context).filter(|_| !is_temporary) else {
        return temporary_table(job, &table);
    };
    if let Some(existing) = place::existing(&name, job.context) {
        return Ok(Decision::Everywhere(place::of_relation(existing, job.context)?));
    }
    let parents = parents(job, &table)?;
    let columns = all_columns(job, &table, &parents)?;
    let place = new_place(job, &name, &columns, &parents)?;
    check_sources(job, &name, &table, &place)?;
    if let (Place::Sharded { map, key }, Some(columns)) = (&place, &columns) {
        check_key(job, &name, *map, key, columns)?;
    }
    if let Some(elements) = &table.elements {
        let this = constraints::Table { name: &name, place: &place, own: &elements.constraints };
        for constraint in &elements.constraints {
            constraints::check(job, &this, constraint)?;
        }
    }
    Ok(Decision::Everywhere(place.shards()))
}

/// The new table of a CREATE TABLE, if it is sharded by columns that are written in it or by its name.
pub fn sharded_name(job: &Job<'_>) -> Option<QualifiedName> {
    let mut rest = job.cursor;
    let _ = rest.words(&["create", "table"]) || rest.words(&["create", "unlogged", "table"]);
    if !job.several() || rest.tokens.len() == job.cursor.tokens.len() {
        return None;
    }
    let table = read(rest)?;
    let name = place::created(&table.name, job.context)?;
    let parents = parents(job, &table).ok()?;
    let columns = all_columns(job, &table, &parents).ok()?;
    let place = new_place(job, &name, &columns, &parents).ok()?;
    let is_new = place::existing(&name, job.context).is_none();
    (is_new && matches!(place, Place::Sharded { .. })).then_some(name)
}

/// A temporary table is on the home connection, with all that it is made of.
fn temporary_table(job: &Job<'_>, table: &NewTable) -> Decided {
    let likes = table.elements.iter().flat_map(|e| e.likes.iter().map(|like| &like.table));
    for source in likes.clone() {
        if let Named::Relation(relation) = names::relation(job.context, source) {
            let place = place::of_relation(&relation, job.context)?;
            if place != OnShards::All && place != place::home() {
                let message = format!("a temporary table like {}, which is not on the home shard", relation.name);
                return Err(Error::unsupported(message).into());
            }
        }
    }
    if table.inherits.iter().any(|parent| matches!(names::relation(job.context, parent), Named::Relation(_))) {
        return Err(Error::unsupported("a temporary table that inherits from a table of the database")
            .hint("Use LIKE instead of INHERITS.")
            .into());
    }
    Ok(rows_decision(temporary(job, table.name.last().map_or("", String::as_str))))
}

/// The tables that it is a partition or a child of.
fn parents(job: &Job<'_>, table: &NewTable) -> Result<Vec<Arc<Relation>>, Stop> {
    let named = table.partition_of.iter().chain(&table.inherits);
    named.map(|parts| known(job, parts)).collect()
}

fn known(job: &Job<'_>, parts: &[String]) -> Result<Arc<Relation>, Stop> {
    match names::relation(job.context, parts) {
        Named::Relation(relation) => Ok(relation),
        Named::Unknown(name) => Err(Stop::Unknown(vec![name])),
        Named::Temporary | Named::System => Err(Error::unsupported(format!(
            "a table made after {}, which is no table of the database",
            parts.join(".")
        ))
        .into()),
    }
}

/// Its columns, those of parents and LIKE first; `None` if they are not known.
fn all_columns(job: &Job<'_>, table: &NewTable, parents: &[Arc<Relation>]) -> Result<Option<Vec<ColumnSpec>>, Stop> {
    let Some(elements) = &table.elements else { return Ok(None) };
    let mut columns: Vec<ColumnSpec> = parents.iter().flat_map(|parent| column::of_relation(parent)).collect();
    let mut own = Vec::new();
    for like in &elements.likes {
        own.extend(column::of_relation(&*known(job, &like.table)?).into_iter().map(|column| (like.at, column)));
    }
    let mut mixed: Vec<(usize, ColumnSpec)> = elements.columns.clone();
    mixed.extend(own);
    mixed.sort_by_key(|(at, _)| *at);
    for (_, column) in mixed {
        // in a partition a column's name stands for itself, with further constraints
        match columns.iter_mut().find(|known| known.name == column.name) {
            Some(known) if table.partition_of.is_none() => *known = column,
            Some(_) => {}
            None => columns.push(column),
        }
    }
    Ok(Some(columns))
}

/// Where a new table is: with its parents, else as the configuration says.
fn new_place(
    job: &Job<'_>,
    name: &QualifiedName,
    columns: &Option<Vec<ColumnSpec>>,
    parents: &[Arc<Relation>],
) -> Result<Place, Stop> {
    let catalog = job.context.catalog;
    let unknown_columns = columns.is_none() && !catalog.column_rules.is_empty() && !catalog.listed.contains_key(name);
    if unknown_columns {
        return Err(Error::unsupported(format!("table {name} of a type, while tables are sharded by column name"))
            .hint("List the table in the configuration, or write its columns out.")
            .into());
    }
    let names = columns.iter().flatten().map(|column| column.name.as_str());
    let listed = catalog.listed_place(name, names).map(Place::listed);
    let mut above = None;
    for parent in parents {
        place::of_relation(parent, job.context)?;
        let place = Place::of(parent).ok_or_else(|| job.unread())?;
        if above.as_ref().is_some_and(|above| *above != place) {
            return Err(Error::unsupported(format!("table {name} with parents that are not on the same shards")).into());
        }
        above = Some(place);
    }
    match (above, listed) {
        (Some(above), Some(listed)) if above != listed => {
            Err(Error::unsupported(format!("table {name}, which is listed otherwise than its parent"))
                .hint("List only the parent: partitions and children are where it is.")
                .into())
        }
        (Some(place), _) | (None, Some(place)) => Ok(place),
        (None, None) => unlisted(job, name),
    }
}

fn unlisted(job: &Job<'_>, name: &QualifiedName) -> Result<Place, Stop> {
    match job.context.catalog.unlisted {
        Unlisted::Single => Ok(Place::Single(Catalog::HOME)),
        Unlisted::Reference => Ok(Place::Reference),
        Unlisted::Refuse => Err(not_listed("table", name).into()),
    }
}

/// What LIKE copies must be where the table is made, and its unique indexes must hold there.
fn check_sources(job: &Job<'_>, name: &QualifiedName, table: &NewTable, place: &Place) -> Result<(), Stop> {
    for like in table.elements.iter().flat_map(|elements| &elements.likes) {
        let source = known(job, &like.table)?;
        let there = place::of_relation(&source, job.context)?;
        if there != OnShards::All && there != place.shards() {
            return Err(Error::unsupported(format!(
                "table {name} like {}, which is not on all of its shards",
                source.name
            ))
            .hint("Write its columns out.")
            .into());
        }
        let same_key = matches!((place, Place::of(&source)), (a, Some(b)) if *a == b);
        if like.indexes && matches!(place, Place::Sharded { .. }) && !same_key {
            return Err(Error::unsupported(format!(
                "sharded table {name} with the indexes of {}, which has another shard key",
                source.name
            ))
            .hint("Leave out INCLUDING INDEXES, and write its constraints out.")
            .into());
        }
    }
    Ok(())
}

/// The key columns are there, with types of the map.
fn check_key(
    job: &Job<'_>,
    name: &QualifiedName,
    map: MapId,
    key: &[String],
    columns: &[ColumnSpec],
) -> Result<(), Stop> {
    let Some(map) = job.context.catalog.map(map) else {
        return Err(Error::internal(format!("table {name} names a shard map that does not exist")).into());
    };
    if key.len() != map.key.len() {
        let detail = format!("The shard map has {} key columns, the table {}.", map.key.len(), key.len());
        return Err(Error::unsupported(format!("table {name} does not fit shard map {}", map.name))
            .detail(detail)
            .hint("Correct the configuration.")
            .into());
    }
    for (column, expected) in key.iter().zip(&map.key) {
        let Some(found) = columns.iter().find(|c| c.name == *column) else {
            return Err(Error::new(
                INVALID_TABLE,
                format!("table {name} has no column {column}, which is its shard key"),
            )
            .hint("Add the column, or correct the table's key in the configuration.")
            .into());
        };
        if !found.key_type.is_some_and(|found| fits(*expected, found)) {
            let message = format!(
                "shard key column {column} of table {name} has type {}, shard map {} has {}",
                found.type_text,
                map.name,
                expected.name()
            );
            return Err(Error::new(INVALID_TABLE, message).hint("Use the shard map's type.").into());
        }
        if let Some(collation) = &found.collation {
            let message = format!("collation {collation} of shard key column {column} of table {name}");
            return Err(Error::unsupported(message)
                .detail("Values that are equal but not the same bytes would be on different shards, and it is not known here whether this collation has such.")
                .hint("Leave the collation out, or use \"C\" or \"pg_catalog\".\"…\".")
                .into());
        }
        if found.computed {
            return Err(Error::new(INVALID_TABLE, format!("shard key column {column} of table {name} is generated"))
                .hint("Make it a plain column.")
                .into());
        }
    }
    Ok(())
}

/// CREATE TABLE … AS query and CREATE MATERIALIZED VIEW: whole where the query runs.
pub fn made_of_query(job: &Job<'_>, queried: &Queried<'_>, is_temporary: bool) -> Decided {
    if queried.query.word_at(0, "execute") {
        return Err(Error::unsupported("CREATE TABLE AS EXECUTE").hint("Write the query itself.").into());
    }
    let query = reads::inner(&queried.query, job.context)?;
    let created = place::created(&queried.name, job.context).filter(|_| !is_temporary);
    let mut plan = query_plan(job, queried, &query)?;
    if let Some(name) = &created
        && job.several()
        && let Some(existing) = place::existing(name, job.context)
    {
        return Ok(Decision::Everywhere(place::of_relation(existing, job.context)?));
    }
    let shard = match (&created, job.several()) {
        (_, false) => only_shard(job),
        (None, true) => chosen(&plan.target, Some(Catalog::HOME))?,
        (Some(name), true) => {
            let reads = reads::of_query(&query, job.context);
            if let Some(stop) = stopped(&reads) {
                return Err(stop);
            }
            chosen(&plan.target, made_at(job, name, queried, &reads)?)?
        }
    };
    plan.target = Target::Shard(shard);
    plan.effect = Effect::Write;
    plan.copy = None;
    match created {
        Some(_) => plan.makes.changes_schema = true,
        None => {
            plan.makes.temporary = queried.name.last().cloned().into_iter().collect();
            plan.pins = Some(PinReason::TemporaryTable);
        }
    }
    Ok(rows_decision(plan))
}

/// The shard that the query runs on, which must be the table's where that is decided.
fn chosen(target: &Target, place: Option<ShardId>) -> Result<ShardId, Stop> {
    match (runs_on(target), place) {
        (Some(None), place) => Ok(place.unwrap_or(Catalog::HOME)),
        (Some(Some(shard)), None) => Ok(shard),
        (Some(Some(shard)), Some(place)) if shard == place => Ok(shard),
        _ => Err(Error::unsupported("a table made of a query that does not run whole on its shard")
            .hint("Create the table first, then fill it with INSERT.")
            .into()),
    }
}

/// Where the configuration wants a table that is made of a query; `None`: where the query is.
fn made_at(
    job: &Job<'_>,
    name: &QualifiedName,
    queried: &Queried<'_>,
    reads: &reads::Reads,
) -> Result<Option<ShardId>, Stop> {
    let catalog = job.context.catalog;
    let columns = match (&queried.columns, &reads.columns) {
        (Some(given), Some(columns)) => {
            Some(given.iter().chain(columns.iter().skip(given.len())).cloned().collect::<Vec<_>>())
        }
        (None, columns) => columns.clone(),
        (Some(_), None) => None,
    };
    if columns.is_none() && !catalog.column_rules.is_empty() && !catalog.listed.contains_key(name) {
        return Err(Error::unsupported(format!("table {name} of a query whose columns are not known here"))
            .detail("Tables are sharded by column name in this database.")
            .hint("Name the columns, or create the table first and fill it with INSERT.")
            .into());
    }
    let listed = catalog.listed_place(name, columns.iter().flatten().map(String::as_str));
    let spread = |what: &str| {
        Error::unsupported(format!("{what} table {name} made of a query"))
            .hint("Create the table first, then fill it with INSERT.")
    };
    match (listed, catalog.unlisted) {
        (Some(ListedTable::Single(shard)), _) => Ok(Some(shard)),
        (Some(ListedTable::Sharded { .. }), _) => Err(spread("sharded").into()),
        (Some(ListedTable::Reference), _) | (None, Unlisted::Reference) => Err(spread("reference").into()),
        (None, Unlisted::Refuse) => Err(not_listed("table", name).into()),
        (None, Unlisted::Single) => {
            // nothing is said: a query over constants or the catalog makes it at home
            let tables = reads.relations.iter().any(|r| r.kind != RelationKind::View);
            Ok((!tables).then_some(Catalog::HOME))
        }
    }
}
