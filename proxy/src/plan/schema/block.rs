//! DO blocks that change the schema, as migrations guard them: `BEGIN CREATE … EXCEPTION WHEN duplicate_object …`,
//! `IF NOT EXISTS (…) THEN … END IF`.
//!
//! Such a block runs on every shard that its statements concern, in one transaction. Which way it goes could differ
//! between shards, as its conditions look at each shard's own catalog: so every branch leaves a mark in a setting of the
//! transaction, and the shards' marks are compared before anything is committed. What is more than this subset of
//! PL/pgSQL is not looked into.

use super::cursor::Cursor;
use super::reads;
use crate::catalog::QualifiedName;
use crate::error::Error;
use crate::plan;
use crate::plan::Context;
use crate::plan::Effect;
use crate::plan::EverywherePlan;
use crate::plan::MARKS;
use crate::plan::OnShards;
use crate::plan::Plan;
use crate::plan::Target;
use crate::plan::UnknownNames;
use crate::sql::Statement;
use crate::sql::command::Command;
use crate::sql::lexer;
use crate::sql::lexer::TokenKind;
use crate::sql::literal;
use crate::sql::normalize;
use std::sync::Arc;

/// Plans a DO block over several shards. `None` if it cannot be looked into, and so may do anything.
pub fn plan(statement: &Statement, context: &Context<'_>) -> Option<Plan> {
    let body = body(statement, context.standard_conforming_strings)?;
    let tokens = lexer::tokenize(&body, context.standard_conforming_strings).ok()?;
    let mut block = Block { context, body: &body, sum: Sum::default(), inserts: Vec::new(), marks: 0 };
    match block.whole(Cursor::new(&body, &tokens)) {
        Ok(()) => block.decided(),
        Err(Stop::Opaque) => None,
        Err(Stop::Plan(plan)) => Some(*plan),
    }
}

/// The text of `DO [LANGUAGE plpgsql] 'text' [LANGUAGE plpgsql]`.
fn body(statement: &Statement, conforming: bool) -> Option<String> {
    let mut rest = Cursor::new(&statement.text, &statement.tokens);
    rest.word("do");
    let mut body = None;
    while let Some(token) = rest.peek() {
        if rest.word("language") {
            let name = rest.name()?;
            (name == "plpgsql").then_some(())?;
            continue;
        }
        if body.is_some() || token.kind != TokenKind::String {
            return None;
        }
        rest.skip(1);
        body = Some(normalize::string_value(&statement.text, token.range(), conforming)?.into_owned());
    }
    body
}

enum Stop {
    /// It cannot be looked into.
    Opaque,
    /// A statement in it is refused, or names what is not known.
    Plan(Box<Plan>),
}

type Step<T = ()> = Result<T, Stop>;

/// What the statements of the block come to together.
#[derive(Default)]
struct Sum {
    shards: Option<OnShards>,
    changes_schema: bool,
    numbers: Vec<QualifiedName>,
    roles: usize,
    others: usize,
}

struct Block<'a> {
    context: &'a Context<'a>,
    body: &'a str,
    sum: Sum,
    /// What is put into the body, each at a byte offset, in order.
    inserts: Vec<(usize, String)>,
    marks: usize,
}

