//! INSERT: where its rows must live, and its text in pieces where rows or defaults are not forwarded as they stand.

use super::Analysis;
use super::Item;
use super::QueryResult;
use super::Scope;
use super::Selected;
use super::Write;
use super::expressions::Uses;
use super::key_types;
use super::modify::has_key;
use super::modify::key_names;
use super::modify::key_widths;
use super::modify::loose_unique;
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
use sqlparser::ast::Expr;
use sqlparser::ast::Insert;
use sqlparser::ast::ObjectName;
use sqlparser::ast::OnConflictAction;
use sqlparser::ast::OnInsert;
use sqlparser::ast::SetExpr;
use sqlparser::ast::TableObject;
use std::rc::Rc;
use std::sync::Arc;

impl<'a> Analysis<'a> {
    pub(super) fn insert<'q>(
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

    /// ON CONFLICT DO UPDATE SET key = …: only to what it is already. The key of the row that is proposed is that of the
    /// row in its way, since every unique constraint of a sharded table has the key.
    fn conflict_key(&mut self, assignments: &[Assignment], relation: &Relation) {
        let Placement::Sharded { key, .. } = &relation.placement else { return };
        if !self.several_shards() {
            return;
        }
        for assignment in assignments.iter().filter(|assignment| !keeps_proposed(assignment)) {
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
        Ok(types.zip(names).map(|(types, names)| KeyCondition {
            map: *map,
            types,
            names,
            widths,
            expr,
            not_null: not_null(relation),
        }))
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
        Some((
            selected,
            KeyCondition { map: *map, types, names, widths, expr: KeyExpr::True, not_null: not_null(relation) },
        ))
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
    pub(super) fn row_condition<'q>(
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
            not_null: not_null(relation),
        })
    }

    /// Columns of a sharded table that are not given and would be drawn from a sequence.
    pub(super) fn drawn_columns<'q>(
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
}

fn undetermined(column: &str) -> Error {
    Error::unsupported(format!("the shard key value of column {column} cannot be determined here"))
        .hint("Give the shard key as a constant or a parameter of the column's type.")
}

/// `column = excluded.column`, as ORMs write it for every column.
fn keeps_proposed(assignment: &Assignment) -> bool {
    let AssignmentTarget::ColumnName(target) = &assignment.target else { return false };
    let Expr::CompoundIdentifier(value) = &assignment.value else { return false };
    let value: Vec<String> = value.iter().map(names::fold).collect();
    names::parts(target).is_some_and(|target| {
        matches!((target.as_slice(), value.as_slice()), ([column], [row, given]) if row == "excluded" && given == column)
    })
}

/// The positions of the columns that an INSERT gives, in its order.
pub(super) fn insert_columns(relation: &Relation, columns: &[ObjectName]) -> Vec<usize> {
    if columns.is_empty() {
        return (0..relation.columns.len()).collect();
    }
    let position = |name: &ObjectName| {
        let name = names::parts(name)?.into_iter().next()?;
        relation.columns.iter().position(|c| c.name == name)
    };
    columns.iter().map(|name| position(name).unwrap_or(usize::MAX)).collect()
}

fn not_null(relation: &Relation) -> Vec<bool> {
    let Placement::Sharded { key, .. } = &relation.placement else { return Vec::new() };
    key.iter().map(|column| relation.columns.get(*column).is_some_and(|column| column.not_null)).collect()
}
