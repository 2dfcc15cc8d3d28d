//! Statements without a tree: what their tokens name decides, and only where nothing can be mistaken.
//!
//! Every name that could be a table is taken for one. What the tokens cannot tell is asked of PostgreSQL's parser
//! first, so that a syntax error is PostgreSQL's own, and refused if it is none.

use super::Context;
use super::Effect;
use super::PinReason;
use super::Plan;
use super::RowsPlan;
use super::Target;
use super::UnknownNames;
use super::functions;
use super::functions::Kind;
use super::names;
use super::names::Named;
use super::rows;
use super::rows::CHOOSE;
use super::schema::cursor::Cursor;
use super::schema::reads::Reads;
use crate::catalog::Catalog;
use crate::catalog::Placement;
use crate::catalog::QualifiedName;
use crate::catalog::Relation;
use crate::catalog::RelationKind;
use crate::catalog::ShardId;
use crate::config::RunsOn;
use crate::error::Error;
use crate::sql::Statement;
use crate::sql::command::Command;
use crate::sql::lexer;
use crate::sql::lexer::Token;
use crate::sql::lexer::TokenKind;
use std::sync::Arc;

/// Plans a statement that cannot be parsed here.
pub fn plan(statement: &Statement, context: &Context<'_>) -> Plan {
    let cursor = Cursor::new(&statement.text, &statement.tokens);
    if cursor.tokens.iter().any(|token| token.is_symbol(cursor.text, ";"))
        && lexer::split(&statement.text, context.standard_conforming_strings).map_or(0, |parts| parts.len()) > 1
    {
        return Plan::Refuse(Error::unsupported("several statements at once where one is expected"));
    }
    if let Some(select) = table_as_select(statement, context) {
        return rows::plan(&select, context);
    }
    let seen = Seen::of(cursor, context);
    if let Some(shard) = context.forced_shard {
        return Plan::Rows(seen.remembering(RowsPlan::at(Target::Shard(shard), seen.effect(statement)), statement));
    }
    if context.catalog.shards.len() <= 1 {
        let target = Target::Shard(Catalog::HOME);
        return Plan::Rows(seen.remembering(RowsPlan::at(target, seen.effect(statement)), statement));
    }
    match seen.target(statement, context) {
        Some(target) if seen.unknown.is_empty() => {
            Plan::Rows(seen.remembering(RowsPlan::at(target, seen.effect(statement)), statement))
        }
        Some(Target::Home) => Plan::Unknown(UnknownNames { names: seen.unknown }),
        _ => Plan::AskFirst(unread(&seen)),
    }
}

fn unread(seen: &Seen) -> Error {
    let error = Error::unsupported("this statement cannot be analysed, and it concerns tables of several shards");
    let error = match (&seen.opaque, seen.relations.first()) {
        (Some(function), _) => error.detail(format!("It calls {function}, which may read and write any table.")),
        (None, Some(relation)) => error.detail(format!("It names {}.", relation.name)),
        (None, None) => error,
    };
    error.hint(format!("Write it in plainer SQL. {CHOOSE}"))
}

/// `TABLE name …` is `SELECT * FROM name …`; the literals are the same, so that its plan serves the client's text.
pub fn table_as_select(statement: &Statement, context: &Context<'_>) -> Option<Statement> {
    let mut rest = Cursor::new(&statement.text, &statement.tokens);
    if statement.command != Command::Select || !rest.word("table") {
        return None;
    }
    let text = format!("SELECT * FROM {}", rest.rest());
    let select = Statement::new(Arc::from(text), context.standard_conforming_strings).ok()?;
    select.tree().is_ok().then_some(select)
}

/// What a query reads, told from its tokens.
pub fn reads(text: &str, tokens: &[Token], context: &Context<'_>) -> Reads {
    let seen = Seen::of(Cursor::new(text, tokens), context);
    let error = seen.foreign_placed.then(|| unread(&seen));
    Reads {
        relations: seen.relations,
        unknown: seen.unknown,
        needs: Vec::new(),
        temporary: seen.temporary,
        system: seen.system,
        columns: None,
        error,
    }
}