impl Block<'_> {
    fn whole(&mut self, cursor: Cursor<'_>) -> Step {
        let mut rest = cursor;
        let begin = rest.peek().filter(|_| rest.word_at(0, "begin")).ok_or(Stop::Opaque)?;
        self.inserts.push((begin.range().end, format!(" PERFORM pg_catalog.set_config('{MARKS}', '', true);")));
        self.block(&mut rest)?;
        if rest.is_done() { Ok(()) } else { Err(Stop::Opaque) }
    }

    /// `BEGIN … [EXCEPTION WHEN … THEN …] END`, without the semicolon.
    fn block(&mut self, rest: &mut Cursor<'_>) -> Step {
        expect(rest.word("begin"))?;
        self.statements(rest)?;
        if rest.word("exception") {
            while rest.word("when") {
                self.conditions(rest)?;
                self.mark(rest, "then")?;
                self.statements(rest)?;
            }
        }
        expect(rest.word("end"))
    }

    /// `duplicate_object OR SQLSTATE '42710'`
    fn conditions(&mut self, rest: &mut Cursor<'_>) -> Step {
        loop {
            if rest.word("sqlstate") {
                expect(rest.peek().is_some_and(|t| t.kind == TokenKind::String))?;
                rest.skip(1);
            } else {
                expect(!rest.word_at(0, "then") && rest.peek().is_some_and(|t| t.kind == TokenKind::Word))?;
                rest.skip(1);
            }
            if !rest.word("or") {
                return Ok(());
            }
        }
    }

    /// Steps over the word at which a branch begins, and lets the branch leave its mark.
    fn mark(&mut self, rest: &mut Cursor<'_>, word: &str) -> Step {
        let token = rest.peek().filter(|_| rest.word_at(0, word)).ok_or(Stop::Opaque)?;
        rest.skip(1);
        self.marks += 1;
        let text = format!(
            " PERFORM pg_catalog.set_config('{MARKS}', pg_catalog.current_setting('{MARKS}') OPERATOR(pg_catalog.||) \
             '{} ', true);",
            self.marks
        );
        self.inserts.push((token.range().end, text));
        Ok(())
    }

    /// Statements up to a word that ends them.
    fn statements(&mut self, rest: &mut Cursor<'_>) -> Step {
        const ENDS: [&str; 6] = ["end", "exception", "when", "elsif", "elseif", "else"];
        while !ENDS.iter().any(|word| rest.word_at(0, word)) {
            if rest.word_at(0, "begin") {
                self.block(rest)?;
                expect(rest.symbol(";"))?;
            } else if rest.word_at(0, "if") {
                self.choice(rest)?;
            } else {
                let end = rest.top_level().find(|(_, token)| token.is_symbol(rest.text, ";")).ok_or(Stop::Opaque)?.0;
                self.statement(rest.part(0, end))?;
                rest.skip(end + 1);
            }
        }
        Ok(())
    }

    /// `IF … THEN … [ELSIF … THEN …] [ELSE …] END IF;`
    fn choice(&mut self, rest: &mut Cursor<'_>) -> Step {
        rest.skip(1);
        loop {
            let end = condition_end(rest).ok_or(Stop::Opaque)?;
            self.condition(rest.part(0, end))?;
            rest.skip(end);
            self.mark(rest, "then")?;
            self.statements(rest)?;
            if rest.one_of(&["elsif", "elseif"]).is_none() {
                break;
            }
        }
        if rest.word_at(0, "else") {
            self.mark(rest, "else")?;
            self.statements(rest)?;
        }
        expect(rest.words(&["end", "if"]) && rest.symbol(";"))
    }

    /// It may read PostgreSQL's own catalogs; what it finds there on one shard is compared with the others by the marks.
    fn condition(&mut self, condition: Cursor<'_>) -> Step {
        let select = self.parsed(&format!("SELECT {}", condition.rest()))?;
        match plan::rows::plan(&select, self.context) {
            Plan::Rows(rows) => {
                let plain = matches!(rows.target, Target::Home | Target::Any) && !rows.opaque && rows.pins.is_none();
                let pure = rows.set_config.is_empty() && rows.reads_sequence.is_none() && rows.effect == Effect::Read;
                expect(plain && pure)?;
            }
            plan @ Plan::Unknown(_) => return Err(Stop::Plan(Box::new(plan))),
            _ => return Err(Stop::Opaque),
        }
        let reads = reads::of_query(&select, self.context);
        if !reads.unknown.is_empty() {
            return Err(Stop::Plan(Box::new(Plan::Unknown(UnknownNames { names: reads.unknown }))));
        }
        expect(reads.relations.is_empty() && reads.needs.is_empty() && !reads.temporary && reads.error.is_none())
    }

    fn statement(&mut self, statement: Cursor<'_>) -> Step {
        let mut rest = statement;
        if rest.word("null") {
            return expect(rest.is_done());
        }
        if rest.word("raise") {
            return expect(rest.tokens.iter().all(|token| harmless_in_raise(token, rest.text)));
        }
        if rest.word("execute") {
            let token = rest.peek().filter(|t| t.kind == TokenKind::String && rest.tokens.len() == 1);
            let token = token.ok_or(Stop::Opaque)?;
            let conforming = self.context.standard_conforming_strings;
            let text = normalize::string_value(rest.text, token.range(), conforming).ok_or(Stop::Opaque)?;
            return self.schema_change(&text);
        }
        self.schema_change(statement.rest())
    }

    fn schema_change(&mut self, text: &str) -> Step {
        let statement = self.parsed(text)?;
        expect(statement.command == Command::Schema)?;
        // The body of an SQL function has semicolons of its own.
        expect(!statement.tokens.iter().any(|token| token.is_word(&statement.text, "atomic")))?;
        match super::plan(&statement, self.context) {
            Plan::Everywhere(plan) => self.add(plan),
            Plan::Refuse(error) => Err(Stop::Plan(Box::new(Plan::Refuse(error)))),
            Plan::Unknown(names) => Err(Stop::Plan(Box::new(Plan::Unknown(names)))),
            _ => Err(Stop::Opaque),
        }
    }

    fn add(&mut self, plan: EverywherePlan) -> Step {
        expect(!plan.outside_transaction && plan.stamped.is_none() && plan.texts.is_empty())?;
        match &self.sum.shards {
            Some(shards) => expect(*shards == plan.shards)?,
            None => self.sum.shards = Some(plan.shards),
        }
        self.sum.changes_schema |= plan.changes_schema;
        self.sum.numbers.extend(plan.numbers);
        *(if plan.of_server { &mut self.sum.roles } else { &mut self.sum.others }) += 1;
        Ok(())
    }

    fn parsed(&self, text: &str) -> Step<Statement> {
        Statement::new(Arc::from(text), self.context.standard_conforming_strings).map_err(|_| Stop::Opaque)
    }

    fn decided(self) -> Option<Plan> {
        if self.sum.roles > 0 && self.sum.others > 0 {
            let error =
                Error::unsupported("a DO block that changes roles and other things on a database of several shards")
                    .hint("Roles belong to a server, which may have several of the shards. Use a block for each.");
            return Some(Plan::Refuse(error));
        }
        // A block without any schema change does nothing that a client could see but its notices.
        let shards = self.sum.shards.clone().unwrap_or_else(super::place::home);
        let mut text = String::with_capacity(self.body.len() + 64 * self.inserts.len());
        let mut at = 0;
        let mut inserts = self.inserts;
        inserts.sort_by_key(|(offset, _)| *offset);
        for (offset, insert) in &inserts {
            text.push_str(self.body.get(at..*offset)?);
            text.push_str(insert);
            at = *offset;
        }
        text.push_str(self.body.get(at..)?);
        Some(Plan::Everywhere(EverywherePlan {
            shards,
            texts: Vec::new(),
            outside_transaction: false,
            effect: Effect::Write,
            changes_schema: self.sum.changes_schema,
            stamped: None,
            numbers: self.sum.numbers,
            of_server: self.sum.roles > 0,
            marked: Some(format!("DO {}", literal::quote(&text))),
        }))
    }
}

fn expect(met: bool) -> Step {
    if met { Ok(()) } else { Err(Stop::Opaque) }
}

/// The place of the THEN that ends a condition; one that belongs to a CASE does not.
fn condition_end(rest: &Cursor<'_>) -> Option<usize> {
    let mut cases = 0_usize;
    for (index, token) in rest.top_level() {
        match token.text(rest.text).to_ascii_lowercase().as_str() {
            "case" => cases += 1,
            "end" => cases = cases.checked_sub(1)?,
            "then" if cases == 0 => return Some(index),
            ";" => return None,
            _ => {}
        }
    }
    None
}

/// `NOTICE 'text %', SQLERRM`: nothing in it is computed.
fn harmless_in_raise(token: &lexer::Token, text: &str) -> bool {
    const WORDS: [&str; 8] = ["debug", "log", "info", "notice", "warning", "exception", "sqlerrm", "sqlstate"];
    match token.kind {
        TokenKind::Word => WORDS.iter().any(|word| token.is_word(text, word)),
        TokenKind::String | TokenKind::Integer | TokenKind::Decimal => true,
        _ => token.is_symbol(text, ","),
    }
}
