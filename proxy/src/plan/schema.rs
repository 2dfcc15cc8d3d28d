//! Schema changes and maintenance: the same text on every shard that has, or will have, what it is about.
//!
//! All of it is read by tokens: the parser knows a part of PostgreSQL's utility statements only, and little of them
//! matters here. Tables that are sharded or reference are everywhere, single ones where they are; indexes, triggers and
//! views follow their tables; schemas, types, functions and roles go everywhere. What cannot be read is asked of
//! PostgreSQL's parser first and then refused; nothing is run on a part of the shards that it concerns.

mod alter;
pub mod block;
mod column;
mod constraints;
mod create;
pub mod cursor;
mod flags;
mod maintenance;
mod objects;
pub mod place;
pub mod reads;
mod table;
#[cfg(test)]
mod tests;
pub mod triggers;
pub mod varies;

use super::Context;
use super::EverywherePlan;
use super::Makes;
use super::OnShards;
use super::PinReason;
use super::Plan;
use super::RowsPlan;
use super::Target;
use super::UnknownNames;
use crate::catalog::Catalog;
use crate::catalog::QualifiedName;
use crate::catalog::ShardId;
use crate::error::Error;
use crate::sql::Statement;
use cursor::Cursor;
use flags::Flags;
use std::cell::RefCell;

/// Why a statement is not run, or not by this plan.
#[derive(Clone, Debug)]
pub enum Stop {
    Refuse(Error),
    /// It cannot be read here: a syntax error is PostgreSQL's to tell.
    Ask(Error),
    Unknown(Vec<QualifiedName>),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Refuse(error)
    }
}

impl Stop {
    pub fn plan(self) -> Plan {
        match self {
            Stop::Refuse(error) => Plan::Refuse(error),
            Stop::Ask(error) => Plan::AskFirst(error),
            Stop::Unknown(names) => Plan::Unknown(UnknownNames { names }),
        }
    }
}

/// Where a statement runs.
#[derive(Clone, Debug)]
enum Decision {
    Everywhere(OnShards),
    /// Each of these shards gets a text of its own, with the things that it has.
    Apart(Vec<(ShardId, String)>),
    /// On one connection: temporary tables, and what reads rows.
    Rows(Box<RowsPlan>),
}

type Decided = Result<Decision, Stop>;

/// A statement that is planned here.
#[derive(Clone, Copy)]
struct Job<'a> {
    context: &'a Context<'a>,
    /// From the first word.
    cursor: Cursor<'a>,
    /// See [`EverywherePlan::stamped`].
    stamped: &'a RefCell<Option<QualifiedName>>,
}

impl Job<'_> {
    /// What cannot be read here.
    fn unread(&self) -> Stop {
        Stop::Ask(
            Error::unsupported(format!("this form of {} cannot be read here", self.cursor.heading(2)))
                .hint(super::rows::CHOOSE),
        )
    }

    fn several(&self) -> bool {
        self.context.catalog.shards.len() > 1 && self.context.forced_shard.is_none()
    }
}

/// Plans CREATE, ALTER, DROP, COMMENT, GRANT, TRUNCATE, LOCK, VACUUM and their like.
pub fn plan(statement: &Statement, context: &Context<'_>) -> Plan {
    let cursor = Cursor::new(&statement.text, &statement.tokens);
    let stamped = RefCell::new(None);
    let job = Job { context, cursor, stamped: &stamped };
    let flags = Flags::of(cursor, context);
    let decided = if job.several() { several_shards(&job) } else { one_shard(&job, flags) };
    let (shards, texts) = match decided {
        Ok(Decision::Everywhere(shards)) => (shards, Vec::new()),
        Ok(Decision::Apart(texts)) => (OnShards::Some(texts.iter().map(|(shard, _)| *shard).collect()), texts),
        Ok(Decision::Rows(plan)) => return Plan::Rows(*plan),
        Err(stop) => return stop.plan(),
    };
    Plan::Everywhere(EverywherePlan {
        shards,
        texts,
        outside_transaction: flags.outside_transaction,
        effect: flags.effect,
        changes_schema: flags.changes_schema,
        stamped: job.stamped.take(),
        numbers: table::sharded_name(&job).or_else(|| alter::numbered(&job)).into_iter().collect(),
        of_server: flags.of_server,
        marked: None,
    })
}

/// All of it on one shard: nothing to check, but temporary tables and queries are still told apart.
fn one_shard(job: &Job<'_>, flags: Flags) -> Decided {
    if let Some(decided) = create::whole(job) {
        return decided;
    }
    let temporary = job.cursor.tokens.iter().any(|token| {
        let text = token.text(job.cursor.text).trim_matches('"');
        text.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("pg_temp"))
    });
    let shard = match job.context.forced_shard {
        Some(shard) => shard,
        // Functions, types and statistics can be temporary too, by the schema that they are made in.
        None if temporary => Catalog::HOME,
        None => return Ok(Decision::Everywhere(OnShards::All)),
    };
    let mut plan = RowsPlan::at(Target::Shard(shard), flags.effect);
    plan.pins = temporary.then_some(PinReason::TemporaryTable);
    plan.makes.changes_schema = flags.changes_schema;
    Ok(Decision::Rows(Box::new(plan)))
}

