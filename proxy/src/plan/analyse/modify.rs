//! Statements that write (UPDATE, DELETE and MERGE here): the table that is written, and where the rows that are written must live.

use super::Analysis;
use super::BlockKind;
use super::Node;
use super::QueryResult;
use super::Scope;
use super::Write;
use super::expressions::Uses;
use super::insert::insert_columns;
use super::names;
use crate::catalog::Placement;
use crate::catalog::Relation;
use crate::error::Error;
use crate::plan::Source;
use crate::plan::classes;
use crate::plan::classes::Atom;
use crate::plan::classes::Pred;
use crate::plan::classes::Test;
use crate::plan::predicates::Operand;
use sqlparser::ast::Assignment;
use sqlparser::ast::AssignmentTarget;
use sqlparser::ast::Delete;
use sqlparser::ast::Expr;
use sqlparser::ast::FromTable;
use sqlparser::ast::Merge;
use sqlparser::ast::MergeAction;
use sqlparser::ast::MergeClauseKind;
use sqlparser::ast::MergeInsertExpr;
use sqlparser::ast::MergeInsertKind;
use sqlparser::ast::MergeUpdateKind;
use sqlparser::ast::ObjectName;
use sqlparser::ast::OutputClause;
use sqlparser::ast::SelectItem;
use sqlparser::ast::Statement as Tree;
use sqlparser::ast::TableFactor;
use sqlparser::ast::Update;
use sqlparser::ast::UpdateTableFromKind;
use std::rc::Rc;
use std::sync::Arc;

impl<'a> Analysis<'a> {
    /// A statement that writes, at the top or in a CTE.
    pub fn modify<'q>(&mut self, tree: &'q Tree, outer: &Rc<Scope<'q>>, outer_env: usize) -> QueryResult<'q> {
        self.facts.modifies = true;
        let top = std::mem::take(&mut self.top);
        let first = self.owner_count();
        let env = self.new_env(outer_env);
        let block = self.add_block(BlockKind::Modify, env, first..first);
        let start = Rc::new(Scope { block: Some(block), env, ..outer.enter() });
        let names = match tree {
            Tree::Insert(insert) => self.insert(insert, &start, env, top),
            Tree::Update(update) => self.update(update, &start, env),
            Tree::Delete(delete) => self.delete(delete, &start, env),
            Tree::Merge(merge) => self.merge(merge, &start, env),
            _ => {
                self.facts.foreign = true;
                None
            }
        };
        let owners = first..self.owner_count();
        if let Some(block) = self.blocks.get_mut(block) {
            block.owners = owners;
        }
        self.result(block, names)
    }

    pub(super) fn several_shards(&self) -> bool {
        self.context.catalog.shards.len() > 1
    }

