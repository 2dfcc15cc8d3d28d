//! Walks expressions: functions, subqueries, columns, and the conditions of WHERE and ON.

use super::Analysis;
use super::Scope;
use super::names;
use crate::catalog::Catalog;
use crate::catalog::Placement;
use crate::config::RunsOn;
use crate::error::Error;
use crate::plan::Context;
use crate::plan::KeyCondition;
use crate::plan::KeyExpr;
use crate::plan::PinReason;
use crate::plan::SetConfig;
use crate::plan::classes::Atom;
use crate::plan::classes::Pred;
use crate::plan::classes::Tagged;
use crate::plan::functions;
use crate::plan::functions::Kind;
use crate::plan::predicates;
use crate::plan::predicates::ColumnFacts;
use crate::plan::predicates::Operand;
use crate::plan::predicates::Resolve;
use crate::plan::source::SourceText;
use sqlparser::ast::BinaryOperator;
use sqlparser::ast::Expr;
use sqlparser::ast::Function;
use sqlparser::ast::FunctionArg;
use sqlparser::ast::FunctionArgExpr;
use sqlparser::ast::FunctionArguments;
use sqlparser::ast::Ident;
use sqlparser::ast::InTarget;
use sqlparser::ast::NamedWindowDefinition;
use sqlparser::ast::NamedWindowExpr;
use sqlparser::ast::ObjectName;
use sqlparser::ast::Query;
use sqlparser::ast::Select;
use sqlparser::ast::Spanned;
use sqlparser::ast::TableFactor;
use sqlparser::ast::Value;
use sqlparser::ast::ValueWithSpan;
use sqlparser::ast::Visit;
use sqlparser::ast::Visitor;
use sqlparser::ast::WindowSpec;
use sqlparser::ast::WindowType;
use std::ops::ControlFlow;
use std::rc::Rc;

/// Columns that every table has without naming them.
const SYSTEM_COLUMNS: [&str; 7] = ["ctid", "xmin", "xmax", "cmin", "cmax", "tableoid", "oid"];

/// What the expressions of one SELECT use.
#[derive(Debug, Default)]
pub struct Uses<'q> {
    pub aggregates: bool,
    pub ordered_aggregates: bool,
    pub windows: Vec<Vec<Option<Atom>>>,
    pub named_windows: Vec<&'q NamedWindowDefinition>,
    pub volatile: bool,
    pub returns_set: bool,
}

/// Names as seen from a place.
struct View<'x, 'a, 'q> {
    analysis: &'x Analysis<'a>,
    scope: &'x Scope<'q>,
}

impl Resolve for View<'_, '_, '_> {
    fn column(&self, name: &[Ident]) -> Option<Atom> {
        let parts: Vec<String> = name.iter().map(names::fold).collect();
        self.scope.find(&parts)?.atom
    }

    fn facts(&self, atom: Atom) -> Option<ColumnFacts> {
        self.analysis.column_facts(atom)
    }

    fn text(&self) -> &SourceText<'_> {
        self.scope.source
    }
}

impl<'a> Analysis<'a> {
    /// The column of a table that an expression simply is.
    pub fn bare_atom(&self, expr: &Expr, scope: &Scope<'_>) -> Option<Atom> {
        predicates::bare(expr, &View { analysis: self, scope }).map(|(atom, _)| atom)
    }

    pub fn pred(&self, expr: &Expr, scope: &Scope<'_>) -> Pred {
        predicates::pred(expr, &View { analysis: self, scope })
    }

    /// A constant or parameter for a column.
    pub fn operand(&self, expr: &Expr, facts: &ColumnFacts, scope: &Scope<'_>) -> Option<Operand> {
        predicates::operand(expr, facts, &View { analysis: self, scope })
    }

