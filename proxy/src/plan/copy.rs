//! COPY: a table or a query, on one shard.

use super::Context;
use super::CopyDirection;
use super::Effect;
use super::PinReason;
use super::Plan;
use super::RowsPlan;
use super::Target;
use super::UnknownNames;
use super::names;
use super::names::Named;
use super::rows::CHOOSE;
use super::rows::refuse_unbounded;
use super::schema::Cursor;
use super::words;
use crate::catalog::Catalog;
use crate::catalog::Placement;
use crate::catalog::Relation;
use crate::error::Error;
use crate::sql::Statement;
use crate::sql::clauses;
use std::sync::Arc;

/// Plans COPY.
pub fn plan(statement: &Statement, context: &Context<'_>) -> Plan {
    let mut cursor = Cursor::new(statement);
    cursor.take("copy");
    cursor.take("binary");
    let is_query = cursor.peek().is_some_and(|t| t.is_symbol(&statement.text, "("));
    if is_query { query(statement, context, cursor) } else { table(statement, context, cursor) }
}

fn query(statement: &Statement, context: &Context<'_>, mut cursor: Cursor<'_>) -> Plan {
    let text = &statement.text;
    let open = cursor.peek().and_then(|t| clauses::token_at(&statement.tokens, t.start as usize));
    let inside = open.and_then(|open| {
        let close = clauses::closing(&statement.tokens, text, open)?;
        text.get(statement.tokens.get(open)?.end as usize..statement.tokens.get(close)?.start as usize)
    });
    let Some(inside) = inside else { return words::plan(statement, context) };
    cursor.parenthesised();
    cursor.take("to");
    let to_client = cursor.take("stdout") || cursor.take("stdin");
    if let Some(plan) = on_server(context, to_client) {
        return plan;
    }
    let inner = match Statement::new(Arc::from(inside), context.standard_conforming_strings) {
        Ok(inner) => inner,
        Err(error) => return Plan::Refuse(error),
    };
    match super::plan(&inner, context) {
        Plan::Rows(mut rows) => {
            // nothing with a literal stands before the query, so that its literals have the same ordinals here
            rows.scatter = Err(Error::unsupported("COPY of a query over several shards")
                .hint("Name one value of the shard key in WHERE, or run the query without COPY."));
            rows.copy = Some(CopyDirection::Out);
            refuse_unbounded(rows, context.catalog)
        }
        other => other,
    }
}

fn table(statement: &Statement, context: &Context<'_>, mut cursor: Cursor<'_>) -> Plan {
    let Some(name) = cursor.name() else { return words::plan(statement, context) };
    cursor.parenthesised();
    let from = cursor.take("from");
    if !from && !cursor.take("to") {
        return words::plan(statement, context);
    }
    let with_client = cursor.take("stdin") || cursor.take("stdout");
    if let Some(plan) = on_server(context, with_client) {
        return plan;
    }
    let (direction, effect) =
        if from { (CopyDirection::In, Effect::Write) } else { (CopyDirection::Out, Effect::Read) };
    let target = match names::relation(context, &name) {
        Named::Relation(relation) => match place(context, &relation, from) {
            Ok(target) => (target, from && !relation.triggers.is_empty()),
            Err(error) => return Plan::Refuse(error),
        },
        Named::Temporary | Named::System => (Target::Home, false),
        Named::Unknown(name) => match context.forced_shard {
            Some(shard) => (Target::Shard(shard), false),
            None => return Plan::Unknown(UnknownNames { names: vec![name] }),
        },
    };
    let (target, opaque) = target;
    let mut plan = RowsPlan::at(target, effect);
    plan.copy = Some(direction);
    plan.opaque = opaque;
    plan.pins = opaque.then_some(PinReason::Opaque);
    Plan::Rows(plan)
}

fn place(context: &Context<'_>, relation: &Relation, from: bool) -> Result<Target, Error> {
    if let Some(shard) = context.forced_shard {
        return Ok(Target::Shard(shard));
    }
    if context.catalog.shards.len() <= 1 {
        return Ok(Target::Shard(Catalog::HOME));
    }
    let name = &relation.name;
    match &relation.placement {
        Placement::Single(shard) => Ok(Target::Shard(*shard)),
        Placement::Reference if from => Err(Error::unsupported(format!("COPY into reference table {name}"))
            .hint("Writes over several shards are not supported yet.")),
        Placement::Reference => Ok(Target::Any),
        Placement::Sharded { .. } if from => Err(Error::unsupported(format!("COPY into sharded table {name}"))
            .hint("Insert the rows, or choose a shard with SET shardway.shard = '…' and copy only its rows.")),
        Placement::Sharded { .. } => {
            Err(Error::unsupported(format!("COPY of sharded table {name} over several shards"))
                .hint("Copy the rows of one value of the shard key with COPY (SELECT … WHERE …) TO STDOUT."))
        }
        // PostgreSQL refuses COPY of a view, and says how to do it
        Placement::Derived | Placement::System => Ok(Target::Home),
        Placement::Refused(why) => Err(Error::unsupported(format!("table {name} {why}"))),
        Placement::Ambiguous(shards) => Err(super::analyse::ambiguous(context.catalog, name, shards)),
    }
}

/// Files and programs are on a server.
fn on_server(context: &Context<'_>, with_client: bool) -> Option<Plan> {
    if with_client {
        return None;
    }
    let shard = match context.forced_shard {
        Some(shard) => shard,
        None if context.catalog.shards.len() <= 1 => Catalog::HOME,
        None => {
            return Some(Plan::Refuse(
                Error::unsupported("COPY with a file or program of the server, of which there are several")
                    .hint(CHOOSE),
            ));
        }
    };
    let mut plan = RowsPlan::at(Target::Shard(shard), Effect::Write);
    plan.opaque = true;
    plan.pins = Some(PinReason::Opaque);
    Some(Plan::Rows(plan))
}
