//! The tree → table instances with what must hold for their rows, blocks (one for each SELECT), and the facts that
//! decide where a statement can run.
//!
//! What is here describes; it decides nothing but where a construct can never be on more than one shard.

mod column_names;
mod expressions;
mod facts;
mod from;
mod insert;
mod modify;
mod scope;

pub use column_names::output_name;
pub use expressions::arguments;
pub use expressions::is_byte_collation_expr;
pub use facts::Facts;
pub use facts::Selected;
pub use facts::Write;
pub use scope::Item;
pub use scope::Scope;

use super::Context;
use super::KeyCondition;
use super::classes;
use super::classes::Atom;
use super::classes::Conditional;
use super::classes::Env;
use super::classes::Pred;
use super::classes::Tagged;
use super::names;
use super::predicates::ColumnFacts;
use super::source::SourceText;
use crate::catalog::MapId;
use crate::catalog::Placement;
use crate::catalog::Relation;
use crate::error::Error;
use crate::value::KeyType;
use expressions::Uses;
use scope::CteBody;
use scope::CteLink;
use sqlparser::ast::Distinct;
use sqlparser::ast::Expr;
use sqlparser::ast::GroupByExpr;
use sqlparser::ast::Query;
use sqlparser::ast::Select;
use sqlparser::ast::SelectItem;
use sqlparser::ast::SetExpr;
use sqlparser::ast::Statement as Tree;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// Table instances in one statement: views and CTEs are taken apart for each use, which can multiply.
const INSTANCES: usize = 2_000;
/// Views within views.
const VIEW_DEPTH: usize = 32;

/// A table instance, or a derived table whose columns are no table's columns.
#[derive(Debug)]
pub struct Owner {
    /// As the statement calls it.
    pub label: String,
    pub relation: Option<Arc<Relation>>,
    /// Of a sharded table: map and positions of its key columns.
    pub key: Option<(MapId, Vec<usize>)>,
    pub columns: Vec<ColumnFacts>,
    pub env: usize,
    /// An outer join can extend its rows with NULLs.
    pub nullable: bool,
}

/// How FROM items are joined.
#[derive(Debug)]
pub enum Node {
    Table(u32),
    Block(usize),
    /// A function, VALUES, a catalog table: nothing that is spread.
    Local,
    Inner(Box<Node>, Box<Node>),
    Left(Box<Node>, Box<Node>),
    /// With what its ON says.
    Full(Box<Node>, Box<Node>, Vec<Pred>),
}

/// One SELECT, or what stands for one.
#[derive(Debug)]
pub struct Block {
    pub kind: BlockKind,
    /// The scope in which its expressions stand.
    pub env: usize,
    /// Its table instances, those of its subqueries too.
    pub owners: Range<u32>,
    /// It reads columns of an enclosing query.
    pub correlated: bool,
}

#[derive(Debug)]
pub enum BlockKind {
    Select(SelectFacts),
    /// UNION, INTERSECT, EXCEPT; a query in parentheses with a LIMIT of its own
    SetOperation {
        limited: bool,
    },
    Values,
    /// INSERT, UPDATE, DELETE, MERGE
    Modify,
    /// A reference of a recursive query to itself.
    Recursion,
}

#[derive(Debug)]
pub struct SelectFacts {
    pub root: Option<Node>,
    /// The columns that it is grouped by, where there is a GROUP BY (`None` for other expressions).
    pub grouped: Option<Vec<Option<Atom>>>,
    pub grouping_sets: bool,
    pub aggregates: bool,
    pub ordered_aggregates: bool,
    pub distinct: bool,
    pub distinct_on: bool,
    pub having: bool,
    /// PARTITION BY of each window.
    pub windows: Vec<Vec<Option<Atom>>>,
    pub limited: bool,
    pub locks: bool,
    pub volatile: bool,
    pub returns_set: bool,
    /// The table columns behind the output columns; unknown if `*` could not be expanded.
    pub outputs: Option<Vec<Option<Atom>>>,
}

/// A column that a query gives.
#[derive(Clone, Debug)]
pub struct Output {
    pub name: Option<String>,
    pub atom: Option<Atom>,
}