/// What the tokens of a statement name.
#[derive(Debug, Default)]
struct Seen {
    /// Tables; views are taken apart.
    relations: Vec<Arc<Relation>>,
    /// A view that cannot be taken apart.
    foreign_placed: bool,
    /// Names that stand where only tables can, and that nobody knows.
    unknown: Vec<QualifiedName>,
    temporary: bool,
    system: bool,
    writes: bool,
    locks: bool,
    into: bool,
    /// A function or operator that may do anything, or whose place is not told by its name.
    opaque: Option<String>,
    sequence: bool,
    session_lock: bool,
}

impl Seen {
    fn of(cursor: Cursor<'_>, context: &Context<'_>) -> Seen {
        let mut seen = Seen::default();
        let ctes = cte_names(&cursor);
        let mut from = FromClause::default();
        let mut index = 0;
        while let Some(token) = cursor.tokens.get(index) {
            let here = cursor.part(index, cursor.tokens.len());
            from.step(cursor.text, token);
            index += match token.kind {
                TokenKind::Word | TokenKind::QuotedIdent => seen.name(here, &mut from, &ctes, context),
                TokenKind::Operator => {
                    let operator = token.text(cursor.text);
                    if context.catalog.functions.operators.contains(operator) {
                        seen.opaque.get_or_insert(format!("operator {operator}"));
                    }
                    1
                }
                _ => 1,
            };
        }
        seen
    }

    /// Takes a word or a dotted name; the number of tokens that it is.
    fn name(&mut self, here: Cursor<'_>, from: &mut FromClause, ctes: &[String], context: &Context<'_>) -> usize {
        let expected = from.expects_table;
        let Some((parts, length)) = chain(&here) else {
            // U&"…": nobody can say here what it names
            if here.peek().is_some_and(|t| t.kind == TokenKind::QuotedIdent) {
                self.foreign_placed = true;
            }
            self.key_word(&here);
            return 1;
        };
        let called = here.symbol_at(length, "(");
        if let Some(word) = here.peek().filter(|t| t.kind == TokenKind::Word && length == 1) {
            self.key_word(&here);
            let text = word.text(here.text);
            let starts = FromClause::STARTS.iter().any(|start| text.eq_ignore_ascii_case(start));
            let rows_from = expected && text.eq_ignore_ascii_case("rows") && here.word_at(1, "from");
            if (crate::sql::names::is_reserved(text) || starts || rows_from) && !called {
                return 1;
            }
        }
        from.expects_table = false;
        if called {
            self.function(&parts, context);
        }
        let is_cte = matches!(parts.as_slice(), [name] if ctes.contains(name));
        match names::relation(context, &parts) {
            Named::Relation(relation) => self.relation(&relation, context),
            Named::Temporary => self.temporary = true,
            Named::System => self.system = true,
            Named::Unknown(name) => {
                // `alias.column` and `schema.table.column`
                if let [schema, table, _] | [_, schema, table, _] = parts.as_slice()
                    && let Named::Relation(relation) = names::relation(context, &[schema.clone(), table.clone()])
                {
                    self.relation(&relation, context);
                } else if let [table, _] = parts.as_slice()
                    && let Named::Relation(relation) = names::relation(context, std::slice::from_ref(table))
                {
                    self.relation(&relation, context);
                } else if expected && !called && !is_cte {
                    self.unknown.push(name);
                }
            }
        }
        length
    }

    fn relation(&mut self, relation: &Arc<Relation>, context: &Context<'_>) {
        if self.relations.iter().any(|known| known.name == relation.name) {
            return;
        }
        self.relations.push(relation.clone());
        if relation.kind == RelationKind::View {
            let definition = Arc::from(relation.definition.as_deref().unwrap_or(""));
            let qualified =
                Context { search_path: &[], temporary: &[], forced_shard: None, param_types: &[], ..*context };
            let inner =
                Statement::new(definition, true).map(|query| super::schema::reads::of_query(&query, &qualified));
            match inner {
                Ok(inner) if inner.error.is_none() => self.relations.extend(inner.relations),
                _ => self.foreign_placed = true,
            }
        }
    }

