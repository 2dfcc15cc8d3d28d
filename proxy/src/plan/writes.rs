//! A write that is not forwarded as it stands: an INSERT whose rows are divided among shards, one that needs values
//! which only one server may give, and the same UPDATE or DELETE on several shards.
//!
//! The shards' texts are the client's own, cut at tokens, with values put in that the lead shard has given. Tokens are
//! named by ordinal, so that one plan serves every text of its form.

pub mod defaults;
pub mod gather;
pub mod insert;
pub mod moment;
pub mod several;

use crate::error::Error;
use crate::plan::KeyCondition;
use crate::sql::lexer::Token;
use gather::Gathered;

/// What is sent, and what has to be known before.
#[derive(Clone, Debug)]
pub struct WritePlan {
    pub shape: Shape,
    /// Values that are drawn before rows are written. They are numbered through: those of the first draw come first.
    pub draws: Vec<Draw>,
    /// Whether it can be on several shards, or why not.
    pub several: Result<(), Error>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// The same text on every shard; answers are joined as they come, counts are added.
    Same(Vec<Part>),
    /// Each row of VALUES goes to the shard of its key.
    Rows(Box<Split>),
    /// Rows of a query are computed on the home shard and divided.
    Gathered(Box<Gathered>),
}

/// An INSERT in pieces.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    /// Up to the first row.
    pub head: Vec<Part>,
    /// At least one.
    pub rows: Vec<Row>,
    /// Behind the last row.
    pub tail: Vec<Part>,
    /// Numbers of the parameters in head and tail.
    pub params: Vec<usize>,
    /// The rows' keys: a [`KeyExpr::Row`](crate::plan::KeyExpr::Row) for each.
    pub condition: KeyCondition,
    /// Each row that is written comes back, in the order of the rows.
    pub returning: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    pub parts: Vec<Part>,
    /// Numbers of the parameters in it.
    pub params: Vec<usize>,
}

/// A piece of a text.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    Text(String),
    /// The client's text from the start of one token to the end of another.
    Tokens {
        first: usize,
        last: usize,
    },
    /// A drawn value as a literal; where it was not drawn, what stands there in the client's text, or DEFAULT.
    Drawn {
        value: usize,
        type_name: Option<&'static str>,
        otherwise: Option<(usize, usize)>,
    },
}

/// Values that one server gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Draw {
    /// An expression of type text.
    pub expr: Vec<Part>,
    pub count: usize,
    pub when: When,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Whatever the shards are: numbers of a sequence, and values of the shard key.
    Always,
    /// Where several shards are written, so that they do not differ.
    Several,
}

/// A drawn value: its text, or NULL.
pub type Value = Option<Box<str>>;

/// All values of a plan, by number; `None`: not drawn.
pub type Drawn = [Option<Value>];

impl WritePlan {
    /// How many values there are.
    pub fn values(&self) -> usize {
        self.draws.iter().map(|d| d.count).sum()
    }

    /// Whether it has the present time in it, which one server must give where several take part.
    pub fn has_moments(&self) -> bool {
        self.several.is_ok() && self.draws.iter().any(|d| d.when == When::Several)
    }

    /// Whether values are drawn before the shards are known.
    pub fn always_draws(&self) -> bool {
        matches!(self.shape, Shape::Gathered(_)) || self.draws.iter().any(|d| d.when == When::Always)
    }
}

/// Appends a text; `tokens` are those of `text`.
pub fn render(parts: &[Part], text: &str, tokens: &[Token], drawn: &Drawn, out: &mut String) {
    for part in parts {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Tokens { first, last } => out.push_str(between(text, tokens, *first, *last)),
            Part::Drawn { value, type_name, otherwise } => match (drawn.get(*value), otherwise) {
                (Some(Some(value)), _) => push_literal(value.as_deref(), *type_name, out),
                (_, Some((first, last))) => out.push_str(between(text, tokens, *first, *last)),
                (_, None) => out.push_str("DEFAULT"),
            },
        }
    }
}

/// The client's text from one token to another.
pub fn between<'t>(text: &'t str, tokens: &[Token], first: usize, last: usize) -> &'t str {
    let (Some(first), Some(last)) = (tokens.get(first), tokens.get(last)) else { return "" };
    text.get(first.start as usize..last.end as usize).unwrap_or("")
}

/// A literal that means the same whatever standard_conforming_strings is (quote_literal in quote.c).
fn push_literal(value: Option<&str>, type_name: Option<&str>, out: &mut String) {
    let Some(value) = value else {
        out.push_str("NULL");
        return;
    };
    if type_name.is_some() {
        out.push('(');
    }
    if value.contains('\\') {
        out.push_str(" E");
    }
    out.push('\'');
    for c in value.chars() {
        if matches!(c, '\'' | '\\') {
            out.push(c);
        }
        out.push(c);
    }
    out.push('\'');
    if let Some(name) = type_name {
        out.push_str("::pg_catalog.");
        out.push_str(name);
        out.push(')');
    }
}

/// Numbers of the parameters among tokens.
pub fn params(text: &str, tokens: &[Token], first: usize, last: usize) -> Vec<usize> {
    let tokens = tokens.get(first..=last).unwrap_or_default().iter();
    let numbers = tokens.filter(|t| t.kind == crate::sql::lexer::TokenKind::Param);
    let mut numbers: Vec<usize> = numbers.filter_map(|t| t.text(text).get(1..)?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// The tokens of a text without the semicolons at its end.
pub fn without_semicolons<'t>(text: &str, tokens: &'t [Token]) -> &'t [Token] {
    let count = tokens.iter().rev().take_while(|token| token.is_symbol(text, ";")).count();
    tokens.get(..tokens.len() - count).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::Part;
    use super::render;
    use crate::sql::lexer::tokenize;

    #[test]
    fn values_are_literals_under_any_setting() {
        let part = |value| Part::Drawn { value, type_name: None, otherwise: None };
        let parts =
            [Part::Tokens { first: 0, last: 1 }, Part::Text(", ".to_owned()), part(0), part(1), part(2), part(3)];
        let text = "(1, x)";
        let tokens = tokenize(text, true).unwrap();
        let mut out = String::new();
        let drawn = [Some(Some("it's".into())), Some(Some("a\\b".into())), Some(None), None];
        render(&parts, text, &tokens, &drawn, &mut out);
        assert_eq!(out, "(1, 'it''s' E'a\\\\b'NULLDEFAULT");
    }
}
