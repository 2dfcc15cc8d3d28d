//! Commands that the session itself leads: transactions, settings, prepared statements, cursors, notifications.

use crate::catalog::ShardId;
use crate::error::Error;
use crate::error::codes;
use crate::exec::backends::State;
use crate::exec::backends::begin_text;
use crate::exec::backends::modes_text;
use crate::exec::backends::quote_identifier;
use crate::exec::backends::run_on;
use crate::plan::PinReason;
use crate::plan::Plan;
use crate::route::Route;
use crate::session::Cursor;
use crate::session::Failure;
use crate::session::HOME;
use crate::session::Outcome;
use crate::session::Session;
use crate::session::cursor::Declared;
use crate::session::portal::Portal;
use crate::session::rows::NO_VALUES;
use crate::session::settings::merge_modes;
use crate::session::simple::needs_block;
use crate::sql::command::Command;
use crate::sql::command::TransactionModes;
use crate::wire::backend;

impl Session {
    /// Runs a command and answers it, up to ReadyForQuery.
    pub(super) async fn command(&mut self, command: &Command, text: &str) -> Outcome {
        match command {
            Command::Begin(modes) => self.begin(modes, text).await,
            Command::Commit { chain } => self.finish_transaction(true, *chain).await,
            Command::Rollback { chain } => self.finish_transaction(false, *chain).await,
            Command::Savepoint(name) => self.savepoint(name).await,
            Command::Release(name) => self.release_savepoint(name).await,
            Command::RollbackTo(name) => self.rollback_to(name).await,
            Command::PrepareTransaction => self.prepare_transaction(text).await,
            Command::CommitPrepared | Command::RollbackPrepared => self.finish_prepared(text).await,
            Command::SetTransaction(modes) => self.set_transaction(modes, text).await,
            Command::SetCharacteristics(modes) => self.set_characteristics(modes, text).await,
            Command::Set { local, name, value } => self.set(*local, name, value.as_deref(), text).await,
            Command::Reset(name) => self.reset(name, text).await,
            Command::ResetAll => self.reset_all(text).await,
            Command::Show(name) => self.show(name, text).await,
            Command::Discard { what } => self.discard(what).await,
            Command::Prepare { name, types, body } => {
                let inner = text.get(body.clone()).unwrap_or_default();
                self.sql_prepare(name, types, inner, text).await
            }
            Command::Execute { name, arguments } => {
                if self.is_on_server(name) {
                    return self.forward(HOME, text.as_bytes()).await;
                }
                let arguments: Vec<&str> = arguments.iter().map(|r| text.get(r.clone()).unwrap_or_default()).collect();
                self.sql_execute(name, &arguments).await
            }
            Command::Deallocate(name) => self.deallocate(name.as_deref(), text).await,
            Command::Declare { name, hold, body, .. } => self.declare(name, *hold, body.clone(), text).await,
            Command::Fetch { cursor } | Command::Move { cursor } => self.on_cursor(cursor, text).await,
            Command::CloseCursor(name) => self.close_cursor(name.as_deref(), text).await,
            Command::Listen(channel) => self.listen(channel, text).await,
            Command::Unlisten(channel) => self.unlisten(channel.as_deref(), text).await,
            Command::Notify(_) => self.notify(text).await,
            Command::SetConstraints => self.on_participants(text, "SET CONSTRAINTS").await,
            _ => self.forward(HOME, text.as_bytes()).await,
        }
    }

    pub(super) fn warn(&mut self, code: crate::error::SqlState, message: &'static str) {
        backend::put_notice(&mut self.client.write, "WARNING", &Error::new(code, message));
        self.due_so_far();
    }

