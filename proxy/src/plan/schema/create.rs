//! CREATE of everything but tables (see `table`): views, indexes, sequences, and what is on every shard.

use super::Decided;
use super::Decision;
use super::Job;
use super::Stop;
use super::constraints;
use super::constraints::Place;
use super::cursor::Cursor;
use super::decided;
use super::objects;
use super::objects::EVERYWHERE_KINDS;
use super::objects::SERVER_KINDS;
use super::place;
use super::place::Spot;
use super::place::Use;
use super::reads;
use super::refused;
use super::table;
use super::temporary;
use crate::catalog::Catalog;
use crate::catalog::ListedTable;
use crate::catalog::Placement;
use crate::catalog::QualifiedName;
use crate::catalog::Relation;
use crate::catalog::Unlisted;
use crate::error::Error;
use crate::plan::Context;
use crate::plan::OnShards;
use crate::plan::Plan;
use crate::plan::RowsPlan;
use crate::plan::Target;
use crate::plan::names;
use crate::plan::names::Named;
use crate::plan::rows;
use crate::sql::Statement;

/// `CREATE [OR REPLACE] [GLOBAL | LOCAL] [TEMPORARY] [UNLOGGED] [RECURSIVE]`, and what stands behind it.
#[derive(Clone, Copy)]
pub struct Head<'a> {
    pub replace: bool,
    pub temporary: bool,
    pub recursive: bool,
    pub rest: Cursor<'a>,
}

impl<'a> Head<'a> {
    fn read(cursor: Cursor<'a>) -> Option<Head<'a>> {
        let mut rest = cursor;
        if !rest.word("create") {
            return None;
        }
        let replace = rest.words(&["or", "replace"]);
        let scope = rest.one_of(&["global", "local"]).is_some();
        let temporary = rest.one_of(&["temp", "temporary"]).is_some();
        if scope && !temporary {
            return None;
        }
        rest.word("unlogged");
        let recursive = rest.word("recursive");
        Some(Head { replace, temporary, recursive, rest })
    }
}

/// A view or a table made of a query: `name … AS query`.
pub struct Queried<'a> {
    pub name: Vec<String>,
    /// Names for its columns, where they are given.
    pub columns: Option<Vec<String>>,
    pub query: Cursor<'a>,
}

