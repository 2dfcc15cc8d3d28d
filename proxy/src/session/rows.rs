//! Statements that read or write rows: whole on one shard, or scattered.

use crate::catalog::ShardId;
use crate::error::Error;
use crate::error::Result;
use crate::error::codes;
use crate::exec::backends::Held;
use crate::exec::backends::State;
use crate::exec::backends::run_on;
use crate::exec::cache::Description;
use crate::exec::cache::Planned;
use crate::exec::cache::next_number;
use crate::exec::copy;
use crate::exec::relay::Action;
use crate::exec::relay::Relay;
use crate::exec::scatter;
use crate::exec::scatter::Execution;
use crate::plan::Count;
use crate::plan::Effect;
use crate::plan::PinReason;
use crate::plan::RowsPlan;
use crate::plan::ScatterPlan;
use crate::plan::SetConfig;
use crate::plan::Target;
use crate::plan::TellsTime;
use crate::route;
use crate::route::Param;
use crate::route::Route;
use crate::route::Values;
use crate::session::Failure;
use crate::session::HOME;
use crate::session::Outcome;
use crate::session::Session;
use crate::session::encoding::foreign_encoding;
use crate::session::measure;
use crate::session::pipeline::CHANGED_RESULT;
use crate::sql::command::Command;
use crate::sql::normalize::Literal;
use crate::value::Oid;
use crate::value::oid::FIRST_USER;
use crate::wire::Status;
use crate::wire::backend;
use crate::wire::frontend;
use bytes::BytesMut;
use std::sync::Arc;
use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering;

/// Parameter formats and values of a Bind without any.
pub const NO_VALUES: &[u8] = &[0, 0, 0, 0];

/// The session's temporary relations that a FROM clause can name.
const TEMPORARY_QUERY: &str = "SELECT relname FROM pg_catalog.pg_class \
     WHERE relnamespace = pg_catalog.pg_my_temp_schema() AND relkind IN ('r', 'v', 'm', 'p', 'f', 'S') ORDER BY oid";

static SPREAD: AtomicU16 = AtomicU16::new(0);

/// What a relayed statement told.
#[derive(Default)]
struct Told {
    error: Option<Error>,
    copy_in: bool,
    done: bool,
}

impl Session {
    pub(super) fn values<'a>(&self, text: &'a str, literals: &'a [Literal]) -> Values<'a> {
        Values { text, literals, params: &[], standard_conforming_strings: self.conforming_strings(), drawn: &[] }
    }

    /// Where a statement runs.
    pub(super) fn choose(&self, rows: &RowsPlan, values: &Values<'_>) -> Result<Route> {
        if matches!(rows.target, Target::Keys { .. }) {
            self.refuse_null_equals()?;
        }
        let write = rows.effect == Effect::Write;
        Ok(match self.backends.look(|catalog| route::shards(&rows.target, values, catalog, write))? {
            Route::Any => Route::One(match self.backends.participants().next() {
                Some(shard) => shard,
                None if self.backends.held.is_empty() => self.spread(),
                None => self.nearest(),
            }),
            Route::Home => Route::One(HOME),
            Route::Nowhere => Route::One(self.nearest()),
            route => route,
        })
    }

    /// Under transform_null_equals a server reads `key = NULL` as IS NULL; here it is what matches nothing.
    fn refuse_null_equals(&self) -> Result<()> {
        let set = self.variables.value("transform_null_equals");
        let on = set.and_then(crate::variables::text::boolean).unwrap_or(false);
        if on && self.backends.database.config.shards.len() > 1 {
            return Err(Error::unsupported(
                "statements on sharded tables under transform_null_equals are not supported",
            )
            .hint("RESET transform_null_equals, and write IS NULL."));
        }
        Ok(())
    }

    /// Reads of reference tables go round.
    fn spread(&self) -> ShardId {
        let shards = u16::try_from(self.backends.database.config.shards.len()).unwrap_or(1).max(1);
        ShardId(SPREAD.fetch_add(1, Ordering::Relaxed) % shards)
    }

