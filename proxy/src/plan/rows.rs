//! SELECT, INSERT, UPDATE, DELETE, MERGE: any shard, home, one shard by key, or scattered; else refused.

use super::Context;
use super::Effect;
use super::KeyCondition;
use super::KeyExpr;
use super::PinReason;
use super::Plan;
use super::RowsPlan;
use super::Target;
use super::TellsTime;
use super::UnknownNames;
use super::analyse::Analysis;
use super::analyse::Facts;
use super::analyse::QueryResult;
use super::analyse::Scope;
use super::analyse::Write;
use super::functions;
use super::functions::Kind;
use super::reference;
use super::scatter;
use super::schema::block;
use super::schema::triggers;
use super::source::SourceText;
use super::words;
use super::writes::WritePlan;
use super::writes::several;
use crate::catalog::Catalog;
use crate::catalog::ShardId;
use crate::error::Error;
use crate::sql::Statement;
use crate::sql::command::Command;
use sqlparser::ast::Query;
use sqlparser::ast::SetExpr;
use sqlparser::ast::Statement as Tree;
use std::rc::Rc;
use std::sync::Arc;

/// How a shard can be chosen where the planner cannot.
pub const CHOOSE: &str = "Choose a shard with SET shardway.shard = '…'.";

/// Plans a statement that reads or writes rows.
pub fn plan(statement: &Statement, context: &Context<'_>) -> Plan {
    match statement.tree() {
        Ok(tree) => plan_tree(statement, tree, context),
        Err(_) => words::plan(statement, context),
    }
}

/// DO: on one shard whatever it is; on several, schema changes that can be seen in it.
pub fn plan_block(statement: &Statement, context: &Context<'_>) -> Plan {
    match plan_opaque(statement, context) {
        Plan::Refuse(error) => block::plan(statement, context).unwrap_or(Plan::Refuse(error)),
        plan => plan,
    }
}

/// CALL and DO: nobody can see what they do.
pub fn plan_opaque(statement: &Statement, context: &Context<'_>) -> Plan {
    let what = if statement.command == Command::Do { "DO" } else { "CALL" };
    let shard = match context.forced_shard {
        Some(shard) => Some(shard),
        None => {
            (!context.catalog.has_distributed_tables() || context.catalog.shards.len() <= 1).then_some(Catalog::HOME)
        }
    };
    match shard {
        Some(shard) => {
            let plan = RowsPlan::at(Target::Shard(shard), Effect::Write);
            Plan::Rows(RowsPlan { opaque: true, pins: Some(PinReason::Opaque), ..plan })
        }
        None => Plan::Refuse(
            Error::unsupported(format!("{what}, which may read and write tables on any shard")).hint(CHOOSE),
        ),
    }
}

/// Plans a statement of which there is a tree; `statement` is its text.
pub fn plan_tree(statement: &Statement, tree: &Tree, context: &Context<'_>) -> Plan {
    let source = SourceText::new(&statement.text, &statement.tokens, true, context.standard_conforming_strings);
    let scope = Rc::new(Scope::new(&source, false));
    let mut analysis = Analysis::new(context);
    let result = match tree {
        Tree::Query(query) => analysis.query(query, &scope, 0),
        tree => analysis.modify(tree, &scope, 0),
    };
    decide(&analysis, tree, &result, &source)
}

fn decide(analysis: &Analysis<'_>, tree: &Tree, result: &QueryResult<'_>, source: &SourceText<'_>) -> Plan {
    let context = analysis.context;
    let facts = &analysis.facts;
    if let Some(shard) = context.forced_shard {
        return Plan::Rows(remembering(facts, context, RowsPlan::at(Target::Shard(shard), effect(facts))));
    }
    if !facts.unknown.is_empty() {
        return Plan::Unknown(UnknownNames { names: facts.unknown.clone() });
    }
    if context.catalog.shards.len() <= 1 {
        if let Some(error) = &facts.error {
            return Plan::Refuse(error.clone());
        }
        return Plan::Rows(remembering(facts, context, RowsPlan::at(Target::Shard(Catalog::HOME), effect(facts))));
    }
    if let Some(error) = &facts.error {
        return Plan::Refuse(error.clone());
    }
    if facts.too_large {
        return Plan::Refuse(
            Error::unsupported("a statement with so many tables")
                .hint("Views and common table expressions are counted once for each time that they are used."),
        );
    }
    if facts.foreign {
        return Plan::AskFirst(Error::unsupported("a construct that cannot be read here").hint(CHOOSE));
    }
    if facts.outer_aggregate {
        return Plan::Refuse(
            Error::unsupported("an aggregate in a subquery over columns of the query around it")
                .hint("Compute the aggregate in the query that has its columns."),
        );
    }
    match placed(analysis, tree, result, source) {
        Ok(plan) => Plan::Rows(plan),
        Err(error) if facts.unknown_function.is_some() => Plan::AskFirst(error),
        Err(error) => Plan::Refuse(error),
    }
}

