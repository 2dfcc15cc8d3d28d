//! The simple protocol: Query, of one statement or several.

use crate::error::Error;
use crate::error::codes;
use crate::exec::backends::State;
use crate::exec::cache::Planned;
use crate::plan::Plan;
use crate::route::Route;
use crate::session::Failure;
use crate::session::HOME;
use crate::session::Outcome;
use crate::session::Session;
use crate::sql::Statement;
use crate::sql::command::Command;
use crate::sql::lexer;
use crate::session::measure;
use crate::wire::backend;
use crate::wire::frontend;
use std::sync::Arc;
use std::time::Instant;

impl Session {
    pub(super) async fn query(&mut self, body: &[u8]) -> Outcome {
        if !self.sync_before_query().await? {
            return Ok(());
        }
        let outcome = match frontend::query(body) {
            Err(error) => Err(error.into()),
            Ok(text) => match std::str::from_utf8(text) {
                Ok(text) => self.texts(text).await,
                Err(_) => self.undecodable(text).await,
            },
        };
        self.settle_outcome(outcome)?;
        self.end_statement().await;
        backend::put_ready(&mut self.client.write, self.backends.transaction.status());
        Ok(())
    }

    /// Tells the client what went wrong; what ends the session is passed on.
    pub(super) fn settle_outcome(&mut self, outcome: Outcome) -> Outcome {
        match outcome {
            Ok(()) => Ok(()),
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
        self.scan_text(text)?;
        if self.scan.more_at.is_none() {
            return self.one(text).await;
        }
        let ranges = lexer::split(text, self.conforming_strings())?;
        let [_, _, ..] = ranges.as_slice() else { return self.one(text).await };
        if self.refuse_early(text, &ranges)? {
            self.check_syntax(text).await?;
        }
        self.several = true;
        if self.backends.transaction.state == State::Idle {
            self.backends.transaction.state = State::Implicit;
        }
        let mut outcome = Ok(());
        for range in ranges {
            let part = text.get(range).unwrap_or_default();
            outcome = match self.scan_text(part) {
                Ok(()) => self.one(part).await,
                Err(error) => Err(error.into()),
            };
            if outcome.is_err() {
                break;
            }
        }
        self.several = false;
        if self.backends.transaction.state == State::Implicit {
            let ended = self.end_transaction(outcome.is_ok()).await;
            if outcome.is_ok() {
                outcome = ended.map(|_| ());
            }
        }
        outcome
    }

    /// What will be refused is refused before anything of the Query has run, as far as that can be told: up to the
    /// first statement that may change what the others mean. True when a statement could not be parsed here.
    fn refuse_early(&mut self, text: &str, ranges: &[std::ops::Range<usize>]) -> Outcome<bool> {
        let conforming = self.conforming_strings();
        let unreadable = ranges.iter().any(|range| {
            let part = text.get(range.clone()).unwrap_or_default();
            Statement::new(Arc::from(part), conforming).is_ok_and(|s| {
                s.command == Command::Other || (is_data(&s.command) && s.tree().is_err())
            })
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
                Plan::Refuse(error) => return Err(error.clone().into()),
                Plan::Rows(rows) => {
                    let literals = std::mem::take(&mut self.scan.literals);
                    let route = self.choose(rows, &self.values(part, &literals));
                    self.scan.literals = literals;
                    if let (Ok(Route::Several(_)), Err(error)) = (route, &rows.scatter) {
                        return Err(error.clone().into());
                    }
                    if rows.makes.changes_schema || !rows.set_config.is_empty() || rows.opaque {
                        return Ok(unreadable);
                    }
                }
                Plan::Session if !matches!(planned.command, Command::Begin(_) | Command::Commit { .. }) => return Ok(unreadable),
                Plan::Session | Plan::Explain(_) => {}
                Plan::Everywhere(_) | Plan::AskFirst(_) | Plan::Unknown(_) => return Ok(unreadable),
            }
        }
        Ok(unreadable)
    }

    /// PostgreSQL parses the whole Query before it runs any of it: an error of syntax in the last statement keeps the
    /// first from running. What we cannot parse it is asked about.
    async fn check_syntax(&mut self, text: &str) -> Outcome {
        if self.backends.transaction.state == State::Failed {
            return Ok(());
        }
        let shard = self.nearest();
        let held = self.backends.acquire(shard, &self.variables).await?;
        let asked = crate::exec::scatter::describe(held, crate::exec::cache::next_number(), text.as_bytes(), &[]).await;
        match asked {
            // It has parsed all of them: this is what it says to several.
            Err(error) if &*error.message == "cannot insert multiple commands into a prepared statement" => Ok(()),
            Err(error) if error.code == codes::SYNTAX_ERROR => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Bytes that are not UTF-8: in that encoding PostgreSQL refuses them before it does anything; in another one we
    /// cannot read the statement.
    async fn undecodable(&mut self, text: &[u8]) -> Outcome {
        let utf8 = self.reported.get("client_encoding").is_none_or(|e| e == "UTF8");
        let one_shard = self.backends.database.config.shards.len() == 1;
        if !utf8 && !one_shard {
            return Err(Error::unsupported("statements in an encoding other than UTF-8 are not supported yet")
                .hint("SET client_encoding TO 'UTF8'.")
                .into());
        }
        let shard = self.nearest();
        self.forward(if one_shard { HOME } else { shard }, text).await
    }

    /// One statement, already scanned.
    async fn one(&mut self, text: &str) -> Outcome {
        let started = Instant::now();
        let planned = self.plan_scanned(text)?;
        let outcome = self.execute_simple(&planned, text).await;
        measure::count_statement(&planned.plan, outcome.is_ok(), started.elapsed());
        self.log_slow(&planned, started);
        outcome
    }

    fn log_slow(&self, planned: &Planned, started: Instant) {
        let Some(limit) = self.shared.state.load().config.log.slow_statement else { return };
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
            backend::put_bare(&mut self.client.write, backend::EMPTY_QUERY);
            return Ok(());
        }
        if !ends_transaction(&planned.command) {
            self.refuse_if_failed()?;
        }
        match &planned.plan {
            Plan::Session => self.command(&planned.command, text).await,
            Plan::Rows(rows) => {
                let literals = std::mem::take(&mut self.scan.literals);
                let outcome = self.rows_simple(planned, rows, self.values(text, &literals)).await;
                self.scan.literals = literals;
                outcome
            }
            Plan::Everywhere(everywhere) => self.everywhere(everywhere, text).await,
            Plan::Explain(explain) => self.explain_simple(planned, explain, text).await,
            Plan::AskFirst(refusal) => self.ask_first(text, refusal).await,
            Plan::Unknown(unknown) => {
                if self.look_again(&unknown.names).await {
                    self.scan_text(text)?;
                    let again = self.plan_scanned(text)?;
                    if !matches!(again.plan, Plan::Unknown(_)) {
                        return Box::pin(self.execute_simple(&again, text)).await;
                    }
                }
                self.forward(HOME, text.as_bytes()).await
            }
            Plan::Refuse(error) => Err(error.clone().into()),
        }
    }

    /// What we cannot read: PostgreSQL says whether it is right; only what it accepts is refused.
    async fn ask_first(&mut self, text: &str, refusal: &Error) -> Outcome {
        let held = self.backends.acquire(HOME, &self.variables).await?;
        let asked = crate::exec::scatter::describe(held, crate::exec::cache::next_number(), text.as_bytes(), &[]).await;
        match asked {
            Err(error) => Err(error.into()),
            Ok(_) => Err(refusal.clone().into()),
        }
    }
}

/// COMMIT, ROLLBACK and their kin: what a failed transaction still accepts.
pub fn ends_transaction(command: &Command) -> bool {
    matches!(
        command,
        Command::Commit { .. }
            | Command::Rollback { .. }
            | Command::RollbackTo(_)
            | Command::PrepareTransaction
    )
}

/// The error for a command that needs a transaction block.
pub fn needs_block(what: &str) -> Error {
    Error::new(codes::NO_ACTIVE_TRANSACTION, format!("{what} can only be used in transaction blocks"))
}

fn is_data(command: &Command) -> bool {
    matches!(command, Command::Select | Command::Insert | Command::Update | Command::Delete | Command::Merge)
}
