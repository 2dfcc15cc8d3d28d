//! Text → [`Statement`].
//!
//! A lexer of our own cuts the text into tokens with byte offsets (PostgreSQL's scan.l is the rule: nested comments,
//! E'', U&'', $tag$, standard_conforming_strings); from the tokens come the statement's kind and its normalised form;
//! sqlparser gives the tree where one is needed. Text is never printed from a tree: it is spliced by byte offsets.
//!
//! Bottom up: `scanner` (PostgreSQL's lexical rules) → `lexer` (tokens), `normalize` (key and literals), `literal`
//! (values) → `reader`, `settings`, `command` (kinds), `names`, `hint` → `align`, `parse` (tree, locations), `clauses` (where the
//! parts of a SELECT stand) → `splice`, `template` (new texts).

mod align;
pub mod clauses;
pub mod command;
pub mod hint;
pub mod lexer;
pub mod literal;
pub mod names;
pub mod normalize;
pub mod parse;
mod reader;
mod scanner;
mod settings;
pub mod splice;
pub mod template;

use crate::error::Result;
use crate::sql::command::Command;
use std::sync::Arc;

/// One statement: its text, its tokens, its kind. The tree is made when it is asked for.
#[derive(Debug)]
pub struct Statement {
    pub text: Arc<str>,
    pub tokens: Vec<lexer::Token>,
    pub command: Command,
    tree: std::sync::OnceLock<std::result::Result<sqlparser::ast::Statement, parse::ParseFailure>>,
}

impl Statement {
    /// Cuts one statement (without its semicolon, or with it) into tokens and tells its kind.
    ///
    /// # Errors
    /// What cannot be cut into tokens: an unterminated string, comment or quoted name (42601).
    pub fn new(text: Arc<str>, standard_conforming_strings: bool) -> Result<Statement> {
        let tokens = lexer::tokenize(&text, standard_conforming_strings)?;
        let command = command::classify(&text, &tokens);
        Ok(Statement { text, tokens, command, tree: std::sync::OnceLock::new() })
    }

    /// The tree of sqlparser (PostgreSqlDialect, `with_unescape(false)`), made once.
    ///
    /// # Errors
    /// What sqlparser cannot parse, or what is too large to parse here; neither says that the text is wrong.
    pub fn tree(&self) -> std::result::Result<&sqlparser::ast::Statement, &parse::ParseFailure> {
        self.tree.get_or_init(|| parse::parse(&self.text, &self.tokens)).as_ref()
    }
}
