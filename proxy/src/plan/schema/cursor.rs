//! Reads a statement word by word.

use crate::plan::names;
use crate::sql::Statement;
use crate::sql::clauses;
use crate::sql::lexer::Token;
use crate::sql::lexer::TokenKind;

/// A place between two tokens.
pub struct Cursor<'s> {
    text: &'s str,
    tokens: &'s [Token],
    at: usize,
}

impl<'s> Cursor<'s> {
    pub fn new(statement: &'s Statement) -> Cursor<'s> {
        Cursor { text: &statement.text, tokens: &statement.tokens, at: 0 }
    }

    /// The next token.
    pub fn peek(&self) -> Option<&'s Token> {
        self.tokens.get(self.at)
    }

    pub fn at_end(&self) -> bool {
        self.peek().is_none_or(|t| t.is_symbol(self.text, ";"))
    }

    /// The next token if it is an unquoted word, in lower case.
    pub fn word(&mut self) -> Option<String> {
        let token = self.peek().filter(|t| t.kind == TokenKind::Word)?;
        self.at += 1;
        Some(token.text(self.text).to_ascii_lowercase())
    }

    /// Goes past this word if it is next.
    pub fn take(&mut self, word: &str) -> bool {
        let found = self.peek().is_some_and(|t| t.is_word(self.text, word));
        self.at += usize::from(found);
        found
    }

    pub fn take_symbol(&mut self, symbol: &str) -> bool {
        let found = self.peek().is_some_and(|t| t.is_symbol(self.text, symbol));
        self.at += usize::from(found);
        found
    }

    pub fn is_any(&self, words: &[&str]) -> bool {
        words.iter().any(|w| self.peek().is_some_and(|t| t.is_word(self.text, w)))
    }

    /// IF EXISTS, IF NOT EXISTS
    pub fn if_exists(&mut self) -> bool {
        if !self.take("if") {
            return false;
        }
        self.take("not");
        self.take("exists")
    }

    /// A name with its schema, folded.
    pub fn name(&mut self) -> Option<Vec<String>> {
        let mut parts = vec![self.identifier()?];
        while self.take_symbol(".") {
            parts.push(self.identifier()?);
        }
        Some(parts)
    }

    fn identifier(&mut self) -> Option<String> {
        let token = self.peek()?;
        let text = token.text(self.text);
        let mut name = match token.kind {
            TokenKind::Word => text.to_ascii_lowercase(),
            TokenKind::QuotedIdent => text.strip_prefix('"')?.strip_suffix('"')?.replace("\"\"", "\""),
            _ => return None,
        };
        names::truncate(&mut name);
        self.at += 1;
        Some(name)
    }

    /// A comma-separated list of names; what stands behind a name (`*`, columns, a key word) is passed over.
    pub fn names(&mut self, noise: &[&str]) -> Vec<Vec<String>> {
        let mut names = Vec::new();
        loop {
            while noise.iter().any(|w| self.take(w)) {}
            let Some(name) = self.name() else { return names };
            names.push(name);
            self.take_symbol("*");
            self.parenthesised();
            if !self.take_symbol(",") {
                return names;
            }
        }
    }

    /// Goes past parentheses if they are next; their text, in lower case.
    pub fn parenthesised(&mut self) -> Option<String> {
        let open = self.peek().filter(|t| t.is_symbol(self.text, "("))?;
        let close = clauses::closing(self.tokens, self.text, self.at)?;
        let end = self.tokens.get(close)?.end as usize;
        self.at = close + 1;
        Some(self.text.get(open.start as usize..end)?.to_ascii_lowercase())
    }

    /// Goes past the next such word outside parentheses.
    pub fn skip_to(&mut self, word: &str) -> bool {
        while self.peek().is_some() {
            if self.take(word) {
                return true;
            }
            if self.parenthesised().is_none() {
                self.at += 1;
            }
        }
        false
    }

    /// Whether a word comes anywhere from here.
    pub fn contains(&self, word: &str) -> bool {
        self.tokens.iter().skip(self.at).any(|t| t.is_word(self.text, word))
    }
}
