//! SELECT over several shards: proves that it can run whole on each of them, and says how the rows become one answer.
//!
//! The proof rests on an *anchor*: a sharded table of which each row of the joined FROM has exactly one row. If every
//! other sharded table matters only where its key equals the anchor's, then all that concerns one row of the anchor is
//! on its shard, and the joined rows of the whole are those of the shards together.

pub mod anchor;
mod finish;
mod group;
mod limit;
mod order;
mod over_rows;
mod reader;
mod rows;
mod text;

use super::Layout;
use super::ScatterPlan;
use super::analyse::Analysis;
use super::analyse::BlockKind;
use super::analyse::QueryResult;
use super::analyse::Scope;
use super::analyse::SelectFacts;
use super::classes::Classes;
use super::moment;
use super::source::SourceText;
use super::template::Piece;
use crate::catalog::Collation;
use crate::error::Error;
use crate::error::codes;
use crate::sql::clauses::SelectClauses;
use anchor::Anchor;
use sqlparser::ast::Query;
use sqlparser::ast::Select;
use sqlparser::ast::SetExpr;
use std::rc::Rc;

/// How to write it instead, where nothing better is known.
pub const ONE_SHARD: &str = "Name one value of the shard key in WHERE, so that it runs on one shard.";

/// What the parts of the proof share.
struct Scattered<'x, 'a, 'q> {
    analysis: &'x Analysis<'a>,
    query: &'q Query,
    select: &'q Select,
    facts: &'x SelectFacts,
    scope: &'x Rc<Scope<'q>>,
    source: &'x SourceText<'q>,
    clauses: SelectClauses,
    anchor: Anchor,
    /// What is equal in every joined row that WHERE lets through.
    classes: Classes,
    /// Ordinals of literals that the plan depends on.
    fixed: Vec<usize>,
}

/// A plan for several shards: the anchor, the plan, and the literals that it was made for.
///
/// # Errors
/// 0A000 with the construct that is not proven.
pub fn plan<'q>(
    analysis: &Analysis<'_>,
    query: &'q Query,
    result: &QueryResult<'q>,
    source: &SourceText<'q>,
) -> Result<(u32, ScatterPlan, Vec<usize>), Error> {
    statement_wide(analysis, source, result.block)?;
    let SetExpr::Select(select) = &*query.body else {
        return Err(match &*query.body {
            SetExpr::SetOperation { op, .. } => refused(&format!("{op} over several shards")),
            SetExpr::Query(_) => refused("a query in parentheses over several shards"),
            _ => refused("this kind of query over several shards"),
        });
    };
    let block = analysis.blocks.get(result.block);
    let (Some(BlockKind::Select(facts)), Some(scope)) = (block.map(|b| &b.kind), &result.scope) else {
        return Err(refused("this kind of query over several shards"));
    };
    if takes_hidden_names(analysis, source) {
        return Err(refused("a column whose name begins with shardway_, as hidden columns' names do,"));
    }
    let Some(clauses) = text::clauses(source) else {
        return Err(refused("a SELECT whose clauses are not told apart here"));
    };
    let root = facts.root.as_ref().ok_or_else(|| refused("a sharded table that is only read in a subquery"))?;
    let anchor = anchor::find(analysis, root)?;
    anchor::all_colocated(analysis, &anchor)?;
    anchor::local_blocks(analysis, result.block)?;
    let preds = super::classes::applying(&analysis.envs, scope.env, None);
    let classes = Classes::new(&preds);
    let owner = anchor.owner;
    let mut scattered =
        Scattered { analysis, query, select, facts, scope, source, clauses, anchor, classes, fixed: Vec::new() };
    let plan = with_moment(scattered.plan()?, source);
    let mut fixed = scattered.fixed;
    fixed.sort_unstable();
    fixed.dedup();
    Ok((owner, plan, fixed))
}