/// What a query says to the one around it.
#[derive(Debug)]
pub struct QueryResult<'q> {
    pub block: usize,
    /// `None`: unknown columns.
    pub outputs: Option<Vec<Output>>,
    /// Holds for each of its rows.
    pub facts: Vec<Tagged>,
    pub conditionals: Vec<Conditional>,
    /// Of a plain SELECT.
    pub scope: Option<Rc<Scope<'q>>>,
}

pub struct Analysis<'a> {
    pub context: &'a Context<'a>,
    /// For names in view definitions, which are all qualified.
    view_context: Context<'a>,
    pub owners: Vec<Owner>,
    pub envs: Vec<Env>,
    pub blocks: Vec<Block>,
    pub facts: Facts,
    /// For each UPDATE and DELETE: its block, its table, and what is read beside it.
    pub targets: Vec<(usize, Node, Option<Node>)>,
    /// The tree of the statement itself has not been entered yet.
    top: bool,
    view_depth: usize,
    /// The one setting that the SELECT at work reads from pg_settings.
    setting: Option<String>,
}

impl<'a> Analysis<'a> {
    pub fn new(context: &'a Context<'a>) -> Analysis<'a> {
        let view_context = Context {
            catalog: context.catalog,
            search_path: &[],
            temporary: &[],
            param_types: &[],
            standard_conforming_strings: true,
            forced_shard: None,
        };
        let envs = vec![Env::default()];
        Analysis {
            context,
            view_context,
            owners: Vec::new(),
            envs,
            blocks: Vec::new(),
            facts: Facts::default(),
            targets: Vec::new(),
            top: true,
            view_depth: 0,
            setting: None,
        }
    }

    pub fn new_env(&mut self, parent: usize) -> usize {
        self.envs.push(Env { parent: Some(parent), ..Env::default() });
        self.envs.len() - 1
    }

    pub fn push(&mut self, env: usize, pred: Pred) {
        if let Some(env) = self.envs.get_mut(env) {
            env.push(pred);
        }
    }

    pub fn push_tagged(&mut self, env: usize, facts: Vec<Tagged>, conditionals: Vec<Conditional>) {
        if let Some(env) = self.envs.get_mut(env) {
            env.preds.extend(facts);
            env.conditionals.extend(conditionals);
        }
    }

    pub fn owner_count(&self) -> u32 {
        u32::try_from(self.owners.len()).unwrap_or(u32::MAX)
    }

    /// A new instance; beyond the bound the statement is refused, and the instance is the last one made.
    pub fn add_owner(&mut self, owner: Owner) -> u32 {
        if self.owners.len() >= INSTANCES {
            self.facts.too_large = true;
        } else {
            self.owners.push(owner);
        }
        self.owner_count().saturating_sub(1)
    }

    pub fn owner(&self, owner: u32) -> Option<&Owner> {
        self.owners.get(owner as usize)
    }

    /// Sharded table instances.
    pub fn sharded(&self) -> impl Iterator<Item = u32> + '_ {
        self.owners.iter().zip(0..).filter(|(o, _)| o.key.is_some()).map(|(_, n)| n)
    }

    /// Map and key columns of a sharded instance.
    pub fn key(&self, owner: u32) -> Option<(MapId, Vec<Atom>)> {
        let (map, columns) = self.owner(owner)?.key.as_ref()?;
        let atom = |column: &usize| Some(Atom { owner, column: u32::try_from(*column).ok()? });
        Some((*map, columns.iter().map(atom).collect::<Option<_>>()?))
    }

    /// All that holds for the rows of an instance that matter.
    pub fn applying(&self, owner: u32) -> Vec<&Pred> {
        let env = self.owner(owner).map_or(0, |o| o.env);
        classes::applying(&self.envs, env, Some(owner))
    }

    /// The condition on the key of a sharded instance.
    pub fn condition(&self, owner: u32) -> Option<KeyCondition> {
        let (map, key) = self.key(owner)?;
        let expr = classes::key_expr(&self.applying(owner), &key);
        Some(KeyCondition {
            map,
            types: self.key_types(owner)?,
            names: self.key_names(owner)?,
            widths: Vec::new(),
            expr,
            not_null: Vec::new(),
        })
    }

    pub fn key_types(&self, owner: u32) -> Option<Vec<KeyType>> {
        let relation = self.owner(owner)?.relation.as_ref()?;
        key_types(relation)
    }

    pub fn key_names(&self, owner: u32) -> Option<Vec<String>> {
        let found = self.owner(owner)?;
        let relation = found.relation.as_ref()?;
        let (_, columns) = found.key.as_ref()?;
        columns.iter().map(|c| Some(format!("{}.{}", found.label, relation.columns.get(*c)?.name))).collect()
    }

    /// A table instance for a relation.
    pub fn add_table(&mut self, relation: &Arc<Relation>, label: String, env: usize) -> u32 {
        let key = match &relation.placement {
            Placement::Sharded { map, key } if !key.is_empty() => Some((*map, key.clone())),
            _ => None,
        };
        let columns = relation.columns.iter().map(|c| ColumnFacts {
            type_oid: c.type_oid,
            collation: c.collation,
            not_null: c.not_null,
            nullable: false,
        });
        let columns = columns.collect();
        self.add_owner(Owner { label, relation: Some(relation.clone()), key, columns, env, nullable: false })
    }

    /// A query in the scope `env`.
    pub fn query<'q>(&mut self, query: &'q Query, parent: &Rc<Scope<'q>>, env: usize) -> QueryResult<'q> {
        let top = std::mem::take(&mut self.top);
        let with = match &query.with {
            Some(with) => self.ctes(with, parent, env),
            None => parent.ctes.clone(),
        };
        let scope = Rc::new(Scope { ctes: with, ..parent.enter() });
        let limited = query.limit_clause.is_some() || query.fetch.is_some();
        if !query.locks.is_empty() {
            self.facts.locks = true;
        }
        let tail = Tail { query: Some(query), limited, locks: !query.locks.is_empty() };
        self.top = top && matches!(&*query.body, SetExpr::Insert(_));
        let result = self.body(&query.body, &scope, env, &tail);
        if let Some(with) = &query.with {
            self.unread_ctes(with.cte_tables.len(), &scope, env);
        }
        result
    }

    /// Common table expressions that nothing reads: PostgreSQL does not run them, but it looks their names up.
    fn unread_ctes<'q>(&mut self, count: usize, scope: &Rc<Scope<'q>>, env: usize) {
        let mut next = scope.ctes.clone();
        // the last one first: those before it may be read by it alone
        for _ in 0..count {
            let Some(link) = next else { return };
            if let CteBody::Query(query) = &link.body
                && link.uses.get() == 0
            {
                let inner = self.new_env(env);
                self.push(inner, Pred::False);
                self.query(query, &link.scope, inner);
            }
            next = link.next.clone();
        }
    }

    fn body<'q>(&mut self, body: &'q SetExpr, scope: &Rc<Scope<'q>>, env: usize, tail: &Tail<'q>) -> QueryResult<'q> {
        match body {
            SetExpr::Select(select) => self.select(select, scope, env, tail),
            SetExpr::Query(inner) => {
                let mut result = self.query(inner, scope, env);
                if tail.limited || tail.locks {
                    result = self.opaque_result(result, BlockKind::SetOperation { limited: true }, env);
                }
                self.tail(tail, scope, env);
                result
            }
            SetExpr::SetOperation { left, right, .. } => {
                let first = self.owner_count();
                let names = self.branch(left, scope, env);
                self.branch(right, scope, env);
                self.tail(tail, scope, env);
                let owners = first..self.owner_count();
                let block = self.add_block(BlockKind::SetOperation { limited: tail.limited }, env, owners);
                self.result(block, names)
            }
            SetExpr::Values(values) => {
                let first = self.owner_count();
                let mut uses = Uses::default();
                for row in &values.rows {
                    row.content.iter().for_each(|e| self.walk(e, scope, env, &mut uses));
                }
                self.tail(tail, scope, env);
                let width = values.rows.first().map_or(0, |row| row.content.len());
                let names = (1..=width).map(|n| Some(format!("column{n}"))).collect();
                let block = self.add_block(BlockKind::Values, env, first..self.owner_count());
                self.result(block, Some(names))
            }
            SetExpr::Insert(tree) | SetExpr::Update(tree) | SetExpr::Delete(tree) | SetExpr::Merge(tree) => {
                self.modify(tree, scope, env)
            }
            SetExpr::Table(table) => {
                let first = self.owner_count();
                let parts: Vec<String> = table.schema_name.iter().chain(&table.table_name).map(names::fold).collect();
                let (_, item) = self.named_item(&parts, None, scope, env);
                let names = item.columns.map(|c| c.into_iter().map(|(name, _)| Some(name)).collect());
                let block = self.add_block(BlockKind::SetOperation { limited: false }, env, first..self.owner_count());
                self.result(block, names)
            }
        }
    }

    /// One side of a set operation: its column names.
    fn branch<'q>(&mut self, body: &'q SetExpr, scope: &Rc<Scope<'q>>, env: usize) -> Option<Vec<Option<String>>> {
        let env = self.new_env(env);
        let tail = Tail { query: None, limited: false, locks: false };
        let outputs = match body {
            SetExpr::SetOperation { left, right, .. } => {
                let names = self.branch(left, scope, env);
                self.branch(right, scope, env);
                return names;
            }
            _ => self.body(body, scope, env, &tail).outputs,
        };
        Some(outputs?.into_iter().map(|o| o.name).collect())
    }

    /// ORDER BY, LIMIT and OFFSET of what is no plain SELECT.
    fn tail<'q>(&mut self, tail: &Tail<'q>, scope: &Rc<Scope<'q>>, env: usize) {
        let mut uses = Uses::default();
        self.walk_tail(tail.query, scope, env, env, &mut uses);
    }

    fn result<'q>(&mut self, block: usize, names: Option<Vec<Option<String>>>) -> QueryResult<'q> {
        let outputs = names.map(|n| n.into_iter().map(|name| Output { name, atom: None }).collect());
        QueryResult { block, outputs, facts: Vec::new(), conditionals: Vec::new(), scope: None }
    }

    /// The same rows with nothing known of them.
    fn opaque_result<'q>(&mut self, result: QueryResult<'q>, kind: BlockKind, env: usize) -> QueryResult<'q> {
        let owners = self.blocks.get(result.block).map_or(0..0, |b| b.owners.clone());
        let names = result.outputs.map(|o| o.into_iter().map(|o| o.name).collect());
        let block = self.add_block(kind, env, owners);
        self.result(block, names)
    }

    pub fn add_block(&mut self, kind: BlockKind, env: usize, owners: Range<u32>) -> usize {
        self.blocks.push(Block { kind, env, owners, correlated: false });
        self.blocks.len() - 1
    }

    fn select<'q>(
        &mut self,
        select: &'q Select,
        outer: &Rc<Scope<'q>>,
        outer_env: usize,
        tail: &Tail<'q>,
    ) -> QueryResult<'q> {
        let first = self.owner_count();
        let env = self.new_env(outer_env);
        let block = self.add_block(BlockKind::Values, env, first..first);
        let start = Rc::new(Scope { block: Some(block), ..outer.enter() });
        let (root, scope) = self.items_of(&select.from, &start, env);
        if let Some(selection) = &select.selection {
            self.conjuncts(selection, &scope, env);
        }
        let setting = self.setting_of(select, &scope);
        let setting = std::mem::replace(&mut self.setting, setting);
        let mut uses = Uses { named_windows: select.named_window.iter().collect(), ..Uses::default() };
        let (grouped, grouping_sets) = self.group_by(select, &scope, env, &mut uses);
        // aggregates without GROUP BY give a row even where WHERE lets none through
        let bare = grouped.is_none() && (select.having.is_some() || self.has_aggregates(select, tail.query));
        let items_env = if bare || grouping_sets { outer_env } else { env };
        for item in &select.projection {
            if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
                self.walk(expr, &scope, items_env, &mut uses);
            }
        }
        if let Some(Distinct::On(on)) = &select.distinct {
            on.iter().for_each(|e| self.walk(e, &scope, items_env, &mut uses));
        }
        if let Some(having) = &select.having {
            self.walk(having, &scope, items_env, &mut uses);
        }
        let named: Vec<_> = select.named_window.iter().map(|window| &window.1).collect();
        for window in named {
            self.walk(window, &scope, items_env, &mut uses);
        }
        self.walk_tail(tail.query, &scope, items_env, outer_env, &mut uses);
        self.setting = setting;
        if select.into.is_some() {
            self.facts.into = true;
        }
        self.unread(select);
        let outputs = self.outputs(select, &scope);
        let atoms = outputs.as_ref().map(|o| o.iter().map(|o| o.atom).collect());
        let facts = SelectFacts {
            root,
            aggregates: uses.aggregates,
            ordered_aggregates: uses.ordered_aggregates,
            distinct: matches!(select.distinct, Some(Distinct::Distinct)),
            distinct_on: matches!(select.distinct, Some(Distinct::On(_))),
            having: select.having.is_some(),
            windows: uses.windows,
            limited: tail.limited,
            locks: tail.locks,
            volatile: uses.volatile,
            returns_set: uses.returns_set,
            grouped,
            grouping_sets,
            outputs: atoms,
        };
        self.finish_select(block, first, facts, outputs, scope)
    }

    /// Constructs of other databases that the parser accepts.
    fn unread(&mut self, select: &Select) {
        let foreign = select.top.is_some()
            || !select.lateral_views.is_empty()
            || select.prewhere.is_some()
            || !select.connect_by.is_empty()
            || !select.cluster_by.is_empty()
            || !select.distribute_by.is_empty()
            || !select.sort_by.is_empty()
            || select.qualify.is_some()
            || select.exclude.is_some()
            || select.value_table_mode.is_some()
            || matches!(select.group_by, GroupByExpr::All(_));
        if foreign {
            self.facts.foreign = true;
        }
    }

    fn finish_select<'q>(
        &mut self,
        block: usize,
        first: u32,
        facts: SelectFacts,
        outputs: Option<Vec<Output>>,
        scope: Rc<Scope<'q>>,
    ) -> QueryResult<'q> {
        let env = scope.env;
        let bare_aggregate = facts.grouped.is_none() && (facts.aggregates || facts.having);
        let exports = !bare_aggregate && !facts.grouping_sets;
        let passes = |atom: Atom| {
            !facts.limited
                && !facts.locks
                && !facts.distinct_on
                && facts.grouped.as_ref().is_none_or(|g| g.contains(&Some(atom)))
                && facts.windows.iter().all(|w| w.contains(&Some(atom)))
        };
        let mut links = Vec::new();
        let outputs = outputs.map(|outputs| {
            let fresh = self.fresh_owner(&outputs, env);
            let through = |(column, output): (u32, Output)| {
                let atom = output.atom.filter(|_| exports)?;
                if passes(atom) {
                    return Some(atom);
                }
                let outside = Atom { owner: fresh, column };
                links.push(Pred::Equal(outside, atom));
                Some(outside)
            };
            let atoms: Vec<Option<Atom>> = (0..).zip(outputs.clone()).map(through).collect();
            outputs.into_iter().zip(atoms).map(|(o, atom)| Output { name: o.name, atom }).collect()
        });
        let owners = first..self.owner_count();
        if let Some(block) = self.blocks.get_mut(block) {
            block.kind = BlockKind::Select(facts);
            block.owners = owners.clone();
        }
        let (mut preds, mut conditionals) = (Vec::new(), Vec::new());
        if exports && let Some(env) = self.envs.get(env) {
            preds = env.preds.iter().map(|t| Tagged { pred: t.pred.clone(), origin: owners.clone() }).collect();
            conditionals = env.conditionals.clone();
            for conditional in &mut conditionals {
                conditional.preds.iter_mut().for_each(|t| t.origin = owners.clone());
            }
        }
        preds.extend(links.into_iter().map(|pred| Tagged { pred, origin: owners.clone() }));
        QueryResult { block, outputs, facts: preds, conditionals, scope: Some(scope) }
    }

    /// An owner for output columns that are not simply columns of a table inside.
    fn fresh_owner(&mut self, outputs: &[Output], env: usize) -> u32 {
        let unknown = || ColumnFacts {
            type_oid: 0,
            collation: crate::catalog::Collation::Nondeterministic,
            not_null: false,
            nullable: true,
        };
        let columns =
            outputs.iter().map(|o| o.atom.and_then(|a| self.column_facts(a)).unwrap_or_else(unknown)).collect();
        self.add_owner(Owner { label: String::new(), relation: None, key: None, columns, env, nullable: false })
    }

    pub fn column_facts(&self, atom: Atom) -> Option<ColumnFacts> {
        let owner = self.owner(atom.owner)?;
        let mut facts = owner.columns.get(atom.column as usize)?.clone();
        facts.nullable |= owner.nullable;
        Some(facts)
    }

    fn group_by<'q>(
        &mut self,
        select: &'q Select,
        scope: &Rc<Scope<'q>>,
        env: usize,
        uses: &mut Uses<'q>,
    ) -> (Option<Vec<Option<Atom>>>, bool) {
        let GroupByExpr::Expressions(exprs, modifiers) = &select.group_by else { return (None, false) };
        if exprs.is_empty() && modifiers.is_empty() {
            return (None, false);
        }
        let sets = !modifiers.is_empty()
            || exprs
                .iter()
                .any(|e| matches!(e, Expr::GroupingSets(_) | Expr::Cube(_) | Expr::Rollup(_) | Expr::Tuple(_)));
        let mut atoms = Vec::new();
        for expr in exprs {
            let meant = grouped_item(expr, select, |name| scope.has_column(name)).unwrap_or(expr);
            if std::ptr::eq(meant, expr) {
                self.walk(expr, scope, env, uses);
            }
            // a name that is no column here is an output column's, whatever the queries around have
            let is_output = matches!(meant, Expr::Identifier(ident)
                if std::ptr::eq(meant, expr) && !scope.has_column(&names::fold(ident)));
            atoms.push(self.bare_atom(meant, scope).filter(|_| !is_output));
        }
        (Some(atoms), sets)
    }

    fn outputs(&mut self, select: &Select, scope: &Rc<Scope<'_>>) -> Option<Vec<Output>> {
        let mut outputs = Vec::new();
        for item in &select.projection {
            match item {
                SelectItem::UnnamedExpr(expr) => {
                    outputs.push(Output { name: output_name(expr), atom: self.bare_atom(expr, scope) });
                }
                SelectItem::ExprWithAlias { expr, alias } => {
                    outputs.push(Output { name: Some(names::fold(alias)), atom: self.bare_atom(expr, scope) });
                }
                SelectItem::Wildcard(_) => outputs.extend(scope.all_columns()?),
                SelectItem::QualifiedWildcard(kind, _) => outputs.extend(scope.item_columns(kind)?),
                SelectItem::ExprWithAliases { .. } => return None,
            }
        }
        Some(outputs)
    }

    fn ctes<'q>(
        &mut self,
        with: &'q sqlparser::ast::With,
        parent: &Rc<Scope<'q>>,
        env: usize,
    ) -> Option<Rc<CteLink<'q>>> {
        let mut links = parent.ctes.clone();
        for (n, cte) in with.cte_tables.iter().enumerate() {
            let name = names::fold(&cte.alias.name);
            // a recursive WITH may name what is defined later
            let mut later = with.cte_tables.iter().skip(n + 1).map(|c| names::fold(&c.alias.name));
            if with.recursive && later.any(|later| mentions(&cte.query, &later)) {
                self.facts.foreign = true;
            }
            let columns: Vec<String> = cte.alias.columns.iter().map(|c| names::fold(&c.name)).collect();
            let scope = Rc::new(Scope { ctes: links.clone(), ..parent.enter() });
            let recursive = with.recursive && mentions(&cte.query, &name);
            let body = if recursive {
                let own = CteLink::new(name.clone(), columns.clone(), CteBody::Itself, scope.clone(), links.clone());
                let inner = Rc::new(Scope { ctes: Some(Rc::new(own)), ..parent.enter() });
                let env = self.new_env(env);
                let result = self.query(&cte.query, &inner, env);
                self.once(result, BlockKind::Recursion, env)
            } else if matches!(
                *cte.query.body,
                SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_)
            ) {
                let env = self.new_env(env);
                let result = self.query(&cte.query, &scope, env);
                CteBody::Analysed { block: result.block, outputs: result.outputs }
            } else {
                CteBody::Query(&cte.query)
            };
            links = Some(Rc::new(CteLink::new(name, columns, body, scope, links)));
        }
        links
    }

    fn once<'q>(&mut self, result: QueryResult<'q>, kind: BlockKind, env: usize) -> CteBody<'q> {
        let result = self.opaque_result(result, kind, env);
        CteBody::Analysed { block: result.block, outputs: result.outputs }
    }

    /// A view's query, read from its definition.
    fn view(&mut self, relation: &Arc<Relation>, env: usize) -> Option<QueryResult<'a>> {
        let refuse = |facts: &mut Facts| {
            let name = &relation.name;
            facts.refuse(
                Error::unsupported(format!("view {name} cannot be read here"))
                    .hint("Use the view's tables themselves, or choose a shard with SET shardway.shard."),
            );
        };
        let definition = relation.definition.as_deref().unwrap_or("");
        if self.view_depth >= VIEW_DEPTH {
            refuse(&mut self.facts);
            return None;
        }
        let Ok(statement) = crate::sql::Statement::new(Arc::from(definition), true) else {
            refuse(&mut self.facts);
            return None;
        };
        let Ok(Tree::Query(query)) = statement.tree() else {
            refuse(&mut self.facts);
            return None;
        };
        let source = SourceText::new(&statement.text, &statement.tokens, false, true);
        let scope = Rc::new(Scope::new(&source, true));
        self.view_depth += 1;
        let result = self.query(query, &scope, env);
        self.view_depth -= 1;
        let mut outputs = result.outputs?;
        for (output, column) in outputs.iter_mut().zip(&relation.columns) {
            output.name = Some(column.name.clone());
        }
        // the scope belongs to the view's own text
        let (facts, conditionals) = (result.facts, result.conditionals);
        Some(QueryResult { block: result.block, outputs: Some(outputs), facts, conditionals, scope: None })
    }
}

