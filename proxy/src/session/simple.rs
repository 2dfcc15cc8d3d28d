//! The simple protocol: Query, of one statement or several.

use crate::catalog::QualifiedName;
use crate::catalog::ShardId;
use crate::error::Error;
use crate::error::codes;
use crate::exec::backends::State;
use crate::exec::cache::Planned;
use crate::limits;
use crate::plan::Makes;
use crate::plan::Plan;
use crate::plan::RowsPlan;
use crate::plan::Target;
use crate::plan::TellsTime;
use crate::route::Route;
use crate::session::Failure;
use crate::session::HOME;
use crate::session::Outcome;
use crate::session::Session;
use crate::session::dump;
use crate::session::encoding::foreign_encoding;
use crate::session::measure;
use crate::session::measure::Ran;
use crate::session::prepared::shifted;
use crate::sql::Statement;
use crate::sql::command::Command;
use crate::sql::lexer;
use crate::value::Oid;
use crate::wire::backend;
use crate::wire::frontend;
use std::sync::Arc;
use std::time::Instant;

impl Session {
    pub(super) async fn query(&mut self, body: &[u8]) -> Outcome {
        if !self.join_pipeline().await? {
            return Ok(());
        }
        let outcome = match frontend::query(body) {
            Ok(text) => self.text_or_bytes(text).await,
            Err(error) => Err(self.first_wrong(body, 0, 1, error).into()),
        };
        self.answer_query(outcome).await
    }

    /// The end of a Query: its own transaction ends, errors are told, and ReadyForQuery.
    pub(super) async fn answer_query(&mut self, mut outcome: Outcome) -> Outcome {
        if self.backends.transaction.state == State::Implicit {
            let ended = Box::pin(self.end_transaction(outcome.is_ok())).await;
            if outcome.is_ok() {
                outcome = ended.map(|_| ());
            }
        }
        self.settle_outcome(outcome)?;
        self.end_statement().await?;
        self.ready();
        Ok(())
    }

    async fn text_or_bytes(&mut self, text: &[u8]) -> Outcome {
        match std::str::from_utf8(text) {
            Ok(text) if text.is_ascii() || !self.is_foreign() => {
                self.forget_unnamed();
                match dump::schemas_query(text).or_else(|| self.with_channels(text)) {
                    None => self.texts(text).await,
                    Some(text) => Box::pin(self.texts(&text)).await,
                }
            }
            _ => {
                if self.is_foreign() {
                    self.forget_unnamed();
                }
                Box::pin(self.undecodable(text)).await
            }
        }
    }

    /// A Query that can be read takes the unnamed statement and portal away (exec_simple_query in postgres.c).
    fn forget_unnamed(&mut self) {
        self.prepared.remove(b"".as_slice());
        if self.backends.transaction.state != State::Failed {
            self.portals.remove(b"".as_slice());
        }
    }

    /// Tells the client what went wrong; what ends the session is passed on.
    pub(super) fn settle_outcome(&mut self, outcome: Outcome) -> Outcome {
        match outcome {
            Ok(()) => Ok(()),
            // As PostgreSQL's client sees it: one error, and the end.
            Err(Failure::Error(error)) if self.has_lost_state() => Err(Failure::Fatal(error)),
            Err(Failure::Error(error)) => {
                self.fail_transaction();
                self.report(&error);
                Ok(())
            }
            Err(Failure::Reported) => {
                self.fail_transaction();
                Ok(())
            }
            Err(other) => Err(other),
        }
    }

    async fn texts(&mut self, text: &str) -> Outcome {
        if let Err(error) = self.scan_text(text) {
            return Err(Box::pin(self.wrong_before(text, error)).await);
        }
        if self.scan.more_at.is_none() {
            return self.one(text).await;
        }
        let ranges = lexer::split(text, self.conforming_strings())?;
        let [_, _, ..] = ranges.as_slice() else { return self.one(text).await };
        match self.refuse_early(text, &ranges) {
            Ok(true) => Box::pin(self.check_syntax(text)).await?,
            Ok(false) => {}
            Err((range, error)) => {
                let part = text.get(range.clone()).unwrap_or_default();
                let failure = Box::pin(self.mistake_first(part, &[], &error)).await;
                return Err(shifted(failure, characters(text, 0..range.start)));
            }
        }
        self.several = true;
        if self.backends.transaction.state == State::Idle {
            self.begin_implicit();
        }
        let mut outcome = Ok(());
        let mut counted = 0;
        for range in ranges {
            self.before = self.before.saturating_add(characters(text, counted..range.start));
            counted = range.start;
            let part = text.get(range).unwrap_or_default();
            outcome = match self.scan_text(part) {
                Ok(()) => Box::pin(self.one(part)).await,
                Err(error) => Err(error.into()),
            };
            if outcome.is_err() {
                break;
            }
        }
        self.several = false;
        let before = std::mem::take(&mut self.before);
        outcome.map_err(|failure| shifted(failure, before))
    }

