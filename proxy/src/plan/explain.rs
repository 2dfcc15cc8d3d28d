//! EXPLAIN: the inner statement's plan, and what the proxy prints of it.

use super::Context;
use super::Effect;
use super::ExplainPlan;
use super::OnShards;
use super::Plan;
use super::RowsPlan;
use super::Target;
use super::plan as plan_statement;
use super::schema::cursor::Cursor;
use crate::error::Error;
use crate::sql::Statement;
use crate::sql::command::Command;
use std::sync::Arc;

/// Plans EXPLAIN.
pub fn plan(statement: &Statement, context: &Context<'_>) -> Plan {
    let mut cursor = Cursor::new(&statement.text, &statement.tokens);
    cursor.word("explain");
    let (mut analyze, mut text) = (false, true);
    match cursor.parens() {
        Some(options) => (analyze, text) = read_options(&options.rest().to_ascii_lowercase()),
        None => {
            analyze |= cursor.word("analyze") || cursor.word("analyse");
            cursor.word("verbose");
        }
    }
    let Some(start) = cursor.peek().map(|t| t.start as usize) else {
        return Plan::Rows(RowsPlan::at(Target::Home, Effect::Read));
    };
    let body: Arc<str> = Arc::from(statement.text.get(start..).unwrap_or(""));
    let inner = match Statement::new(body, context.standard_conforming_strings) {
        Ok(inner) => inner,
        Err(error) => return Plan::Refuse(error),
    };
    let planned = plan_statement(&inner, context);
    let mut rows = match planned {
        Plan::Rows(rows) => rows,
        Plan::Everywhere(everywhere) => match everywhere.shards {
            OnShards::Some(shards) if shards.len() == 1 => {
                let shard = shards.first().copied().unwrap_or(crate::catalog::Catalog::HOME);
                RowsPlan::at(Target::Shard(shard), Effect::Write)
            }
            _ => return Plan::Refuse(Error::unsupported("EXPLAIN of a command over several shards")),
        },
        Plan::Session if matches!(inner.command, Command::Execute { .. }) => return Plan::Session,
        Plan::Session | Plan::Explain(_) => RowsPlan::at(Target::Home, Effect::Read),
        other => return other,
    };
    let lines = super::display::lines(&rows, context.catalog, Some(&inner));
    if rows.everyone.is_some() {
        if analyze {
            return Plan::Refuse(
                Error::unsupported("EXPLAIN ANALYZE of a write to a reference table")
                    .hint("Use EXPLAIN without ANALYZE."),
            );
        }
        rows.target = Target::Shard(crate::catalog::Catalog::HOME);
        rows.everyone = None;
    }
    if !analyze {
        // nothing runs: no rows are written, no state is left behind
        rows.effect = Effect::Read;
        rows.opaque = false;
        rows.pins = None;
        rows.set_config.clear();
    }
    let prefix = statement.text.get(..start).unwrap_or("").to_owned();
    Plan::Explain(ExplainPlan { inner: rows, body: start, analyze, lines, prefix, text })
}

/// ANALYZE and FORMAT among the options, which are in lower case.
fn read_options(options: &str) -> (bool, bool) {
    let (mut analyze, mut text) = (false, true);
    for option in options.split(',') {
        let mut words = option.split_whitespace();
        let name = words.next().unwrap_or("");
        let value = words.next().unwrap_or("").trim_matches('\'');
        match name {
            "analyze" | "analyse" => analyze = !matches!(value, "off" | "false" | "0"),
            "format" => text = value == "text",
            _ => {}
        }
    }
    (analyze, text)
}