    /// A condition of WHERE or ON: what holds goes to `env`.
    pub fn conjuncts(&mut self, expr: &Expr, scope: &Rc<Scope<'_>>, env: usize) {
        let mut uses = Uses::default();
        match predicates::peel(expr) {
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                self.conjuncts(left, scope, env);
                self.conjuncts(right, scope, env);
            }
            Expr::In { expr: column, target: InTarget::Subquery(query), negated, .. } => {
                self.walk(column, scope, env, &mut uses);
                self.membership(column, query, *negated, scope, env);
            }
            Expr::AnyOp { left, compare_op: BinaryOperator::Eq, right, .. } if is_subquery(right).is_some() => {
                self.walk(left, scope, env, &mut uses);
                if let Some(query) = is_subquery(right) {
                    self.membership(left, query, false, scope, env);
                }
            }
            Expr::Exists { subquery, negated: false } => {
                let first = self.owner_count();
                let inner = self.new_env(env);
                let result = self.query(subquery, scope, inner);
                self.push_subquery(env, first, result.facts);
            }
            expr => {
                let pred = self.pred(expr, scope);
                self.push(env, pred);
                self.walk(expr, scope, env, &mut uses);
            }
        }
    }

    /// `x IN (SELECT y …)`: rows of the subquery matter only where y = x. For NOT IN that holds where neither can be
    /// NULL.
    fn membership(&mut self, left: &Expr, query: &Query, negated: bool, scope: &Rc<Scope<'_>>, env: usize) {
        let first = self.owner_count();
        let inner = self.new_env(env);
        let result = self.query(query, scope, inner);
        let left: Vec<&Expr> = match predicates::peel(left) {
            Expr::Tuple(items) => items.iter().collect(),
            one => vec![one],
        };
        let Some(outputs) = result.outputs.filter(|o| o.len() == left.len()) else { return };
        let mut links = Vec::new();
        for (left, output) in left.into_iter().zip(outputs) {
            let pair = predicates::bare(left, &View { analysis: self, scope }).zip(output.atom);
            let Some(((a, a_facts), b)) = pair else { continue };
            let Some(b_facts) = self.column_facts(b) else { continue };
            let certain = |f: &ColumnFacts| f.not_null && !f.nullable;
            if negated && !(certain(&a_facts) && certain(&b_facts)) {
                continue;
            }
            links.push(predicates::columns_equal(a, &a_facts, b, &b_facts));
        }
        for link in &links {
            self.push(inner, link.clone());
        }
        if !negated {
            let mut facts = result.facts;
            facts.extend(links.into_iter().filter(|p| *p != Pred::True).map(|pred| Tagged { pred, origin: 0..0 }));
            self.push_subquery(env, first, facts);
        }
    }

    /// What a subquery says of the rows around it; never of its own.
    fn push_subquery(&mut self, env: usize, first: u32, mut facts: Vec<Tagged>) {
        let origin = first..self.owner_count();
        facts.iter_mut().for_each(|f| f.origin = origin.clone());
        self.push_tagged(env, facts, Vec::new());
    }

    /// Everything in an expression but its value: functions, subqueries, collations.
    pub fn walk<'q>(&mut self, expr: &impl Visit, scope: &Rc<Scope<'_>>, env: usize, uses: &mut Uses<'q>) {
        let mut walker = Walker { analysis: self, scope, env, uses, depth: 0 };
        let _: ControlFlow<()> = expr.visit(&mut walker);
    }

    /// ORDER BY of a query, in the scope of its rows, and LIMIT, OFFSET and FETCH, which are not about rows.
    pub fn walk_tail<'q>(
        &mut self,
        query: Option<&Query>,
        scope: &Rc<Scope<'_>>,
        env: usize,
        outer_env: usize,
        uses: &mut Uses<'q>,
    ) {
        let Some(query) = query else { return };
        let mut walker = Walker { analysis: self, scope, env, uses, depth: 0 };
        let _: ControlFlow<()> = query.order_by.visit(&mut walker);
        walker.env = outer_env;
        let _: ControlFlow<()> = query.limit_clause.visit(&mut walker);
        let _: ControlFlow<()> = query.fetch.visit(&mut walker);
        let foreign = query.for_clause.is_some()
            || query.settings.is_some()
            || query.format_clause.is_some()
            || !query.pipe_operators.is_empty();
        self.facts.foreign |= foreign;
    }

    /// Whether a SELECT has aggregates of its own, in its list or its ORDER BY.
    pub fn has_aggregates(&self, select: &Select, query: Option<&Query>) -> bool {
        let mut finder = AggregateFinder { context: self.context, depth: 0 };
        select.projection.visit(&mut finder).is_break()
            || query.is_some_and(|q| q.order_by.visit(&mut finder).is_break())
    }

    /// A function of this name is called with these arguments.
    pub fn function_used(
        &mut self,
        parts: &[String],
        arguments: &[FunctionArg],
        scope: &Rc<Scope<'_>>,
    ) -> Option<functions::Traits> {
        let name = parts.join(".");
        match functions::kind(self.context, parts) {
            Kind::Plain(traits) => {
                if parts.last().is_some_and(|part| part == "current_setting") {
                    self.setting_read(&name, arguments, scope);
                }
                if traits.volatile {
                    self.facts.volatile.get_or_insert(name);
                }
                return Some(traits);
            }
            Kind::Opaque => {
                self.facts.opaque.get_or_insert(name);
            }
            Kind::Unknown => {
                self.facts.unknown_function.get_or_insert(name);
            }
            Kind::Time => {
                if arguments.len() == 2 && parts.last().is_some_and(|p| p == "age") {
                    return Some(functions::Traits::default());
                }
                self.facts.time.get_or_insert(name);
                self.facts.times += 1;
            }
            Kind::Server => {
                self.facts.server.get_or_insert(name);
            }
            Kind::Notify => {
                self.facts.need(Catalog::HOME, "NOTIFY".to_owned());
                self.facts.notifies = true;
            }
            Kind::AdvisoryLock { session } => {
                self.facts.need(Catalog::HOME, "an advisory lock".to_owned());
                if session {
                    self.facts.pins = Some(PinReason::AdvisoryLock);
                }
            }
            Kind::Declared { runs_on, stateless } => self.declared(&name, &runs_on, stateless, arguments, scope),
            Kind::Sequence => self.sequence_used(&name, arguments, scope),
            Kind::SetConfig => self.set_config_used(arguments, scope),
        }
        None
    }

    fn declared(
        &mut self,
        name: &str,
        runs_on: &RunsOn,
        stateless: bool,
        arguments: &[FunctionArg],
        scope: &Rc<Scope<'_>>,
    ) {
        if !stateless {
            self.facts.pins = Some(PinReason::Opaque);
        }
        match runs_on {
            RunsOn::Any => {
                self.facts.server.get_or_insert(name.to_owned());
            }
            RunsOn::Home => self.facts.need(Catalog::HOME, format!("function {name}")),
            RunsOn::Key { argument, map } => {
                match u16::try_from(*map).ok().and_then(|map| self.key_argument(name, *argument, map, arguments, scope))
                {
                    Some(condition) => self.facts.conditions.push(condition),
                    None => {
                        self.facts.opaque.get_or_insert(name.to_owned());
                    }
                }
            }
        }
    }

    fn key_argument(
        &self,
        name: &str,
        argument: usize,
        map: u16,
        arguments: &[FunctionArg],
        scope: &Rc<Scope<'_>>,
    ) -> Option<KeyCondition> {
        let map = crate::catalog::MapId(map);
        let [key] = self.context.catalog.map(map)?.key.as_slice() else { return None };
        let facts = ColumnFacts {
            type_oid: key.oid(),
            collation: crate::catalog::Collation::None,
            not_null: true,
            nullable: false,
        };
        let Some(Operand::Source(value)) = self.operand(plain_argument(arguments, argument)?, &facts, scope) else {
            return None;
        };
        let expr = KeyExpr::Equals { column: 0, value };
        Some(KeyCondition {
            map,
            types: vec![*key],
            names: vec![format!("{name} argument {}", argument + 1)],
            widths: Vec::new(),
            expr,
            not_null: Vec::new(),
        })
    }

    fn sequence_used(&mut self, name: &str, arguments: &[FunctionArg], scope: &Rc<Scope<'_>>) {
        self.facts.pins = Some(PinReason::SequenceState);
        let last = name.rsplit('.').next().unwrap_or(name);
        if matches!(last, "currval" | "lastval") {
            self.facts.reads_sequence.get_or_insert(last.to_owned());
        }
        if arguments.is_empty() {
            self.facts.server.get_or_insert(name.to_owned());
            return;
        }
        // the sequence of pg_get_serial_sequence('table', 'column') is where the table is
        let first = plain_argument(arguments, 0);
        let serial = first.and_then(serial_table);
        let Some(named) = self.read_string(serial.or(first), scope) else {
            if self.context.catalog.shards.len() > 1 {
                self.facts.refuse(
                    Error::unsupported(format!("{name} of a sequence that is not a constant"))
                        .hint("Write the sequence's name as a constant."),
                );
            }
            return;
        };
        let parts = names::parse_qualified(&named).unwrap_or_default();
        match names::relation(self.context, &parts) {
            names::Named::Relation(sequence) => match &sequence.placement {
                Placement::Single(shard) => self.facts.need(*shard, format!("sequence {}", sequence.name)),
                _ if self.context.catalog.shards.len() == 1 => {}
                // Numbers of a sharded or reference table are drawn on the home shard, whoever draws.
                Placement::Sharded { .. } | Placement::Reference => {
                    self.facts.need(Catalog::HOME, format!("sequence {}", sequence.name));
                }
                Placement::Ambiguous(_) | Placement::Derived | Placement::Refused(_) | Placement::System => {
                    self.facts.refuse(
                        Error::unsupported(format!("sequence {} is not on one shard", sequence.name))
                            .hint("List it as a single table in the configuration."),
                    )
                }
            },
            names::Named::Temporary => self.facts.temporary = true,
            names::Named::System | names::Named::Unknown(_) => {
                self.facts.need(Catalog::HOME, format!("sequence {named}"));
            }
        }
    }

    /// current_setting: most settings follow the session, some belong to a server.
    fn setting_read(&mut self, name: &str, arguments: &[FunctionArg], scope: &Rc<Scope<'_>>) {
        let setting = self.read_string(plain_argument(arguments, 0), scope);
        if setting.is_none_or(|setting| functions::is_server_setting(&setting)) {
            self.facts.server.get_or_insert(name.to_owned());
        }
    }

    fn set_config_used(&mut self, arguments: &[FunctionArg], scope: &Rc<Scope<'_>>) {
        let first = plain_argument(arguments, 0);
        let of_row = || self.setting.clone().filter(|_| is_name_column(first));
        let name = of_row().or_else(|| self.read_string(first, scope));
        let local = match plain_argument(arguments, 2).map(predicates::peel) {
            Some(Expr::Value(ValueWithSpan { value: Value::Boolean(local), .. })) => Some(*local),
            _ => None,
        };
        match (name, local) {
            (Some(name), Some(local)) => {
                self.facts.set_config.push(SetConfig { name: name.to_ascii_lowercase(), local });
            }
            _ => self.facts.refuse(
                Error::unsupported("set_config of a setting that is not a constant")
                    .hint("Write the setting's name and is_local as constants, or use SET."),
            ),
        }
    }

    /// The setting of `FROM pg_settings WHERE name = 'constant'`, which `set_config(name, …)` sets if it exists: how
    /// pg_dump asks.
    pub(super) fn setting_of(&mut self, select: &Select, scope: &Rc<Scope<'_>>) -> Option<String> {
        let [from] = select.from.as_slice() else { return None };
        let TableFactor::Table { name, args: None, .. } = &from.relation else { return None };
        let table = name.0.last().and_then(|part| part.as_ident())?;
        let Some(Expr::BinaryOp { left, op: BinaryOperator::Eq, right }) = &select.selection else { return None };
        if !from.joins.is_empty() || table.value != "pg_settings" || !is_name_column(Some(left)) {
            return None;
        }
        self.read_string(Some(right), scope)
    }

    /// The value of a string constant; the plan then serves only texts with the same one.
    fn read_string(&mut self, expr: Option<&Expr>, scope: &Rc<Scope<'_>>) -> Option<String> {
        let value = match predicates::peel(expr?) {
            Expr::Value(value) => value,
            Expr::Cast { expr, .. } => match predicates::peel(expr) {
                Expr::Value(value) => value,
                _ => return None,
            },
            _ => return None,
        };
        if matches!(value.value, Value::Number(..) | Value::Placeholder(_) | Value::Null | Value::Boolean(_)) {
            return None;
        }
        let text = predicates::string_text(value, scope.source)?;
        if scope.source.is_client {
            self.facts.fixed.extend(scope.source.literal(value.span));
        }
        Some(text)
    }
}