    pub(super) async fn rows_simple(&mut self, planned: &Arc<Planned>, rows: &RowsPlan, values: Values<'_>) -> Outcome {
        if let Some(plan) = rows.writes.as_deref().filter(|plan| plan.always_draws()) {
            return Box::pin(self.write_simple(planned, rows, plan, values.text)).await;
        }
        match self.choose(rows, &values)? {
            Route::Several(_) if let Some(plan) = rows.writes.as_deref() => {
                Box::pin(self.write_simple(planned, rows, plan, values.text)).await
            }
            Route::One(shard) if let Some(plan) = rows.writes.as_deref().filter(|p| self.needs_moments(p, shard)) => {
                Box::pin(self.write_simple(planned, rows, plan, values.text)).await
            }
            Route::One(shard) => {
                self.whole(rows, shard, values.text).await?;
                if planned.command == Command::Schema {
                    self.changed_temporary().await?;
                }
                Ok(())
            }
            Route::Several(shards) if rows.copies.is_some() => match &rows.copies {
                Some(copies) => {
                    Box::pin(self.copy_several(copies, rows.binary_copy.as_deref(), &shards, values.text)).await
                }
                None => Err(Error::internal("a plan is gone").into()),
            },
            Route::Several(_) if rows.everyone.is_some() => Box::pin(self.everyone_text(planned, &values)).await,
            Route::Several(shards) => {
                // A plan that serves every text of its form has the shard text of the one it was made for.
                if *planned.text == *values.text {
                    Box::pin(self.scatter_simple(planned, rows, &shards)).await
                } else {
                    let exact = self.plan_text(values.text, &[])?;
                    match &exact.plan {
                        crate::plan::Plan::Rows(rows) => Box::pin(self.scatter_simple(&exact, rows, &shards)).await,
                        _ => Err(Error::internal("a statement was planned differently the second time").into()),
                    }
                }
            }
            Route::Any | Route::Home | Route::Nowhere => Err(Error::internal("a route was not resolved").into()),
        }
    }

    async fn everyone_text(&mut self, planned: &Arc<Planned>, values: &Values<'_>) -> Outcome {
        let exact = match *planned.text == *values.text {
            true => Arc::clone(planned),
            false => self.plan_text(values.text, &[])?,
        };
        match &exact.plan {
            crate::plan::Plan::Rows(RowsPlan { everyone: Some(everyone), .. }) => {
                self.everyone_simple(&exact, everyone, values).await
            }
            _ => Err(Error::internal("a statement was planned differently the second time").into()),
        }
    }

    /// What must hold before a statement may run whole on one shard.
    pub(super) async fn before_whole(&mut self, rows: &RowsPlan, shard: ShardId) -> Outcome {
        if rows.names_prepared {
            Box::pin(self.move_prepared()).await?;
        }
        if let Some(function) = &rows.reads_sequence {
            self.refuse_unknown_sequence(function, shard)?;
        }
        if rows.notifies {
            Box::pin(self.before_notify()).await?;
        }
        if rows.binary_copy.is_some() {
            Box::pin(self.before_copy(rows, shard)).await?;
        }
        let in_block = self.backends.transaction.is_block() || self.pipeline.is_open();
        if in_block && (rows.effect == Effect::Write || rows.opaque) {
            Box::pin(self.join_writers(shard)).await?;
        }
        Ok(())
    }

    /// What a session has drawn is known to the connection that drew it, which may be another session's since.
    fn refuse_unknown_sequence(&mut self, function: &str, shard: ShardId) -> Result<()> {
        let transaction = &self.backends.transaction;
        let wrote = transaction.is_block() && (transaction.drew || transaction.writers.contains(&shard));
        let keeps = self.backends.keeps_all();
        let kept = self.backends.find(shard).is_some_and(|held| keeps || held.pinned.is_some());
        if wrote || kept {
            return Ok(());
        }
        Err(Error::unsupported(format!("{function} outside the transaction that has drawn the number"))
            .hint("Use RETURNING, or read it in the same transaction."))
    }

    async fn whole(&mut self, rows: &RowsPlan, shard: ShardId, text: &str) -> Outcome {
        self.before_whole(rows, shard).await?;
        let clocked = match rows.time {
            TellsTime::No => None,
            _ => Box::pin(self.clocked(rows, shard, text)).await?,
        };
        let outcome = self.forward(shard, clocked.as_deref().unwrap_or(text).as_bytes()).await;
        self.pin_after(rows, shard);
        outcome?;
        self.after_whole(rows, shard).await
    }

