//! INSERT, UPDATE, DELETE, MERGE: the table that is written, and where the rows that are written must live.

use super::Analysis;
use super::BlockKind;
use super::Item;
use super::Node;
use super::QueryResult;
use super::Scope;
use super::Selected;
use super::Write;
use super::expressions::Uses;
use super::key_types;
use super::names;
use crate::catalog::Placement;
use crate::catalog::Relation;
use crate::catalog::RelationKind;
use crate::error::Error;
use crate::plan::KeyCondition;
use crate::plan::KeyExpr;
use crate::plan::Source;
use crate::plan::classes;
use crate::plan::classes::Atom;
use crate::plan::classes::Pred;
use crate::plan::classes::Test;
use crate::plan::predicates;
use crate::plan::predicates::ColumnFacts;
use crate::plan::predicates::Operand;
use crate::plan::writes;
use crate::plan::writes::When;
use crate::plan::writes::defaults;
use crate::plan::writes::defaults::Fills;
use crate::plan::writes::defaults::is_default;
use crate::plan::writes::insert::Input;
use crate::plan::writes::insert::overriding_refused;
use crate::value::Datum;
use sqlparser::ast::Assignment;
use sqlparser::ast::AssignmentTarget;
use sqlparser::ast::Delete;
use sqlparser::ast::Expr;
use sqlparser::ast::FromTable;
use sqlparser::ast::Insert;
use sqlparser::ast::Merge;
use sqlparser::ast::MergeAction;
use sqlparser::ast::MergeClauseKind;
use sqlparser::ast::MergeInsertExpr;
use sqlparser::ast::MergeInsertKind;
use sqlparser::ast::MergeUpdateKind;
use sqlparser::ast::ObjectName;
use sqlparser::ast::OnConflictAction;
use sqlparser::ast::OnInsert;
use sqlparser::ast::OutputClause;
use sqlparser::ast::SelectItem;
use sqlparser::ast::SetExpr;
use sqlparser::ast::Statement as Tree;
use sqlparser::ast::TableFactor;
use sqlparser::ast::TableObject;
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

    fn several_shards(&self) -> bool {
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
    fn assignments(&mut self, assignments: &[Assignment], target: &Rc<Scope<'_>>, scope: &Rc<Scope<'_>>, env: usize) {
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

    fn insert<'q>(
        &mut self,
        insert: &'q Insert,
        start: &Rc<Scope<'q>>,
        env: usize,
        top: bool,
    ) -> Option<Vec<Option<String>>> {
        self.facts.foreign |= insert.or.is_some()
            || insert.ignore
            || insert.overwrite
            || insert.replace_into
            || !insert.assignments.is_empty()
            || insert.partitioned.is_some()
            || insert.settings.is_some()
            || insert.format_clause.is_some()
            || insert.multi_table_insert_type.is_some();
        let TableObject::TableName(name) = &insert.table else {
            self.facts.foreign = true;
            return None;
        };
        let result = insert.source.as_deref().map(|source| {
            let inner = self.new_env(env);
            self.query(source, start, inner)
        });
        let relation = self.relation_of(name, start)?;
        self.placed(&relation);
        self.facts.relations.push(relation.clone());
        let label = match &insert.table_alias {
            Some(alias) => names::fold(&alias.alias),
            None => relation.name.name.clone(),
        };
        let rows = if self.several_shards() { self.inserted_rows(insert, &relation, result, start, top) } else { None };
        self.facts.writes.push(Write { relation: relation.clone(), rows });
        let scope = self.inserted_scope(&relation, label, start, env);
        if let Some(OnInsert::OnConflict(conflict)) = &insert.on
            && let OnConflictAction::DoUpdate(update) = &conflict.action
        {
            let items = scope.items.iter().take(1).cloned().collect();
            let target = Rc::new(start.clone_empty().with_items(items, env));
            self.conflict_key(&update.assignments, &relation);
            self.assignments(&update.assignments, &target, &scope, env);
            let mut uses = Uses::default();
            if let Some(selection) = &update.selection {
                self.walk(selection, &scope, env, &mut uses);
            }
        }
        self.facts.foreign |= matches!(insert.on, Some(OnInsert::DuplicateKeyUpdate(_)));
        self.returning(insert.returning.as_deref(), insert.output.as_ref(), &scope, env)
    }

    /// ON CONFLICT DO UPDATE SET key = …
    fn conflict_key(&mut self, assignments: &[Assignment], relation: &Relation) {
        let Placement::Sharded { key, .. } = &relation.placement else { return };
        if !self.several_shards() {
            return;
        }
        for assignment in assignments {
            let columns: Vec<&ObjectName> = match &assignment.target {
                AssignmentTarget::ColumnName(name) => vec![name],
                AssignmentTarget::Tuple(names) => names.iter().collect(),
            };
            for column in columns.into_iter().filter_map(|c| names::parts(c)?.into_iter().next()) {
                if key.iter().any(|k| relation.columns.get(*k).is_some_and(|c| c.name == column)) {
                    self.facts.refuse(
                        Error::unsupported(format!("ON CONFLICT DO UPDATE of shard key column {column}"))
                            .hint("Leave the shard key out of SET: the conflicting row has the same one."),
                    );
                }
            }
        }
    }

    /// The names that ON CONFLICT and RETURNING can use.
    fn inserted_scope<'q>(
        &mut self,
        relation: &Arc<Relation>,
        label: String,
        start: &Rc<Scope<'q>>,
        env: usize,
    ) -> Rc<Scope<'q>> {
        let columns = relation.columns.iter().map(|c| (c.name.clone(), None)).collect::<Vec<_>>();
        let item = |label: &str| Item {
            label: Some(label.to_owned()),
            schema: None,
            columns: (relation.kind != RelationKind::View).then(|| columns.clone()),
        };
        let items = vec![item(&label), item("excluded")];
        Rc::new(start.clone_empty().with_items(items, env))
    }

    fn inserted_rows<'q>(
        &mut self,
        insert: &'q Insert,
        relation: &Arc<Relation>,
        result: Option<QueryResult<'q>>,
        start: &Rc<Scope<'q>>,
        top: bool,
    ) -> Option<KeyCondition> {
        if relation.kind == RelationKind::View {
            self.facts.refuse(
                Error::unsupported(format!("INSERT into view {}", relation.name)).hint("Insert into the view's table."),
            );
            return None;
        }
        let columns = insert_columns(relation, &insert.columns);
        let values = match insert.source.as_deref().map(|s| &*s.body) {
            Some(SetExpr::Values(values)) => Some(values),
            _ => None,
        };
        let Placement::Sharded { .. } = &relation.placement else { return None };
        let mut columns = columns;
        if insert.columns.is_empty() && values.is_none() && insert.source.is_some() {
            // Without a list the columns are as many as the query's.
            match result.as_ref().and_then(|result| result.outputs.as_ref()) {
                Some(outputs) => columns.truncate(outputs.len()),
                None => self.drawn_columns(relation, &[], std::iter::empty()),
            }
        }
        let rows: Option<Vec<&'q [Expr]>> = match (insert.source.is_some(), values) {
            (false, _) => Some(vec![&[][..]]),
            (true, Some(values)) => Some(values.rows.iter().map(|r| r.content.as_slice()).collect()),
            (true, None) => None,
        };
        // What no sharded table gives can be computed on one server, numbers of sequences too.
        if !top || (rows.is_none() && self.sharded().next().is_some()) {
            let rows = rows.iter().flatten().copied();
            self.drawn_columns(relation, if insert.source.is_none() { &[] } else { &columns }, rows);
        }
        if let Some(unique) = relation.unique.iter().find(|u| !has_key(relation, u)) {
            self.facts.refuse(loose_unique(relation, unique, "INSERT"));
        }
        match (insert.source.as_deref(), rows) {
            (_, Some(rows)) => self.given_rows(insert, relation, &columns, &rows, start, top),
            (source, None) => self.selected_rows(relation, &columns, source?, result?, top),
        }
    }

    /// The rows of VALUES, and of DEFAULT VALUES: their keys, and the statement in pieces.
    fn given_rows<'q>(
        &mut self,
        insert: &'q Insert,
        relation: &Arc<Relation>,
        columns: &[usize],
        rows: &[&'q [Expr]],
        start: &Rc<Scope<'q>>,
        top: bool,
    ) -> Option<KeyCondition> {
        let width = rows.first().map_or(0, |row| row.len());
        // Without a list the columns are as many as the values.
        let columns = if insert.columns.is_empty() { columns.get(..width)? } else { columns };
        let fills = if top { defaults::fills(relation, columns, rows, self.context) } else { Fills::default() };
        if let Some(error) = overriding_refused(insert, &fills) {
            self.facts.refuse(error);
            return None;
        }
        let condition = match self.value_rows(relation, columns, rows, start, &fills) {
            Ok(condition) => condition?,
            Err(error) => {
                // One server can compute the key of a row; several rows would have to agree in their types.
                let has_default = rows.iter().any(|row| row.iter().any(is_default));
                let computed = insert.source.is_some() && rows.len() == 1 && !has_default;
                if !top || !computed || self.sharded().next().is_some() {
                    self.facts.refuse(error);
                    return None;
                }
                let (selected, condition) = self.computed_row(relation, columns)?;
                self.facts.selected = Some(selected);
                return Some(condition);
            }
        };
        if top {
            let draws = fills.draws.iter().any(|d| d.when == When::Always);
            let widths: Vec<usize> = rows.iter().map(|row| row.len()).collect();
            let condition = condition.clone();
            let input = Input { insert, relation, columns, widths: &widths, fills, condition };
            self.facts.insert = writes::insert::plan(&input, start.source);
            if draws && self.facts.insert.is_none() {
                self.drawn_columns(relation, columns, rows.iter().copied());
            }
        }
        Some(condition)
    }

    /// The keys of the rows of VALUES.
    fn value_rows<'q>(
        &mut self,
        relation: &Arc<Relation>,
        columns: &[usize],
        rows: &[&'q [Expr]],
        start: &Rc<Scope<'q>>,
        fills: &Fills,
    ) -> Result<Option<KeyCondition>, Error> {
        let Placement::Sharded { map, key } = &relation.placement else { return Ok(None) };
        let mut parts = Vec::new();
        for (n, row) in rows.iter().enumerate() {
            let mut sources = Vec::new();
            for column in key {
                if let Some(value) = fills.value(n, *column) {
                    sources.push(Source::Drawn(value));
                    continue;
                }
                let given = columns.iter().position(|c| c == column).and_then(|n| row.get(n));
                sources.push(self.row_value(relation, *column, given, start)?);
            }
            parts.push(KeyExpr::Row(sources));
        }
        let expr = if parts.len() == 1 { parts.swap_remove(0) } else { KeyExpr::Or(parts) };
        let (types, names) = (key_types(relation), key_names(relation));
        let widths = key_widths(relation);
        Ok(types.zip(names).map(|(types, names)| KeyCondition { map: *map, types, names, widths, expr }))
    }

    /// A row whose key is computed, as if it were selected.
    fn computed_row(&self, relation: &Arc<Relation>, columns: &[usize]) -> Option<(Selected, KeyCondition)> {
        let Placement::Sharded { map, key } = &relation.placement else { return None };
        let left_out = relation.columns.iter().enumerate().filter(|(position, _)| !columns.contains(position));
        let mut when = left_out.filter_map(|(n, column)| defaults::when(column, key.contains(&n), self.context));
        let selected = Selected {
            block: usize::MAX,
            env: 0,
            relation: Arc::clone(relation),
            map: *map,
            atoms: None,
            columns: columns.to_vec(),
            key: key.clone(),
            draws: when.any(|when| when == When::Always),
            varying: None,
        };
        let (types, names) = (key_types(relation)?, key_names(relation)?);
        let widths = key_widths(relation);
        Some((selected, KeyCondition { map: *map, types, names, widths, expr: KeyExpr::True }))
    }

    /// One key column's value of a row of VALUES.
    fn row_value(
        &self,
        relation: &Relation,
        column: usize,
        expr: Option<&Expr>,
        scope: &Scope<'_>,
    ) -> Result<Source, Error> {
        let Some(facts) = relation.columns.get(column) else { return Err(Error::internal("no key column")) };
        let Some(expr) = expr.filter(|e| !is_default(e)) else {
            return match &facts.default {
                None if !facts.generated && !facts.identity => Ok(Source::Const(Datum::Null)),
                _ => Err(Error::unsupported(format!("the default of shard key column {}", facts.name))
                    .hint("Give the shard key in the statement.")),
            };
        };
        let column = ColumnFacts {
            type_oid: facts.type_oid,
            collation: facts.collation,
            not_null: facts.not_null,
            nullable: false,
        };
        match self.operand(expr, &column, scope) {
            Some(Operand::Null) => Ok(Source::Const(Datum::Null)),
            Some(Operand::Source(source)) => Ok(source),
            None => Err(undetermined(&facts.name)),
        }
    }

    /// The keys of the rows that a query gives.
    fn selected_rows<'q>(
        &mut self,
        relation: &Arc<Relation>,
        columns: &[usize],
        source: &'q sqlparser::ast::Query,
        result: QueryResult<'q>,
        top: bool,
    ) -> Option<KeyCondition> {
        let unknown = || {
            Error::unsupported(format!("INSERT … SELECT into {} whose shard key is not known", relation.name))
                .hint("Fix the shard key in the query's WHERE, or insert with VALUES.")
        };
        let projection = match &*source.body {
            SetExpr::Select(select) if !select.projection.iter().any(super::is_wildcard) => Some(&select.projection),
            _ => None,
        };
        let env = self.new_env(0);
        self.push_tagged(env, result.facts, result.conditionals);
        let outputs = result.outputs;
        let given = |position: usize| columns.iter().position(|c| *c == position);
        let atom = |position: usize| outputs.as_ref()?.get(given(position)?)?.atom;
        let expr = |position: usize| super::item_expr(projection?.get(given(position)?)?);
        let Some(scope) = result.scope else {
            if top && self.sharded().next().is_none() {
                let (selected, condition) = self.computed_row(relation, columns)?;
                self.facts.selected = Some(selected);
                return Some(condition);
            }
            self.facts.refuse(unknown());
            return None;
        };
        if top && let Placement::Sharded { map, key } = &relation.placement {
            let draws = relation.columns.iter().enumerate().any(|(position, column)| {
                !columns.contains(&position)
                    && defaults::when(column, key.contains(&position), self.context) == Some(When::Always)
            });
            let varying = relation.columns.iter().enumerate().find(|(position, column)| {
                !columns.contains(position)
                    && defaults::when(column, key.contains(position), self.context) == Some(When::Several)
            });
            self.facts.selected = Some(Selected {
                block: result.block,
                env: scope.env,
                relation: Arc::clone(relation),
                map: *map,
                atoms: key.iter().map(|k| atom(*k)).collect(),
                columns: columns.to_vec(),
                key: key.clone(),
                draws,
                varying: varying.map(|(_, column)| column.name.clone()),
            });
        }
        let condition = self.row_links(relation, env, &scope, atom, expr);
        if condition.is_none() || (!top && condition.as_ref().is_some_and(|c| c.expr == KeyExpr::True)) {
            self.facts.refuse(unknown());
            return None;
        }
        condition
    }

    /// The key of a row that MERGE inserts.
    fn row_condition<'q>(
        &mut self,
        relation: &Arc<Relation>,
        scope: &Rc<Scope<'q>>,
        env: usize,
        given: impl Fn(usize) -> Option<&'q Expr>,
    ) -> Option<KeyCondition> {
        let inner = self.new_env(env);
        let atoms: Vec<(usize, Option<Atom>)> =
            (0..relation.columns.len()).map(|c| (c, given(c).and_then(|e| self.bare_atom(e, scope)))).collect();
        let atom = |position: usize| atoms.iter().find(|(c, _)| *c == position).and_then(|(_, a)| *a);
        let condition = self.row_links(relation, inner, scope, atom, given);
        if condition.as_ref().is_none_or(|c| c.expr == KeyExpr::True) {
            self.facts.refuse(
                Error::unsupported(format!(
                    "MERGE that inserts into {} with a shard key that is not known",
                    relation.name
                ))
                .hint("Fix the shard key by a constant in ON."),
            );
        }
        condition
    }

    /// An instance for rows that are written, its key equal to what is written into it.
    fn row_links<'q>(
        &mut self,
        relation: &Arc<Relation>,
        env: usize,
        scope: &Scope<'_>,
        atom: impl Fn(usize) -> Option<Atom>,
        expr: impl Fn(usize) -> Option<&'q Expr>,
    ) -> Option<KeyCondition> {
        let Placement::Sharded { map, key } = &relation.placement else { return None };
        let owner = self.add_table(relation, relation.name.name.clone(), env);
        if let Some(owner) = self.owners.get_mut(owner as usize) {
            // it stands for rows that are not there yet: nothing is read
            owner.key = None;
        }
        let mut rows = Vec::new();
        let mut atoms = Vec::new();
        for column in key {
            let written = Atom { owner, column: u32::try_from(*column).ok()? };
            atoms.push(written);
            let facts = self.column_facts(written)?;
            if let Some(read) = atom(*column)
                && let Some(read_facts) = self.column_facts(read)
            {
                self.push(env, predicates::columns_equal(written, &facts, read, &read_facts));
                continue;
            }
            match expr(*column).and_then(|e| self.operand(e, &facts, scope)) {
                Some(Operand::Source(source)) => {
                    if !matches!(source, Source::Param(_)) {
                        self.push(env, Pred::Is(written, Test::Equals(source.clone())));
                    }
                    rows.push(source);
                }
                Some(Operand::Null) => rows.push(Source::Const(Datum::Null)),
                None => {}
            }
        }
        let expr = if rows.len() == key.len() {
            KeyExpr::Row(rows)
        } else {
            classes::key_expr(&classes::applying(&self.envs, env, None), &atoms)
        };
        Some(KeyCondition {
            map: *map,
            types: key_types(relation)?,
            names: key_names(relation)?,
            widths: key_widths(relation),
            expr,
        })
    }

    /// Columns of a sharded table that are not given and would be drawn from a sequence.
    fn drawn_columns<'q>(
        &mut self,
        relation: &Relation,
        columns: &[usize],
        rows: impl Iterator<Item = &'q [Expr]> + Clone,
    ) {
        if !matches!(relation.placement, Placement::Sharded { .. }) {
            return;
        }
        for (position, column) in relation.columns.iter().enumerate() {
            let draws = column.identity || column.default.as_deref().is_some_and(|d| d.contains("nextval("));
            if !draws {
                continue;
            }
            let given = match columns.iter().position(|c| *c == position) {
                Some(n) => rows.clone().all(|row| row.get(n).is_some_and(|e| !is_default(e))),
                None => false,
            };
            if !given {
                self.facts.refuse(
                    Error::unsupported(format!(
                        "column {} of {} would draw from a sequence on a sharded table",
                        column.name, relation.name
                    ))
                    .hint("Give the column a value in the statement, or use a uuid default."),
                );
            }
        }
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

    fn relation_of(&mut self, name: &ObjectName, start: &Scope<'_>) -> Option<Arc<Relation>> {
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

    fn returning<'q>(
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

/// The positions of the columns that an INSERT gives, in its order.
fn insert_columns(relation: &Relation, columns: &[ObjectName]) -> Vec<usize> {
    if columns.is_empty() {
        return (0..relation.columns.len()).collect();
    }
    let position = |name: &ObjectName| {
        let name = names::parts(name)?.into_iter().next()?;
        relation.columns.iter().position(|c| c.name == name)
    };
    columns.iter().map(|name| position(name).unwrap_or(usize::MAX)).collect()
}

/// How many characters the key columns of type varchar hold.
fn key_widths(relation: &Relation) -> Vec<Option<u32>> {
    let Placement::Sharded { key, .. } = &relation.placement else { return Vec::new() };
    let width = |c: &usize| {
        let name = relation.columns.get(*c)?.type_name.strip_prefix("character varying")?;
        if name.is_empty() { Some(u32::MAX) } else { name.strip_prefix('(')?.strip_suffix(')')?.parse().ok() }
    };
    key.iter().map(width).collect()
}

fn has_key(relation: &Relation, unique: &[usize]) -> bool {
    match &relation.placement {
        Placement::Sharded { key, .. } => key.iter().all(|k| unique.contains(k)),
        _ => true,
    }
}

fn loose_unique(relation: &Relation, unique: &[usize], verb: &str) -> Error {
    let columns: Vec<&str> = unique.iter().filter_map(|c| relation.columns.get(*c)).map(|c| c.name.as_str()).collect();
    Error::unsupported(format!(
        "{verb} on sharded table {} with the unique constraint ({}), which does not contain the shard key",
        relation.name,
        columns.join(", ")
    ))
    .detail("One shard cannot tell whether another has the same values.")
    .hint("Add the shard key's columns to the constraint.")
}

fn undetermined(column: &str) -> Error {
    Error::unsupported(format!("the shard key value of column {column} cannot be determined here"))
        .hint("Give the shard key as a constant or a parameter of the column's type.")
}

fn key_names(relation: &Relation) -> Option<Vec<String>> {
    let Placement::Sharded { key, .. } = &relation.placement else { return None };
    key.iter().map(|k| Some(format!("{}.{}", relation.name.name, relation.columns.get(*k)?.name))).collect()
}