    fn key_word(&mut self, here: &Cursor<'_>) {
        let Some(token) = here.peek() else { return };
        match token.text(here.text).to_ascii_lowercase().as_str() {
            "insert" | "update" | "delete" | "merge" => {
                let locking = self.locks && here.word_at(0, "update");
                self.writes |= !locking;
            }
            "for" => {
                let strength = ["update", "share", "no", "key"];
                self.locks |= strength.iter().any(|word| here.word_at(1, word));
            }
            "into" => self.into = true,
            _ => {}
        }
    }

    fn function(&mut self, parts: &[String], context: &Context<'_>) {
        let name = parts.last().cloned().unwrap_or_default();
        match functions::kind(context, parts) {
            Kind::Opaque | Kind::SetConfig => {
                self.opaque.get_or_insert(format!("function {name}"));
            }
            Kind::Declared { runs_on: RunsOn::Any, stateless: true } => {}
            Kind::Declared { .. } => {
                self.opaque.get_or_insert(format!("function {name}"));
            }
            Kind::Sequence => {
                self.sequence = true;
                self.opaque.get_or_insert(format!("function {name}"));
            }
            Kind::AdvisoryLock { session } => {
                self.session_lock |= session;
                self.system = true;
            }
            Kind::Notify | Kind::Server | Kind::Time => self.system = true,
            Kind::Plain(_) | Kind::Unknown => {}
        }
    }

    /// Where it can run; `None` if nobody can tell.
    fn target(&self, statement: &Statement, context: &Context<'_>) -> Option<Target> {
        let distributed = context.catalog.has_distributed_tables();
        if self.foreign_placed || (self.opaque.is_some() && distributed) {
            return None;
        }
        let mut singles: Vec<ShardId> = Vec::new();
        let mut reference = false;
        for relation in &self.relations {
            match &relation.placement {
                Placement::Sharded { .. } | Placement::Ambiguous(_) | Placement::Refused(_) => return None,
                Placement::Reference => reference = true,
                Placement::Single(shard) => singles.push(*shard),
                Placement::Derived | Placement::System => {}
            }
        }
        let writes = self.effect(statement) == Effect::Write;
        if (self.into && !self.is_insert(statement)) || (writes && (reference || self.fires(context))) {
            return None;
        }
        if self.temporary || self.system || self.opaque.is_some() {
            singles.push(Catalog::HOME);
        }
        singles.sort_unstable();
        singles.dedup();
        match singles.as_slice() {
            [] if reference && !self.locks => Some(Target::Any),
            [] if reference => Some(Target::Shard(Catalog::HOME)),
            [] => Some(Target::Home),
            [shard] if *shard == Catalog::HOME => Some(Target::Home),
            [shard] => Some(Target::Shard(*shard)),
            _ => None,
        }
    }

    /// INTO belongs to INSERT or MERGE, and not to SELECT INTO.
    fn is_insert(&self, statement: &Statement) -> bool {
        matches!(statement.command, Command::Insert | Command::Merge)
    }

    /// A table has triggers or rules, which may do anything.
    fn fires(&self, context: &Context<'_>) -> bool {
        context.catalog.has_distributed_tables()
            && self.relations.iter().any(|relation| relation.has_rules || !relation.triggers.is_empty())
    }

    fn effect(&self, statement: &Statement) -> Effect {
        let reads = statement.command == Command::Select && !self.writes && !self.into;
        match (reads && self.opaque.is_none(), self.locks) {
            (true, true) => Effect::Lock,
            (true, false) => Effect::Read,
            (false, _) => Effect::Write,
        }
    }

    fn remembering(&self, plan: RowsPlan, statement: &Statement) -> RowsPlan {
        let mut plan = plan;
        let fires = self.writes && self.relations.iter().any(|r| r.has_rules || !r.triggers.is_empty());
        plan.opaque = self.opaque.is_some() || fires || statement.command == Command::Other;
        plan.pins = if plan.opaque {
            Some(PinReason::Opaque)
        } else if self.session_lock {
            Some(PinReason::AdvisoryLock)
        } else {
            None
        };
        plan.makes.changes_schema = self.into && !self.is_insert(statement);
        plan
    }
}