/// What stands behind a query's body.
pub struct Tail<'q> {
    pub query: Option<&'q Query>,
    pub limited: bool,
    pub locks: bool,
}

/// Key types of a sharded table's key columns.
pub fn key_types(relation: &Relation) -> Option<Vec<KeyType>> {
    let Placement::Sharded { key, .. } = &relation.placement else { return None };
    key.iter().map(|c| KeyType::parse_name(&relation.columns.get(*c)?.type_name)).collect()
}

/// The select item that an item of GROUP BY stands for: an ordinal, or an output name that is no input column.
pub fn grouped_item<'q>(expr: &'q Expr, select: &'q Select, is_column: impl Fn(&str) -> bool) -> Option<&'q Expr> {
    match expr {
        Expr::Value(value) => {
            let sqlparser::ast::Value::Number(digits, _) = &value.value else { return None };
            let n: usize = digits.parse().ok()?;
            if select.projection.iter().take(n).any(is_wildcard) {
                return None;
            }
            item_expr(select.projection.get(n.checked_sub(1)?)?)
        }
        Expr::Identifier(ident) => {
            let name = names::fold(ident);
            if is_column(&name) {
                return None;
            }
            select.projection.iter().find_map(|item| match item {
                SelectItem::ExprWithAlias { expr, alias } if names::fold(alias) == name => Some(expr),
                SelectItem::UnnamedExpr(expr) if output_name(expr).as_deref() == Some(&name) => Some(expr),
                _ => None,
            })
        }
        _ => None,
    }
}

pub fn is_wildcard(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
}

pub fn item_expr(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// Whether a query reads a relation of this unqualified name anywhere.
fn mentions(query: &Query, name: &str) -> bool {
    use std::ops::ControlFlow;
    let found = sqlparser::ast::visit_relations(query, |relation| match names::parts(relation) {
        Some(parts) if parts.len() == 1 && parts.first().is_some_and(|p| p == name) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}