    /// What may be left on the connection even of a statement that failed: a rollback gives no session lock back.
    pub(super) fn pin_after(&mut self, rows: &RowsPlan, shard: ShardId) {
        if let Some(reason) = rows.pins {
            self.pin(shard, reason);
            if reason == PinReason::TemporaryTable {
                self.own_names = next_number();
            }
        }
        // What a transaction has made on the only shard is in no catalog: what it does is not known.
        if rows.opaque || (self.backends.transaction.schema_changed && self.has_one_shard()) {
            self.pin(shard, PinReason::Opaque);
        }
    }

    /// What follows from a statement that went well.
    pub(super) async fn after_whole(&mut self, rows: &RowsPlan, shard: ShardId) -> Outcome {
        let nothing = rows.makes.temporary.is_empty() && !rows.makes.changes_schema && rows.set_config.is_empty();
        if nothing && !rows.opaque {
            return Ok(());
        }
        Box::pin(self.after_effects(rows, shard)).await
    }

    async fn after_effects(&mut self, rows: &RowsPlan, shard: ShardId) -> Outcome {
        self.temporary.extend(rows.makes.temporary.iter().cloned());
        if rows.opaque {
            self.renew_temporary().await?;
        }
        if rows.makes.changes_schema {
            let committed_later = self.pipeline.is_open() && !self.backends.transaction.is_block();
            if self.has_one_shard() && !committed_later {
                self.note_schema_change();
            } else if self.backends.transaction.is_block() {
                self.backends.transaction.schema_changed = true;
                self.renew_overlay().await?;
            } else {
                self.backends.database.refresh().await?;
            }
        }
        for set in &rows.set_config {
            self.read_back(shard, set).await?;
        }
        Ok(())
    }

    pub(super) fn pin(&mut self, shard: ShardId, reason: PinReason) {
        // With one shard there is still a pool to share: state must not reach the next client.
        if self.backends.pin(shard, reason) {
            metrics::counter!(crate::telemetry::PINS_TOTAL, "reason" => pin_name(reason)).increment(1);
        }
    }

    /// Which temporary tables there are now: rollbacks, DROP and ON COMMIT DROP take them away, and their names mean
    /// other tables then.
    pub(super) async fn renew_temporary(&mut self) -> Outcome {
        if self.temporary.is_empty() || self.backends.transaction.state == State::Failed || self.pipeline.skipping {
            return Ok(());
        }
        let mut there = Vec::new();
        if let Some(held) = self.backends.find(HOME) {
            let answer = run_on(held, TEMPORARY_QUERY).await?;
            let names = answer.rows.into_iter().flatten().flatten();
            there = names.map(|n| String::from_utf8_lossy(&n).into_owned()).collect();
        }
        if there != self.temporary {
            self.temporary = there;
            self.own_names = next_number();
        }
        Ok(())
    }

    /// What a schema change or a rollback means for temporary things: those with the same names may be others now.
    pub(super) async fn changed_temporary(&mut self) -> Outcome {
        if self.own_names != 0 {
            self.own_names = next_number();
        }
        self.renew_temporary().await
    }

    /// DISCARD has thrown all of them away. What stood under their names is planned anew.
    pub(super) fn forget_temporary(&mut self) {
        self.temporary.clear();
        self.own_names = 0;
    }

    /// `set_config` has run: its value becomes the session's.
    async fn read_back(&mut self, shard: ShardId, set: &SetConfig) -> Outcome {
        if set.local && !self.backends.transaction.is_block() {
            return Ok(());
        }
        self.keep_setting(shard, &set.name, set.local).await?;
        Ok(())
    }

    /// Sends a text to one shard and relays the answer up to, not including, ReadyForQuery.
    ///
    /// # Errors
    /// `Reported`: the server's own, which the client has.
    pub(super) async fn forward(&mut self, shard: ShardId, text: &[u8]) -> Outcome {
        if self.pipeline.executing {
            return self.forward_in_pipeline(shard, text).await;
        }
        self.forward_message(shard, |out| frontend::put_query(out, text)).await
    }