fn several_shards(job: &Job<'_>) -> Decided {
    if let Some(decided) = objects::temporary(job) {
        return decided;
    }
    let mut rest = job.cursor;
    match rest.peek().map(|token| token.text(rest.text).to_ascii_lowercase()).as_deref() {
        Some("create") => create::plan(job),
        Some("alter") => alter::plan(job),
        Some("drop") => objects::drop(job),
        Some("comment" | "security") => objects::comment(job),
        Some("grant" | "revoke") => objects::grant(job),
        Some("reassign") => Ok(Decision::Everywhere(OnShards::All)),
        Some("import") => Err(refused(job, "IMPORT FOREIGN SCHEMA")),
        Some("truncate") => {
            rest.skip(1);
            maintenance::truncate(job, rest)
        }
        Some("lock") => {
            rest.skip(1);
            maintenance::lock(job, rest)
        }
        Some("vacuum" | "analyze" | "analyse") => {
            rest.skip(1);
            maintenance::vacuum(job, rest)
        }
        Some("reindex") => {
            rest.skip(1);
            maintenance::reindex(job, rest)
        }
        Some("cluster") => {
            rest.skip(1);
            maintenance::cluster(job, rest)
        }
        Some("refresh") => {
            rest.skip(1);
            maintenance::refresh(job, rest)
        }
        _ => Err(job.unread()),
    }
}

/// What belongs to one server or one database, on a database of several shards.
fn refused(job: &Job<'_>, what: &str) -> Stop {
    let shards = job.context.catalog.shards.len();
    Error::unsupported(format!("{what} on a database of {shards} shards"))
        .hint("Connect to the shard's own server, or choose a shard with SET shardway.shard = '…'.")
        .into()
}

/// On the session's home connection, where its temporary tables are.
fn at_home(job: &Job<'_>) -> RowsPlan {
    let target = match job.context.forced_shard {
        Some(shard) => Target::Shard(shard),
        None => Target::Home,
    };
    RowsPlan::at(target, Flags::of(job.cursor, job.context).effect)
}

/// A temporary table, view or sequence is made.
fn temporary(job: &Job<'_>, name: &str) -> RowsPlan {
    let mut plan = temporary_object(job);
    plan.makes = Makes { changes_schema: false, temporary: vec![name.to_owned()] };
    plan
}

/// A type, function or the like is made in pg_temp: it is on the home connection too, and no name of a relation.
fn temporary_object(job: &Job<'_>) -> RowsPlan {
    let mut plan = at_home(job);
    plan.pins = Some(PinReason::TemporaryTable);
    plan
}

/// Where names are that a statement lists.
fn decided(job: &Job<'_>, names: &[Vec<String>], usage: place::Use) -> Decided {
    match place::together(names, usage, job.context)? {
        place::Together::At(shards) => Ok(Decision::Everywhere(shards)),
        place::Together::Temporary => Ok(Decision::Rows(Box::new(at_home(job)))),
    }
}

/// As [`decided`], for a list of names in the statement: where they are not all on the same shards, each shard gets the
/// statement with those that it has.
fn decided_list(job: &Job<'_>, list: &Cursor<'_>, names: &[Vec<String>], usage: place::Use) -> Decided {
    let (Some(range), [_, _, ..]) = (list.range(), names) else { return decided(job, names, usage) };
    let Some(places) = place::each(names, usage, job.context)? else { return decided(job, names, usage) };
    if places.windows(2).all(|pair| pair.first() == pair.last()) {
        return decided(job, names, usage);
    }
    let (before, after) = (job.cursor.text.get(..range.start), job.cursor.text.get(range.end..));
    let (Some(before), Some(after)) = (before, after) else { return Err(job.unread()) };
    let items = list.items();
    let mut texts = Vec::new();
    for shard in job.context.catalog.all_shards() {
        let is_there = |place: &OnShards| match place {
            OnShards::All => true,
            OnShards::Some(shards) => shards.contains(&shard),
        };
        let there = items.iter().zip(&places).filter(|(_, place)| is_there(place)).map(|(item, _)| item.rest());
        let there: Vec<&str> = there.collect();
        if !there.is_empty() {
            texts.push((shard, format!("{before}{}{after}", there.join(", "))));
        }
    }
    Ok(Decision::Apart(texts))
}

/// The shard of statements that are not spread.
fn only_shard(job: &Job<'_>) -> ShardId {
    job.context.forced_shard.unwrap_or(Catalog::HOME)
}