    async fn begin(&mut self, modes: &TransactionModes, text: &str) -> Outcome {
        let tag = if text.trim_start().get(..5).is_some_and(|w| w.eq_ignore_ascii_case("begin")) {
            "BEGIN"
        } else {
            tag_of_begin(text)
        };
        match self.backends.transaction.state {
            State::Idle | State::Implicit => {
                // Statements before it in the same Query or pipeline belong to it.
                let joined = modes_text(modes).map(|modes| format!("SET TRANSACTION{modes}"));
                if let Some(text) = joined {
                    self.on_joined(&text).await?;
                }
                self.begin_unsynced(&begin_text(modes)).await?;
                self.variables.begin();
                merge_modes(&mut self.backends.transaction.modes, modes);
                self.backends.transaction.state = State::Open;
            }
            State::Open => {
                // PostgreSQL warns, and takes the modes all the same (standard_ProcessUtility).
                self.warn(codes::ACTIVE_TRANSACTION, "there is already a transaction in progress");
                if self.backends.held.iter().any(|h| h.joined)
                    && let Some(modes) = modes_text(modes)
                {
                    self.on_joined(&format!("SET TRANSACTION{modes}")).await?;
                }
                merge_modes(&mut self.backends.transaction.modes, modes);
            }
            State::Failed => self.refuse_if_failed()?,
        }
        backend::put_command_complete(&mut self.client.write, tag);
        Ok(())
    }

    async fn finish_transaction(&mut self, commit: bool, chain: bool) -> Outcome {
        let state = self.backends.transaction.state;
        let modes = self.backends.transaction.modes.clone();
        if matches!(state, State::Idle | State::Implicit) {
            if chain {
                return Err(needs_block(if commit { "COMMIT AND CHAIN" } else { "ROLLBACK AND CHAIN" }).into());
            }
            self.warn(codes::NO_ACTIVE_TRANSACTION, "there is no transaction in progress");
        }
        let wanted = commit && state != State::Failed;
        let committed = match state {
            State::Idle if self.pipeline.is_open() => {
                self.portals.clear();
                self.end_pipeline_transaction(wanted).await?
            }
            State::Idle => wanted,
            _ => self.end_transaction(wanted).await?,
        };
        if self.several && self.backends.transaction.state == State::Idle {
            self.begin_implicit();
        }
        if chain {
            self.backends.transaction.state = State::Open;
            self.backends.transaction.modes = modes;
            self.variables.begin();
        }
        self.pipeline.fresh = true;
        let tag = if commit && (committed || state == State::Idle) { "COMMIT" } else { "ROLLBACK" };
        backend::put_command_complete(&mut self.client.write, tag);
        Ok(())
    }

    /// COMMIT or ROLLBACK on every participant, and everything that ends with the transaction; whether it committed.
    pub(super) async fn end_transaction(&mut self, commit: bool) -> Outcome<bool> {
        if commit && let Err(failure) = self.before_commit().await {
            Box::pin(self.end_transaction(false)).await?;
            return Err(failure);
        }
        let schema_changed = self.backends.transaction.schema_changed;
        let shards: Vec<ShardId> = self.backends.participants().collect();
        let ended = self.backends.end(commit).await;
        let committed = matches!(ended, Ok(true));
        if committed {
            self.variables.commit();
        } else {
            self.variables.rollback();
        }
        self.settle_listening(committed);
        self.backends.forget_transaction(!committed);
        self.portals.clear();
        self.depths.clear();
        self.cursors.retain(|_, cursor| cursor.hold && self.backends.held.iter().any(|h| h.shard == cursor.shard));
        for shard in shards {
            self.note_changes(shard);
        }
        if self.pipeline.is_open() {
            // The rest of the pipeline is a transaction of its own.
            self.variables.begin();
        }
        if committed {
            self.renew_temporary().await?;
        } else {
            self.changed_temporary().await?;
        }
        if schema_changed && committed {
            if self.has_one_shard() {
                self.backends.database.outdate();
            } else {
                self.backends.database.refresh().await?;
            }
        }
        ended.map_err(Failure::from)
    }

    async fn savepoint(&mut self, name: &str) -> Outcome {
        if self.backends.transaction.state != State::Open {
            return Err(needs_block("SAVEPOINT").into());
        }
        self.on_joined(&format!("SAVEPOINT {}", quote_identifier(name))).await?;
        self.variables.savepoint(name);
        self.listening.savepoint();
        self.backends.transaction.savepoints.push(name.to_owned());
        backend::put_command_complete(&mut self.client.write, "SAVEPOINT");
        Ok(())
    }