    /// The transaction of several statements in one Query.
    pub(super) fn begin_implicit(&mut self) {
        self.backends.transaction.state = State::Implicit;
        self.variables.begin();
    }

    /// What will be refused is refused before anything of the Query has run, as far as that can be told: up to the
    /// first statement that may change what the others mean. True when a statement could not be parsed here.
    ///
    /// # Errors
    /// The statement that is refused, and why.
    fn refuse_early(
        &mut self,
        text: &str,
        ranges: &[std::ops::Range<usize>],
    ) -> std::result::Result<bool, (std::ops::Range<usize>, Box<Error>)> {
        let conforming = self.conforming_strings();
        let unreadable = ranges.iter().any(|range| {
            let part = text.get(range.clone()).unwrap_or_default();
            Statement::new(Arc::from(part), conforming)
                .is_ok_and(|s| s.command == Command::Other || (is_data(&s.command) && s.tree().is_err()))
        });
        if self.backends.transaction.state == State::Failed {
            return Ok(unreadable);
        }
        for range in ranges {
            let part = text.get(range.clone()).unwrap_or_default();
            if self.scan_text(part).is_err() {
                return Ok(unreadable);
            }
            let Ok(planned) = self.plan_scanned(part) else { return Ok(unreadable) };
            match &planned.plan {
                Plan::Refuse(error) => return Err((range.clone(), Box::new(error.clone()))),
                Plan::Rows(rows) => {
                    let literals = std::mem::take(&mut self.scan.literals);
                    let route = self.choose(rows, &self.values(part, &literals));
                    self.scan.literals = literals;
                    let several = rows.everyone.is_some() || rows.copies.is_some();
                    if let (Ok(Route::Several(_)), Some(error), false) = (route, rows.refused_over_several(), several) {
                        return Err((range.clone(), Box::new(error.clone())));
                    }
                    if rows.makes.changes_schema || !rows.set_config.is_empty() || rows.opaque {
                        return Ok(unreadable);
                    }
                }
                Plan::Session if !matches!(planned.command, Command::Begin(_) | Command::Commit { .. }) => {
                    return Ok(unreadable);
                }
                Plan::Session | Plan::Explain(_) => {}
                Plan::Everywhere(_) | Plan::AskFirst(_) | Plan::Unknown(_) => return Ok(unreadable),
            }
        }
        Ok(unreadable)
    }

    /// A text that cannot be cut into tokens: PostgreSQL's parser may stumble before it comes to that place. A long text is
    /// not asked about: the server's time for comments that do not end grows with the square of their number.
    pub(super) async fn wrong_before(&mut self, text: &str, error: Error) -> Failure {
        if error.code != codes::SYNTAX_ERROR || text.len() > limits::ASKED_TEXT_BYTES {
            return error.into();
        }
        match self.ask(self.nearest(), crate::exec::cache::next_number(), text, &[]).await {
            Err(Failure::Error(said)) if said.code == codes::SYNTAX_ERROR => said.into(),
            Err(Failure::Error(_)) | Ok(_) => error.into(),
            Err(other) => other,
        }
    }

    /// PostgreSQL parses the whole Query before it runs any of it: an error of syntax in the last statement keeps the
    /// first from running. What we cannot parse it is asked about.
    pub(super) async fn check_syntax(&mut self, text: &str) -> Outcome {
        // In a block the question itself, which is always an error, would fail the transaction.
        if self.backends.transaction.is_block() {
            return Ok(());
        }
        let asked = self.ask(self.nearest(), crate::exec::cache::next_number(), text, &[]).await;
        match asked {
            // It has parsed all of them: this is what it says to several.
            Err(Failure::Error(error))
                if &*error.message == "cannot insert multiple commands into a prepared statement" =>
            {
                Ok(())
            }
            Err(Failure::Error(error)) if error.code == codes::SYNTAX_ERROR => Err(error.into()),
            Err(Failure::Error(_)) | Ok(_) => Ok(()),
            Err(other) => Err(other),
        }
    }

