//! SELECT over several shards.
use super::ScatterPlan;
use super::analyse::Analysis;
use super::analyse::QueryResult;
use super::source::SourceText;
use crate::error::Error;
use sqlparser::ast::Query;
use sqlparser::ast::Statement as Tree;

pub fn plan(_a: &Analysis<'_>, _q: &Query, _r: &QueryResult<'_>, _s: &SourceText<'_>) -> Result<(u32, ScatterPlan), Error> {
    Err(Error::unsupported("this over several shards"))
}
pub fn fixed_literals(_tree: &Tree, _source: &SourceText<'_>, _plan: &ScatterPlan) -> Vec<usize> {
    Vec::new()
}