/// Whether a name in the statement, or a column of its tables, could be taken for a hidden column.
fn takes_hidden_names(analysis: &Analysis<'_>, source: &SourceText<'_>) -> bool {
    let is_hidden = |name: &str| name.get(..9).is_some_and(|start| start.eq_ignore_ascii_case("shardway_"));
    source.tokens.iter().any(|token| is_hidden(token.text(source.text).trim_start_matches('"')))
        || analysis.facts.relations.iter().any(|r| r.columns.iter().any(|c| is_hidden(&c.name)))
}

/// Refused over several shards, naming the construct.
fn refused(what: &str) -> Error {
    Error::unsupported(what.to_owned()).hint(ONE_SHARD)
}

/// What cannot be on several shards wherever it stands.
fn statement_wide(analysis: &Analysis<'_>, source: &SourceText<'_>, top: usize) -> Result<(), Error> {
    let facts = &analysis.facts;
    if facts.modifies {
        return Err(super::rows::writes_refused());
    }
    let found = |what: &Option<String>, rest: &str| what.as_ref().map(|name| format!("{name} {rest}"));
    let policies = facts.policies.as_ref().map(ToString::to_string);
    let reason = None
        .or(found(&facts.system_column.as_ref().map(|c| format!("system column {c}")), "over several shards"))
        .or(found(
            &facts.server.as_ref().map(|f| format!("function {f}")),
            "over several shards, which answer differently",
        ))
        .or(found(
            &facts.time.as_ref().filter(|_| !times_are_told_apart(analysis, source)).map(|f| format!("{f},")),
            "which has another value on each of several shards",
        ))
        .or(found(&facts.object_name, "over several shards, whose object identifiers differ"))
        .or(found(&policies.map(|t| format!("table {t} with row security or rules")), "over several shards"))
        .or(facts.tablesample.then(|| "TABLESAMPLE over several shards".to_owned()))
        .or((facts.system || facts.temporary)
            .then(|| "a sharded table beside catalog tables or temporary tables".to_owned()))
        .or(facts.needs.first().map(|(_, what)| format!("a sharded table beside {what}, which is on one shard")))
        .or((!facts.set_config.is_empty()).then(|| "set_config over several shards".to_owned()))
        .or((!facts.conditions.is_empty()).then(|| "a function that runs by shard key, over several shards".to_owned()))
        .or((facts.shared_cte && facts.volatile.is_some())
            .then(|| "a volatile function beside a common table expression that is used twice".to_owned()))
        .or(found(
            &facts
                .volatile
                .as_ref()
                .filter(|_| facts.volatile_blocks.iter().any(|b| *b != Some(top)))
                .map(|f| format!("volatile function {f}")),
            "in FROM, VALUES or a subquery over several shards",
        ));
    match reason {
        Some(reason) => Err(refused(&reason)),
        None => Ok(()),
    }
}

/// Every call of now() and its kin is found in the client's text, so that one value can take their place.
fn times_are_told_apart(analysis: &Analysis<'_>, source: &SourceText<'_>) -> bool {
    let facts = &analysis.facts;
    let start = |call: &moment::Call| source.tokens.get(call.first).map(|t| t.start as usize);
    let found: Option<std::collections::BTreeSet<usize>> =
        moment::calls(source.text, source.tokens).iter().map(start).collect();
    !facts.time_elsewhere && found.as_ref() == Some(&facts.time_calls)
}

/// One value for each of now() and its kin.
fn with_moment(mut plan: ScatterPlan, source: &SourceText<'_>) -> ScatterPlan {
    let calls = moment::calls(source.text, source.tokens);
    if calls.is_empty() {
        return plan;
    }
    let params = moment::parameters(source.text, source.tokens);
    let numbers = moment::Moment { transaction: params + 1, statement: params + 2 };
    let (transaction, statement) = (format!("${}", numbers.transaction), format!("${}", numbers.statement));
    let edits: Vec<(usize, usize, Vec<Piece>)> =
        calls.iter().map(|c| (c.first, c.last, c.pieces(&transaction, &statement))).collect();
    plan.sql = plan.sql.with_edits(&edits);
    if let Layout::Final(last) = &mut plan.layout {
        last.pieces = finish::with_edits(&last.pieces, &edits);
    }
    plan.moment = Some(numbers);
    plan
}

