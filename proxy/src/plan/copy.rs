//! COPY: whole on one shard, or refused.
//!
//! Read by tokens: the parser fails on several forms, and only the table or the query, the direction and the other end
//! matter here.

use super::Context;
use super::CopyDirection;
use super::Effect;
use super::KeyCondition;
use super::KeyExpr;
use super::PinReason;
use super::Plan;
use super::RowsPlan;
use super::Source;
use super::Target;
use super::UnknownNames;
use super::names;
use super::names::Named;
use super::rows;
use super::rows::CHOOSE;
use super::schema::cursor::Cursor;
use super::schema::triggers;
use crate::catalog::Catalog;
use crate::catalog::Placement;
use crate::catalog::Relation;
use crate::error::Error;
use crate::sql::Statement;
use crate::sql::command::Command;
use crate::sql::lexer::TokenKind;
use std::sync::Arc;

/// What a COPY statement says.
struct Copy<'a> {
    what: What<'a>,
    direction: CopyDirection,
    /// STDIN or STDOUT; else a file or a program of the server.
    client: bool,
}

enum What<'a> {
    Table(Vec<String>),
    Query(Cursor<'a>),
}

/// Plans a COPY statement.
pub fn plan(statement: &Statement, context: &Context<'_>) -> Plan {
    let Some(copy) = read(Cursor::new(&statement.text, &statement.tokens)) else {
        return Plan::AskFirst(Error::unsupported("this form of COPY cannot be read here"));
    };
    let one = (context.catalog.shards.len() <= 1).then_some(Catalog::HOME);
    let chosen = context.forced_shard.or(one);
    if !copy.client && chosen.is_none() {
        return Plan::Refuse(
            Error::unsupported("COPY with a file or program of the server")
                .hint(format!("Use STDIN or STDOUT (\\copy in psql). {CHOOSE}")),
        );
    }
    match &copy.what {
        What::Table(parts) => match chosen {
            Some(shard) => {
                let relation = match names::relation(context, parts) {
                    Named::Relation(relation) => Some(relation),
                    _ => None,
                };
                Plan::Rows(whole(&copy, Target::Shard(shard), relation.as_deref(), context))
            }
            None => table(&copy, parts, context),
        },
        What::Query(query) => self::query(&copy, query, statement, context),
    }
}