    fn find_savepoint(&self, name: &str) -> Result<usize, Error> {
        let savepoints = &self.backends.transaction.savepoints;
        savepoints
            .iter()
            .rposition(|s| s == name)
            .ok_or_else(|| Error::new(codes::INVALID_SAVEPOINT, format!("savepoint \"{name}\" does not exist")))
    }

    async fn release_savepoint(&mut self, name: &str) -> Outcome {
        if self.backends.transaction.state != State::Open {
            return Err(needs_block("RELEASE SAVEPOINT").into());
        }
        let at = self.find_savepoint(name)?;
        self.on_joined(&format!("RELEASE SAVEPOINT {}", quote_identifier(name))).await?;
        self.variables.release(name);
        self.listening.release(at);
        self.backends.transaction.savepoints.truncate(at);
        for depth in self.depths.values_mut() {
            *depth = at.min(*depth);
        }
        backend::put_command_complete(&mut self.client.write, "RELEASE");
        Ok(())
    }

    async fn rollback_to(&mut self, name: &str) -> Outcome {
        if !matches!(self.backends.transaction.state, State::Open | State::Failed) {
            return Err(needs_block("ROLLBACK TO SAVEPOINT").into());
        }
        let at = self.find_savepoint(name)?;
        if let Some(lost) = self.backends.held.iter().find(|h| h.joined && h.lease.dead) {
            return Err(Error::new(
                codes::CONNECTION_FAILURE,
                format!("connection to {} was lost: the transaction can only be rolled back", lost.lease.place()),
            )
            .into());
        }
        self.on_joined(&format!("ROLLBACK TO SAVEPOINT {}", quote_identifier(name))).await?;
        self.variables.rollback_to(name);
        self.listening.rollback_to(at);
        self.backends.transaction.savepoints.truncate(at + 1);
        let depths = &self.depths;
        self.portals.retain(|name, _| depths.get(name).is_none_or(|depth| *depth <= at));
        self.backends.transaction.state = State::Open;
        if self.backends.transaction.settings_changed {
            for held in &mut self.backends.held {
                held.lease.applied.forget();
            }
        }
        if self.backends.transaction.schema_changed {
            if self.has_one_shard() {
                self.note_schema_change();
            } else {
                self.renew_overlay().await?;
            }
        }
        self.changed_temporary().await?;
        backend::put_command_complete(&mut self.client.write, "ROLLBACK");
        Ok(())
    }

    /// A text of ours on every shard of the transaction; its notices are the client's.
    async fn on_joined(&mut self, text: &str) -> Outcome {
        let mut shards = Vec::new();
        for held in &mut self.backends.held {
            if held.joined {
                let answer = run_on(held, text).await?;
                held.lease.news.extend_from_slice(&answer.notices);
                shards.push(held.shard);
            }
        }
        for shard in shards {
            self.note_changes(shard);
        }
        Ok(())
    }

    async fn set_characteristics(&mut self, modes: &TransactionModes, text: &str) -> Outcome {
        let shard = self.nearest();
        self.forward(shard, text.as_bytes()).await?;
        for (name, given) in [
            ("default_transaction_isolation", modes.isolation.is_some()),
            ("default_transaction_read_only", modes.read_only.is_some()),
            ("default_transaction_deferrable", modes.deferrable.is_some()),
        ] {
            if given {
                self.keep_setting(shard, name, false).await?;
            }
        }
        Ok(())
    }

    async fn deallocate(&mut self, name: Option<&str>, text: &str) -> Outcome {
        let on_server = match name {
            Some(name) => self.is_on_server(name),
            None => self.prepared.values().any(|prepared| prepared.on_server),
        };
        if on_server {
            self.forward(HOME, text.as_bytes()).await?;
            match (name, self.backends.find(HOME)) {
                (Some(name), _) => {
                    self.prepared.remove(name.as_bytes());
                }
                (None, held) => {
                    held.into_iter().for_each(|held| held.lease.statements.clear());
                    self.prepared.retain(|name, _| name.is_empty());
                }
            }
            return Ok(());
        }
        let tag = match name {
            None => {
                self.prepared.retain(|name, _| name.is_empty());
                "DEALLOCATE ALL"
            }
            Some(name) => {
                if self.prepared.remove(name.as_bytes()).is_none() {
                    return Err(Error::new(
                        codes::INVALID_STATEMENT_NAME,
                        format!("prepared statement \"{name}\" does not exist"),
                    )
                    .into());
                }
                "DEALLOCATE"
            }
        };
        backend::put_command_complete(&mut self.client.write, tag);
        Ok(())
    }