/// The first argument of `pg_get_serial_sequence(table, column)`.
fn serial_table(expr: &Expr) -> Option<&Expr> {
    let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = predicates::peel(expr) else {
        return None;
    };
    let function = name.0.last().and_then(|part| part.as_ident())?;
    function.value.eq_ignore_ascii_case("pg_get_serial_sequence").then(|| plain_argument(&list.args, 0)).flatten()
}

fn is_name_column(expr: Option<&Expr>) -> bool {
    matches!(expr, Some(Expr::Identifier(ident)) if ident.value == "name")
}

fn plain_argument(arguments: &[FunctionArg], n: usize) -> Option<&Expr> {
    match arguments.get(n)? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

/// The arguments of a call as they are written.
pub fn arguments(function: &Function) -> &[FunctionArg] {
    match &function.args {
        FunctionArguments::List(list) => &list.args,
        FunctionArguments::None | FunctionArguments::Subquery(_) => &[],
    }
}

fn is_subquery(expr: &Expr) -> Option<&Query> {
    match predicates::peel(expr) {
        Expr::Subquery(query) => Some(query),
        _ => None,
    }
}

/// Looks for aggregates outside subqueries.
struct AggregateFinder<'x, 'a> {
    context: &'x Context<'a>,
    depth: usize,
}

impl Visitor for AggregateFinder<'_, '_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) if self.depth == 0 && function.over.is_none() => {
                let kind = names::parts(&function.name).map(|parts| functions::kind(self.context, &parts));
                match kind {
                    Some(Kind::Plain(traits)) if traits.aggregate => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Which queries the columns in an expression belong to.
struct LevelFinder<'x, 's> {
    scope: &'x Scope<'s>,
    depth: usize,
    own: bool,
    outer: bool,
}

impl LevelFinder<'_, '_> {
    /// Names of a subquery's own tables are found nowhere here, or taken for others: they are no proof.
    fn found(&mut self, parts: &[String]) {
        match self.scope.level(parts) {
            Some(0) => self.own |= self.depth == 0,
            Some(_) => self.outer = true,
            None => {}
        }
    }
}

impl Visitor for LevelFinder<'_, '_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(ident) => self.found(&[names::fold(ident)]),
            Expr::CompoundIdentifier(idents) => self.found(&idents.iter().map(names::fold).collect::<Vec<_>>()),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Goes through one expression; what is inside a subquery is the subquery's affair.
struct Walker<'w, 'a, 's, 'q, 'u> {
    analysis: &'w mut Analysis<'a>,
    scope: &'w Rc<Scope<'s>>,
    env: usize,
    uses: &'u mut Uses<'q>,
    depth: usize,
}

impl Walker<'_, '_, '_, '_, '_> {
    fn name(&mut self, idents: &[Ident]) {
        let parts: Vec<String> = idents.iter().map(names::fold).collect();
        match self.scope.find(&parts) {
            Some(found) => {
                for block in found.crossed {
                    if let Some(block) = self.analysis.blocks.get_mut(block) {
                        block.correlated = true;
                    }
                }
            }
            None => {
                if let Some(last) = parts.last().filter(|l| SYSTEM_COLUMNS.contains(&l.as_str())) {
                    self.analysis.facts.system_column.get_or_insert(last.clone());
                }
            }
        }
    }