    fn update<'q>(&mut self, update: &'q Update, start: &Rc<Scope<'q>>, env: usize) -> Option<Vec<Option<String>>> {
        self.facts.foreign |= !update.order_by.is_empty() || update.limit.is_some() || update.or.is_some();
        self.write_target(&update.table.relation, start);
        let (node, target) = self.items_of(std::slice::from_ref(&update.table), start, env);
        let (others, scope) = match &update.from {
            Some(UpdateTableFromKind::AfterSet(from) | UpdateTableFromKind::BeforeSet(from)) => {
                let (node, others) = self.items_of(from, start, env);
                (node, beside(&target, &others))
            }
            None => (None, target.clone()),
        };
        self.target(start, node, others);
        if let Some(selection) = &update.selection {
            self.conjuncts(selection, &scope, env);
        }
        self.assignments(&update.assignments, &target, &scope, env);
        self.returning(update.returning.as_deref(), update.output.as_ref(), &scope, env)
    }

    fn delete<'q>(&mut self, delete: &'q Delete, start: &Rc<Scope<'q>>, env: usize) -> Option<Vec<Option<String>>> {
        self.facts.foreign |= !delete.order_by.is_empty() || delete.limit.is_some() || !delete.tables.is_empty();
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        if let Some(first) = from.first() {
            self.write_target(&first.relation, start);
        }
        let (node, target) = self.items_of(from, start, env);
        let (others, scope) = match &delete.using {
            Some(using) => {
                let (node, others) = self.items_of(using, start, env);
                (node, beside(&target, &others))
            }
            None => (None, target),
        };
        self.target(start, node, others);
        if let Some(selection) = &delete.selection {
            self.conjuncts(selection, &scope, env);
        }
        self.returning(delete.returning.as_deref(), delete.output.as_ref(), &scope, env)
    }

    fn target(&mut self, start: &Scope<'_>, target: Option<Node>, others: Option<Node>) {
        if let (Some(block), Some(target)) = (start.block, target) {
            self.targets.push((block, target, others));
        }
    }

    fn merge<'q>(&mut self, merge: &'q Merge, start: &Rc<Scope<'q>>, env: usize) -> Option<Vec<Option<String>>> {
        self.write_target(&merge.table, start);
        let source = std::slice::from_ref(&merge.source);
        let by_source = merge.clauses.iter().any(|c| c.clause_kind == MergeClauseKind::NotMatchedBySource);
        // rows of the target matter where the source joins them, unless those that it does not join are changed too
        let inner = merge.clauses.iter().all(|c| c.clause_kind == MergeClauseKind::Matched);
        let target_env = if by_source || inner { env } else { self.new_env(env) };
        let on_env = if by_source { self.new_env(env) } else { target_env };
        let mut items = Vec::new();
        for factor in source {
            items.extend(self.single_factor(factor, start, env));
        }
        let target_items = self.single_factor(&merge.table, start, target_env);
        let target = Rc::new(start.clone_empty().with_items(target_items, target_env));
        let source = Rc::new(start.clone_empty().with_items(items, env));
        let scope = beside(&target, &source);
        self.conjuncts(&merge.on, &scope, on_env);
        let mut uses = Uses::default();
        for clause in &merge.clauses {
            if let Some(predicate) = &clause.predicate {
                self.walk(predicate, &scope, on_env, &mut uses);
            }
            match &clause.action {
                MergeAction::Update(update) => match &update.kind {
                    MergeUpdateKind::Set(assignments) => self.assignments(assignments, &target, &scope, on_env),
                    MergeUpdateKind::Wildcard => self.facts.foreign = true,
                },
                MergeAction::Insert(insert) => self.merge_insert(insert, &merge.table, &source, start),
                MergeAction::Delete { .. } | MergeAction::DoNothing { .. } => {}
            }
        }
        self.returning(None, merge.output.as_ref(), &scope, on_env)
    }

    fn merge_insert<'q>(
        &mut self,
        insert: &'q MergeInsertExpr,
        table: &'q TableFactor,
        source: &Rc<Scope<'q>>,
        start: &Rc<Scope<'q>>,
    ) {
        let MergeInsertKind::Values(values) = &insert.kind else {
            self.facts.foreign = true;
            return;
        };
        let mut uses = Uses::default();
        for row in &values.rows {
            row.content.iter().for_each(|e| self.walk(e, source, source.env, &mut uses));
        }
        let TableFactor::Table { name, .. } = table else { return };
        let Some(relation) = self.relation_of(name, start) else { return };
        if !self.several_shards() {
            return;
        }
        let columns = insert_columns(&relation, &insert.columns);
        self.drawn_columns(&relation, &columns, values.rows.iter().map(|r| r.content.as_slice()));
        let Placement::Sharded { .. } = &relation.placement else { return };
        let Some(row) = values.rows.first() else { return };
        let given = |position: usize| columns.iter().position(|c| *c == position).and_then(|n| row.content.get(n));
        let condition = self.row_condition(&relation, source, source.env, given);
        self.facts.writes.push(Write { relation, rows: condition });
    }

    /// SET: the expressions, and that no shard key gets another value.
    pub(super) fn assignments(
        &mut self,
        assignments: &[Assignment],
        target: &Rc<Scope<'_>>,
        scope: &Rc<Scope<'_>>,
        env: usize,
    ) {
        let mut uses = Uses::default();
        for assignment in assignments {
            self.walk(&assignment.value, scope, env, &mut uses);
            let columns: Vec<&ObjectName> = match &assignment.target {
                AssignmentTarget::ColumnName(name) => vec![name],
                AssignmentTarget::Tuple(names) => names.iter().collect(),
            };
            for column in columns {
                self.assigned(column, &assignment.value, target, scope, env);
            }
        }
    }

    fn assigned(
        &mut self,
        column: &ObjectName,
        value: &Expr,
        target: &Rc<Scope<'_>>,
        scope: &Rc<Scope<'_>>,
        env: usize,
    ) {
        if !self.several_shards() {
            return;
        }
        // `SET a[1] = …` and `SET a.b = …` begin with the column's name
        let Some(name) = names::parts(column).and_then(|p| p.into_iter().next()) else { return };
        let Some(atom) = target.find(std::slice::from_ref(&name)).and_then(|f| f.atom) else { return };
        let Some((_, key)) = self.key(atom.owner) else { return };
        if key.contains(&atom) {
            let same = self.same_key(atom, value, scope, env);
            if let Some(literals) = &same {
                self.facts.fixed.extend(literals);
            } else {
                self.facts.refuse(
                    Error::unsupported(format!("UPDATE of shard key column {name}"))
                        .hint("Delete the row and insert it with its new key."),
                );
            }
            return;
        }
        let Some(relation) = self.owner(atom.owner).and_then(|o| o.relation.clone()) else { return };
        let column = atom.column as usize;
        let loose = relation.unique.iter().find(|u| u.contains(&column) && !has_key(&relation, u));
        if let Some(unique) = loose {
            self.facts.refuse(loose_unique(&relation, unique, "UPDATE"));
        }
    }

    /// Whether a key column is assigned the value that it has: itself, or what WHERE asks for. Gives the literals that
    /// were compared.
    fn same_key(&self, key: Atom, value: &Expr, scope: &Scope<'_>, env: usize) -> Option<Vec<usize>> {
        if self.bare_atom(value, scope) == Some(key) {
            return Some(Vec::new());
        }
        let facts = self.column_facts(key)?;
        let Some(Operand::Source(assigned)) = self.operand(value, &facts, scope) else { return None };
        let preds = classes::applying(&self.envs, env, Some(key.owner));
        let classes = classes::Classes::new(&preds);
        preds.iter().find_map(|pred| match pred {
            Pred::Is(atom, Test::Equals(asked)) if classes.same(*atom, key) => same_source(asked, &assigned, scope),
            _ => None,
        })
    }

    /// The table that is written, by the FROM item that names it.
    fn write_target<'q>(&mut self, factor: &'q TableFactor, start: &Rc<Scope<'q>>) {
        let TableFactor::Table { name, .. } = factor else {
            self.facts.foreign = true;
            return;
        };
        if let Some(relation) = self.relation_of(name, start) {
            self.facts.writes.push(Write { relation, rows: None });
        }
    }

    pub(super) fn relation_of(&mut self, name: &ObjectName, start: &Scope<'_>) -> Option<Arc<Relation>> {
        let parts = names::parts(name)?;
        let context = if start.in_view { &self.view_context } else { self.context };
        match names::relation(context, &parts) {
            names::Named::Relation(relation) => Some(relation),
            names::Named::Temporary => {
                self.facts.temporary = true;
                None
            }
            names::Named::System => {
                self.facts.system = true;
                None
            }
            names::Named::Unknown(name) => {
                self.facts.unknown.push(name);
                None
            }
        }
    }

    pub(super) fn returning<'q>(
        &mut self,
        returning: Option<&'q [SelectItem]>,
        output: Option<&'q OutputClause>,
        scope: &Rc<Scope<'q>>,
        env: usize,
    ) -> Option<Vec<Option<String>>> {
        let items = match (returning, output) {
            (Some(items), _) => items,
            (None, Some(OutputClause::Returning { select_items, .. } | OutputClause::Output { select_items, .. })) => {
                select_items
            }
            (None, None) => return Some(Vec::new()),
        };
        let mut uses = Uses::default();
        let mut names = Some(Vec::new());
        for item in items {
            match super::item_expr(item) {
                Some(expr) => {
                    self.walk(expr, scope, env, &mut uses);
                    let name = match item {
                        SelectItem::ExprWithAlias { alias, .. } => Some(names::fold(alias)),
                        _ => super::output_name(expr),
                    };
                    if let Some(names) = &mut names {
                        names.push(name);
                    }
                }
                None => names = None,
            }
        }
        names
    }
}