impl<'a> Queried<'a> {
    /// From behind TABLE, VIEW or MATERIALIZED VIEW. `None` if there is no query.
    pub fn read(rest: Cursor<'a>) -> Option<Queried<'a>> {
        let mut rest = rest;
        rest.words(&["if", "not", "exists"]);
        let name = rest.qualified()?;
        let columns = rest.name_list();
        let start = rest.find("as")?;
        rest.skip(start + 1);
        let tails: [&[&str]; 6] = [
            &["with", "no", "data"],
            &["with", "data"],
            &["with", "check", "option"],
            &["with", "cascaded", "check", "option"],
            &["with", "local", "check", "option"],
            &[],
        ];
        let tail = tails.into_iter().find(|tail| rest.ends_with(tail)).unwrap_or_default();
        let query = rest.part(0, rest.tokens.len() - tail.len());
        (!query.is_done()).then_some(Queried { name, columns, query })
    }
}

/// Everything that is told apart even on one shard: what is temporary, and what is made of a query.
pub fn whole(job: &Job<'_>) -> Option<Decided> {
    let head = Head::read(job.cursor)?;
    let mut rest = head.rest;
    if is_temporary_object(job, rest) {
        return Some(Ok(rows_decision(super::temporary_object(job))));
    }
    match rest.one_of(&["table", "view", "sequence", "materialized"])? {
        "table" => {
            let queried = Queried::read(rest);
            let name = queried.as_ref().map(|q| q.name.clone()).or_else(|| name_of(rest))?;
            let temporary = head.temporary || place::created(&name, job.context).is_none();
            match queried {
                Some(queried) => Some(table::made_of_query(job, &queried, temporary)),
                None if temporary => Some(Ok(rows_decision(super::temporary(job, name.last()?)))),
                None => None,
            }
        }
        "materialized" if rest.word("view") => {
            let queried = Queried::read(rest)?;
            Some(table::made_of_query(job, &queried, false))
        }
        "view" => {
            let queried = Queried::read(rest)?;
            let reads = reads::of_query(&reads::inner(&queried.query, job.context).ok()?, job.context);
            let temporary = head.temporary || reads.temporary || place::created(&queried.name, job.context).is_none();
            temporary.then(|| Ok(rows_decision(super::temporary(job, queried.name.last().map_or("", String::as_str)))))
        }
        "sequence" => {
            let name = name_of(rest)?;
            let temporary = head.temporary || place::created(&name, job.context).is_none();
            temporary.then(|| Ok(rows_decision(super::temporary(job, name.last().map_or("", String::as_str)))))
        }
        _ => None,
    }
}

/// A type, function or the like is made in the session's temporary schema.
fn is_temporary_object(job: &Job<'_>, mut rest: Cursor<'_>) -> bool {
    let created = |parts: Vec<String>| place::created(&parts, job.context);
    objects::kind(&mut rest, &objects::IN_SCHEMA_KINDS).is_some()
        && name_of(rest).is_some_and(|parts| created(parts).is_none())
}

fn name_of(rest: Cursor<'_>) -> Option<Vec<String>> {
    let mut rest = rest;
    rest.words(&["if", "not", "exists"]);
    rest.qualified()
}

pub fn rows_decision(plan: RowsPlan) -> Decision {
    Decision::Rows(Box::new(plan))
}

/// CREATE on a database of several shards.
pub fn plan(job: &Job<'_>) -> Decided {
    let head = Head::read(job.cursor).ok_or_else(|| job.unread())?;
    let mut rest = head.rest;
    if is_temporary_object(job, rest) {
        return Ok(rows_decision(super::temporary_object(job)));
    }
    if rest.word("table") {
        return table::create(job, head.temporary, rest);
    }
    if rest.words(&["materialized", "view"]) {
        let queried = Queried::read(rest).ok_or_else(|| job.unread())?;
        return table::made_of_query(job, &queried, false);
    }
    if rest.word("view") {
        return view(job, &head, rest);
    }
    if rest.word("sequence") {
        return sequence(job, &head, rest);
    }
    if rest.word("index") {
        return index(job, rest, false);
    }
    if rest.words(&["unique", "index"]) {
        return index(job, rest, true);
    }
    if rest.word("trigger") || rest.words(&["constraint", "trigger"]) {
        return trigger(job, rest);
    }
    if rest.word("rule") {
        return rule(job, rest);
    }
    if rest.word("policy") {
        rest.name().filter(|_| rest.word("on")).ok_or_else(|| job.unread())?;
        return on_table(job, rest);
    }
    if rest.word("statistics") {
        let from = rest.find("from").ok_or_else(|| job.unread())?;
        rest.skip(from + 1);
        return on_table(job, rest);
    }
    if let Some(kind) = objects::kind(&mut rest, &SERVER_KINDS) {
        return Err(refused(job, &format!("CREATE {kind}")));
    }
    if rest.word_at(0, "schema") && ["create", "grant"].iter().any(|word| rest.has(word)) {
        return Err(Error::unsupported("CREATE SCHEMA with elements")
            .hint("Create the schema first, then what belongs into it, one statement for each.")
            .into());
    }
    match objects::kind(&mut rest, &EVERYWHERE_KINDS) {
        Some(_) => Ok(Decision::Everywhere(OnShards::All)),
        None => Err(job.unread()),
    }
}

fn on_table(job: &Job<'_>, mut rest: Cursor<'_>) -> Decided {
    rest.word("only");
    let table = rest.qualified().ok_or_else(|| job.unread())?;
    decided(job, &[table], Use::Change)
}

/// A view is where what it reads is.
fn view(job: &Job<'_>, head: &Head<'_>, rest: Cursor<'_>) -> Decided {
    let queried = Queried::read(rest).ok_or_else(|| job.unread())?;
    let query = reads::inner(&queried.query, job.context)?;
    let mut reads = reads::of_query(&query, job.context);
    if head.recursive {
        reads.unknown.retain(|unknown| Some(&unknown.name) != queried.name.last());
    }
    if let Some(stop) = stopped(&reads) {
        return Err(stop);
    }
    let name = place::created(&queried.name, job.context);
    let name = match name.filter(|_| !head.temporary && !reads.temporary) {
        Some(name) => name,
        None => {
            // it is read on the home connection only
            let needed = reads::one_shard(&reads, "a temporary view", job.context)?;
            if needed.is_some_and(|shard| shard != Catalog::HOME) {
                return Err(Error::unsupported("a temporary view over tables that are not on the home shard").into());
            }
            let name = queried.name.last().cloned().unwrap_or_default();
            return Ok(rows_decision(temporary(job, &name)));
        }
    };
    let place = reads::view_place(&reads, job.context)?;
    placed_beside(job, &name, place, head.replace)
}

/// Where the name is taken already, PostgreSQL says so; a view is not replaced by one on other shards.
pub fn placed_beside(job: &Job<'_>, name: &QualifiedName, place: OnShards, replace: bool) -> Decided {
    if let Some(existing) = place::existing(name, job.context) {
        let there = place::of_relation(existing, job.context)?;
        if there != place && replace && existing.placement == Placement::Derived {
            return Err(Error::unsupported(format!("replacing view {name} by one on other shards"))
                .hint("Drop the view first.")
                .into());
        }
        return Ok(Decision::Everywhere(there));
    }
    Ok(Decision::Everywhere(place))
}

/// Names that nobody knows, and tables that must not be used.
pub fn stopped(reads: &reads::Reads) -> Option<Stop> {
    if !reads.unknown.is_empty() {
        return Some(Stop::Unknown(reads.unknown.clone()));
    }
    reads.error.clone().map(Stop::Refuse)
}

/// A sequence is where its owner is; a free one is as an unlisted table.
fn sequence(job: &Job<'_>, head: &Head<'_>, rest: Cursor<'_>) -> Decided {
    let parts = name_of(rest).ok_or_else(|| job.unread())?;
    let created = place::created(&parts, job.context);
    let Some(name) = created.filter(|_| !head.temporary) else {
        return Ok(rows_decision(temporary(job, parts.last().map_or("", String::as_str))));
    };
    let place = match owner(rest) {
        Some(table) => match place::spot(&table, job.context)? {
            Spot::At(place) => place,
            Spot::Unknown(name) => return Err(Stop::Unknown(vec![name])),
            Spot::Temporary | Spot::System => place::home(),
        },
        None => match serial_table(&name, job.context) {
            Some(table) => place::of_relation(table, job.context)?,
            None => free_place(&name, job.context)?,
        },
    };
    placed_beside(job, &name, place, false)
}

/// The table of a sequence with the name that a serial column's has (`table_column_seq`): pg_dump makes it free and says
/// later who owns it.
fn serial_table<'c>(name: &QualifiedName, context: &Context<'c>) -> Option<&'c Relation> {
    let stem = name.name.strip_suffix("_seq")?;
    if context.catalog.listed.contains_key(name) {
        return None;
    }
    stem.match_indices('_').find_map(|(at, _)| {
        let table = context.catalog.relation(&name.schema, stem.get(..at)?)?;
        let column = stem.get(at + 1..)?;
        table.columns.iter().any(|c| c.name == column).then_some(table.as_ref())
    })
}

