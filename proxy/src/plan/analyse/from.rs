//! FROM: table instances, derived tables, joins, and which conditions hold for whom.

use super::Analysis;
use super::Item;
use super::Node;
use super::Scope;
use super::expressions::Uses;
use super::names;
use super::scope::Columns;
use super::scope::CteBody;
use super::scope::CteLink;
use crate::catalog::Catalog;
use crate::catalog::Placement;
use crate::catalog::QualifiedName;
use crate::catalog::Relation;
use crate::catalog::RelationKind;
use crate::error::Error;
use crate::plan::classes::Atom;
use crate::plan::classes::Conditional;
use crate::plan::classes::Tagged;
use crate::plan::predicates;
use sqlparser::ast::FunctionArg;
use sqlparser::ast::FunctionArgExpr;
use sqlparser::ast::JoinConstraint;
use sqlparser::ast::JoinOperator;
use sqlparser::ast::ObjectName;
use sqlparser::ast::TableAlias;
use sqlparser::ast::TableFactor;
use sqlparser::ast::TableWithJoins;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Joins in one FROM item: each is one level of recursion here.
const JOINS: usize = 300;

/// A part of FROM.
pub struct Part {
    pub node: Node,
    pub items: Vec<Item>,
    pub columns: Columns,
}

/// The two sides of an outer join, as PostgreSQL names them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Inner,
    Left,
    Right,
    Full,
}

impl Part {
    fn of(node: Node, item: Item) -> Part {
        Part { node, columns: Columns::of(&item), items: vec![item] }
    }
}

