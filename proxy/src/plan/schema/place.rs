//! On which shards things are: tables, views, indexes, and several of them together.

use super::Stop;
use super::cursor::Cursor;
use super::reads;
use crate::catalog::Catalog;
use crate::catalog::Placement;
use crate::catalog::QualifiedName;
use crate::catalog::Relation;
use crate::catalog::RelationKind;
use crate::catalog::ShardId;
use crate::error::Error;
use crate::plan::Context;
use crate::plan::OnShards;
use crate::plan::names;
use crate::plan::names::Named;
use std::sync::Arc;

/// What a name of a statement is, as far as it decides where the statement runs.
#[derive(Clone, Debug)]
pub enum Spot {
    /// It exists on these shards.
    At(OnShards),
    /// A temporary table, on the session's home connection.
    Temporary,
    /// pg_catalog and information_schema: on every shard.
    System,
    Unknown(QualifiedName),
}

pub fn home() -> OnShards {
    OnShards::Some(vec![Catalog::HOME])
}

pub fn at(shard: ShardId) -> OnShards {
    OnShards::Some(vec![shard])
}

/// Where an existing table, view or sequence is.
///
/// # Errors
/// It must not be used: refused or ambiguous.
pub fn of_relation(relation: &Relation, context: &Context<'_>) -> Result<OnShards, Stop> {
    Ok(match &relation.placement {
        Placement::Sharded { .. } | Placement::Reference => OnShards::All,
        Placement::Single(shard) => at(*shard),
        Placement::System => home(),
        Placement::Derived => return reads::of_view(relation, context),
        Placement::Refused(why) => {
            return Err(Error::unsupported(format!("table {} {why}", relation.name))
                .hint("Correct the configuration, or use DROP … IF EXISTS, which goes to all shards.")
                .into());
        }
        // it has no rows to mistake: made free on all shards, before its owner is told
        Placement::Ambiguous(shards) if relation.kind == RelationKind::Sequence => covering(shards, context),
        Placement::Ambiguous(shards) => return Err(ambiguous(relation, context, shards).into()),
    })
}

fn covering(shards: &[ShardId], context: &Context<'_>) -> OnShards {
    if context.catalog.all_shards().iter().all(|shard| shards.contains(shard)) {
        OnShards::All
    } else {
        OnShards::Some(shards.to_vec())
    }
}

fn ambiguous(relation: &Relation, context: &Context<'_>, shards: &[ShardId]) -> Error {
    let shards: Vec<&str> = shards.iter().map(|s| context.catalog.shard_name(*s)).collect();
    let name = &relation.name;
    Error::unsupported(format!("table {name} is on several shards and not listed in the configuration"))
        .detail(format!("It was found on {}.", shards.join(", ")))
        .hint("List it as sharded, reference or single, or drop it.")
}

/// What a dropped relation is; one that must not be used can still be dropped.
fn of_dropped(relation: &Relation, context: &Context<'_>) -> Result<OnShards, Stop> {
    match &relation.placement {
        Placement::Ambiguous(shards) => Ok(covering(shards, context)),
        _ => of_relation(relation, context),
    }
}

/// With IF EXISTS it does not matter which shards have it.
fn of_dropped_anywhere(relation: &Relation, context: &Context<'_>) -> Result<OnShards, Stop> {
    match &relation.placement {
        Placement::Refused(_) => Ok(OnShards::All),
        _ => of_dropped(relation, context),
    }
}

/// The relation or the index of this name.
///
/// # Errors
/// It must not be used.
pub fn spot(parts: &[String], context: &Context<'_>) -> Result<Spot, Stop> {
    spot_with(parts, context, of_relation)
}

fn spot_with(
    parts: &[String],
    context: &Context<'_>,
    of: impl Fn(&Relation, &Context<'_>) -> Result<OnShards, Stop>,
) -> Result<Spot, Stop> {
    Ok(match names::relation(context, parts) {
        Named::Relation(relation) => Spot::At(of(&relation, context)?),
        Named::Temporary => Spot::Temporary,
        Named::System => Spot::System,
        Named::Unknown(name) => match index_table(parts, context) {
            Some(table) => Spot::At(of(&table, context)?),
            None => Spot::Unknown(name),
        },
    })
}

/// The table of an index.
pub fn index_table(parts: &[String], context: &Context<'_>) -> Option<Arc<Relation>> {
    let table_of = |schema: &str, name: &str| {
        let index = QualifiedName { schema: schema.to_owned(), name: name.to_owned() };
        context.catalog.relations.get(context.catalog.indexes.get(&index)?).cloned()
    };
    match parts {
        [name] => context.search_path.iter().find_map(|schema| table_of(schema, name)),
        [.., schema, name] => table_of(schema, name),
        [] => None,
    }
}

/// What a statement does with the things that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The same everywhere where they are.
    Change,
    /// DROP: also what must not be used otherwise.
    Drop { if_exists: bool },
    /// Maintenance of what may belong to the system, which is on every shard.
    Maintain,
}

