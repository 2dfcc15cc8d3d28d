//! sqlparser behind bounds.

use crate::sql::lexer::Token;

/// Why there is no tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParseFailure {
    /// sqlparser's own words.
    Syntax(String),
    /// Too many bytes, tokens, operators or levels to be parsed here.
    TooComplex,
}

pub fn parse(_text: &str, _tokens: &[Token]) -> Result<sqlparser::ast::Statement, ParseFailure> {
    Err(ParseFailure::TooComplex)
}
