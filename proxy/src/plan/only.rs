//! A database of one shard: what its only PostgreSQL can do is not refused here, whatever the planner makes of it.

use super::Effect;
use super::PinReason;
use super::Plan;
use super::RowsPlan;
use super::Target;
use crate::catalog::Catalog;
use crate::sql::Statement;
use crate::sql::command::Command;
use crate::sql::lexer::TokenKind;

/// The plan on one shard. What could not be read may leave anything behind, so its connection is kept.
pub fn plan(statement: &Statement, plan: Plan) -> Plan {
    let names_prepared = names_prepared(statement);
    match plan {
        Plan::Rows(rows) => Plan::Rows(RowsPlan { names_prepared: rows.names_prepared || names_prepared, ..rows }),
        Plan::Refuse(_) | Plan::AskFirst(_) => {
            let whole = RowsPlan::at(Target::Shard(Catalog::HOME), Effect::Write);
            Plan::Rows(RowsPlan { opaque: true, pins: Some(PinReason::Opaque), names_prepared, ..whole })
        }
        Plan::Session if statement.command == Command::Explain => {
            // EXPLAIN EXECUTE
            let whole = RowsPlan::at(Target::Shard(Catalog::HOME), Effect::Write);
            Plan::Rows(RowsPlan { names_prepared: true, ..whole })
        }
        other => other,
    }
}

/// It looks into `pg_prepared_statements`, or is CREATE TABLE … AS EXECUTE.
fn names_prepared(statement: &Statement) -> bool {
    let (text, tokens) = (&statement.text, &statement.tokens);
    let views = ["pg_prepared_statements", "pg_prepared_statement"];
    let names = tokens.iter().filter(|token| matches!(token.kind, TokenKind::Word | TokenKind::QuotedIdent));
    names.map(|token| token.text(text).trim_matches('"')).any(|name| views.iter().any(|v| name.eq_ignore_ascii_case(v)))
        || (statement.command == Command::Schema
            && tokens.windows(2).any(|pair| {
                let [first, second] = pair else { return false };
                first.is_word(text, "as") && second.is_word(text, "execute")
            }))
}