    /// Bytes that we cannot read as a statement. In UTF-8 PostgreSQL refuses them before it does anything. In another
    /// encoding one shard may read them, if they are known to leave nothing behind on it.
    async fn undecodable(&mut self, text: &[u8]) -> Outcome {
        if !self.is_foreign() {
            return self.forward(self.nearest(), text).await;
        }
        if !self.is_tricky_encoding() {
            // Each byte beyond ASCII stands for a letter, whichever it is.
            let shadow: String = text.iter().map(|&b| char::from(b)).collect();
            self.scan_text(&shadow)?;
            if self.scan.more_at.is_some() {
                return Err(foreign_encoding().into());
            }
            // Such letters may be in names, which are other names then: with one shard no matter.
            let misread = !self.scan.is_ascii_but_literals();
            let planned = self.plan_text(&shadow, &[])?;
            if let Plan::Rows(rows) = &planned.plan
                && !rows.opaque
                && rows.pins.is_none()
                && rows.set_config.is_empty()
                && rows.makes == Makes::default()
                && let Some(shard) = self.shard_whatever_values(rows, misread)
            {
                self.refuse_if_failed()?;
                self.before_whole(rows, shard).await?;
                return self.forward(shard, text).await;
            }
        }
        Err(foreign_encoding().into())
    }

    /// The shard on which a statement runs as it stands, whatever its literals say; `misread`: its names are not certain
    /// either.
    fn shard_whatever_values(&self, rows: &RowsPlan, misread: bool) -> Option<ShardId> {
        if self.backends.database.config.shards.len() == 1 {
            return Some(HOME);
        }
        let plain = rows.fixed.is_empty() && rows.writes.is_none() && rows.time == TellsTime::No;
        match rows.target {
            Target::Home if plain && !misread => Some(HOME),
            Target::Shard(shard) if plain && !misread => Some(shard),
            _ => None,
        }
    }

    /// One statement, already scanned.
    async fn one(&mut self, text: &str) -> Outcome {
        let started = Instant::now();
        let mut planned = self.plan_scanned(text)?;
        // What a statement leaves behind follows from the catalog; where the only shard's schema changes go does not.
        if self.backends.database.is_outdated() && !matches!(planned.plan, Plan::Session | Plan::Everywhere(_)) {
            self.settle_catalog().await?;
            planned = self.plan_scanned(text)?;
        }
        self.ran = measure::ran(&planned.plan);
        let outcome = self.execute_simple(&planned, text).await;
        if matches!(&outcome, Err(Failure::Error(e)) if e.code == codes::NOT_SUPPORTED && e.raw.is_none()) {
            self.ran = Ran::Refused;
        }
        measure::count_statement(&planned.command, self.ran, outcome.is_ok(), started.elapsed());
        self.log_slow(&planned, started);
        outcome
    }

    fn log_slow(&self, planned: &Planned, started: Instant) {
        let Some(limit) = self.state.config.log.slow_statement else { return };
        let elapsed = started.elapsed();
        if elapsed >= limit {
            tracing::info!(
                database = %self.backends.database.config.name,
                user = %self.backends.user.name,
                milliseconds = elapsed.as_millis() as u64,
                statement = %measure::fingerprint(&planned.text),
                "slow statement"
            );
        }
    }

    async fn execute_simple(&mut self, planned: &Arc<Planned>, text: &str) -> Outcome {
        if planned.command == Command::Empty {
            if let Some(shard) = self.backends.held.iter().find(|held| held.pinned.is_some()).map(|held| held.shard) {
                // A ping asks whether the session is still there, and a part of it is on that connection.
                return self.forward(shard, text.as_bytes()).await;
            }
            backend::put_bare(&mut self.client.write, backend::EMPTY_QUERY);
            return Ok(());
        }
        if !ends_transaction(&planned.command)
            && let Err(error) = self.refuse_if_failed()
        {
            return Err(Box::pin(self.syntax_first(planned, text, error)).await);
        }
        match &planned.plan {
            Plan::Session => Box::pin(self.command(&planned.command, text)).await,
            Plan::Rows(rows) => {
                let literals = std::mem::take(&mut self.scan.literals);
                let outcome = self.rows_simple(planned, rows, self.values(text, &literals)).await;
                self.scan.literals = literals;
                outcome
            }
            Plan::Everywhere(everywhere) => Box::pin(self.everywhere(everywhere, text)).await,
            Plan::Explain(explain) => Box::pin(self.explain_simple(planned, explain, text)).await,
            Plan::AskFirst(refusal) => Box::pin(self.ask_first(text, &[], refusal)).await,
            Plan::Unknown(unknown) => {
                if Box::pin(self.look_again(&unknown.names)).await {
                    self.scan_text(text)?;
                    let again = self.plan_scanned(text)?;
                    if !matches!(again.plan, Plan::Unknown(_)) {
                        return Box::pin(self.execute_simple(&again, text)).await;
                    }
                }
                if self.backends.database.config.shards.len() > 1 {
                    let command = &planned.command;
                    if let Some(again) = Box::pin(self.known_to_servers(command, &unknown.names, text, &[])).await? {
                        self.scan_text(text)?;
                        return Box::pin(self.execute_simple(&again, text)).await;
                    }
                }
                self.forward(HOME, text.as_bytes()).await
            }
            Plan::Refuse(error) => Err(Box::pin(self.mistake_first(text, &[], error)).await),
        }
    }