/// COPY [BINARY] table [(columns)] … or COPY (query) …
fn read(mut cursor: Cursor<'_>) -> Option<Copy<'_>> {
    if !cursor.word("copy") {
        return None;
    }
    let what = match cursor.parens() {
        Some(query) => What::Query(query),
        None => {
            cursor.word("binary");
            let table = cursor.qualified()?;
            if cursor.symbol_at(0, "(") {
                cursor.parens()?;
            }
            What::Table(table)
        }
    };
    let direction = match cursor.one_of(&["from", "to"])? {
        "from" => CopyDirection::In,
        _ => CopyDirection::Out,
    };
    if matches!((&what, direction), (What::Query(_), CopyDirection::In)) {
        return None;
    }
    // gram.y takes either word for either direction
    let client = cursor.one_of(&["stdin", "stdout"]).is_some();
    let file = cursor.word_at(0, "program") || cursor.peek().is_some_and(|token| token.kind == TokenKind::String);
    (client || file).then_some(Copy { what, direction, client })
}

fn whole(copy: &Copy<'_>, target: Target, relation: Option<&Relation>, context: &Context<'_>) -> RowsPlan {
    let effect = match copy.direction {
        CopyDirection::In => Effect::Write,
        CopyDirection::Out => Effect::Read,
    };
    let mut plan = RowsPlan::at(target, effect);
    plan.copy = copy.client.then_some(copy.direction);
    plan.opaque = !copy.client
        || (copy.direction == CopyDirection::In
            && relation.is_some_and(|r| triggers::opaque(r, "INSERT", context).is_some()));
    plan.pins = plan.opaque.then_some(PinReason::Opaque);
    plan
}

/// A table, on a database of several shards.
fn table(copy: &Copy<'_>, parts: &[String], context: &Context<'_>) -> Plan {
    let into = copy.direction == CopyDirection::In;
    let relation = match names::relation(context, parts) {
        Named::Relation(relation) => relation,
        // it cannot be written, and the home shard says so
        Named::Temporary | Named::System => return Plan::Rows(whole(copy, Target::Home, None, context)),
        Named::Unknown(name) => return Plan::Unknown(UnknownNames { names: vec![name] }),
    };
    let name = &relation.name;
    let target = match &relation.placement {
        Placement::Sharded { .. } if into => {
            return Plan::Refuse(
                Error::unsupported(format!("COPY FROM into sharded table {name} is not supported yet")).hint(format!(
                    "Use INSERT with one value of the shard key in each statement, or load each shard's rows. {CHOOSE}"
                )),
            );
        }
        Placement::Sharded { .. } => {
            return Plan::Refuse(
                Error::unsupported(format!("COPY TO from sharded table {name} is not supported yet"))
                    .hint("Use COPY (SELECT … WHERE key = …) TO STDOUT with one value of the shard key."),
            );
        }
        Placement::Reference if into => {
            return Plan::Refuse(
                Error::unsupported(format!("COPY FROM into reference table {name}"))
                    .detail("Reference tables are written on all shards, and writes over several shards are not supported yet.")
                    .hint(format!("Load it on each shard, the same way on all. {CHOOSE}")),
            );
        }
        Placement::Reference => Target::Any,
        Placement::Single(shard) => Target::Shard(*shard),
        // PostgreSQL copies no view, and says so; what INSTEAD OF triggers do with rows nobody can see
        Placement::Derived if into => {
            return Plan::Refuse(Error::unsupported(format!("COPY FROM into view {name}")).hint(CHOOSE));
        }
        Placement::Derived | Placement::System => Target::Home,
        Placement::Ambiguous(_) | Placement::Refused(_) => {
            return match super::schema::place::of_relation(&relation, context) {
                Err(stop) => stop.plan(),
                Ok(_) => Plan::Refuse(Error::unsupported(format!("COPY of table {name}"))),
            };
        }
    };
    if into
        && context.catalog.has_distributed_tables()
        && let Some(trigger) = triggers::opaque(&relation, "INSERT", context)
    {
        return Plan::Refuse(triggers::refused(&trigger));
    }
    Plan::Rows(whole(copy, target, Some(&relation), context))
}

/// COPY (query) TO: where the query runs whole.
fn query(copy: &Copy<'_>, query: &Cursor<'_>, statement: &Statement, context: &Context<'_>) -> Plan {
    let Ok(inner) = Statement::new(Arc::from(query.rest()), context.standard_conforming_strings) else {
        return Plan::AskFirst(Error::unsupported("this form of COPY cannot be read here"));
    };
    let no_query = || Plan::AskFirst(Error::unsupported("COPY of what is no query"));
    if !matches!(inner.command, Command::Select | Command::Insert | Command::Update | Command::Delete | Command::Merge)
    {
        return no_query();
    }
    let plan = match rows::plan(&inner, context) {
        Plan::Rows(plan) => plan,
        other @ (Plan::Refuse(_) | Plan::AskFirst(_) | Plan::Unknown(_)) => return other,
        Plan::Session | Plan::Everywhere(_) | Plan::Explain(_) => return no_query(),
    };
    let start = query.range().map_or(0, |range| range.start);
    let before = statement.tokens.iter().filter(|token| token.is_literal() && token.range().start < start).count();
    let mut plan = shifted(plan, before);
    plan.copy = copy.client.then_some(copy.direction);
    if !copy.client {
        plan.opaque = true;
        plan.pins = Some(PinReason::Opaque);
    }
    plan.scatter = Err(Error::unsupported("COPY of a query over several shards is not supported yet")
        .hint("Name one value of the shard key in WHERE."));
    Plan::Rows(plan)
}

/// The plan of the query within a text that has `before` literals before it.
fn shifted(mut plan: RowsPlan, before: usize) -> RowsPlan {
    if let Target::Keys { conditions, .. } = &mut plan.target {
        conditions.iter_mut().for_each(|condition: &mut KeyCondition| shift_expr(&mut condition.expr, before));
    }
    plan.fixed.iter_mut().for_each(|ordinal| *ordinal += before);
    plan
}

fn shift_expr(expr: &mut KeyExpr, before: usize) {
    match expr {
        KeyExpr::True | KeyExpr::False | KeyExpr::IsNull { .. } => {}
        KeyExpr::Equals { value, .. } | KeyExpr::EqualsAny { array: value, .. } | KeyExpr::Compare { value, .. } => {
            shift(value, before);
        }
        KeyExpr::Row(values) => values.iter_mut().for_each(|value| shift(value, before)),
        KeyExpr::And(parts) | KeyExpr::Or(parts) => parts.iter_mut().for_each(|part| shift_expr(part, before)),
    }
}

fn shift(source: &mut Source, before: usize) {
    if let Source::Literal { ordinal, .. } = source {
        *ordinal += before;
    }
}