    /// Sends a message that is answered up to ReadyForQuery, and relays the answer without it.
    ///
    /// # Errors
    /// `Reported`: the server's own, which the client has.
    pub(super) async fn forward_message(&mut self, shard: ShardId, put: impl FnOnce(&mut BytesMut)) -> Outcome {
        let held = self.backends.acquire_for_statement(shard, &self.variables).await?;
        // What settling has changed is what the client knows already.
        held.lease.changed.clear();
        held.lease.broken = true;
        held.lease.before = self.before;
        put(&mut held.lease.io.write);
        let told = relay(held, &mut self.client).await;
        held.lease.before = 0;
        let told = match told {
            Ok(told) => told,
            Err(broken) => {
                held.lease.dead = true;
                return Err(broken.into());
            }
        };
        let unknown_type = std::mem::take(&mut held.lease.unknown_type);
        self.note_changes(shard);
        if unknown_type {
            self.backends.database.refresh_soon();
        }
        self.after_relay(shard, told)
    }

    fn after_relay(&mut self, shard: ShardId, told: Told) -> Outcome {
        let in_block = self.backends.transaction.is_block();
        if let Some(held) = self.backends.find(shard)
            && in_block
            && held.joined
            && held.lease.status == Status::Idle
        {
            // The server has left the block by itself (a COMMIT that we did not see as one).
            held.joined = false;
        }
        match told.error {
            None => Ok(()),
            Some(error) => {
                self.learn_from(&error);
                Err(Failure::Reported)
            }
        }
    }

    /// Counts a server's error; one that says that names are unknown may mean that our catalog is old.
    pub(super) fn learn_from(&self, error: &Error) {
        measure::count_error(error);
        let stale = [codes::UNDEFINED_TABLE, codes::UNDEFINED_COLUMN];
        if stale.contains(&error.code) || &*error.message == CHANGED_RESULT {
            self.backends.database.refresh_soon();
        }
    }

    /// What a connection has said beside its answers: notifications, and parameters that a statement of the client has
    /// changed. The client is told.
    pub(super) fn note_changes(&mut self, shard: ShardId) {
        let Some(held) = self.backends.held.iter_mut().find(|h| h.shard == shard) else { return };
        if !held.lease.news.is_empty() {
            self.client.write.extend_from_slice(&held.lease.news);
            held.lease.news.clear();
        }
        for name in std::mem::take(&mut held.lease.changed) {
            let Some(value) = held.lease.parameters.get(&name) else { continue };
            if self.reported.get(&name) != Some(value) {
                let known = self.reported.insert(name.clone(), value.clone());
                self.untold.entry(name).or_insert(known);
            }
        }
    }