/// Two scopes' items beside each other.
fn beside<'q>(a: &Rc<Scope<'q>>, b: &Rc<Scope<'q>>) -> Rc<Scope<'q>> {
    let items = a.items.iter().chain(&b.items).cloned().collect();
    let mut columns = a.columns.clone();
    columns.append(b.columns.clone());
    Rc::new(Scope { items, columns, ..a.clone_empty() })
}

/// Whether two sources are the same parameter, or literals written alike; gives the literals.
fn same_source(a: &Source, b: &Source, scope: &Scope<'_>) -> Option<Vec<usize>> {
    match (a, b) {
        (Source::Param(a), Source::Param(b)) => (a == b).then(Vec::new),
        (Source::Literal { ordinal: a, negative: x }, Source::Literal { ordinal: b, negative: y }) => {
            let text =
                |n: &usize| scope.source.literals.get(*n).and_then(|(from, to)| scope.source.text.get(*from..*to));
            (x == y && text(a).is_some() && text(a) == text(b)).then(|| vec![*a, *b])
        }
        _ => None,
    }
}

/// How many characters the key columns of type varchar hold.
pub(super) fn key_widths(relation: &Relation) -> Vec<Option<u32>> {
    let Placement::Sharded { key, .. } = &relation.placement else { return Vec::new() };
    let width = |c: &usize| {
        let name = relation.columns.get(*c)?.type_name.strip_prefix("character varying")?;
        if name.is_empty() { Some(u32::MAX) } else { name.strip_prefix('(')?.strip_suffix(')')?.parse().ok() }
    };
    key.iter().map(width).collect()
}

pub(super) fn has_key(relation: &Relation, unique: &[usize]) -> bool {
    match &relation.placement {
        Placement::Sharded { key, .. } => key.iter().all(|k| unique.contains(k)),
        _ => true,
    }
}

pub(super) fn loose_unique(relation: &Relation, unique: &[usize], verb: &str) -> Error {
    let columns: Vec<&str> = unique.iter().filter_map(|c| relation.columns.get(*c)).map(|c| c.name.as_str()).collect();
    Error::unsupported(format!(
        "{verb} on sharded table {} with the unique constraint ({}), which does not contain the shard key",
        relation.name,
        columns.join(", ")
    ))
    .detail("One shard cannot tell whether another has the same values.")
    .hint("Add the shard key's columns to the constraint.")
}

pub(super) fn key_names(relation: &Relation) -> Option<Vec<String>> {
    let Placement::Sharded { key, .. } = &relation.placement else { return None };
    key.iter().map(|k| Some(format!("{}.{}", relation.name.name, relation.columns.get(*k)?.name))).collect()
}