impl<'a> Analysis<'a> {
    /// FROM's list: items beside each other are joined with all.
    pub fn items_of<'q>(
        &mut self,
        from: &'q [TableWithJoins],
        start: &Rc<Scope<'q>>,
        env: usize,
    ) -> (Option<Node>, Rc<Scope<'q>>) {
        let mut node: Option<Node> = None;
        let mut items = Vec::new();
        let mut columns = Columns::default();
        for table in from {
            let part = self.joined(table, table.joins.len(), start, env, &items);
            items.extend(part.items);
            columns.append(part.columns);
            node = Some(match node {
                Some(node) => Node::Inner(Box::new(node), Box::new(part.node)),
                None => part.node,
            });
        }
        let scope = Scope { items, columns, env, ..(**start).clone_empty() };
        (node, Rc::new(scope))
    }

    /// A FROM item with its first `joins` joins; `before` are the items that LATERAL may name.
    fn joined<'q>(
        &mut self,
        table: &'q TableWithJoins,
        joins: usize,
        start: &Rc<Scope<'q>>,
        env: usize,
        before: &[Item],
    ) -> Part {
        let Some(join) = joins.checked_sub(1).and_then(|n| table.joins.get(n)) else {
            return self.factor(&table.relation, start, env, before);
        };
        if joins > JOINS {
            self.facts.too_large = true;
            return self.factor(&table.relation, start, env, before);
        }
        let (kind, constraint) = self.operator(&join.join_operator);
        let left_env = if matches!(kind, Kind::Right | Kind::Full) { self.new_env(env) } else { env };
        let right_env = if matches!(kind, Kind::Left | Kind::Full) { self.new_env(env) } else { env };
        let first = self.owner_count();
        let left = self.joined(table, joins - 1, start, left_env, before);
        let middle = self.owner_count();
        let visible: Vec<Item> = before.iter().chain(&left.items).cloned().collect();
        let right = self.factor(&join.relation, start, right_env, &visible);
        let last = self.owner_count();
        let on_env = match kind {
            Kind::Inner => env,
            Kind::Left => right_env,
            Kind::Right => left_env,
            Kind::Full => self.new_env(env),
        };
        let columns = self.constraint(constraint, kind, &left, &right, start, on_env);
        let (left_node, right_node) = (Box::new(left.node), Box::new(right.node));
        let node = match kind {
            Kind::Inner => Node::Inner(left_node, right_node),
            Kind::Left => {
                self.extended(env, right_env, middle..last);
                Node::Left(left_node, right_node)
            }
            Kind::Right => {
                self.extended(env, left_env, first..middle);
                Node::Left(right_node, left_node)
            }
            Kind::Full => {
                self.extended(env, left_env, first..middle);
                self.extended(env, right_env, middle..last);
                let on = self.envs.get(on_env).map(|e| e.preds.iter().map(|t| t.pred.clone()).collect());
                Node::Full(left_node, right_node, on.unwrap_or_default())
            }
        };
        let items = left.items.into_iter().chain(right.items).collect();
        Part { node, items, columns }
    }

    fn operator<'q>(&mut self, operator: &'q JoinOperator) -> (Kind, Option<&'q JoinConstraint>) {
        match operator {
            JoinOperator::Join(c) | JoinOperator::Inner(c) | JoinOperator::CrossJoin(c) => (Kind::Inner, Some(c)),
            JoinOperator::Left(c) | JoinOperator::LeftOuter(c) => (Kind::Left, Some(c)),
            JoinOperator::Right(c) | JoinOperator::RightOuter(c) => (Kind::Right, Some(c)),
            JoinOperator::FullOuter(c) => (Kind::Full, Some(c)),
            _ => {
                self.facts.foreign = true;
                (Kind::Full, None)
            }
        }
    }

    /// The owners can be extended with NULLs; what holds in `inner` holds in `outer` where they are not.
    fn extended(&mut self, outer: usize, inner: usize, owners: Range<u32>) {
        let (mut preds, mut nested) = (Vec::new(), Vec::new());
        if let Some(inner) = self.envs.get(inner) {
            preds.extend(inner.preds.iter().cloned());
            nested.extend(inner.conditionals.iter().cloned());
        }
        for owner in owners.clone() {
            if let Some(owner) = self.owners.get_mut(owner as usize) {
                owner.nullable = true;
            }
        }
        if let Some(outer) = self.envs.get_mut(outer) {
            outer.conditionals.push(Conditional { owners, preds });
            outer.conditionals.extend(nested);
        }
    }

    /// ON, USING, NATURAL: pushes what they say and gives the columns that are merged afterwards.
    fn constraint<'q>(
        &mut self,
        constraint: Option<&'q JoinConstraint>,
        kind: Kind,
        left: &Part,
        right: &Part,
        start: &Rc<Scope<'q>>,
        env: usize,
    ) -> Columns {
        let mut both = left.columns.clone();
        both.append(right.columns.clone());
        let columns = match constraint {
            Some(JoinConstraint::On(on)) => {
                let items = left.items.iter().chain(&right.items).cloned().collect();
                let scope = Scope { items, columns: both.clone(), env, ..(**start).clone_empty() };
                self.conjuncts(on, &Rc::new(scope), env);
                return both;
            }
            Some(JoinConstraint::Using(columns)) => columns.iter().filter_map(|c| names::parts(c)?.pop()).collect(),
            Some(JoinConstraint::Natural) => match common(&left.columns, &right.columns) {
                Some(columns) => columns,
                None => {
                    self.facts.foreign = true;
                    return both;
                }
            },
            Some(JoinConstraint::UsingAlias(..)) => {
                self.facts.foreign = true;
                return both;
            }
            Some(JoinConstraint::None) | None => return both,
        };
        let mut merged = Columns { known: Vec::new(), complete: both.complete };
        for column in columns {
            let (a, b) = (left.columns.one(&column), right.columns.one(&column));
            if let (Some(a), Some(b)) = (a, b)
                && let (Some(a_facts), Some(b_facts)) = (self.column_facts(a), self.column_facts(b))
            {
                self.push(env, predicates::columns_equal(a, &a_facts, b, &b_facts));
            }
            let value = match kind {
                Kind::Inner | Kind::Left => a,
                Kind::Right => b,
                Kind::Full => None,
            };
            both.known.retain(|(name, _)| *name != column);
            merged.known.push((column, value));
        }
        merged.append(both);
        merged
    }

    fn factor<'q>(&mut self, factor: &'q TableFactor, start: &Rc<Scope<'q>>, env: usize, before: &[Item]) -> Part {
        let lateral = || Rc::new((**start).clone_empty().with_items(before.to_vec(), env));
        match factor {
            TableFactor::Table { name, alias, args: None, sample, .. } => {
                self.facts.tablesample |= sample.is_some();
                let Some(parts) = names::parts(name) else {
                    self.facts.foreign = true;
                    return local(alias.as_ref());
                };
                let (node, item) = self.named_item(&parts, alias.as_ref(), start, env);
                Part::of(node, item)
            }
            TableFactor::Table { name, alias, args: Some(args), .. } => {
                self.table_function(name, &args.args, alias.as_ref(), &lateral(), env)
            }
            TableFactor::Function { name, args, alias, .. } => {
                self.table_function(name, args, alias.as_ref(), &lateral(), env)
            }
            TableFactor::UNNEST { array_exprs, alias, .. } => {
                let mut uses = Uses::default();
                array_exprs.iter().for_each(|e| self.walk(e, &lateral(), env, &mut uses));
                self.volatile_in_from(&uses);
                local(alias.as_ref())
            }
            TableFactor::Derived { lateral: is_lateral, subquery, alias, sample } => {
                self.facts.tablesample |= sample.is_some();
                let scope = if *is_lateral { lateral() } else { start.clone() };
                let inner = self.new_env(env);
                let result = self.query(subquery, &scope, inner);
                self.push_tagged(env, result.facts, result.conditionals);
                let columns =
                    result.outputs.and_then(|o| renamed(o.into_iter().map(|o| (o.name, o.atom)), alias.as_ref()));
                let item = Item { label: label(alias.as_ref()), schema: None, columns };
                Part::of(Node::Block(result.block), item)
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let part = self.joined(table_with_joins, table_with_joins.joins.len(), start, env, before);
                let Some(alias) = alias else { return part };
                let columns = part.columns.complete.then_some(part.columns.known);
                let columns = columns.and_then(|c| renamed(c.into_iter().map(|(n, a)| (Some(n), a)), Some(alias)));
                let item = Item { label: label(Some(alias)), schema: None, columns };
                Part::of(part.node, item)
            }
            TableFactor::TableFunction { expr, alias } => {
                let mut uses = Uses::default();
                self.walk(expr, &lateral(), env, &mut uses);
                self.volatile_in_from(&uses);
                local(alias.as_ref())
            }
            _ => {
                self.facts.foreign = true;
                local(None)
            }
        }
    }

    /// The items of one FROM item that stands alone.
    pub fn single_factor<'q>(&mut self, factor: &'q TableFactor, start: &Rc<Scope<'q>>, env: usize) -> Vec<Item> {
        self.factor(factor, start, env, &[]).items
    }

    fn table_function(
        &mut self,
        name: &ObjectName,
        arguments: &[FunctionArg],
        alias: Option<&TableAlias>,
        scope: &Rc<Scope<'_>>,
        env: usize,
    ) -> Part {
        let mut uses = Uses::default();
        match names::parts(name) {
            Some(parts) => {
                let traits = self.function_used(&parts, arguments, scope);
                if traits.is_some_and(|traits| traits.volatile) {
                    self.facts.volatile_blocks.push(None);
                }
            }
            None => self.facts.foreign = true,
        }
        for argument in arguments {
            match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(e))
                | FunctionArg::Named { arg: FunctionArgExpr::Expr(e), .. }
                | FunctionArg::ExprNamed { arg: FunctionArgExpr::Expr(e), .. } => self.walk(e, scope, env, &mut uses),
                _ => {}
            }
        }
        self.volatile_in_from(&uses);
        let mut part = local(alias);
        if alias.is_none()
            && let (Some(item), Some(mut parts)) = (part.items.first_mut(), names::parts(name))
        {
            item.label = parts.pop();
        }
        part
    }

    /// What stands in FROM is called once for all rows beside it.
    fn volatile_in_from(&mut self, uses: &Uses<'_>) {
        if uses.volatile {
            self.facts.volatile_blocks.push(None);
        }
    }

    /// A CTE, table or view by its name.
    pub fn named_item<'q>(
        &mut self,
        parts: &[String],
        alias: Option<&TableAlias>,
        scope: &Rc<Scope<'q>>,
        env: usize,
    ) -> (Node, Item) {
        if let [name] = parts
            && let Some(link) = scope.cte(name)
        {
            return self.cte_item(&link, alias, env);
        }
        let context = if scope.in_view { &self.view_context } else { self.context };
        match names::relation(context, parts) {
            names::Named::Relation(relation) => self.relation_item(&relation, alias, env),
            other => {
                match other {
                    names::Named::Temporary => self.facts.temporary = true,
                    names::Named::Unknown(name) => self.facts.unknown.push(name),
                    names::Named::System | names::Named::Relation(_) => self.facts.system = true,
                }
                let label = label(alias).or_else(|| parts.last().cloned());
                (Node::Local, Item { label, schema: None, columns: None })
            }
        }
    }

    fn relation_item(&mut self, relation: &Arc<Relation>, alias: Option<&TableAlias>, env: usize) -> (Node, Item) {
        let label = label(alias);
        let schema = label.is_none().then(|| relation.name.schema.clone());
        let label = label.unwrap_or_else(|| relation.name.name.clone());
        self.facts.relations.push(relation.clone());
        if relation.kind == RelationKind::View && self.facts.too_large {
            return (Node::Local, Item { label: Some(label), schema, columns: None });
        }
        if relation.kind == RelationKind::View {
            let inner = self.new_env(env);
            let Some(view) = self.view(relation, inner) else {
                return (Node::Local, Item { label: Some(label), schema, columns: None });
            };
            self.push_tagged(env, view.facts, view.conditionals);
            let columns = view.outputs.and_then(|o| renamed(o.into_iter().map(|o| (o.name, o.atom)), alias));
            return (Node::Block(view.block), Item { label: Some(label), schema, columns });
        }
        self.placed(relation);
        let owner = self.add_table(relation, label.clone(), env);
        let columns =
            (0..).zip(&relation.columns).map(|(column, c)| (Some(c.name.clone()), Some(Atom { owner, column })));
        let columns = renamed(columns, alias);
        (Node::Table(owner), Item { label: Some(label), schema, columns })
    }

    /// What a table's place means for the statement.
    pub fn placed(&mut self, relation: &Relation) {
        if relation.has_policies || relation.has_rules {
            self.facts.policies.get_or_insert(relation.name.clone());
        }
        if self.context.catalog.shards.len() <= 1 {
            return;
        }
        match &relation.placement {
            Placement::Sharded { .. } | Placement::Derived => {}
            Placement::Reference => self.facts.reference = true,
            Placement::Single(shard) => self.facts.need(*shard, format!("table {}", relation.name)),
            Placement::System => self.facts.system = true,
            Placement::Refused(why) => self.facts.refuse(
                Error::unsupported(format!("table {} {why}", relation.name))
                    .hint("Correct the configuration, and see the log for all such tables."),
            ),
            Placement::Ambiguous(shards) => {
                let error = ambiguous(self.context.catalog, &relation.name, shards);
                self.facts.refuse(error);
            }
        }
    }

    fn cte_item<'q>(&mut self, link: &CteLink<'q>, alias: Option<&TableAlias>, env: usize) -> (Node, Item) {
        let label = label(alias).unwrap_or_else(|| link.name.clone());
        link.uses.set(link.uses.get() + 1);
        let (node, columns) = match &link.body {
            CteBody::Itself => (Node::Local, None),
            CteBody::Analysed { block, outputs } => {
                let columns = outputs.clone().map(|o| o.into_iter().map(|o| (o.name, None)).collect());
                (Node::Block(*block), columns)
            }
            CteBody::Query(query) => {
                self.facts.shared_cte |= link.uses.get() > 1;
                if self.facts.too_large {
                    return (Node::Local, Item { label: Some(label), schema: None, columns: None });
                }
                let inner = self.new_env(env);
                let result = self.query(query, &link.scope, inner);
                let facts: Vec<Tagged> = result.facts;
                self.push_tagged(env, facts, result.conditionals);
                let columns = result.outputs.map(|o| o.into_iter().map(|o| (o.name, o.atom)).collect::<Vec<_>>());
                (Node::Block(result.block), columns)
            }
        };
        let columns = columns.map(|mut columns: Vec<(Option<String>, Option<Atom>)>| {
            for (column, name) in columns.iter_mut().zip(&link.columns) {
                column.0 = Some(name.clone());
            }
            columns
        });
        let columns = columns.and_then(|c| renamed(c.into_iter(), alias));
        (node, Item { label: Some(label), schema: None, columns })
    }
}