/// A name of up to four parts, and how many tokens it is. A part behind a point may be any word, or `*`.
fn chain(here: &Cursor<'_>) -> Option<(Vec<String>, usize)> {
    let part = |n: usize| {
        let token = here.tokens.get(n)?;
        match token.kind {
            TokenKind::Word => Some(crate::sql::names::fold(token.text(here.text))),
            TokenKind::QuotedIdent => crate::sql::names::unquote(token.text(here.text)),
            _ => None,
        }
    };
    let mut parts = vec![part(0)?];
    let mut length = 1;
    while here.symbol_at(length, ".")
        && let Some(next) = part(length + 1)
    {
        parts.push(next);
        length += 2;
    }
    Some((parts, length))
}

/// Every name that is followed by `[(columns)] AS [[NOT] MATERIALIZED] (`. One pass, since the text may be of any size.
fn cte_names(cursor: &Cursor<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = Vec::new();
    // of the parenthesis that was closed last: the places of both
    let mut closed = None;
    for (index, token) in cursor.tokens.iter().enumerate() {
        if token.is_symbol(cursor.text, "(") {
            open.push(index);
        } else if token.is_symbol(cursor.text, ")") {
            closed = open.pop().map(|opened| (opened, index));
        } else if token.is_word(cursor.text, "as") {
            let mut body = cursor.part(index + 1, cursor.tokens.len());
            body.word("not");
            body.word("materialized");
            let columns = closed.filter(|(_, end)| end + 1 == index);
            let name = columns.map_or(index, |(start, _)| start).checked_sub(1);
            let name = name.and_then(|at| cursor.part(at, at + 1).name());
            found.extend(name.filter(|_| body.symbol_at(0, "(")));
        }
    }
    found
}

/// Where a table is expected: behind FROM, JOIN, INTO, UPDATE, USING, TABLE, and behind the commas of FROM.
#[derive(Debug, Default)]
struct FromClause {
    expects_table: bool,
    /// A FROM list is going on.
    list: bool,
    /// The parentheses belong to `extract(… FROM …)` and the like.
    argument: bool,
    /// `list` and `argument` outside each open parenthesis.
    outside: Vec<(bool, bool)>,
    previous: String,
}

impl FromClause {
    const STARTS: [&str; 6] = ["from", "join", "into", "update", "using", "table"];

    fn step(&mut self, text: &str, token: &Token) {
        const ENDS: [&str; 14] = [
            "where",
            "group",
            "having",
            "window",
            "order",
            "limit",
            "offset",
            "fetch",
            "for",
            "union",
            "intersect",
            "except",
            "returning",
            "set",
        ];
        const ARGUMENTS: [&str; 5] = ["extract", "substring", "trim", "overlay", "position"];
        let word = if token.kind == TokenKind::Word { token.text(text).to_ascii_lowercase() } else { String::new() };
        if token.is_symbol(text, "(") {
            self.outside.push((self.list, self.argument));
            self.argument = ARGUMENTS.contains(&self.previous.as_str());
            // a parenthesised join: its first item is a table still; USING (columns) has none
            self.expects_table &= self.previous != "using";
            self.list = self.expects_table;
        } else if token.is_symbol(text, ")") {
            (self.list, self.argument) = self.outside.pop().unwrap_or_default();
            self.expects_table = false;
        } else if token.is_symbol(text, ",") {
            self.expects_table = self.list;
        } else if Self::STARTS.contains(&word.as_str()) {
            let clause = match word.as_str() {
                "from" => !self.argument && self.previous != "distinct",
                "update" => !matches!(self.previous.as_str(), "for" | "key" | "do"),
                _ => true,
            };
            self.expects_table |= clause;
            self.list |= clause && matches!(word.as_str(), "from" | "using");
        } else if ENDS.contains(&word.as_str()) {
            self.list = false;
            self.expects_table = false;
        }
        self.previous = word;
    }
}
