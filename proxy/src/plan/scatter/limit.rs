//! LIMIT, OFFSET and FETCH: what the client asked for, and what each shard is asked for.

use super::Scattered;
use super::refused;
use crate::error::Error;
use crate::error::codes;
use crate::plan::Count;
use crate::plan::predicates;
use crate::plan::template::Template;
use sqlparser::ast::Expr;
use sqlparser::ast::LimitClause;
use sqlparser::ast::UnaryOperator;
use sqlparser::ast::Value;
use sqlparser::ast::ValueWithSpan;

/// No limit when it is NULL.
const INT8: &str = "pg_catalog.int8";

pub struct Counts {
    pub limit: Option<Count>,
    pub offset: Option<Count>,
}

impl Scattered<'_, '_, '_> {
    /// What the client asked for.
    pub fn counts(&mut self) -> Result<Counts, Error> {
        let mut counts = Counts { limit: None, offset: None };
        match &self.query.limit_clause {
            None => {}
            Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
                if let Some(limit) = limit {
                    counts.limit = self.count(limit, "LIMIT")?;
                }
                if let Some(offset) = offset {
                    counts.offset = self.count(&offset.value, "OFFSET")?;
                }
            }
            Some(_) => return Err(refused("this form of LIMIT over several shards")),
        }
        if let Some(fetch) = &self.query.fetch {
            counts.limit = match &fetch.quantity {
                Some(quantity) => self.count(quantity, "LIMIT")?,
                None => Some(Count::Rows(1)),
            };
        }
        Ok(counts)
    }

    fn count(&mut self, expr: &Expr, word: &str) -> Result<Option<Count>, Error> {
        let negative = |expr: &Expr| match predicates::peel(expr) {
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
                matches!(predicates::peel(expr), Expr::Value(ValueWithSpan { value: Value::Number(d, _), .. })
                    if d.bytes().all(|b| b.is_ascii_digit()) && d.bytes().any(|b| b != b'0'))
            }
            _ => false,
        };
        let expression = || refused(&format!("{word} of an expression over several shards"));
        let Expr::Value(value) = predicates::peel(expr) else {
            if negative(expr) {
                let code = if word == "LIMIT" { codes::BAD_LIMIT } else { codes::BAD_OFFSET };
                return Err(Error::new(code, format!("{word} must not be negative")));
            }
            return Err(expression());
        };
        match &value.value {
            Value::Null => Ok(None),
            Value::Number(digits, _) => {
                self.fixed.extend(self.source.literal(value.span));
                let rows = digits.parse::<i64>().map_err(|_| expression())?;
                Ok(Some(Count::Rows(rows.unsigned_abs())))
            }
            Value::Placeholder(name) => match name.strip_prefix('$').and_then(|n| n.parse().ok()) {
                Some(number) => Ok(Some(Count::Param(number))),
                None => Err(expression()),
            },
            _ => Err(expression()),
        }
    }
}

/// LIMIT for a shard: all rows that the client may see or skip. Parameters are named even where they do not matter, so
/// that the shard's statement has them all, with their types.
pub fn push_limit(template: &mut Template, counts: &Counts) {
    match (counts.limit, counts.offset) {
        (None, None | Some(Count::Rows(_))) => {}
        (Some(Count::Rows(limit)), None) => template.push(&format!(" LIMIT {limit}")),
        (Some(Count::Rows(limit)), Some(Count::Rows(offset))) => {
            let sum = limit.saturating_add(offset).min(i64::MAX.unsigned_abs());
            template.push(&format!(" LIMIT {sum}"));
        }
        (Some(Count::Param(n)), None) => template.push(&format!(" LIMIT ${n}")),
        (Some(limit), Some(offset)) => {
            template.push(&format!(" LIMIT LEAST({} + COALESCE({}, 0), {})", numeric(limit), numeric(offset), i64::MAX))
        }
        (None, Some(Count::Param(_))) => push_no_limit(template, counts),
    }
}

/// No limit for a shard, with the client's parameters in place.
pub fn push_no_limit(template: &mut Template, counts: &Counts) {
    let params: Vec<String> = [counts.limit, counts.offset]
        .into_iter()
        .flatten()
        .filter_map(|count| match count {
            Count::Param(n) => Some(format!("(${n})::{INT8} IS NULL")),
            Count::Rows(_) => None,
        })
        .collect();
    if !params.is_empty() {
        template.push(&format!(" LIMIT CASE WHEN {} THEN NULL::{INT8} END", params.join(" OR ")));
    }
}

fn numeric(count: Count) -> String {
    match count {
        Count::Rows(n) => n.to_string(),
        Count::Param(n) => format!("(${n})::{INT8}::pg_catalog.numeric"),
    }
}