    /// A statement with names that the catalog does not have, read again just now or not: the home shard says what is
    /// wrong with it. What it accepts it knows better, and the statement is planned anew.
    ///
    /// # Errors
    /// The home shard's; 0A000 for what only it knows: which shards have the rows is not certain.
    pub(super) async fn known_to_servers(
        &mut self,
        command: &Command,
        names: &[QualifiedName],
        text: &str,
        types: &[Oid],
    ) -> Outcome<Option<Arc<Planned>>> {
        // The proxy's own schema is none of the catalog's: the home shard says who may look into it.
        let own = |name: &QualifiedName| name.schema == "shardway";
        let data = is_data(command) && !names.iter().all(own);
        if data {
            self.ask(HOME, crate::exec::cache::next_number(), text, types).await?;
        }
        if self.backends.transaction.overlay.is_none() {
            self.backends.database.refresh().await?;
        }
        let again = self.plan_text(text, types)?;
        match &again.plan {
            Plan::Unknown(unknown) if data => {
                let names: Vec<String> = unknown.names.iter().map(ToString::to_string).collect();
                Err(Error::unsupported(format!("{}, of which only the home shard knows", names.join(", ")))
                    .hint("Create tables through the proxy, or on every shard.")
                    .into())
            }
            Plan::Unknown(_) => Ok(None),
            _ => Ok(Some(again)),
        }
    }

    /// In a failed transaction PostgreSQL still reads each statement before it refuses it.
    pub(super) async fn syntax_first(&mut self, planned: &Planned, text: &str, refusal: Error) -> Failure {
        if !matches!(planned.plan, Plan::AskFirst(_)) && planned.command != Command::Other {
            return refusal.into();
        }
        match self.ask(self.nearest(), crate::exec::cache::next_number(), text, &[]).await {
            Err(Failure::Error(error)) if error.code == codes::SYNTAX_ERROR => error.into(),
            Ok(_) | Err(Failure::Error(_)) => refusal.into(),
            Err(other) => other,
        }
    }

    /// A statement that PostgreSQL would not accept is wrong rather than refused: it tells its mistake.
    pub(super) async fn mistake_first(&mut self, text: &str, types: &[Oid], refusal: &Error) -> Failure {
        match self.ask(HOME, crate::exec::cache::next_number(), text, types).await {
            Err(Failure::Error(error)) if error.raw.is_none() || is_no_mistake(&error) => refusal.clone().into(),
            Err(failure) => failure,
            Ok(_) => refusal.clone().into(),
        }
    }

    /// What we cannot read: PostgreSQL says whether it is right; only what it accepts is refused. A table that is on
    /// another shard than the one that is asked is no mistake.
    pub(super) async fn ask_first(&mut self, text: &str, types: &[Oid], refusal: &Error) -> Outcome {
        match self.ask(HOME, crate::exec::cache::next_number(), text, types).await {
            Err(Failure::Error(error)) if error.code == codes::UNDEFINED_TABLE && self.is_elsewhere(&error.message) => {
            }
            Err(failure) => return Err(failure),
            Ok(_) => {}
        }
        Err(refusal.clone().into())
    }

    /// Whether a message names a relation that the catalog has.
    fn is_elsewhere(&self, message: &str) -> bool {
        let Some(name) = message.split('"').nth(1) else { return false };
        let name = name.rsplit('.').next().unwrap_or(name);
        self.snapshot().catalog.relations.values().any(|relation| relation.name.name == name)
    }
}

/// What the home shard lacks may be on another, and a failure of the server says nothing of the statement.
fn is_no_mistake(error: &Error) -> bool {
    let class = error.code.as_str().get(..2).unwrap_or_default();
    !matches!(class, "22" | "42") || error.code == codes::UNDEFINED_TABLE || error.code == codes::UNDEFINED_OBJECT
}

/// COMMIT, ROLLBACK and their kin: what a failed transaction still accepts.
pub fn ends_transaction(command: &Command) -> bool {
    matches!(
        command,
        Command::Commit { .. } | Command::Rollback { .. } | Command::RollbackTo(_) | Command::PrepareTransaction
    )
}

/// The error for a command that needs a transaction block.
pub fn needs_block(what: &str) -> Error {
    Error::new(codes::NO_ACTIVE_TRANSACTION, format!("{what} can only be used in transaction blocks"))
}

pub fn is_data(command: &Command) -> bool {
    matches!(command, Command::Select | Command::Insert | Command::Update | Command::Delete | Command::Merge)
}

/// Characters of a part of a text, given in bytes.
pub fn characters(text: &str, part: std::ops::Range<usize>) -> u32 {
    text.get(part).map_or(0, |part| u32::try_from(part.chars().count()).unwrap_or(u32::MAX))
}