/// The table of `OWNED BY table.column`; `None` without one, and for OWNED BY NONE.
pub fn owner(rest: Cursor<'_>) -> Option<Vec<String>> {
    let mut rest = rest;
    rest.skip(rest.find("owned")?);
    if !rest.words(&["owned", "by"]) {
        return None;
    }
    let mut name = rest.qualified()?;
    name.pop();
    (!name.is_empty()).then_some(name)
}

/// Where a new relation is that has no columns to shard it by.
fn free_place(name: &QualifiedName, context: &Context<'_>) -> Result<OnShards, Stop> {
    match context.catalog.listed.get(name) {
        Some(ListedTable::Single(shard)) => Ok(place::at(*shard)),
        Some(ListedTable::Reference | ListedTable::Sharded { .. }) => Ok(OnShards::All),
        None => match context.catalog.unlisted {
            Unlisted::Single => Ok(place::home()),
            Unlisted::Reference => Ok(OnShards::All),
            Unlisted::Refuse => Err(not_listed("sequence", name).into()),
        },
    }
}

pub fn not_listed(what: &str, name: &QualifiedName) -> Error {
    Error::unsupported(format!("{what} {name} is not listed in the configuration"))
        .detail("This database takes no unlisted tables (unlisted_tables = \"refuse\").")
        .hint("List it as sharded, reference or single.")
}

