//! INSERT … SELECT of rows that no sharded table gives: one server computes them, each goes to the shard of its key.

use super::Part;
use super::Shape;
use super::WritePlan;
use super::defaults;
use super::defaults::quoted;
use super::without_semicolons;
use crate::catalog::Column;
use crate::catalog::Relation;
use crate::error::Error;
use crate::plan::Context;
use crate::plan::KeyCondition;
use crate::plan::KeyExpr;
use crate::plan::Source;
use crate::plan::source::SourceText;
use crate::sql::lexer::Token;
use crate::sql::lexer::TokenKind;
use crate::value::Datum;
use sqlparser::ast::Insert;
use sqlparser::ast::InsertOverriding;

/// The rows are read as text on one server, and written from arrays of text.
#[derive(Clone, Debug, PartialEq)]
pub struct Gathered {
    /// Gives the rows, each column as text. Its parameters are the client's.
    pub read: Vec<Part>,
    /// Writes them: the n-th parameter is an array of the n-th column.
    pub write: Vec<Part>,
    pub columns: usize,
    /// The key of one row, whose columns are the drawn values.
    pub key: KeyCondition,
    /// Each row that is written comes back, in the order of the rows.
    pub returning: bool,
}

/// What the planner knows of an INSERT … SELECT.
pub struct Input<'x> {
    pub insert: &'x Insert,
    pub relation: &'x Relation,
    /// Positions of the columns that are given, in the order of the INSERT.
    pub columns: &'x [usize],
    /// Positions of the key's columns.
    pub key: &'x [usize],
    pub condition: &'x KeyCondition,
}

/// The columns that are left out and whose defaults one server must give.
pub fn filled(input: &Input<'_>, context: &Context<'_>) -> Vec<usize> {
    let left_out = input.relation.columns.iter().enumerate().filter(|(n, _)| !input.columns.contains(n));
    let needed = left_out.filter(|(n, column)| defaults::when(column, input.key.contains(n), context).is_some());
    needed.map(|(n, _)| n).collect()
}

/// The plan; `None` if the text is not read here as the tree says.
pub fn plan(input: &Input<'_>, filled: &[usize], source: &SourceText<'_>) -> Option<Result<WritePlan, Error>> {
    let (text, tokens) = (source.text, without_semicolons(source.text, source.tokens));
    let layout = layout(input.insert, text, tokens)?;
    let columns: Option<Vec<&Column>> =
        input.columns.iter().chain(filled).map(|n| input.relation.columns.get(*n)).collect();
    let columns = columns?;
    let identity = filled.iter().any(|n| input.relation.columns.get(*n).is_some_and(|c| c.identity));
    if identity && matches!(input.insert.overriding, Some(InsertOverriding::User)) {
        return Some(Err(Error::unsupported("OVERRIDING USER VALUE on a sharded table")));
    }
    let has_tail = layout.tail < tokens.len();
    if has_tail && !super::params(text, tokens, layout.tail, tokens.len() - 1).is_empty() {
        return Some(Err(Error::unsupported(
            "a parameter in ON CONFLICT or RETURNING of an INSERT … SELECT over several shards",
        )
        .hint("Write the value into the statement.")));
    }
    let key: Vec<Source> = input
        .key
        .iter()
        .map(|k| match input.columns.iter().chain(filled).position(|n| n == k) {
            Some(n) => Source::Drawn(n),
            None => Source::Const(Datum::Null),
        })
        .collect();
    let gathered = Gathered {
        read: read(input, filled, &columns, &layout),
        write: write(&columns, identity && input.insert.overriding.is_none(), &layout, tokens.len(), text, tokens),
        columns: columns.len(),
        key: KeyCondition { expr: KeyExpr::Row(key), ..input.condition.clone() },
        returning: input.insert.returning.is_some(),
    };
    Some(Ok(WritePlan { shape: Shape::Gathered(Box::new(gathered)), draws: Vec::new(), several: Ok(()) }))
}

/// Where the parts stand, as ordinals of tokens.
struct Layout {
    /// The last token of the table's name and alias.
    table: usize,
    /// OVERRIDING, where it is written.
    overriding: Option<usize>,
    query: usize,
    /// The first token behind the query.
    tail: usize,
}

