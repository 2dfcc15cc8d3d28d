//! A text for shards that serves every client text of one normalised form: literals are named by ordinal.

use crate::sql::normalize::Literal;

/// Pieces of text and the client's literals, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template {
    pub pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Text(String),
    /// The n-th literal of the client's text, as it stands there.
    Literal(usize),
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

    pub fn push_literal(&mut self, ordinal: usize) {
        self.pieces.push(Piece::Literal(ordinal));
    }

    /// Appends a part of the client's text that starts at byte `start` of it; `literals` are the byte ranges of the
    /// literals in that text, in order.
    pub fn push_client(&mut self, part: &str, start: usize, literals: &[(usize, usize)]) {
        let end = start + part.len();
        let first = literals.partition_point(|(from, _)| *from < start);
        let mut at = start;
        for (n, (from, to)) in literals.iter().enumerate().skip(first).take_while(|(_, (_, to))| *to <= end) {
            self.push(part.get(at - start..from - start).unwrap_or(""));
            self.push_literal(n);
            at = *to;
        }
        self.push(part.get(at.saturating_sub(start)..).unwrap_or(""));
    }

    /// The text for one statement's literals; they must be those of the text that `literals` were cut from.
    pub fn render(&self, text: &str, literals: &[Literal]) -> String {
        let mut sql = String::with_capacity(text.len() + 64);
        for piece in &self.pieces {
            match piece {
                Piece::Text(piece) => sql.push_str(piece),
                Piece::Literal(n) => {
                    let range = literals.get(*n).map_or(0..0, |l| l.start as usize..l.end as usize);
                    sql.push_str(text.get(range).unwrap_or(""));
                }
            }
        }
        sql
    }
}