    fn function(&mut self, function: &Function) {
        let Some(parts) = names::parts(&function.name) else {
            self.analysis.facts.foreign = true;
            return;
        };
        let traits = self.analysis.function_used(&parts, arguments(function), self.scope).unwrap_or_default();
        self.note_time(&parts, function);
        self.uses.volatile |= traits.volatile;
        if traits.volatile {
            self.analysis.facts.volatile_blocks.push(self.scope.block);
        }
        self.uses.returns_set |= traits.returns_set;
        match &function.over {
            Some(WindowType::WindowSpec(spec)) => self.window(spec, 0),
            Some(WindowType::NamedWindow(name)) => self.named_window(name, 0),
            None if traits.aggregate => {
                self.uses.aggregates = true;
                if self.is_of_outer_query(function) {
                    self.analysis.facts.outer_aggregate = true;
                }
                let name = parts.last().map_or("", String::as_str);
                self.uses.ordered_aggregates |=
                    functions::ORDERED_AGGREGATES.contains(&name) || !function.within_group.is_empty();
            }
            None => {}
        }
    }

    fn note_time(&mut self, parts: &[String], function: &Function) {
        if functions::kind(self.analysis.context, parts) != Kind::Time {
            return;
        }
        let name = parts.last().map_or("", String::as_str);
        let source = self.scope.source;
        match source.range(function.name.span()).filter(|_| source.is_client && !matches!(name, "age" | "timenow")) {
            Some(range) => _ = self.analysis.facts.time_calls.insert(range.start),
            None if name == "age" && arguments(function).len() == 2 => {}
            None => self.analysis.facts.time_elsewhere = true,
        }
    }