    /// DECLARE: the cursor lives where its rows are.
    async fn declare(&mut self, name: &str, hold: bool, body: std::ops::Range<usize>, text: &str) -> Outcome {
        let inner = text.get(body.clone()).unwrap_or_default();
        if !hold && self.pipeline.is_open() && self.backends.transaction.state == State::Implicit {
            // It is a block on the servers only: they would accept the cursor.
            return Err(needs_block("DECLARE CURSOR").into());
        }
        self.scan_text(inner)?;
        let planned = self.plan_scanned(inner)?;
        let shard = match &planned.plan {
            Plan::Rows(rows) => {
                let literals = std::mem::take(&mut self.scan.literals);
                let route = self.choose(rows, &self.values(inner, &literals));
                self.scan.literals = literals;
                match route? {
                    Route::One(shard) => shard,
                    Route::Several(shards) => {
                        let exact = self.plan_text(inner, &[])?;
                        let Plan::Rows(rows) = &exact.plan else {
                            return Err(Error::internal("a statement was planned differently the second time").into());
                        };
                        let prefix = text.get(..body.start).unwrap_or_default();
                        let declared = Declared { name, hold, text, prefix, types: &[], parameters: NO_VALUES };
                        let shard = Box::pin(self.declare_scattered(&declared, &exact, rows, &shards)).await?;
                        backend::put_command_complete(&mut self.client.write, "DECLARE CURSOR");
                        self.keep_cursor(name, shard, hold);
                        return Ok(());
                    }
                    _ => return Err(Error::internal("a route was not resolved").into()),
                }
            }
            Plan::Refuse(error) | Plan::AskFirst(error) => return Err(error.clone().into()),
            _ => HOME,
        };
        self.forward(shard, text.as_bytes()).await?;
        self.keep_cursor(name, shard, hold);
        Ok(())
    }

    pub(super) fn keep_cursor(&mut self, name: &str, shard: ShardId, hold: bool) {
        if hold {
            self.note_bound(shard);
            self.pin(shard, PinReason::HoldCursor);
        }
        self.cursors.insert(name.to_owned(), Cursor { shard, hold });
    }

    /// A cursor that a function has opened is where the transaction is.
    pub(super) fn shard_of_cursor(&self, name: &str) -> ShardId {
        match (self.cursors.get(name), self.portals.get(name.as_bytes())) {
            (Some(cursor), _) => cursor.shard,
            (None, Some(Portal::Remote { shard, .. })) => *shard,
            _ => self.nearest(),
        }
    }

    async fn on_cursor(&mut self, name: &str, text: &str) -> Outcome {
        self.forward(self.shard_of_cursor(name), text.as_bytes()).await
    }

    async fn close_cursor(&mut self, name: Option<&str>, text: &str) -> Outcome {
        match name {
            Some(name) => {
                self.on_cursor(name, text).await?;
                self.cursors.remove(name);
            }
            None => {
                for held in &mut self.backends.held {
                    if held.joined || held.pinned.is_some() {
                        run_on(held, "CLOSE ALL").await?;
                    }
                }
                self.cursors.clear();
                backend::put_command_complete(&mut self.client.write, "CLOSE CURSOR ALL");
            }
        }
        Ok(())
    }
}

/// The tag that PostgreSQL gives: by the word that began the statement.
fn tag_of_begin(text: &str) -> &'static str {
    let tokens = crate::sql::lexer::tokenize(text, true).unwrap_or_default();
    let first = tokens.first().and_then(|t| text.get(t.start as usize..t.end as usize)).unwrap_or_default();
    if first.eq_ignore_ascii_case("start") { "START TRANSACTION" } else { "BEGIN" }
}
