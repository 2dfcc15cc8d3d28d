//! The text that a tree was made of: from the tree's spans to byte offsets and literal ordinals.

use crate::sql::lexer::Token;
use crate::sql::parse::LineIndex;
use sqlparser::tokenizer::Span;
use std::ops::Range;

/// A client's text, or a view's definition (whose literals have no ordinals).
#[derive(Debug)]
pub struct SourceText<'t> {
    pub text: &'t str,
    pub tokens: &'t [Token],
    lines: LineIndex,
    /// Byte ranges of the literals, in order.
    pub literals: Vec<(usize, usize)>,
    /// Whether plans may name its literals by ordinal.
    pub is_client: bool,
    pub standard_conforming_strings: bool,
}

impl<'t> SourceText<'t> {
    pub fn new(text: &'t str, tokens: &'t [Token], is_client: bool, standard_conforming_strings: bool) -> Self {
        let literals = tokens.iter().filter(|t| t.is_literal()).map(|t| (t.start as usize, t.end as usize)).collect();
        SourceText { text, tokens, lines: LineIndex::new(text), literals, is_client, standard_conforming_strings }
    }

    pub fn range(&self, span: Span) -> Option<Range<usize>> {
        self.lines.byte_range(self.text, span)
    }

    /// The ordinal of the literal that a span covers.
    pub fn literal(&self, span: Span) -> Option<usize> {
        let start = self.range(span)?.start;
        let n = self.literals.partition_point(|(from, _)| *from < start);
        // the parser's span of E'x' may start behind the letter
        match self.literals.get(n) {
            Some((from, _)) if *from == start => Some(n),
            _ => n.checked_sub(1).filter(|n| self.literals.get(*n).is_some_and(|(_, to)| *to > start)),
        }
    }

    /// Ordinals of all literals within a byte range.
    pub fn literals_in(&self, range: &Range<usize>) -> impl Iterator<Item = usize> + '_ {
        let first = self.literals.partition_point(|(from, _)| *from < range.start);
        let last = self.literals.partition_point(|(from, _)| *from < range.end);
        first..last
    }
}