    /// An aggregate belongs to the innermost query that its arguments, or its FILTER, take columns from
    /// (parse_agg.c, check_agg_arguments).
    fn is_of_outer_query(&self, function: &Function) -> bool {
        let mut finder = LevelFinder { scope: self.scope, depth: 0, own: false, outer: false };
        let _: ControlFlow<()> = function.args.visit(&mut finder);
        let _: ControlFlow<()> = function.filter.visit(&mut finder);
        let _: ControlFlow<()> = function.within_group.visit(&mut finder);
        for argument in arguments(function) {
            if let FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) = argument
                && let Some(parts) = names::parts(name)
            {
                finder.found(&parts);
            }
        }
        finder.outer && !finder.own
    }

    fn named_window(&mut self, name: &Ident, depth: usize) {
        let name = names::fold(name);
        let found = self.uses.named_windows.iter().find(|w| names::fold(&w.0) == name).copied();
        match found {
            Some(NamedWindowDefinition(_, NamedWindowExpr::WindowSpec(spec))) => self.window(spec, depth),
            Some(NamedWindowDefinition(_, NamedWindowExpr::NamedWindow(other))) if depth < 16 => {
                self.named_window(other, depth + 1);
            }
            _ => self.uses.windows.push(Vec::new()),
        }
    }

    fn window(&mut self, spec: &WindowSpec, depth: usize) {
        match &spec.window_name {
            Some(base) if depth < 16 => self.named_window(base, depth + 1),
            Some(_) => self.uses.windows.push(Vec::new()),
            None => {
                let partition = spec.partition_by.iter().map(|e| self.analysis.bare_atom(e, self.scope)).collect();
                self.uses.windows.push(partition);
            }
        }
    }

    fn operator(&mut self, op: &BinaryOperator) {
        let operators = &self.analysis.context.catalog.functions.operators;
        if !operators.is_empty() && operators.contains(&op.to_string()) {
            self.analysis.facts.opaque.get_or_insert(format!("operator {op}"));
        }
    }
}

