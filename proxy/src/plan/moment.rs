//! `now()` and its kin over several servers: one value for all, that of the first participant.
//!
//! Servers that begin a transaction at different times would give different values. So each call in the client's text
//! gives way to an expression over two values of timestamptz, which a server has been asked for.

use super::template::Piece;
use crate::sql::clauses;
use crate::sql::lexer::Token;

/// What tells both values, as microseconds since 2000-01-01 (what timestamptz has in binary).
pub const QUERY: &str = "SELECT \
     ((extract(epoch FROM pg_catalog.now()) - 946684800) * 1000000)::pg_catalog.int8, \
     ((extract(epoch FROM pg_catalog.statement_timestamp()) - 946684800) * 1000000)::pg_catalog.int8";

/// The numbers of the parameters that hold the times of the transaction and of the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub transaction: usize,
    pub statement: usize,
}

/// A call: tokens, first and last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub first: usize,
    pub last: usize,
    what: What,
    /// The token of `n` in `current_timestamp(n)`.
    precision: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Transaction,
    Statement,
    /// A cast of the transaction's time to this type.
    As(&'static str),
}

/// The calls in a text, in order. Names behind AS or a dot (other than pg_catalog's) are no calls.
pub fn calls(text: &str, tokens: &[Token]) -> Vec<Call> {
    let mut calls = Vec::new();
    let symbol = |at: usize, s: &str| tokens.get(at).is_some_and(|t| t.is_symbol(text, s));
    let word = |at: usize, w: &str| tokens.get(at).is_some_and(|t| t.is_word(text, w));
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        let here = at;
        at += 1;
        let dotted = here > 0 && symbol(here - 1, ".");
        let catalog = dotted && here > 1 && word(here - 2, "pg_catalog");
        let labelled = here > 0 && word(here - 1, "as");
        let function =
            ["now", "transaction_timestamp", "statement_timestamp"].into_iter().find(|w| token.is_word(text, w));
        if let Some(name) = function {
            if (!dotted || catalog) && symbol(here + 1, "(") && symbol(here + 2, ")") {
                let what = if name == "statement_timestamp" { What::Statement } else { What::Transaction };
                let first = if catalog { here - 2 } else { here };
                calls.push(Call { first, last: here + 2, what, precision: None });
            }
            continue;
        }
        if dotted || labelled {
            continue;
        }
        let types = [
            ("current_timestamp", "timestamptz"),
            ("current_date", "date"),
            ("current_time", "timetz"),
            ("localtimestamp", "timestamp"),
            ("localtime", "time"),
        ];
        let Some((name, cast)) = types.into_iter().find(|(w, _)| token.is_word(text, w)) else { continue };
        let close = (symbol(here + 1, "(") && name != "current_date")
            .then(|| clauses::closing(tokens, text, here + 1))
            .flatten();
        match close {
            Some(close) if close == here + 3 => {
                calls.push(Call { first: here, last: close, what: What::As(cast), precision: Some(here + 2) });
            }
            _ => calls.push(Call { first: here, last: here, what: What::As(cast), precision: None }),
        }
    }
    calls
}

impl Call {
    /// What takes its place; `transaction` and `statement` are SQL for the two values.
    pub fn pieces(&self, transaction: &str, statement: &str) -> Vec<Piece> {
        let text = |text: String| Piece::Text(text);
        match (self.what, self.precision) {
            (What::Transaction, _) => vec![text(format!(" ({transaction}::pg_catalog.timestamptz) "))],
            (What::Statement, _) => vec![text(format!(" ({statement}::pg_catalog.timestamptz) "))],
            (What::As(cast), None) => {
                vec![text(format!(" ({transaction}::pg_catalog.timestamptz::pg_catalog.{cast}) "))]
            }
            (What::As(cast), Some(n)) => vec![
                text(format!(" ({transaction}::pg_catalog.timestamptz::pg_catalog.{cast}(")),
                Piece::Tokens { first: n, last: n },
                text(")) ".to_owned()),
            ],
        }
    }
}

/// The highest `$n` in a text.
pub fn parameters(text: &str, tokens: &[Token]) -> usize {
    let number = |t: &Token| t.text(text).strip_prefix('$')?.parse::<usize>().ok();
    tokens.iter().filter(|t| t.kind == crate::sql::lexer::TokenKind::Param).filter_map(number).max().unwrap_or(0)
}