impl Scattered<'_, '_, '_> {
    /// The merge where it is exact, else the final phase.
    fn plan(&mut self) -> Result<ScatterPlan, Error> {
        let merged = match self.merged_plan() {
            Err(error) if error.code == codes::NOT_SUPPORTED => error,
            decided => return decided,
        };
        if self.facts.locks {
            return Err(merged);
        }
        if self.is_grouped()
            && let Ok(plan) = self.partial_plan()
        {
            return Ok(plan);
        }
        match self.raw_plan() {
            Err(error) if error.code == codes::NOT_SUPPORTED => Err(merged),
            decided => decided,
        }
    }

    /// Whether rows are grouped, in one way.
    fn is_grouped(&self) -> bool {
        let facts = self.facts;
        (facts.grouped.is_some() || facts.aggregates || facts.having) && !facts.grouping_sets
    }

    fn merged_plan(&mut self) -> Result<ScatterPlan, Error> {
        if self.facts.locks && self.facts.limited {
            return Err(refused("FOR UPDATE or FOR SHARE with LIMIT over several shards"));
        }
        if self.facts.distinct_on {
            return Err(refused("DISTINCT ON over several shards"));
        }
        if self.facts.grouping_sets {
            return Err(refused("GROUPING SETS, ROLLUP or CUBE over several shards"));
        }
        if self.query.fetch.as_ref().is_some_and(|f| f.with_ties || f.percent) {
            return Err(refused("FETCH … WITH TIES over several shards"));
        }
        let windows_by_key = self.facts.windows.iter().all(|w| self.contains_key(w));
        if !windows_by_key {
            return Err(refused(
                "a window function over several shards whose PARTITION BY does not contain the shard key",
            ));
        }
        self.fix_compared_literals();
        let is_grouped = self.facts.grouped.is_some() || self.facts.aggregates || self.facts.having;
        let per_key = match &self.facts.grouped {
            Some(grouped) => self.contains_key(grouped),
            None => false,
        };
        if is_grouped && !per_key {
            return self.grouped_plan();
        }
        self.rows_plan()
    }

    /// Items of GROUP BY and ORDER BY are found in the select list by their text, literals and all.
    fn fix_compared_literals(&mut self) {
        let clauses = [&self.clauses.group_by, &self.clauses.order_by];
        let compared: Vec<usize> =
            clauses.into_iter().flatten().flat_map(|c| self.source.literals_in(&c.range)).collect();
        let is_grouped = self.facts.grouped.is_some();
        if !compared.is_empty() || is_grouped {
            self.fixed.extend(self.source.literals_in(&self.clauses.select_list));
        }
        self.fixed.extend(compared);
    }

    /// Whether columns contain the whole shard key of the anchor, so that rows equal in them are on one shard.
    fn contains_key(&self, columns: &[Option<super::classes::Atom>]) -> bool {
        self.anchor.key.as_ref().is_some_and(|key| self.classes.contain(columns, key))
    }

    /// Equality is equality of bytes for all text in the statement.
    fn equality_is_bytes(&self, what: &str) -> Result<(), Error> {
        let facts = &self.analysis.facts;
        if let Some(collation) = &facts.collation {
            return Err(refused(&format!("{what} over several shards beside COLLATE \"{collation}\"")));
        }
        let loose =
            facts.relations.iter().find(|r| r.columns.iter().any(|c| c.collation == Collation::Nondeterministic));
        match loose {
            Some(table) => Err(refused(&format!(
                "{what} over several shards with a nondeterministic collation in table {}",
                table.name
            ))),
            None => Ok(()),
        }
    }
}