/// CREATE [UNIQUE] INDEX [CONCURRENTLY] [[IF NOT EXISTS] name] ON [ONLY] table [USING method] (elements) …
fn index(job: &Job<'_>, rest: Cursor<'_>, unique: bool) -> Decided {
    let mut rest = rest;
    let on = rest.find("on").ok_or_else(|| job.unread())?;
    rest.skip(on + 1);
    rest.word("only");
    let table = rest.qualified().ok_or_else(|| job.unread())?;
    if unique && let Named::Relation(relation) = names::relation(job.context, &table) {
        if rest.word("using") {
            rest.name().ok_or_else(|| job.unread())?;
        }
        let elements = rest.parens().ok_or_else(|| job.unread())?;
        if let Some(Place::Sharded { key, .. }) = Place::of(&relation) {
            constraints::unique(&relation.name, &key, &constraints::index_columns(&elements), "a unique index")?;
        }
    }
    decided(job, &[table], Use::Change)
}

/// … name {BEFORE | AFTER | INSTEAD OF} event … ON table …
fn trigger(job: &Job<'_>, mut rest: Cursor<'_>) -> Decided {
    rest.name().ok_or_else(|| job.unread())?;
    let on = rest.find("on").ok_or_else(|| job.unread())?;
    rest.skip(on + 1);
    on_table(job, rest)
}

/// … name AS ON event TO table [WHERE …] DO …
fn rule(job: &Job<'_>, mut rest: Cursor<'_>) -> Decided {
    let name = rest.name().filter(|_| rest.words(&["as", "on"])).ok_or_else(|| job.unread())?;
    if name == "_RETURN" || rest.word("select") {
        return Err(Error::unsupported("a rule that makes a view of a table").hint("Use CREATE VIEW.").into());
    }
    rest.skip(1);
    if !rest.word("to") {
        return Err(job.unread());
    }
    on_table(job, rest)
}

/// The plan of the query of CREATE TABLE AS or a materialised view, with its ordinals as they are in the whole text.
///
/// # Errors
/// It is refused, unknown or unreadable, or it is no query.
pub fn query_plan(job: &Job<'_>, queried: &Queried<'_>, query: &Statement) -> Result<RowsPlan, Stop> {
    let mut plan = match rows::plan(query, job.context) {
        Plan::Rows(plan) => plan,
        Plan::Refuse(error) => return Err(Stop::Refuse(error)),
        Plan::AskFirst(error) => return Err(Stop::Ask(error)),
        Plan::Unknown(names) => return Err(Stop::Unknown(names.names)),
        Plan::Session | Plan::Everywhere(_) | Plan::Explain(_) => return Err(job.unread()),
    };
    let start = queried.query.range().map_or(0, |range| range.start);
    let before = job.cursor.tokens.iter().filter(|token| token.is_literal() && token.range().start < start).count();
    plan.fixed.iter_mut().for_each(|ordinal| *ordinal += before);
    plan.scatter = Err(Error::unsupported("CREATE TABLE AS over several shards"));
    Ok(plan)
}

/// Whether a plan's target is one shard whatever the values are.
pub fn runs_on(target: &Target) -> Option<Option<crate::catalog::ShardId>> {
    match target {
        Target::Any => Some(None),
        Target::Home => Some(Some(Catalog::HOME)),
        Target::Shard(shard) => Some(Some(*shard)),
        Target::Keys { .. } | Target::All => None,
    }
}
