//! The changes of a splice, tied to tokens instead of bytes: they serve every text with the same normalised form.
//!
//! A plan is cached for texts that differ in literals, white space and comments. Its template makes the splice for the
//! text at hand, and with it the way back for PostgreSQL's error positions. What was put in must not depend on
//! literals of the first text, unless the planner keeps the plan for these literals only.

use crate::sql::lexer::Token;
use crate::sql::splice::Splice;
use std::borrow::Cow;
use std::ops::Range;

/// A border of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Anchor {
    /// Before the n-th token, from 0.
    Before(usize),
    After(usize),
}

/// Changes between borders of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Of the text that it was made from, semicolons at the end left out.
    tokens: usize,
    edits: Vec<(Anchor, Anchor, Cow<'static, str>)>,
}

impl Template {
    /// Ties the changes of a splice to the tokens of its text. `None` if one of them begins or ends inside a token or
    /// in the midst of white space.
    pub fn new(splice: &Splice<'_>, tokens: &[Token]) -> Option<Template> {
        let text = splice.text();
        let tokens = without_semicolons(text, tokens);
        let edits = splice
            .edits()
            .map(|(range, new)| {
                let start = anchor(tokens, range.start)?;
                let end = if range.is_empty() { start } else { anchor(tokens, range.end)? };
                Some((start, end, new.clone()))
            })
            .collect::<Option<Vec<_>>>()?;
        Some(Template { tokens: tokens.len(), edits })
    }

    /// The same changes in another text of the same normalised form; `tokens` are its own. `None` if the text has other
    /// tokens.
    pub fn apply<'a>(&self, text: &'a str, tokens: &[Token]) -> Option<Splice<'a>> {
        let tokens = without_semicolons(text, tokens);
        if tokens.len() != self.tokens {
            return None;
        }
        let mut splice = Splice::new(text);
        for (start, end, new) in &self.edits {
            let range: Range<usize> = start.offset(tokens)?..end.offset(tokens)?;
            splice.replace(range, new.clone());
        }
        Some(splice)
    }
}

impl Anchor {
    fn offset(self, tokens: &[Token]) -> Option<usize> {
        match self {
            Anchor::Before(index) => tokens.get(index).map(|token| token.range().start),
            Anchor::After(index) => tokens.get(index).map(|token| token.range().end),
        }
    }
}

fn anchor(tokens: &[Token], offset: usize) -> Option<Anchor> {
    let next = tokens.partition_point(|token| token.range().start < offset);
    if tokens.get(next).is_some_and(|token| token.range().start == offset) {
        return Some(Anchor::Before(next));
    }
    let last = next.checked_sub(1)?;
    tokens.get(last).is_some_and(|token| token.range().end == offset).then_some(Anchor::After(last))
}

fn without_semicolons<'t>(text: &str, tokens: &'t [Token]) -> &'t [Token] {
    let count = tokens.iter().rev().take_while(|token| token.is_symbol(text, ";")).count();
    tokens.get(..tokens.len() - count).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::Template;
    use crate::sql::lexer::tokenize;
    use crate::sql::splice::Splice;

    #[test]
    fn changes_move_with_their_tokens() {
        let text = "SELECT a FROM t WHERE b = 'x' LIMIT 5 OFFSET 10";
        let tokens = tokenize(text, true).unwrap();
        let mut splice = Splice::new(text);
        splice.insert(8, ", b AS hidden");
        splice.replace(36..37, "$1");
        splice.delete(38..47);
        let template = Template::new(&splice, &tokens).unwrap();
        let other = "SELECT a  /* é */ FROM t\nWHERE b = 'another one' LIMIT 77 OFFSET 0 ;";
        let tokens = tokenize(other, true).unwrap();
        let applied = template.apply(other, &tokens).unwrap();
        assert_eq!(
            applied.finish().unwrap(),
            "SELECT a, b AS hidden  /* é */ FROM t\nWHERE b = 'another one' LIMIT $1  ;"
        );
        assert_eq!(applied.map_back(36), Some(23));
        assert!(template.apply("SELECT a", &tokenize("SELECT a", true).unwrap()).is_none());
    }

    #[test]
    fn changes_inside_tokens_or_white_space_are_declined() {
        let text = "SELECT abc  FROM t";
        let tokens = tokenize(text, true).unwrap();
        for (at, fits) in [(7, true), (8, false), (10, true), (11, false), (12, true), (18, true), (0, true)] {
            let mut splice = Splice::new(text);
            splice.insert(at, "x");
            assert_eq!(Template::new(&splice, &tokens).is_some(), fits, "{at}");
        }
    }
}
