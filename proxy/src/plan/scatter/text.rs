//! Byte ranges of the statement → pieces of a template.

use crate::plan::source::SourceText;
use crate::plan::template::Template;
use crate::sql::clauses;
use crate::sql::clauses::SelectClauses;
use std::ops::Range;

/// The clauses of the main SELECT, behind its WITH.
pub fn clauses(source: &SourceText<'_>) -> Option<SelectClauses> {
    let main = clauses::after_with(source.tokens, source.text, 0)?;
    let start = source.tokens.get(main)?.start as usize;
    clauses::clause_ranges(source.tokens, source.text, start..source.text.len())
}

/// Appends the tokens within a byte range.
pub fn push_range(template: &mut Template, source: &SourceText<'_>, range: &Range<usize>) {
    let within = clauses::tokens_in(source.tokens, range);
    let (Some(first), Some(last)) = (within.first(), within.last()) else { return };
    let index = |start: u32| clauses::token_at(source.tokens, start as usize);
    if let (Some(first), Some(last)) = (index(first.start), index(last.start)) {
        template.push_tokens(first, last);
    }
}

/// Whether two pieces of the text have the same tokens; words count in any case.
pub fn same_tokens(source: &SourceText<'_>, a: &Range<usize>, b: &Range<usize>) -> bool {
    let (a, b) = (clauses::tokens_in(source.tokens, a), clauses::tokens_in(source.tokens, b));
    a.len() == b.len()
        && a.iter().zip(b).all(|(a, b)| {
            let (x, y) = (a.text(source.text), b.text(source.text));
            a.kind == b.kind && (x == y || (a.kind == crate::sql::lexer::TokenKind::Word && x.eq_ignore_ascii_case(y)))
        })
}
