//! Statements of which there is no tree: what their words say.
//!
//! A word that is the name of a table counts as that table wherever it stands: too much is refused rather than too
//! little.

use super::Context;
use super::Effect;
use super::Plan;
use super::RowsPlan;
use super::Target;
use super::functions;
use super::functions::Kind;
use super::names;
use super::rows::CHOOSE;
use crate::catalog::Catalog;
use crate::catalog::Placement;
use crate::catalog::Relation;
use crate::catalog::ShardId;
use crate::error::Error;
use crate::sql::Statement;
use crate::sql::command::Command;
use crate::sql::lexer::TokenKind;
use crate::sql::parse::ParseFailure;

/// What the words of a statement are.
#[derive(Default)]
struct Found {
    singles: Vec<ShardId>,
    reference: bool,
    /// A table that is spread, or of which it is not certain where it is; or a function that may do anything.
    spread: Option<String>,
    writes: bool,
}

/// Plans by words.
pub fn plan(statement: &Statement, context: &Context<'_>) -> Plan {
    let found = read(statement, context);
    let effect = if found.writes { Effect::Write } else { Effect::Read };
    let at = |target| Plan::Rows(RowsPlan::at(target, effect));
    if let Some(shard) = context.forced_shard {
        return at(Target::Shard(shard));
    }
    if context.catalog.shards.len() <= 1 {
        return at(Target::Shard(Catalog::HOME));
    }
    let why = match statement.tree() {
        Err(ParseFailure::TooComplex) => "a statement of this size or depth",
        _ => "a statement that cannot be read here",
    };
    match (&found.spread, found.singles.as_slice()) {
        (Some(what), _) => Plan::AskFirst(Error::unsupported(format!("{why}, on {what}")).hint(CHOOSE)),
        (None, []) if found.reference && found.writes => {
            Plan::AskFirst(Error::unsupported(format!("{why}, on reference tables")).hint(CHOOSE))
        }
        (None, []) if found.reference => at(Target::Any),
        (None, []) => at(Target::Home),
        (None, [shard]) if !(found.reference && found.writes) => at(Target::Shard(*shard)),
        (None, _) => {
            Plan::AskFirst(Error::unsupported(format!("{why}, on tables that are on different shards")).hint(CHOOSE))
        }
    }
}

fn read(statement: &Statement, context: &Context<'_>) -> Found {
    let text = &statement.text;
    let mut found =
        Found { writes: !matches!(statement.command, Command::Select | Command::Other), ..Found::default() };
    for (n, token) in statement.tokens.iter().enumerate() {
        let raw = token.text(text);
        let mut name = match token.kind {
            TokenKind::Word => raw.to_ascii_lowercase(),
            TokenKind::QuotedIdent => raw.trim_matches('"').replace("\"\"", "\""),
            _ => continue,
        };
        names::truncate(&mut name);
        found.writes |= matches!(name.as_str(), "insert" | "update" | "delete" | "merge" | "into");
        let called = statement.tokens.get(n + 1).is_some_and(|t| t.is_symbol(text, "("));
        if called {
            function(context, &name, &mut found);
        }
        for relation in context.catalog.relations.values().filter(|r| r.name.name == name) {
            table(relation, &mut found);
        }
    }
    found.singles.sort_unstable();
    found.singles.dedup();
    found
}

fn table(relation: &Relation, found: &mut Found) {
    match &relation.placement {
        Placement::Single(shard) => found.singles.push(*shard),
        Placement::Reference => found.reference = true,
        Placement::System => {}
        Placement::Sharded { .. } | Placement::Ambiguous(_) | Placement::Derived | Placement::Refused(_) => {
            found.spread.get_or_insert(format!("table {}", relation.name));
        }
    }
}

fn function(context: &Context<'_>, name: &str, found: &mut Found) {
    match functions::kind(context, &[name.to_owned()]) {
        Kind::Plain(_) | Kind::Time | Kind::Server | Kind::Unknown => {}
        Kind::Opaque
        | Kind::Declared { .. }
        | Kind::Sequence
        | Kind::SetConfig
        | Kind::AdvisoryLock { .. }
        | Kind::Notify => {
            found.spread.get_or_insert(format!("function {name}"));
        }
    }
}
