//! Rows that need no second aggregation: concatenated, or merged in order; DISTINCT; LIMIT.

use super::Scattered;
use super::limit;
use super::order::ListItem;
use super::order::SortItem;
use super::refused;
use super::text;
use crate::error::Error;
use crate::plan::HiddenColumn;
use crate::plan::Layout;
use crate::plan::RowSortKey;
use crate::plan::ScatterPlan;
use crate::plan::analyse::is_wildcard;
use crate::plan::analyse::item_expr;
use crate::plan::template::Template;
use std::ops::Range;

impl<'q> Scattered<'_, '_, 'q> {
    /// The plan for rows that are as the shards give them.
    pub fn rows_plan(&mut self) -> Result<ScatterPlan, Error> {
        let list = self.list()?;
        let keys = self.sort_items(&list)?;
        let counts = self.counts()?;
        if self.facts.returns_set && self.facts.distinct {
            return Err(refused("DISTINCT over a set-returning function over several shards"));
        }
        let outputs = self.facts.outputs.as_deref().unwrap_or(&[]);
        let merges_distinct = self.facts.distinct && !self.contains_key(outputs);
        for key in &keys {
            self.check_key(key, &list)?;
        }
        if merges_distinct {
            self.equality_is_bytes("DISTINCT")?;
            if list.iter().filter_map(|i| item_expr(i.item)).any(|e| self.is_volatile(e)) {
                return Err(refused("DISTINCT of a volatile function over several shards"));
            }
        }
        // an ordinal behind `*` can only be told by its place in a copy of the whole list
        let copies = merges_distinct || keys.iter().any(|k| k.expr.is_none());
        if copies && list.iter().filter_map(|i| item_expr(i.item)).any(|e| self.is_volatile(e)) {
            return Err(refused("ORDER BY beside a volatile function over several shards"));
        }
        let mut extra: Vec<Range<usize>> = Vec::new();
        let mut order = Vec::new();
        for key in &keys {
            let by = match (key.item.or(key.ordinal), &key.expr) {
                (Some(n), _) if copies && self.is_before_star(&list, n, key) => HiddenColumn::Copy(n),
                (_, Some((_, range))) => {
                    extra.push(range.clone());
                    HiddenColumn::Extra(extra.len() - 1)
                }
                (_, None) => return Err(refused("ORDER BY of this position over several shards")),
            };
            order.push(RowSortKey { by, descending: key.descending, nulls_first: key.nulls_first });
        }
        let sql = self.rows_text(&list, &extra, copies, &order, &counts);
        let layout = Layout::Rows { copies, extra: extra.len(), distinct: merges_distinct, order };
        Ok(ScatterPlan { sql, layout, limit: counts.limit, offset: counts.offset, moment: None })
    }

    /// Whether the n-th output column is known to be there: ordinals count columns, items count before a `*` only.
    fn is_before_star(&self, list: &[ListItem<'q>], n: usize, key: &SortItem<'q>) -> bool {
        key.ordinal.is_some() || list.iter().take(n + 1).all(|i| !is_wildcard(i.item))
    }

    fn check_key(&self, key: &SortItem<'q>, list: &[ListItem<'q>]) -> Result<(), Error> {
        let Some((expr, _)) = &key.expr else {
            return self.orderable_column(key.ordinal.unwrap_or(usize::MAX));
        };
        if self.is_volatile(expr) {
            return Err(refused("ORDER BY of a volatile function over several shards"));
        }
        let in_star =
            || list.iter().any(|i| is_wildcard(i.item)) && self.analysis.bare_atom(expr, self.scope).is_some();
        if self.facts.distinct && key.item.is_none() && !in_star() {
            return Err(refused("SELECT DISTINCT with an ORDER BY that is not in the select list"));
        }
        self.orderable(expr, "ORDER BY")
    }

    /// The n-th output column of a list with `*`.
    fn orderable_column(&self, n: usize) -> Result<(), Error> {
        let facts = self.facts.outputs.as_ref().and_then(|o| self.analysis.column_facts((*o.get(n)?)?));
        match facts.map(|f| f.collation) {
            Some(crate::catalog::Collation::None | crate::catalog::Collation::Bytes) => Ok(()),
            _ => Err(refused("ORDER BY of a position behind * over several shards")
                .hint("Write the column's name in ORDER BY.")),
        }
    }

    fn rows_text(
        &self,
        list: &[ListItem<'q>],
        extra: &[Range<usize>],
        copies: bool,
        order: &[RowSortKey],
        counts: &limit::Counts,
    ) -> Template {
        let (source, clauses) = (self.source, &self.clauses);
        let mut sql = Template::default();
        text::push_range(&mut sql, source, &(0..clauses.select_list.end.max(clauses.head.end)));
        let mut hidden = 0;
        let mut hide = |sql: &mut Template, range: &Range<usize>, alias: bool| {
            hidden += 1;
            sql.push(if hidden == 1 && list.is_empty() { " " } else { ", " });
            text::push_range(sql, source, range);
            if alias {
                sql.push(&format!(" AS shardway_{hidden}"));
            }
            hidden
        };
        let mut copied = Vec::new();
        if copies {
            for item in list {
                copied.push(hide(&mut sql, &item.expression, !is_wildcard(item.item)));
            }
        }
        let extra: Vec<usize> = extra.iter().map(|range| hide(&mut sql, range, true)).collect();
        let rest = [&clauses.from, &clauses.where_, &clauses.group_by, &clauses.having, &clauses.window];
        for clause in rest.into_iter().flatten() {
            sql.push(" ");
            text::push_range(&mut sql, source, &clause.range);
        }
        if !order.is_empty() {
            let keys: Vec<String> = order
                .iter()
                .map(|key| {
                    let by = match key.by {
                        // the visible column, by its position: it is what was copied
                        HiddenColumn::Copy(n) => (n + 1).to_string(),
                        HiddenColumn::Extra(n) => format!("shardway_{}", extra.get(n).copied().unwrap_or(0)),
                    };
                    let direction = if key.descending { " DESC" } else { "" };
                    format!("{by}{direction} NULLS {}", if key.nulls_first { "FIRST" } else { "LAST" })
                })
                .collect();
            sql.push(&format!(" ORDER BY {}", keys.join(", ")));
        }
        limit::push_limit(&mut sql, counts);
        for clause in &clauses.locking {
            sql.push(" ");
            text::push_range(&mut sql, source, &clause.range);
        }
        sql
    }
}
