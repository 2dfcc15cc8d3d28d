//! The final phase: what one server runs over the rows that the shards have sent.
//!
//! The shards' rows come back to a server as one array for each column; `unnest` makes rows of them again, and the
//! client's own expressions, over those rows instead of tables, make the answer. So everything that PostgreSQL knows
//! and the proxy does not (collations, numeric arithmetic, windows) is PostgreSQL's work, and no table is made.

use crate::error::Error;
use crate::sql::lexer::Token;
use crate::value::oid;
use std::fmt::Write as _;

/// What the final statement calls the shards' rows.
pub const ROWS: &str = "shardway_rows";

/// The final statement, and what it must know of the shards' columns.
#[derive(Clone, Debug, PartialEq)]
pub struct FinalPlan {
    pub pieces: Vec<FinalPiece>,
    /// One for each column of the shards' rows; they are called `shardway_0`, `shardway_1`, ….
    pub columns: Vec<FinalColumn>,
    /// Rows as they are, not partial results: more of them, so that the hint on a bound differs.
    pub raw: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct FinalColumn {
    pub collation: FinalCollation,
}

/// The collation of a column of the shards' rows, if its type has one.
#[derive(Clone, Debug, PartialEq)]
pub enum FinalCollation {
    /// The database's default, which arrays have too.
    Default,
    /// As it stands behind COLLATE.
    Named(String),
    /// Not known: refused if the type turns out to have one.
    Unknown,
}

#[derive(Clone, Debug, PartialEq)]
pub enum FinalPiece {
    Text(String),
    /// The client's text from the start of one token to the end of another.
    Tokens {
        first: usize,
        last: usize,
    },
    /// FROM with the shards' rows.
    From,
    Combined(Combined),
}

/// An aggregate of partial ones; numbers are columns of the shards' rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Combined {
    Count(usize),
    Sum(usize),
    Avg {
        sum: usize,
        count: usize,
    },
    /// `min`, `bool_and` and the like, which are their own combination.
    Same(&'static str, usize),
}

/// How a column of the shards' rows travels.
#[derive(Clone, Debug, PartialEq)]
pub struct Carried {
    /// As the shards describe it.
    pub type_oid: u32,
    /// The array's type.
    pub array_oid: u32,
    /// Of the array's elements.
    pub element_oid: u32,
    /// Values travel as text and are cast to this type: arrays, of which there are no arrays.
    pub cast: Option<String>,
}

impl FinalPlan {
    /// The text. `params`: how many parameters come before the arrays.
    ///
    /// # Errors
    /// 0A000 for a partial sum of a type that is not known to add up.
    pub fn render(&self, text: &str, tokens: &[Token], params: usize, carried: &[Carried]) -> Result<String, Error> {
        let mut sql = String::with_capacity(text.len() + 256);
        for piece in &self.pieces {
            match piece {
                FinalPiece::Text(text) => sql.push_str(text),
                FinalPiece::Tokens { first, last } => {
                    if let (Some(first), Some(last)) = (tokens.get(*first), tokens.get(*last)) {
                        sql.push_str(text.get(first.start as usize..last.end as usize).unwrap_or(""));
                    }
                }
                FinalPiece::From => self.push_from(&mut sql, params, carried),
                FinalPiece::Combined(combined) => combined.push(&mut sql, carried)?,
            }
        }
        Ok(sql)
    }

    fn push_from(&self, sql: &mut String, params: usize, carried: &[Carried]) {
        sql.push_str(" FROM (SELECT ");
        for (n, column) in self.columns.iter().enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            let _ = write!(sql, "{comma}u.shardway_{n}");
            if let Some(cast) = carried.get(n).and_then(|c| c.cast.as_ref()) {
                let _ = write!(sql, "::{cast}");
            }
            if let FinalCollation::Named(collation) = &column.collation {
                let _ = write!(sql, " COLLATE {collation}");
            }
            let _ = write!(sql, " AS shardway_{n}");
        }
        sql.push_str(" FROM ROWS FROM (");
        for n in 0..self.columns.len() {
            let comma = if n == 0 { "" } else { ", " };
            let _ = write!(sql, "{comma}pg_catalog.unnest(${})", params + n + 1);
        }
        let names: Vec<String> = (0..self.columns.len()).map(|n| format!("shardway_{n}")).collect();
        let _ = write!(sql, ") AS u ({})) AS {ROWS}", names.join(", "));
    }
}

impl Combined {
    fn push(&self, sql: &mut String, carried: &[Carried]) -> Result<(), Error> {
        // where the plan is only printed, types are not known
        let type_of = |column: usize| carried.get(column).map(|c| c.type_oid);
        let _ = match self {
            Combined::Count(n) => {
                write!(sql, " (COALESCE(pg_catalog.sum({ROWS}.shardway_{n}), 0)::pg_catalog.int8) ")
            }
            Combined::Sum(n) => match type_of(*n) {
                Some(oid::INT8) => write!(sql, " (pg_catalog.sum({ROWS}.shardway_{n})::pg_catalog.int8) "),
                None | Some(oid::NUMERIC | oid::FLOAT8 | oid::FLOAT4 | oid::INTERVAL | oid::MONEY) => {
                    write!(sql, " pg_catalog.sum({ROWS}.shardway_{n}) ")
                }
                Some(other) => return Err(unknown_sum("sum", other)),
            },
            Combined::Avg { sum, count } => {
                let cast = match type_of(*sum) {
                    None | Some(oid::INT8 | oid::NUMERIC) => "",
                    Some(oid::FLOAT8 | oid::INTERVAL) => "::pg_catalog.float8",
                    Some(other) => return Err(unknown_sum("avg", other)),
                };
                write!(
                    sql,
                    " (pg_catalog.sum({ROWS}.shardway_{sum}) OPERATOR(pg_catalog./) \
                     NULLIF(pg_catalog.sum({ROWS}.shardway_{count}), 0){cast}) "
                )
            }
            Combined::Same(name, n) => write!(sql, " pg_catalog.{name}({ROWS}.shardway_{n}) "),
        };
        Ok(())
    }
}

fn unknown_sum(what: &str, type_oid: u32) -> Error {
    Error::unsupported(format!("{what} over several shards is not supported for {}", oid::describe(type_oid)))
        .hint("Cast the argument to numeric or double precision, or name the shard key so that one shard answers.")
}