/// Where it runs, on a database of several shards.
fn placed(
    analysis: &Analysis<'_>,
    tree: &Tree,
    result: &QueryResult<'_>,
    source: &SourceText<'_>,
) -> Result<RowsPlan, Error> {
    let context = analysis.context;
    let facts = &analysis.facts;
    let opaque = opaque_construct(facts, context);
    if let Some(plan) = reference::plan(analysis, tree, source, opaque.as_deref())? {
        return Ok(remembering(facts, context, plan));
    }
    let also = needed_shards(facts);
    let conditions = conditions(analysis)?;
    if facts.into {
        return into(analysis, tree, &conditions, &also);
    }
    if conditions.is_empty() {
        if let Some(what) = opaque.as_ref().filter(|_| context.catalog.has_distributed_tables()) {
            return Err(opaque_refused(what));
        }
        let target = match also.as_slice() {
            [] if facts.reference && facts.locks => Target::Shard(Catalog::HOME),
            [] if facts.reference => Target::Any,
            [] => Target::Home,
            [shard] if *shard == Catalog::HOME && facts.needs.is_empty() => Target::Home,
            [shard] => Target::Shard(*shard),
            _ => return Err(apart(facts)),
        };
        return Ok(remembering(facts, context, RowsPlan::at(target, effect(facts))));
    }
    if also.len() > 1 {
        return Err(apart(facts));
    }
    let (scatter, writes) = match tree {
        Tree::Query(query) if !is_write(query) => (scatter::plan(analysis, query, result, source), None),
        tree => {
            let planned = several::plan(analysis, tree, result, source);
            let writes = planned.plan.map(|plan| (planned.anchor, plan));
            (Err(planned.refused.unwrap_or_else(writes_refused)), writes)
        }
    };
    if writes.is_none()
        && facts.selected.as_ref().is_some_and(|selected| selected.draws)
        && let Err(error) = scatter
    {
        // Whole on one shard it would draw numbers that other shards give too.
        return Err(error);
    }
    if let Some((anchor, writes)) = writes {
        return written(analysis, conditions, also, anchor, writes, opaque);
    }
    let (conditions, scatter) = match (scatter, opaque) {
        (_, Some(what)) => (conditions, Err(opaque_refused(&what))),
        (Ok((anchor, plan, fixed)), None) => (anchored(analysis, conditions, anchor), Ok((plan, fixed))),
        (Err(error), None) => (conditions, Err(error)),
    };
    if let Err(error) = &scatter
        && conditions.iter().any(|c| is_everywhere(c, context.catalog))
    {
        return Err(error.clone());
    }
    let mut plan = RowsPlan::at(Target::Keys { conditions, also }, effect(facts));
    plan.scatter = scatter.map(|(scatter, fixed)| {
        plan.fixed.extend(fixed);
        Arc::new(scatter)
    });
    Ok(remembering(facts, context, plan))
}

/// WITH … INSERT, UPDATE, DELETE or MERGE.
fn is_write(query: &Query) -> bool {
    matches!(&*query.body, SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_))
}

/// A write that is not forwarded as it stands.
fn written(
    analysis: &Analysis<'_>,
    conditions: Vec<KeyCondition>,
    also: Vec<ShardId>,
    anchor: Option<u32>,
    mut writes: WritePlan,
    opaque: Option<String>,
) -> Result<RowsPlan, Error> {
    let facts = &analysis.facts;
    let conditions = match anchor {
        Some(anchor) => anchored(analysis, conditions, anchor),
        None => conditions,
    };
    if let Some(what) = opaque {
        writes.several = Err(opaque_refused(&what));
    }
    if let Err(error) = &writes.several
        && conditions.iter().any(|c| is_everywhere(c, analysis.context.catalog))
    {
        return Err(error.clone());
    }
    let mut plan = RowsPlan::at(Target::Keys { conditions, also }, effect(facts));
    plan.scatter = Err(writes.several.clone().err().unwrap_or_else(writes_refused));
    plan.writes = Some(Arc::new(writes));
    Ok(remembering(facts, analysis.context, plan))
}

/// The anchor's condition first: it says where a scattered statement has rows.
fn anchored(analysis: &Analysis<'_>, mut conditions: Vec<KeyCondition>, anchor: u32) -> Vec<KeyCondition> {
    if let Some(condition) = analysis.condition(anchor) {
        conditions.retain(|c| c.map != condition.map || c.expr != condition.expr);
        conditions.insert(0, condition);
    }
    conditions
}

/// One condition for each table instance, each only once.
fn conditions(analysis: &Analysis<'_>) -> Result<Vec<KeyCondition>, Error> {
    let mut conditions: Vec<KeyCondition> = Vec::new();
    let unknown = || Error::internal("a sharded table without its key");
    for owner in analysis.sharded() {
        conditions.push(analysis.condition(owner).ok_or_else(unknown)?);
    }
    conditions.extend(analysis.facts.writes.iter().filter_map(|w| w.rows.clone()));
    conditions.extend(analysis.facts.conditions.iter().cloned());
    let mut kept: Vec<KeyCondition> = Vec::new();
    for condition in conditions {
        if !kept.iter().any(|k| k.map == condition.map && k.expr == condition.expr && k.types == condition.types) {
            kept.push(condition);
        }
    }
    Ok(kept)
}

