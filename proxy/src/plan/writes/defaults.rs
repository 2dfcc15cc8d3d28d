//! What an INSERT into a sharded table must ask for before its rows are divided: columns that are left out, or DEFAULT.

use super::Draw;
use super::Part;
use super::When;
use crate::catalog::Column;
use crate::catalog::Placement;
use crate::catalog::Relation;
use crate::plan::Context;
use crate::plan::functions;
use crate::plan::functions::Kind;
use crate::sql::lexer;
use crate::sql::lexer::TokenKind;
use sqlparser::ast::Expr;
use std::collections::HashMap;

/// Values that stand in for defaults.
#[derive(Debug, Default)]
pub struct Fills {
    pub draws: Vec<Draw>,
    /// Row and column of the table → number of the value.
    cells: HashMap<(usize, usize), usize>,
    /// One of them is that of an identity column.
    pub identity: bool,
}

impl Fills {
    /// The value for a column of a row.
    pub fn value(&self, row: usize, column: usize) -> Option<usize> {
        self.cells.get(&(row, column)).copied()
    }

    /// Columns of the table that some row has a value for.
    pub fn columns(&self) -> Vec<usize> {
        let mut columns: Vec<usize> = self.cells.keys().map(|(_, column)| *column).collect();
        columns.sort_unstable();
        columns.dedup();
        columns
    }
}

/// The values that defaults of these rows need. `columns` are the positions that the INSERT gives, in its order; a row
/// has an expression for each.
pub fn fills(relation: &Relation, columns: &[usize], rows: &[&[Expr]], context: &Context<'_>) -> Fills {
    let mut fills = Fills::default();
    let key = match &relation.placement {
        Placement::Sharded { key, .. } => key.as_slice(),
        _ => return fills,
    };
    let mut next = 0;
    // A key that is a time is drawn with all other times, so that they are one.
    let column = |k: &usize| relation.columns.get(*k).and_then(|c| c.default.as_deref());
    let timed = key.iter().filter_map(column).any(|default| varies(default, context) == Some(When::Several));
    for (position, column) in relation.columns.iter().enumerate() {
        let Some(when) = when(column, key.contains(&position), context) else { continue };
        let when = if timed { When::Always } else { when };
        let given = columns.iter().position(|c| *c == position);
        let lacks = |row: &&[Expr]| given.and_then(|n| row.get(n)).is_none_or(is_default);
        let lacking: Vec<usize> = (0..).zip(rows).filter(|(_, row)| lacks(row)).map(|(n, _)| n).collect();
        if lacking.is_empty() {
            continue;
        }
        fills.draws.push(Draw { expr: vec![Part::Text(expression(relation, column))], count: lacking.len(), when });
        fills.identity |= column.identity;
        for row in lacking {
            fills.cells.insert((row, position), next);
            next += 1;
        }
    }
    fills
}

/// DEFAULT in VALUES.
pub fn is_default(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(i) if i.quote_style.is_none() && i.value.eq_ignore_ascii_case("default"))
}

/// When the default of a column must be drawn; `None`: every shard may compute it.
pub fn when(column: &Column, is_key: bool, context: &Context<'_>) -> Option<When> {
    if column.generated {
        return None;
    }
    if column.identity {
        return Some(When::Always);
    }
    let default = column.default.as_deref()?;
    match varies(default, context) {
        Some(When::Always) => Some(When::Always),
        _ if is_key => Some(When::Always),
        varies => varies,
    }
}

/// How an expression as pg_get_expr gives it differs between servers, if it does.
fn varies(expr: &str, context: &Context<'_>) -> Option<When> {
    // pg_get_expr writes backslashes in E'' only
    let Ok(tokens) = lexer::tokenize(expr, true) else { return Some(When::Several) };
    let mut found = None;
    for (n, token) in tokens.iter().enumerate() {
        let text = token.text(expr);
        let kind = match token.kind {
            TokenKind::Word | TokenKind::QuotedIdent => {
                let name = text.trim_matches('"').to_ascii_lowercase();
                let called = tokens.get(n + 1).is_some_and(|t| t.is_symbol(expr, "("));
                let kind = functions::kind(context, std::slice::from_ref(&name));
                if called || matches!(kind, Kind::Time | Kind::Server) { kind } else { continue }
            }
            TokenKind::String if is_present(text) => Kind::Time,
            _ => continue,
        };
        match kind {
            Kind::Sequence => return Some(When::Always),
            Kind::Time | Kind::Server => found = Some(When::Several),
            _ => {}
        }
    }
    found
}

/// A constant that may stand for the present time.
fn is_present(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["now", "today", "tomorrow", "yesterday"].iter().any(|word| text.contains(word))
}

/// The value of a default, as text that the column's type reads.
pub fn expression(relation: &Relation, column: &Column) -> String {
    if column.identity {
        let table = format!("{}.{}", quoted(&relation.name.schema), quoted(&relation.name.name));
        return format!(
            "pg_catalog.nextval(pg_catalog.pg_get_serial_sequence({}, {}))::pg_catalog.text",
            literal(&table),
            literal(&column.name)
        );
    }
    let default = column.default.as_deref().unwrap_or("NULL");
    as_text(default, column)
}

/// A value of an expression as text that the column's type reads.
pub fn as_text(expr: &str, column: &Column) -> String {
    if cuts(column) {
        format!("({expr})::pg_catalog.text")
    } else {
        format!("(({expr})::{})::pg_catalog.text", column.type_name)
    }
}

/// A cast to the column's type cuts what is too long, where an assignment complains.
pub fn cuts(column: &Column) -> bool {
    ["character", "bit"].iter().any(|name| column.type_name.starts_with(name))
}

pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn literal(text: &str) -> String {
    let mut out = String::new();
    super::push_literal(Some(text), None, &mut out);
    out
}