fn layout(insert: &Insert, text: &str, tokens: &[Token]) -> Option<Layout> {
    let is = |n: usize, word: &str| tokens.get(n).is_some_and(|t| t.is_word(text, word));
    let symbol = |n: usize, symbol: &str| tokens.get(n).is_some_and(|t| t.is_symbol(text, symbol));
    if !is(0, "insert") || !is(1, "into") {
        return None;
    }
    let mut table = 2;
    while symbol(table + 1, ".") {
        table += 2;
    }
    if is(table + 1, "as") {
        table += 2;
    }
    tokens.get(table).filter(|t| matches!(t.kind, TokenKind::Word | TokenKind::QuotedIdent))?;
    let mut at = table + 1;
    if !insert.columns.is_empty() {
        symbol(at, "(").then_some(())?;
        at = closing(text, tokens, at)? + 1;
    }
    let overriding = insert.overriding.is_some().then_some(at);
    if overriding.is_some() {
        is(at, "overriding").then_some(())?;
        at += 3;
    }
    let starts = ["select", "values", "with", "table"];
    (symbol(at, "(") || starts.iter().any(|word| is(at, word))).then_some(())?;
    let tail = super::insert::depth_zero(text, tokens)
        .find(|&n| n > at && (is(n, "returning") || (is(n, "on") && is(n + 1, "conflict"))))
        .unwrap_or(tokens.len());
    Some(Layout { table, overriding, query: at, tail })
}

fn closing(text: &str, tokens: &[Token], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (n, token) in tokens.iter().enumerate().skip(open) {
        if token.is_symbol(text, "(") {
            depth += 1;
        } else if token.is_symbol(text, ")") {
            depth = depth.checked_sub(1)?;
            if depth == 0 {
                return Some(n);
            }
        }
    }
    None
}

fn read(input: &Input<'_>, filled: &[usize], columns: &[&Column], layout: &Layout) -> Vec<Part> {
    let given = input.columns.len();
    let names: Vec<String> = (1..=given).map(|n| format!("shardway_{n}")).collect();
    let mut values: Vec<String> =
        columns.iter().zip(&names).map(|(c, name)| defaults::as_text(&format!("shardway_rows.{name}"), c)).collect();
    let defaults = filled.iter().filter_map(|n| input.relation.columns.get(*n));
    values.extend(defaults.map(|column| defaults::expression(input.relation, column)));
    vec![
        Part::Text(format!("SELECT {} FROM (", values.join(", "))),
        Part::Tokens { first: layout.query, last: layout.tail - 1 },
        Part::Text(format!(") AS shardway_rows({})", names.join(", "))),
    ]
}

fn write(columns: &[&Column], system: bool, layout: &Layout, end: usize, text: &str, tokens: &[Token]) -> Vec<Part> {
    let names: Vec<String> = columns.iter().map(|c| quoted(&c.name)).collect();
    let typed = |(n, column): (usize, &&Column)| match defaults::cuts(column) {
        true => format!("shardway_rows.shardway_{n}"),
        false => format!("shardway_rows.shardway_{n}::{}", column.type_name),
    };
    let values: Vec<String> = (1..).zip(columns).map(typed).collect();
    let numbers = 1..=columns.len();
    // unnest of several arrays is not to be had under a qualified name
    let arrays: Vec<String> = numbers.clone().map(|n| format!("pg_catalog.unnest(${n}::pg_catalog.text[])")).collect();
    let aliases: Vec<String> = numbers.map(|n| format!("shardway_{n}")).collect();
    let overriding = match layout.overriding {
        Some(at) => format!(" {}", super::between(text, tokens, at, at + 2)),
        None if system => " OVERRIDING SYSTEM VALUE".to_owned(),
        None => String::new(),
    };
    let mut parts = vec![
        Part::Tokens { first: 0, last: layout.table },
        Part::Text(format!(
            " ({}){overriding} SELECT {} FROM ROWS FROM ({}) AS shardway_rows({})",
            names.join(", "),
            values.join(", "),
            arrays.join(", "),
            aliases.join(", "),
        )),
    ];
    if layout.tail < end {
        parts.push(Part::Text(" ".to_owned()));
        parts.push(Part::Tokens { first: layout.tail, last: end - 1 });
    }
    parts
}