/// A table that is on several shards, and nobody knows why.
pub fn ambiguous(catalog: &Catalog, name: &QualifiedName, shards: &[crate::catalog::ShardId]) -> Error {
    let shards: Vec<&str> = shards.iter().map(|s| catalog.shard_name(*s)).collect();
    Error::unsupported(format!("table {name} is on several shards and not listed in the configuration"))
        .detail(format!("It was found on {}.", shards.join(", ")))
        .hint("List it as sharded, reference or single.")
}

fn label(alias: Option<&TableAlias>) -> Option<String> {
    alias.map(|a| names::fold(&a.name))
}

fn local(alias: Option<&TableAlias>) -> Part {
    let item = Item { label: label(alias), schema: None, columns: None };
    Part::of(Node::Local, item)
}

/// Columns with the names that an alias gives them; `None` if the name of one is not certain.
fn renamed(
    columns: impl Iterator<Item = (Option<String>, Option<Atom>)>,
    alias: Option<&TableAlias>,
) -> Option<Vec<(String, Option<Atom>)>> {
    let mut given = alias.into_iter().flat_map(|alias| &alias.columns).map(|column| names::fold(&column.name));
    columns.map(|(name, atom)| Some((given.next().or(name)?, atom))).collect()
}

/// The columns that NATURAL joins on.
fn common(left: &Columns, right: &Columns) -> Option<Vec<String>> {
    let shared = left.known.iter().map(|(n, _)| n).filter(|n| right.known.iter().any(|(m, _)| m == *n));
    (left.complete && right.complete).then(|| shared.cloned().collect())
}