impl Visitor for Walker<'_, '_, '_, '_, '_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if self.depth == 0 {
            let env = self.analysis.new_env(self.env);
            let scope: &Rc<Scope<'_>> = self.scope;
            self.analysis.query(query, scope, env);
        }
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        match expr {
            Expr::Function(function) => self.function(function),
            Expr::Identifier(ident) => self.name(std::slice::from_ref(ident)),
            Expr::CompoundIdentifier(idents) => self.name(idents),
            Expr::Collate { collation, .. } if !is_byte_collation_expr(collation) => {
                let name = names::parts(collation).and_then(|mut p| p.pop()).unwrap_or_default();
                self.analysis.facts.collation.get_or_insert(name);
            }
            Expr::Cast { data_type, .. } => {
                let name = data_type.to_string().to_ascii_lowercase();
                let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
                if name.starts_with("reg") {
                    self.analysis.facts.object_name.get_or_insert(format!("a cast to {name}"));
                }
            }
            Expr::BinaryOp { op, .. } => self.operator(op),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Whether COLLATE names one that compares bytes on every server.
pub fn is_byte_collation_expr(collation: &ObjectName) -> bool {
    match names::parts(collation).as_deref() {
        Some([name]) => is_byte_collation(name),
        Some([schema, name]) => schema == "pg_catalog" && is_byte_collation(name),
        _ => false,
    }
}

fn is_byte_collation(name: &str) -> bool {
    matches!(name, "C" | "POSIX" | "ucs_basic")
}