/// Where several things are together.
#[derive(Clone, Debug)]
pub enum Together {
    At(OnShards),
    Temporary,
}

/// Where each of these is; `None` if one of them is temporary, the system's or unknown.
///
/// # Errors
/// One of them must not be used.
pub fn each(all: &[Vec<String>], usage: Use, context: &Context<'_>) -> Result<Option<Vec<OnShards>>, Stop> {
    let mut places = Vec::new();
    for parts in all {
        let spot = match usage {
            Use::Drop { if_exists: true } => spot_with(parts, context, of_dropped_anywhere)?,
            Use::Drop { if_exists: false } => spot_with(parts, context, of_dropped)?,
            Use::Change | Use::Maintain => spot(parts, context)?,
        };
        match spot {
            Spot::At(place) => places.push(place),
            Spot::Temporary | Spot::System | Spot::Unknown(_) => return Ok(None),
        }
    }
    Ok(Some(places))
}

/// Where all of these are.
///
/// # Errors
/// They are not all on the same shards (refused), or nobody knows one of them.
pub fn together(all: &[Vec<String>], usage: Use, context: &Context<'_>) -> Result<Together, Stop> {
    let mut places: Vec<OnShards> = Vec::new();
    let (mut unknown, mut temporary, mut system) = (Vec::new(), false, false);
    for parts in all {
        let spot = match usage {
            Use::Drop { if_exists: true } => spot_with(parts, context, of_dropped_anywhere)?,
            Use::Drop { if_exists: false } => spot_with(parts, context, of_dropped)?,
            Use::Change | Use::Maintain => spot(parts, context)?,
        };
        match spot {
            Spot::At(place) if places.contains(&place) => {}
            Spot::At(place) => places.push(place),
            Spot::Temporary => temporary = true,
            Spot::System => system = true,
            Spot::Unknown(name) => unknown.push(name),
        }
    }
    if temporary {
        return if places.is_empty() { Ok(Together::Temporary) } else { Err(apart().into()) };
    }
    let if_exists = usage == Use::Drop { if_exists: true };
    if !unknown.is_empty() && !if_exists {
        return Err(Stop::Unknown(unknown));
    }
    Ok(Together::At(match places.as_slice() {
        [] if system && usage != Use::Maintain => home(),
        [] => OnShards::All,
        [place] => place.clone(),
        // what a shard does not have gives a notice there
        _ if if_exists => union(&places),
        _ => return Err(apart().into()),
    }))
}

fn union(places: &[OnShards]) -> OnShards {
    let mut shards = Vec::new();
    for place in places {
        match place {
            OnShards::All => return OnShards::All,
            OnShards::Some(some) => shards.extend_from_slice(some),
        }
    }
    shards.sort_unstable();
    shards.dedup();
    OnShards::Some(shards)
}

fn apart() -> Error {
    Error::unsupported("one statement for tables that are not all on the same shards")
        .hint("Write one statement for each of them.")
}

/// A comma-separated list of names, each with what `tail` steps over behind it; at least one.
pub fn name_list(cursor: &Cursor<'_>, tail: fn(&mut Cursor<'_>)) -> Option<Vec<Vec<String>>> {
    if cursor.is_done() {
        return None;
    }
    cursor
        .items()
        .into_iter()
        .map(|mut item| {
            if item.word_at(0, "only") {
                item.skip(1);
                if let Some(inner) = item.parens() {
                    let name = { inner }.qualified();
                    tail(&mut item);
                    return name.filter(|_| item.is_done());
                }
            }
            let name = item.qualified()?;
            item.symbol("*");
            tail(&mut item);
            item.is_done().then_some(name)
        })
        .collect()
}

/// The schema and name that a new thing gets (RangeVarGetCreationNamespace: the first schema of search_path).
/// `None`: it is temporary.
pub fn created(parts: &[String], context: &Context<'_>) -> Option<QualifiedName> {
    match parts {
        [name] => {
            let schema = context.search_path.first().cloned().unwrap_or_default();
            (schema != "pg_temp").then(|| QualifiedName { schema, name: name.clone() })
        }
        [.., schema, name] => {
            (schema != "pg_temp").then(|| QualifiedName { schema: schema.clone(), name: name.clone() })
        }
        [] => None,
    }
}

/// The relation that has a new thing's name already.
pub fn existing<'c>(name: &QualifiedName, context: &Context<'c>) -> Option<&'c Arc<Relation>> {
    context.catalog.relations.get(name)
}

/// Whether REINDEX, CLUSTER and the like work partition by partition, each in its own transaction.
pub fn is_partitioned(parts: &[String], context: &Context<'_>) -> bool {
    let relation = match names::relation(context, parts) {
        Named::Relation(relation) => Some(relation),
        _ => index_table(parts, context),
    };
    relation.is_some_and(|relation| relation.kind == RelationKind::Partitioned)
}