    /// Limit and offset as numbers; `None` for the limit is no limit.
    ///
    /// # Errors
    /// PostgreSQL's errors for negative ones.
    pub(super) fn counts(plan: &ScatterPlan, params: &[Param<'_>]) -> Result<(Option<u64>, u64)> {
        let limit = match plan.limit {
            Some(count) => count_value(count, params, "LIMIT", codes::BAD_LIMIT)?,
            None => None,
        };
        let offset = match plan.offset {
            Some(count) => count_value(count, params, "OFFSET", codes::BAD_OFFSET)?,
            None => None,
        };
        Ok((limit, offset.unwrap_or(0)))
    }

    async fn scatter_simple(&mut self, planned: &Arc<Planned>, rows: &RowsPlan, shards: &[ShardId]) -> Outcome {
        // A statement that is wrong is not refused: what a server says about it comes first.
        let description = self.description(planned).await?;
        let plan = match &rows.scatter {
            Ok(plan) => Arc::clone(plan),
            Err(error) => return Err(error.clone().into()),
        };
        let fields = description.fields.clone().unwrap_or_default();
        let (limit, offset) = Session::counts(&plan, &[])?;
        let mut preface = BytesMut::new();
        backend::put_row_description(&mut preface, &fields);
        let formats = vec![0; fields.len()];
        let execution = Execution {
            planned,
            plan: &plan,
            text: shard_text(planned)?,
            shards,
            parameters: NO_VALUES,
            formats: &formats,
            limit,
            offset,
            keep: None,
        };
        let rows = self.run_scatter(&execution, &description, preface).await?;
        backend::put_command_complete(&mut self.client.write, &format!("SELECT {rows}"));
        Ok(())
    }

    /// Runs a scattered statement; its rows go to the client, behind `preface` (row description and the like), which is
    /// given once a shard has bound the statement.
    pub(super) async fn run_scatter(
        &mut self,
        execution: &Execution<'_>,
        description: &Description,
        preface: BytesMut,
    ) -> Outcome<u64> {
        self.ran = measure::Ran::Scatter;
        if execution.shards.len() > 1 && self.backends.transaction.state != State::Idle {
            self.serializable_over_shards().await?;
        }
        if self.is_foreign() {
            // The merge compares bytes.
            return Err(foreign_encoding().into());
        }
        let ran = scatter::run(&mut self.backends, &mut self.client, &self.variables, execution, description, preface)
            .await?;
        for &shard in execution.shards {
            if let Some(held) = self.backends.find(shard) {
                held.lease.changed.clear();
            }
            self.note_changes(shard);
        }
        match ran {
            Ok(rows) => Ok(rows),
            Err(error) => {
                self.learn_from(&error);
                if execution.keep.is_some() {
                    return Err(Failure::Error(error));
                }
                backend::put_error(&mut self.client.write, &error);
                Err(Failure::Reported)
            }
        }
    }

    pub(super) fn is_serializable(&self) -> bool {
        let level = self.backends.transaction.modes.isolation.as_deref();
        let level = level.or_else(|| self.variables.get("default_transaction_isolation"));
        level.is_some_and(|l| l.eq_ignore_ascii_case("serializable"))
    }

    /// A statement reads several shards: a serializable transaction may, if this is its first and it writes nothing.
    ///
    /// # Errors
    /// 0A000 if it has begun on one shard, or is none that the shards share; as [`Backends::take_at_one_moment`](crate::exec::backends::Backends).
    pub(super) async fn serializable_over_shards(&mut self) -> Outcome {
        let transaction = &self.backends.transaction;
        if !self.is_serializable() || transaction.one_moment {
            return Ok(());
        }
        let has_begun = transaction.snapshot.is_some() || !transaction.writers.is_empty();
        if has_begun || transaction.state == State::Idle {
            return Err(refused_serializable().into());
        }
        Ok(self.backends.take_at_one_moment(&self.variables).await?)
    }

    /// Parameter types and columns of the client's text, as a server gives them; asked once for each plan.
    pub(super) async fn description(&mut self, planned: &Arc<Planned>) -> Outcome<Arc<Description>> {
        if let Some(description) = planned.description.get() {
            return Ok(Arc::clone(description));
        }
        let shard = self.describing_shard(planned);
        let described = self.ask(shard, planned.number, &planned.text, &planned.declared).await?;
        Ok(Arc::clone(planned.description.get_or_init(|| Arc::new(described))))
    }

    /// Asks a server for a statement's parameter types and columns. In a pipeline the replies owed are given first.
    ///
    /// # Errors
    /// What the server says of the text.
    pub(super) async fn ask(&mut self, shard: ShardId, number: u64, text: &str, types: &[Oid]) -> Outcome<Description> {
        self.drain(false).await?;
        let described = self.ask_once(shard, number, text, types).await;
        match &described {
            Ok(description) if self.knows_types(description) => return described,
            Err(_) if !self.backends.find(shard).is_some_and(|held| held.lease.unknown_type) => return described,
            _ => {}
        }
        // A type that the catalog does not have may have been made since it was read.
        Box::pin(self.learn_types()).await;
        self.ask_once(shard, number, text, types).await
    }

    async fn ask_once(&mut self, shard: ShardId, number: u64, text: &str, types: &[Oid]) -> Outcome<Description> {
        let transaction = &self.backends.transaction;
        let (is_first, clock) = (transaction.snapshot.is_none() && transaction.writers.is_empty(), transaction.clock);
        let is_held = self.backends.find(shard).is_some();
        let held = self.backends.acquire_for_statement(shard, &self.variables).await?;
        let described = scatter::describe(held, number, text.as_bytes(), types).await;
        self.note_changes(shard);
        let described = described?;
        // The description has taken one shard's snapshot, before it is known whether all are to be of one moment.
        if is_first && !is_held && self.backends.transaction.snapshot.is_some() && self.is_serializable() {
            self.backends.part(shard).await?;
            self.backends.transaction.clock = clock;
        }
        Ok(described)
    }

    /// Whether the catalog has all types of a description, where that matters.
    fn knows_types(&self, description: &Description) -> bool {
        let columns = description.fields.iter().flatten().map(|f| f.type_oid);
        let mut own = columns.chain(description.params.iter().copied()).filter(|oid| *oid >= FIRST_USER).peekable();
        if own.peek().is_none() || self.backends.database.config.shards.len() == 1 {
            return true;
        }
        let catalog = &self.snapshot().catalog;
        own.all(|oid| catalog.user_types.contains(&oid))
    }

    async fn learn_types(&mut self) {
        if self.backends.transaction.overlay.is_none()
            && let Err(error) = self.backends.database.refresh_if_old().await
        {
            tracing::warn!(%error, "catalog not read");
        }
    }

    /// Any shard that has the tables can describe a statement: where a single table is, if there is one.
    fn describing_shard(&self, planned: &Planned) -> ShardId {
        match &planned.plan {
            crate::plan::Plan::Rows(rows) => match &rows.target {
                crate::plan::Target::Shard(shard) => *shard,
                crate::plan::Target::Home => HOME,
                crate::plan::Target::Keys { also, .. } => also.first().copied().unwrap_or_else(|| self.nearest()),
                crate::plan::Target::Any | crate::plan::Target::All => self.nearest(),
            },
            _ => HOME,
        }
    }
}

fn count_value(count: Count, params: &[Param<'_>], word: &str, code: crate::error::SqlState) -> Result<Option<u64>> {
    let number = match count {
        Count::Rows(n) => return Ok(Some(n)),
        Count::Param(n) => match params.get(n.saturating_sub(1)) {
            Some(param) => match param.value {
                None => return Ok(None),
                Some(bytes) if param.format == 1 => match bytes.len() {
                    8 => bytes.first_chunk::<8>().map(|b| i64::from_be_bytes(*b)),
                    4 => bytes.first_chunk::<4>().map(|b| i64::from(i32::from_be_bytes(*b))),
                    2 => bytes.first_chunk::<2>().map(|b| i64::from(i16::from_be_bytes(*b))),
                    _ => None,
                },
                Some(bytes) => std::str::from_utf8(bytes).ok().and_then(|t| t.trim().parse::<i64>().ok()),
            },
            None => None,
        },
    };
    match number {
        Some(n) if n < 0 => Err(Error::new(code, format!("{word} must not be negative"))),
        Some(n) => Ok(Some(n.unsigned_abs())),
        None => Err(Error::unsupported(format!("the value of {word} could not be read")).hint("Give it as a bigint.")),
    }
}

/// Relays the answer to a simple Query, COPY included; ReadyForQuery is kept back.
async fn relay(
    held: &mut Held,
    client: &mut crate::net::Connection,
) -> std::result::Result<Told, crate::exec::relay::Broken> {
    let mut told = Told::default();
    let mut relay = Relay::default();
    loop {
        relay
            .run(&mut held.lease, client, |server, tag, body| {
                Ok(match tag {
                    backend::ROW_DESCRIPTION if server.differing().is_some() => {
                        // A cursor may be binary.
                        server.rows = server.row_numbers_of(body)?;
                        Action::Forward
                    }
                    backend::READY => {
                        server.note_ready(body)?;
                        server.rows = None;
                        told.done = true;
                        Action::SwallowStop
                    }
                    backend::ERROR => {
                        let error = server.relayed_error(body)?;
                        told.error.get_or_insert(error);
                        Action::Forward
                    }
                    backend::PARAMETER_STATUS => {
                        server.note_parameter(body);
                        Action::Swallow
                    }
                    backend::COPY_IN => {
                        told.copy_in = true;
                        Action::ForwardStop
                    }
                    _ => Action::Forward,
                })
            })
            .await?;
        if told.done {
            return Ok(told);
        }
        if std::mem::take(&mut told.copy_in) {
            copy::copy_in(&mut held.lease, client).await?;
        }
    }
}

/// A reason as metrics and the console name it.
pub fn pin_name(reason: PinReason) -> &'static str {
    match reason {
        PinReason::TemporaryTable => "temporary table",
        PinReason::Listen => "listen",
        PinReason::AdvisoryLock => "advisory lock",
        PinReason::HoldCursor => "holdable cursor",
        PinReason::Opaque => "opaque function",
        PinReason::SequenceState => "sequence",
    }
}

/// The text for the shards.
pub fn shard_text(planned: &Planned) -> Result<&str> {
    planned.shard_text.as_deref().ok_or_else(|| Error::internal("a scattered statement without a text for the shards"))
}

/// Serializable transactions of several servers are not serializable together.
pub(super) fn refused_serializable() -> Error {
    Error::unsupported("a serializable transaction over several shards that writes, or begins on one of them")
        .hint("Use REPEATABLE READ, or keep the transaction to one shard key.")
}
