//! A place among the tokens of a statement, for the grammars of schema changes, COPY, and texts without a tree.

use crate::sql::lexer::Token;
use crate::sql::lexer::TokenKind;
use crate::sql::names;
use std::ops::Range;

/// Reads forward. What does not match leaves the place where it was.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    pub text: &'a str,
    pub tokens: &'a [Token],
}

impl<'a> Cursor<'a> {
    /// From the first token; semicolons at the end do not count.
    pub fn new(text: &'a str, tokens: &'a [Token]) -> Cursor<'a> {
        let mut tokens = tokens;
        while let Some((last, rest)) = tokens.split_last()
            && last.is_symbol(text, ";")
        {
            tokens = rest;
        }
        Cursor { text, tokens }
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

    /// Steps over one of these words.
    pub fn one_of(&mut self, words: &[&'static str]) -> Option<&'static str> {
        let found = words.iter().copied().find(|word| self.word_at(0, word))?;
        self.skip(1);
        Some(found)
    }

    pub fn symbol(&mut self, symbol: &str) -> bool {
        let found = self.symbol_at(0, symbol);
        self.skip(usize::from(found));
        found
    }

    /// Steps over a name (ColId), folded.
    pub fn name(&mut self) -> Option<String> {
        let name = names::identifier(self.text, self.peek()?)?;
        self.skip(1);
        Some(name)
    }

    /// Steps over a name of one to three parts; behind a point any word is one (ColLabel).
    pub fn qualified(&mut self) -> Option<Vec<String>> {
        let mut parts = vec![self.name()?];
        while self.symbol_at(0, ".") && parts.len() < 4 {
            let token = self.tokens.get(1)?;
            parts.push(match token.kind {
                TokenKind::Word => names::fold(token.text(self.text)),
                TokenKind::QuotedIdent => names::unquote(token.text(self.text))?,
                _ => return None,
            });
            self.skip(2);
        }
        Some(parts)
    }

    /// What stands in the parentheses (or brackets) that open here; steps over them.
    pub fn parens(&mut self) -> Option<Cursor<'a>> {
        if !self.symbol_at(0, "(") {
            return None;
        }
        let close = crate::sql::clauses::closing(self.tokens, self.text, 0)?;
        let inner = Cursor { text: self.text, tokens: self.tokens.get(1..close)? };
        self.skip(close + 1);
        Some(inner)
    }

    /// Names in parentheses: `(a, b)`.
    pub fn name_list(&mut self) -> Option<Vec<String>> {
        let mut list = *self;
        let names = list.parens()?.items().into_iter().map(|mut item| item.name().filter(|_| item.is_done()));
        let names = names.collect::<Option<Vec<_>>>()?;
        *self = list;
        Some(names)
    }

    /// The parts between commas that stand outside parentheses; none of an empty text.
    pub fn items(&self) -> Vec<Cursor<'a>> {
        if self.is_done() {
            return Vec::new();
        }
        let mut items = Vec::new();
        let mut first = 0;
        for (index, _) in self.top_level().filter(|(_, token)| token.is_symbol(self.text, ",")) {
            items.push(self.part(first, index));
            first = index + 1;
        }
        items.push(self.part(first, self.tokens.len()));
        items
    }

    /// The tokens of this range.
    pub fn part(&self, from: usize, to: usize) -> Cursor<'a> {
        Cursor { text: self.text, tokens: self.tokens.get(from..to.max(from)).unwrap_or_default() }
    }

    /// The tokens outside parentheses and brackets, with their places.
    pub fn top_level(&self) -> impl Iterator<Item = (usize, &'a Token)> + use<'a> {
        let text = self.text;
        let mut depth = 0_usize;
        self.tokens.iter().enumerate().filter(move |(_, token)| {
            if token.is_symbol(text, "(") || token.is_symbol(text, "[") {
                depth += 1;
                return depth == 1;
            }
            if token.is_symbol(text, ")") || token.is_symbol(text, "]") {
                depth = depth.saturating_sub(1);
            }
            depth == 0
        })
    }

    /// The place of a word outside parentheses.
    pub fn find(&self, word: &str) -> Option<usize> {
        self.top_level().find(|(_, token)| token.is_word(self.text, word)).map(|(index, _)| index)
    }

    /// Whether a word stands outside parentheses.
    pub fn has(&self, word: &str) -> bool {
        self.find(word).is_some()
    }

    /// Whether the last tokens are these words.
    pub fn ends_with(&self, words: &[&str]) -> bool {
        let start = self.tokens.len().checked_sub(words.len());
        start.is_some_and(|start| words.iter().enumerate().all(|(n, word)| self.word_at(start + n, word)))
    }

    /// The bytes from the next token to the last.
    pub fn range(&self) -> Option<Range<usize>> {
        Some(self.tokens.first()?.range().start..self.tokens.last()?.range().end)
    }

    /// The text from the next token to the last.
    pub fn rest(&self) -> &'a str {
        self.range().and_then(|range| self.text.get(range)).unwrap_or("")
    }

    /// The next words, upper case, for messages.
    pub fn heading(&self, count: usize) -> String {
        let words = self.tokens.iter().take(count).take_while(|token| token.kind == TokenKind::Word);
        words.map(|token| token.text(self.text).to_ascii_uppercase()).collect::<Vec<_>>().join(" ")
    }
}
