//! A place among the tokens of a statement, for the small grammars of utility statements.

use crate::sql::lexer::Token;
use crate::sql::lexer::TokenKind;
use crate::sql::names;
use std::ops::Range;

/// Reads forward. What does not match leaves the place where it was.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub text: &'a str,
    pub tokens: &'a [Token],
}

impl<'a> Reader<'a> {
    /// From the first token; semicolons at the end do not count.
    pub fn new(text: &'a str, tokens: &'a [Token]) -> Self {
        let mut tokens = tokens;
        while let Some((last, rest)) = tokens.split_last()
            && last.is_symbol(text, ";")
        {
            tokens = rest;
        }
        Reader { text, tokens }
    }

    pub fn is_done(&self) -> bool {
        self.tokens.is_empty()
    }

    pub fn peek(&self) -> Option<&'a Token> {
        self.tokens.first()
    }

    /// Whether the n-th token from here (0 is the next) is this word.
    pub fn word_at(&self, n: usize, word: &str) -> bool {
        self.tokens.get(n).is_some_and(|token| token.is_word(self.text, word))
    }

    pub fn symbol_at(&self, n: usize, symbol: &str) -> bool {
        self.tokens.get(n).is_some_and(|token| token.is_symbol(self.text, symbol))
    }

    pub fn skip(&mut self, n: usize) {
        self.tokens = self.tokens.get(n..).unwrap_or_default();
    }

    /// Steps over a word if it is next.
    pub fn word(&mut self, word: &str) -> bool {
        let found = self.word_at(0, word);
        self.skip(usize::from(found));
        found
    }

    /// Steps over words if they follow each other here.
    pub fn words(&mut self, words: &[&str]) -> bool {
        let found = words.iter().enumerate().all(|(n, word)| self.word_at(n, word));
        self.skip(if found { words.len() } else { 0 });
        found
    }

    pub fn symbol(&mut self, symbol: &str) -> bool {
        let found = self.symbol_at(0, symbol);
        self.skip(usize::from(found));
        found
    }

    /// Steps over a token of this kind.
    pub fn token(&mut self, kind: TokenKind) -> Option<&'a Token> {
        let token = self.peek().filter(|token| token.kind == kind)?;
        self.skip(1);
        Some(token)
    }

    /// Steps over a name (ColId), folded.
    pub fn name(&mut self) -> Option<String> {
        let name = names::identifier(self.text, self.peek()?)?;
        self.skip(1);
        Some(name)
    }

    /// From the next token to the last.
    pub fn rest(&self) -> Option<Range<usize>> {
        Some(self.tokens.first()?.range().start..self.tokens.last()?.range().end)
    }
}
