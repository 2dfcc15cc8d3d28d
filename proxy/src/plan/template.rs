//! A text for shards: pieces of the client's text, named by token, and pieces that we made.
//!
//! Tokens are named by ordinal, so that one template serves every text of the same normalised form, and a server's
//! error position can be found again in the client's text.

use crate::sql::lexer::Token;

/// The pieces, in order; they are put together with nothing between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    pub pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Text(String),
    /// The client's text from the start of one token to the end of another.
    Tokens {
        first: usize,
        last: usize,
    },
}

impl Template {
    pub fn push(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        match self.pieces.last_mut() {
            Some(Piece::Text(last)) => last.push_str(text),
            _ => self.pieces.push(Piece::Text(text.to_owned())),
        }
    }

    pub fn push_tokens(&mut self, first: usize, last: usize) {
        if first <= last {
            self.pieces.push(Piece::Tokens { first, last });
        }
    }

    /// The same with other pieces in the place of tokens: first, last, what comes instead; in order and apart.
    pub fn with_edits(&self, edits: &[(usize, usize, Vec<Piece>)]) -> Template {
        let mut out = Template::default();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.push(text),
                Piece::Tokens { first, last } => {
                    let mut at = *first;
                    for (from, to, instead) in edits.iter().filter(|(from, to, _)| from >= first && to <= last) {
                        if at < *from {
                            out.push_tokens(at, from - 1);
                        }
                        out.pieces.extend(instead.iter().cloned());
                        at = to + 1;
                    }
                    out.push_tokens(at, *last);
                }
            }
        }
        out
    }

    /// The text for one statement; `tokens` are those of `text`, which has the normalised form that the template was
    /// made for.
    pub fn render(&self, text: &str, tokens: &[Token]) -> String {
        let mut sql = String::with_capacity(text.len() + 64);
        for piece in &self.pieces {
            sql.push_str(resolve(piece, text, tokens));
        }
        sql
    }

    /// Where a server's error position (characters from 1 in the rendered text) is in the client's text; `None` in a
    /// piece that we made.
    pub fn map_back(&self, text: &str, tokens: &[Token], position: u32) -> Option<u32> {
        let mut left = usize::try_from(position).ok()?.checked_sub(1)?;
        for piece in &self.pieces {
            let part = resolve(piece, text, tokens);
            let characters = part.chars().count();
            if left < characters {
                let Piece::Tokens { first, .. } = piece else { return None };
                let before = text.get(..tokens.get(*first)?.start as usize)?.chars().count();
                return u32::try_from(before + left + 1).ok();
            }
            left -= characters;
        }
        None
    }
}

fn resolve<'a>(piece: &'a Piece, text: &'a str, tokens: &[Token]) -> &'a str {
    match piece {
        Piece::Text(text) => text,
        Piece::Tokens { first, last } => {
            let (Some(first), Some(last)) = (tokens.get(*first), tokens.get(*last)) else { return "" };
            text.get(first.start as usize..last.end as usize).unwrap_or("")
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::Template;
    use crate::sql::lexer::tokenize;

    #[test]
    fn serves_other_literals_and_maps_positions_back() {
        let mut template = Template::default();
        template.push_tokens(0, 1);
        template.push(", hidden ");
        template.push_tokens(2, 3);
        let text = "SELECT  'é'   FROM t";
        let tokens = tokenize(text, true).unwrap();
        assert_eq!(template.render(text, &tokens), "SELECT  'é', hidden FROM t");
        assert_eq!(template.map_back(text, &tokens, 26), Some(20));
        assert_eq!(template.map_back(text, &tokens, 14), None);
        let other = "SELECT 'longer' FROM t";
        assert_eq!(template.render(other, &tokenize(other, true).unwrap()), "SELECT 'longer', hidden FROM t");
    }
}