/// Shards that hold what is on one shard only.
fn needed_shards(facts: &Facts) -> Vec<ShardId> {
    let mut shards: Vec<ShardId> = facts.needs.iter().map(|(s, _)| *s).collect();
    if facts.system || facts.temporary {
        shards.push(Catalog::HOME);
    }
    shards.sort_unstable();
    shards.dedup();
    shards
}

pub fn writes_refused() -> Error {
    Error::unsupported("a data-modifying query over several shards")
        .hint("Name one value of the shard key in WHERE or VALUES.")
}

pub fn opaque_refused(what: &str) -> Error {
    Error::unsupported(format!("{what}, which may read or write tables on any shard"))
        .hint("Declare the function IMMUTABLE if it is, say where it runs in the configuration, or choose a shard with SET shardway.shard = '…'.")
}

/// Tables that are each on another shard.
fn apart(facts: &Facts) -> Error {
    let mut what: Vec<&str> = facts.needs.iter().map(|(_, what)| what.as_str()).collect();
    if facts.system {
        what.push("catalog tables");
    }
    if facts.temporary {
        what.push("temporary tables");
    }
    let error = Error::unsupported("a statement over tables that are on different shards");
    let error = if what.is_empty() { error } else { error.detail(format!("It needs {}.", what.join(", "))) };
    error.hint("Make the smaller ones reference tables, or keep them on one shard.")
}

/// The function, trigger or rule that may do anything.
fn opaque_construct(facts: &Facts, context: &Context<'_>) -> Option<String> {
    if let Some(function) = facts.opaque.as_ref().or(facts.unknown_function.as_ref()) {
        return Some(format!("function {function}").replace("function operator", "operator"));
    }
    for write in &facts.writes {
        let table = &write.relation.name;
        if write.relation.has_rules {
            return Some(format!("a rule of {table}"));
        }
        if let Some(function) = opaque_default(write, context) {
            return Some(format!("function {function} in a default of {table}"));
        }
        if let Some(trigger) = write.relation.triggers.iter().find(|t| !triggers::is_harmless(t, context)) {
            return Some(format!("trigger {} of {table}", trigger.name));
        }
    }
    None
}

/// A function in a column default that an INSERT may call.
fn opaque_default(write: &Write, context: &Context<'_>) -> Option<String> {
    if context.catalog.functions.user.is_empty() {
        return None;
    }
    let defaults = write.relation.columns.iter().filter_map(|c| c.default.as_deref());
    let calls = defaults.flat_map(|default| {
        default.match_indices('(').map(move |(at, _)| called_name(default.get(..at).unwrap_or("")))
    });
    calls.map(str::to_owned).find(|name| functions::kind(context, std::slice::from_ref(name)) == Kind::Opaque)
}

/// The name that stands before an opening parenthesis.
fn called_name(before: &str) -> &str {
    let start = before.rfind(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).map_or(0, |at| at + 1);
    before.get(start..).unwrap_or("")
}

/// SELECT INTO makes an unlisted table, on the home shard.
fn into(
    analysis: &Analysis<'_>,
    _tree: &Tree,
    conditions: &[KeyCondition],
    also: &[ShardId],
) -> Result<RowsPlan, Error> {
    let facts = &analysis.facts;
    if !conditions.is_empty() || also.iter().any(|s| *s != Catalog::HOME) {
        return Err(Error::unsupported("SELECT INTO over tables that are not on the home shard")
            .hint("Create the table first, then fill it with INSERT."));
    }
    let mut plan = RowsPlan::at(Target::Shard(Catalog::HOME), Effect::Write);
    plan.makes.changes_schema = true;
    Ok(remembering(facts, analysis.context, plan))
}

fn effect(facts: &Facts) -> Effect {
    let sequence = facts.pins == Some(PinReason::SequenceState);
    if facts.modifies || facts.opaque.is_some() || facts.into || sequence {
        Effect::Write
    } else if facts.locks {
        Effect::Lock
    } else {
        Effect::Read
    }
}

/// What the session must know afterwards.
fn remembering(facts: &Facts, context: &Context<'_>, mut plan: RowsPlan) -> RowsPlan {
    plan.opaque = opaque_construct(facts, context).is_some();
    plan.pins = if plan.opaque { Some(PinReason::Opaque) } else { facts.pins };
    plan.notifies = facts.notifies;
    plan.time = match (&facts.time, facts.time_elsewhere) {
        (None, _) => TellsTime::No,
        (Some(_), false) => TellsTime::Plainly,
        (Some(_), true) => TellsTime::Hidden,
    };
    plan.reads_sequence = facts.reads_sequence.clone();
    plan.set_config = facts.set_config.clone();
    plan.fixed.extend(facts.fixed.iter().copied());
    plan.fixed.sort_unstable();
    plan.fixed.dedup();
    plan
}

/// Whether a condition leaves several shards whatever the values are.
fn is_everywhere(condition: &KeyCondition, catalog: &Catalog) -> bool {
    condition.expr == KeyExpr::True && catalog.map(condition.map).is_none_or(|map| map.shards().len() > 1)
}
