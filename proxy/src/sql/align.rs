//! sqlparser's tokens, made to agree with our own.
//!
//! Names, literals, parameters and brackets must stand at the same places in both, else there is no tree. Operators are
//! cut again where sqlparser cuts them otherwise than PostgreSQL (`a>-1`, `a === b`).

use crate::sql::lexer::Token;
use crate::sql::lexer::TokenKind;
use crate::sql::parse::LineIndex;
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::Location;
use sqlparser::tokenizer::Span;
use sqlparser::tokenizer::Token as Foreign;
use sqlparser::tokenizer::TokenWithSpan;
use sqlparser::tokenizer::Tokenizer;
use std::ops::Range;

/// The tokens for sqlparser's parser, white space included; `None` where the two lexers disagree.
pub(crate) fn align(text: &str, own: &[Token], foreign: Vec<TokenWithSpan>) -> Option<Vec<TokenWithSpan>> {
    let index = LineIndex::new(text);
    let mut out = Vec::with_capacity(foreign.len());
    let mut own = own.iter();
    let mut foreign = foreign.into_iter();
    while let Some(theirs) = foreign.next() {
        let Some(kind) = foreign_kind(&theirs.token) else {
            out.push(theirs);
            continue;
        };
        let range = index.byte_range(text, theirs.span)?;
        let ours = own.next()?;
        if own_kind(text, ours)? != kind || ours.range().start != range.start {
            return None;
        }
        if ours.range().end == range.end {
            out.push(TokenWithSpan { token: plain(theirs.token), span: theirs.span });
        } else if kind == Kind::Operator {
            let mut run = Run { text, index: &index, ours: ours.range().end, theirs: range.end };
            let cut = run.cut_again(ours, theirs.span.start, &mut own, &mut foreign)?;
            out.extend(cut);
        } else {
            return None;
        }
    }
    own.next().is_none().then_some(out)
}

/// Operators that stand without white space between them and are cut in different ways.
struct Run<'a> {
    text: &'a str,
    index: &'a LineIndex,
    /// How far each lexer has come.
    ours: usize,
    theirs: usize,
}

impl Run<'_> {
    /// Takes tokens from both sides until both end at the same place; our tokens, for sqlparser.
    fn cut_again<'t>(
        &mut self,
        first: &Token,
        start: Location,
        own: &mut impl Iterator<Item = &'t Token>,
        foreign: &mut impl Iterator<Item = TokenWithSpan>,
    ) -> Option<Vec<TokenWithSpan>> {
        let origin = first.range().start;
        let mut cut = vec![self.token(first.range(), origin, start)];
        while self.ours != self.theirs {
            if self.ours < self.theirs {
                let next = own.next()?;
                if own_kind(self.text, next)? != Kind::Operator || next.range().start != self.ours {
                    return None;
                }
                self.ours = next.range().end;
                cut.push(self.token(next.range(), origin, start));
            } else {
                let next = foreign.next()?;
                let range = self.index.byte_range(self.text, next.span)?;
                if foreign_kind(&next.token)? != Kind::Operator || range.start != self.theirs {
                    return None;
                }
                self.theirs = range.end;
            }
        }
        Some(cut)
    }

    /// Operators are ASCII on one line, so that their columns follow from the first one's.
    fn token(&self, range: Range<usize>, origin: usize, start: Location) -> TokenWithSpan {
        let at = |offset: usize| Location { line: start.line, column: start.column + (offset - origin) as u64 };
        let span = Span { start: at(range.start), end: at(range.end) };
        TokenWithSpan { token: operator(self.text.get(range).unwrap_or_default()), span }
    }
}

/// An operator as sqlparser calls it: one token of its own, else a custom operator.
fn operator(text: &str) -> Foreign {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize().unwrap_or_default();
    match <[Foreign; 1]>::try_from(tokens) {
        Ok([token]) => plain(token),
        Err(_) => Foreign::CustomBinaryOperator(text.to_owned()),
    }
}

/// Operators that mean something in other databases and nothing by themselves in PostgreSQL.
fn plain(token: Foreign) -> Foreign {
    match token {
        Foreign::DoubleEq => Foreign::CustomBinaryOperator("==".to_owned()),
        Foreign::Spaceship => Foreign::CustomBinaryOperator("<=>".to_owned()),
        Foreign::DuckIntDiv => Foreign::CustomBinaryOperator("//".to_owned()),
        other => other,
    }
}

/// What both lexers must agree on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Name,
    QuotedName,
    String,
    BitString,
    Number,
    Param,
    Operator,
    Other(char),
}

fn own_kind(text: &str, token: &Token) -> Option<Kind> {
    Some(match token.kind {
        TokenKind::Word => Kind::Name,
        TokenKind::QuotedIdent => Kind::QuotedName,
        TokenKind::String => Kind::String,
        TokenKind::BitString => Kind::BitString,
        TokenKind::Integer | TokenKind::Decimal => Kind::Number,
        TokenKind::Param => Kind::Param,
        TokenKind::Operator => Kind::Operator,
        TokenKind::Punctuation => match token.text(text).chars().next()? {
            ':' | '.' => Kind::Operator,
            other => Kind::Other(other),
        },
    })
}

/// `None` for white space, comments and the end.
fn foreign_kind(token: &Foreign) -> Option<Kind> {
    Some(match token {
        Foreign::EOF | Foreign::Whitespace(_) => return None,
        Foreign::Word(word) if word.quote_style.is_some() => Kind::QuotedName,
        Foreign::Word(_) => Kind::Name,
        Foreign::Number(..) => Kind::Number,
        Foreign::SingleQuotedString(_)
        | Foreign::DollarQuotedString(_)
        | Foreign::NationalStringLiteral(_)
        | Foreign::EscapedStringLiteral(_)
        | Foreign::UnicodeStringLiteral(_) => Kind::String,
        Foreign::SingleQuotedByteStringLiteral(_) | Foreign::HexStringLiteral(_) => Kind::BitString,
        Foreign::Placeholder(_) => Kind::Param,
        Foreign::LParen => Kind::Other('('),
        Foreign::RParen => Kind::Other(')'),
        Foreign::LBracket => Kind::Other('['),
        Foreign::RBracket => Kind::Other(']'),
        Foreign::Comma => Kind::Other(','),
        Foreign::SemiColon => Kind::Other(';'),
        Foreign::LBrace => Kind::Other('{'),
        Foreign::RBrace => Kind::Other('}'),
        Foreign::Backslash => Kind::Other('\\'),
        Foreign::Char(other) => Kind::Other(*other),
        _ => Kind::Operator,
    })
}
