//! The extended protocol: a pipeline of Parse, Bind, Describe, Execute and Close up to Sync.
//!
//! Messages for one shard are gathered and sent in one write; what we answer ourselves waits in the same queue of
//! owed replies, so that the client's replies keep their order. When the shard changes, the queue is emptied first.

use crate::catalog::ShardId;
use crate::error::Error;
use crate::error::codes;
use crate::exec::backends::State;
use crate::exec::backends::run_on;
use crate::exec::cache::Description;
use crate::exec::cache::Planned;
use crate::exec::copy;
use crate::exec::relay::Action;
use crate::exec::relay::Relay;
use crate::exec::scatter;
use crate::exec::scatter::Execution;
use crate::exec::scatter::statement_name;
use crate::limits;
use crate::plan::Plan;
use crate::plan::RowsPlan;
use crate::plan::ScatterPlan;
use crate::route::Param;
use crate::route::Route;
use crate::route::Values;
use crate::session::Failure;
use crate::session::Outcome;
use crate::session::Session;
use crate::session::measure;
use crate::session::prepared::Prepared;
use crate::session::rows::shard_text;
use crate::session::simple::ends_transaction;
use crate::sql::command::Command;
use crate::wire::Tag;
use crate::wire::backend;
use crate::wire::frontend;
use crate::wire::frontend::Bind;
use crate::wire::frontend::Execute;
use crate::wire::frontend::Object;
use crate::wire::frontend::Parse;
use bytes::Bytes;
use bytes::BytesMut;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// A reply that the client is owed, in its order.
#[derive(Debug)]
pub enum Owed {
    /// ParseComplete of a statement that we prepared: not the client's.
    Parse(u64),
    /// CloseComplete of a statement that we evicted: not the client's.
    Close(u64),
    /// BindComplete, the client's.
    Bind,
    /// BindComplete of our own.
    OwnBind,
    /// RowDescription or NoData.
    Describe,
    /// RowDescription; NoData is not passed on (EXECUTE in a simple Query).
    DescribeRows,
    /// The rows and the end of an Execute.
    Execute(Option<Arc<Planned>>),
    /// CloseComplete of a portal, the client's.
    ClosePortal,
    /// Made here.
    Local(Bytes),
}

/// The messages since the last Sync.
#[derive(Debug, Default)]
pub struct Pipeline {
    target: Option<ShardId>,
    owed: VecDeque<Owed>,
    /// After an error, up to Sync.
    pub skipping: bool,
    /// Something came since the last Sync.
    open: bool,
    /// The shard whose server has reported the error.
    failed: Option<ShardId>,
    /// Rows are described by Describe only.
    pub executing: bool,
    /// Replies of a portal over several shards, which are given when its shards have bound it: until then an error
    /// may come in their place.
    kept: BytesMut,
}

impl Pipeline {
    pub fn is_open(&self) -> bool {
        self.open
    }
}

/// What a portal runs.
pub enum Portal {
    /// It lives on a shard, under the client's name.
    Remote { shard: ShardId, planned: Arc<Planned> },
    Scatter(Box<ScatterPortal>),
    /// The session runs it when it is executed.
    Local { prepared: Arc<Prepared>, done: bool },
}

pub struct ScatterPortal {
    planned: Arc<Planned>,
    plan: Arc<ScatterPlan>,
    description: Arc<Description>,
    shards: Vec<ShardId>,
    parameters: Bytes,
    formats: Vec<i16>,
    limit: Option<u64>,
    offset: u64,
    done: bool,
}

/// How a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drained {
    /// ReadyForQuery came.
    Ready,
    /// Everything owed came; the pipeline goes on.
    Open,
}

impl Session {
    pub(super) async fn extended(&mut self, tag: Tag, body: &[u8]) -> Outcome {
        let outcome = match tag {
            frontend::SYNC => return self.sync().await,
            frontend::PARSE => self.parse(body).await,
            frontend::BIND => self.bind(body).await,
            frontend::DESCRIBE => self.describe_object(body).await,
            frontend::EXECUTE => self.execute(body).await,
            frontend::CLOSE => self.close_object(body).await,
            _ => self.flush_pipeline().await,
        };
        self.pipeline.open = true;
        match outcome {
            Ok(()) => Ok(()),
            Err(Failure::Error(error)) => self.fail_pipeline(&error).await,
            Err(Failure::Reported) => {
                self.fail_transaction();
                self.pipeline.skipping = true;
                Ok(())
            }
            Err(other) => Err(other),
        }
    }

    /// An error of ours comes after the replies that are owed already; one of those may be an error itself, which
    /// then is the only one.
    async fn fail_pipeline(&mut self, error: &Error) -> Outcome {
        match self.drain(false).await {
            Ok(_) => self.report(error),
            Err(Failure::Error(_) | Failure::Reported) => {}
            Err(other) => return Err(other),
        }
        self.pipeline.owed.clear();
        self.fail_transaction();
        self.pipeline.skipping = true;
        Ok(())
    }

    fn reply(&mut self, fill: impl FnOnce(&mut BytesMut)) {
        if !self.pipeline.kept.is_empty() {
            fill(&mut self.pipeline.kept);
        } else if self.pipeline.owed.is_empty() {
            fill(&mut self.client.write);
        } else {
            let mut bytes = BytesMut::new();
            fill(&mut bytes);
            self.pipeline.owed.push_back(Owed::Local(bytes.freeze()));
        }
    }

    async fn flush_pipeline(&mut self) -> Outcome {
        self.drain(false).await?;
        self.client.flush().await.map_err(|_| Failure::Gone)
    }

    async fn parse(&mut self, body: &[u8]) -> Outcome {
        let Parse { name, text, types } = Parse::decode(body)?;
        let text = std::str::from_utf8(text)
            .map_err(|_| Error::new(codes::CHARACTER_NOT_IN_REPERTOIRE, "invalid byte sequence for encoding \"UTF8\""))?;
        if name.is_empty() {
            self.prepared.remove(name);
        } else {
            self.refuse_duplicate(name)?;
        }
        self.scan_text(text)?;
        if self.scan.more_at.is_some() && crate::sql::lexer::split(text, self.conforming_strings())?.len() > 1 {
            return Err(Error::new(codes::SYNTAX_ERROR, "cannot insert multiple commands into a prepared statement").into());
        }
        let planned = self.plan_text(text, &types)?;
        if !ends_transaction(&planned.command) && planned.command != Command::Empty {
            self.refuse_if_failed()?;
        }
        if planned.description.get().is_none() && matches!(planned.plan, Plan::Rows(_) | Plan::Explain(_)) {
            // A server will be asked: what is owed comes first.
            self.drain(false).await?;
        }
        let prepared = self.prepare(text, &types).await?;
        self.keep_prepared(name, prepared)?;
        self.reply(|out| backend::put_bare(out, backend::PARSE_COMPLETE));
        if !self.pipeline.open {
            // Nothing is open yet: a connection that only described goes back.
            self.end_statement().await;
        }
        Ok(())
    }

    async fn bind(&mut self, body: &[u8]) -> Outcome {
        let bind = Bind::decode(body)?;
        let prepared = self.find_prepared(bind.statement).await?;
        if !ends_transaction(&prepared.planned.command) && prepared.planned.command != Command::Empty {
            self.refuse_if_failed()?;
        }
        check_counts(&bind, &prepared)?;
        if !bind.portal.is_empty() && self.portals.contains_key(bind.portal) {
            let name = String::from_utf8_lossy(bind.portal);
            return Err(Error::new(codes::DUPLICATE_CURSOR, format!("cursor \"{name}\" already exists")).into());
        }
        let params = typed_params(&bind, &prepared);
        let portal = match &prepared.planned.plan {
            Plan::Rows(rows) => {
                let planned = Arc::clone(&prepared.planned);
                match self.place(rows, &prepared.text, &params)? {
                    Route::Several(shards) => self.bind_scatter(&bind, rows, &prepared, shards, &params)?,
                    Route::One(shard) => {
                        self.before_whole(rows, shard)?;
                        self.bind_remote(shard, &planned, bind.portal, bind.tail, Owed::Bind).await?;
                        Portal::Remote { shard, planned }
                    }
                    _ => return Err(Error::internal("a route was not resolved").into()),
                }
            }
            Plan::Explain(explain) => match self.place(&explain.inner, prepared.text.get(explain.body..).unwrap_or_default(), &params)? {
                Route::One(shard) => {
                    let planned = Arc::clone(&prepared.planned);
                    self.bind_remote(shard, &planned, bind.portal, bind.tail, Owed::Bind).await?;
                    Portal::Remote { shard, planned }
                }
                _ if params.is_empty() => Portal::Local { prepared: Arc::clone(&prepared), done: false },
                _ => {
                    return Err(Error::unsupported("EXPLAIN of a scattered statement with parameters is not supported yet")
                        .hint("Write the values into the statement.")
                        .into());
                }
            },
            _ => Portal::Local { prepared: Arc::clone(&prepared), done: false },
        };
        match &portal {
            Portal::Remote { .. } => {}
            Portal::Local { .. } => self.reply(|out| backend::put_bare(out, backend::BIND_COMPLETE)),
            Portal::Scatter(_) => {
                self.drain(false).await?;
                backend::put_bare(&mut self.pipeline.kept, backend::BIND_COMPLETE);
            }
        }
        self.portals.insert(bind.portal.to_vec(), portal);
        Ok(())
    }

    fn place(&mut self, rows: &RowsPlan, text: &str, params: &[Param<'_>]) -> Outcome<Route> {
        self.scan_text(text)?;
        let literals = std::mem::take(&mut self.scan.literals);
        let values = Values {
            text,
            literals: &literals,
            params,
            standard_conforming_strings: self.conforming_strings(),
        };
        let route = self.choose(rows, &values);
        self.scan.literals = literals;
        Ok(route?)
    }

    /// Adds a Bind for a shard to the pipeline, and a Parse before it where the server does not know the statement.
    pub(super) async fn bind_remote(
        &mut self,
        shard: ShardId,
        planned: &Arc<Planned>,
        portal: &[u8],
        tail: &[u8],
        owed: Owed,
    ) -> Outcome {
        if self.pipeline.target != Some(shard) {
            self.drain(false).await?;
            self.pipeline.target = Some(shard);
        }
        let params = planned.description.get().map(|d| d.params.clone()).unwrap_or_default();
        let held = self.backends.acquire(shard, &self.variables).await?;
        held.unsynced = true;
        held.lease.broken = true;
        if scatter::prepare(&mut held.lease, planned.number, planned.text.as_bytes(), &params) {
            self.pipeline.owed.push_back(Owed::Parse(planned.number));
            for number in scatter::evict(&mut held.lease) {
                self.pipeline.owed.push_back(Owed::Close(number));
            }
        }
        frontend::put_bind(&mut held.lease.io.write, portal, statement_name(planned.number).as_bytes(), tail);
        self.pipeline.owed.push_back(owed);
        Ok(())
    }

    fn bind_scatter(
        &mut self,
        bind: &Bind<'_>,
        rows: &RowsPlan,
        prepared: &Prepared,
        shards: Vec<ShardId>,
        params: &[Param<'_>],
    ) -> Outcome<Portal> {
        let plan = match &rows.scatter {
            Ok(plan) => Arc::clone(plan),
            Err(error) => return Err(error.clone().into()),
        };
        let description =
            prepared.description.clone().ok_or_else(|| Error::internal("a scattered statement was not described"))?;
        let columns = description.fields.as_ref().map_or(0, Vec::len);
        let given = bind.result_format_count();
        if given > 1 && given != columns {
            return Err(Error::protocol_error(format!(
                "bind message has {given} result formats but query has {columns} columns"
            ))
            .into());
        }
        let formats = (0..columns).map(|i| bind.result_format(i)).collect();
        let (limit, offset) = Session::counts(&plan, params)?;
        // The tail without its result formats: those of the shards' columns take their place.
        let keep = bind.tail.len() - 2 - 2 * given;
        Ok(Portal::Scatter(Box::new(ScatterPortal {
            planned: Arc::clone(&prepared.planned),
            plan,
            description,
            shards,
            parameters: Bytes::copy_from_slice(bind.tail.get(..keep).unwrap_or_default()),
            formats,
            limit,
            offset,
            done: false,
        })))
    }

    async fn describe_object(&mut self, body: &[u8]) -> Outcome {
        match frontend::object(body)? {
            Object::Statement(name) => {
                let prepared = self.find_prepared(name).await?;
                self.refuse_if_failed_for_rows(prepared.description.as_deref())?;
                let (params, fields) = match prepared.description.as_deref() {
                    Some(d) => (d.params.clone(), d.fields.clone()),
                    None => (Vec::new(), None),
                };
                self.reply(|out| {
                    backend::put_parameter_description(out, &params);
                    match fields {
                        Some(fields) => backend::put_row_description(out, &fields),
                        None => backend::put_bare(out, backend::NO_DATA),
                    }
                });
            }
            Object::Portal(name) => {
                let shard = match self.portals.get(name) {
                    None => Some(self.cursor_shard(name).ok_or_else(|| no_portal(name))?),
                    Some(Portal::Remote { shard, .. }) => Some(*shard),
                    Some(_) => None,
                };
                match shard {
                    Some(shard) => {
                        self.aim(shard).await?;
                        if let Some(held) = self.backends.find(shard) {
                            frontend::put_describe_portal(&mut held.lease.io.write, name);
                            held.unsynced = true;
                            held.lease.broken = true;
                        }
                        self.pipeline.owed.push_back(Owed::Describe);
                    }
                    None => self.describe_local_portal(name),
                }
            }
        }
        Ok(())
    }

    /// A cursor of DECLARE is a portal too.
    fn cursor_shard(&self, name: &[u8]) -> Option<ShardId> {
        self.cursors.get(std::str::from_utf8(name).ok()?).copied()
    }

    fn refuse_if_failed_for_rows(&self, description: Option<&Description>) -> Outcome {
        if description.is_some_and(|d| d.fields.is_some()) {
            self.refuse_if_failed()?;
        }
        Ok(())
    }

    fn describe_local_portal(&mut self, name: &[u8]) {
        let fields = match self.portals.get(name) {
            Some(Portal::Scatter(portal)) => portal.description.fields.as_ref().map(|fields| {
                let with_format = |(f, &format): (&backend::Field, &i16)| backend::Field { format, ..f.clone() };
                fields.iter().zip(&portal.formats).map(with_format).collect::<Vec<_>>()
            }),
            Some(Portal::Local { prepared, .. }) => prepared.description.as_ref().and_then(|d| d.fields.clone()),
            _ => None,
        };
        self.reply(|out| match fields {
            Some(fields) => backend::put_row_description(out, &fields),
            None => backend::put_bare(out, backend::NO_DATA),
        });
    }

    /// The next messages are for this shard: what is owed by another comes first.
    async fn aim(&mut self, shard: ShardId) -> Outcome {
        if self.pipeline.target != Some(shard) {
            self.drain(false).await?;
            self.pipeline.target = Some(shard);
        }
        Ok(())
    }

    async fn execute(&mut self, body: &[u8]) -> Outcome {
        let Execute { portal: name, max_rows } = Execute::decode(body)?;
        match self.portals.get_mut(name) {
            None => {
                let shard = self.cursor_shard(name).ok_or_else(|| no_portal(name))?;
                self.execute_remote(shard, None, name, max_rows).await
            }
            Some(Portal::Remote { shard, planned }) => {
                let (shard, planned) = (*shard, Arc::clone(planned));
                self.execute_remote(shard, Some(planned), name, max_rows).await
            }
            Some(Portal::Scatter(_)) => self.execute_scatter(name, max_rows).await,
            Some(Portal::Local { prepared, done }) => {
                let prepared = Arc::clone(prepared);
                if std::mem::replace(done, true) {
                    let name = String::from_utf8_lossy(name).into_owned();
                    return Err(Error::new(
                        crate::error::SqlState::new(b"55000"),
                        format!("portal \"{name}\" cannot be run"),
                    )
                    .into());
                }
                self.drain(false).await?;
                self.pipeline.executing = true;
                let started = Instant::now();
                let outcome = self.execute_local(&prepared).await;
                self.pipeline.executing = false;
                measure::count_statement(&prepared.planned.plan, outcome.is_ok(), started.elapsed());
                outcome
            }
        }
    }

    async fn execute_remote(&mut self, shard: ShardId, planned: Option<Arc<Planned>>, name: &[u8], max_rows: i32) -> Outcome {
        self.aim(shard).await?;
        let held = self.backends.acquire(shard, &self.variables).await?;
        held.unsynced = true;
        held.lease.broken = true;
        frontend::put_execute(&mut held.lease.io.write, name, max_rows);
        let full = held.lease.io.write.len() > 8 * limits::WRITE_BURST_BYTES;
        self.pipeline.owed.push_back(Owed::Execute(planned));
        if full {
            // A pipeline without end must not be kept in memory.
            self.drain(false).await?;
        }
        Ok(())
    }

    async fn execute_local(&mut self, prepared: &Prepared) -> Outcome {
        let planned = &prepared.planned;
        if planned.command == Command::Empty {
            backend::put_bare(&mut self.client.write, backend::EMPTY_QUERY);
            return Ok(());
        }
        match &planned.plan {
            Plan::Session => self.command(&planned.command, &planned.text).await,
            Plan::Everywhere(everywhere) => self.everywhere(everywhere, &planned.text).await,
            Plan::Explain(explain) => {
                self.scan_text(&planned.text)?;
                self.explain_simple(planned, explain, &planned.text).await
            }
            _ => Err(Error::internal("a portal that cannot be run here").into()),
        }
    }

    async fn execute_scatter(&mut self, name: &[u8], max_rows: i32) -> Outcome {
        let preface = std::mem::take(&mut self.pipeline.kept);
        self.drain(false).await?;
        if max_rows != 0 {
            return Err(Error::unsupported("a row limit on a portal over several shards is not supported yet")
                .hint("Fetch all rows, or add LIMIT to the query.")
                .into());
        }
        let Some(Portal::Scatter(mut portal)) = self.portals.remove(name) else { return Err(no_portal(name).into()) };
        let mut rows = 0;
        if !portal.done {
            let started = Instant::now();
            let execution = Execution {
                planned: &portal.planned,
                plan: &portal.plan,
                text: shard_text(&portal.planned)?,
                shards: &portal.shards,
                parameters: &portal.parameters,
                formats: &portal.formats,
                limit: portal.limit,
                offset: portal.offset,
            };
            let ran = self.run_scatter(&execution, &portal.description, preface).await;
            measure::count_statement(&portal.planned.plan, ran.is_ok(), started.elapsed());
            rows = ran?;
        } else {
            self.client.write.extend_from_slice(&preface);
        }
        portal.done = true;
        self.portals.insert(name.to_vec(), Portal::Scatter(portal));
        backend::put_command_complete(&mut self.client.write, &format!("SELECT {rows}"));
        Ok(())
    }

    async fn close_object(&mut self, body: &[u8]) -> Outcome {
        match frontend::object(body)? {
            Object::Statement(name) => {
                self.prepared.remove(name);
            }
            Object::Portal(name) => {
                let shard = match self.portals.remove(name) {
                    Some(Portal::Remote { shard, .. }) => Some(shard),
                    Some(_) => None,
                    None => self.cursor_shard(name),
                };
                self.cursors.retain(|cursor, _| cursor.as_bytes() != name);
                if let Some(shard) = shard {
                    self.aim(shard).await?;
                    if let Some(held) = self.backends.find(shard) {
                        frontend::frame(&mut held.lease.io.write, frontend::CLOSE, |b| b.extend_from_slice(body));
                        held.unsynced = true;
                        held.lease.broken = true;
                        self.pipeline.owed.push_back(Owed::ClosePortal);
                        return Ok(());
                    }
                }
            }
        }
        self.reply(|out| backend::put_bare(out, backend::CLOSE_COMPLETE));
        Ok(())
    }

    /// Sync: the implicit transaction of the pipeline ends.
    async fn sync(&mut self) -> Outcome {
        if self.end_pipeline().await? {
            self.pipeline.open = false;
            self.end_statement().await;
            backend::put_ready(&mut self.client.write, self.backends.transaction.status());
        }
        Ok(())
    }

    /// A Query message in the middle of a pipeline ends it too, without a ReadyForQuery of its own. False when an error
    /// came to light: then the Query is skipped like everything up to Sync.
    pub(super) async fn sync_before_query(&mut self) -> Outcome<bool> {
        if !self.pipeline.open {
            return Ok(true);
        }
        match self.drain(false).await {
            Ok(_) => {}
            Err(Failure::Error(error)) => self.fail_pipeline(&error).await?,
            Err(Failure::Reported) => {
                self.fail_transaction();
                self.pipeline.skipping = true;
            }
            Err(other) => return Err(other),
        }
        if self.pipeline.skipping {
            self.client.flush().await.map_err(|_| Failure::Gone)?;
            return Ok(false);
        }
        self.end_pipeline().await?;
        self.pipeline.open = false;
        self.end_statement().await;
        Ok(true)
    }

    /// Sends Sync to every server connection that is in the pipeline, the writer first. False when the Sync was the
    /// one that a copy swallows.
    async fn end_pipeline(&mut self) -> Outcome<bool> {
        let failed = std::mem::take(&mut self.pipeline.skipping);
        if failed {
            self.pipeline.owed.clear();
            self.end_unsynced(false).await;
            self.pipeline.failed = None;
            self.pipeline.target = None;
            return Ok(true);
        }
        let unsynced = self.backends.held.iter().filter(|h| h.unsynced).count();
        let alone = unsynced <= 1;
        let drained = self.drain(alone).await;
        match drained {
            Ok(Drained::Ready) => {}
            Ok(Drained::Open) if alone && unsynced == 1 && self.pipeline.target.is_some() => return Ok(false),
            Ok(Drained::Open) => {
                if !self.end_unsynced(true).await {
                    self.fail_transaction();
                }
            }
            Err(Failure::Reported) => {
                self.fail_transaction();
                self.end_unsynced(false).await;
            }
            Err(Failure::Error(error)) => {
                self.report(&error);
                self.fail_transaction();
                self.end_unsynced(false).await;
            }
            Err(other) => return Err(other),
        }
        self.pipeline.skipping = false;
        self.pipeline.failed = None;
        self.pipeline.target = None;
        Ok(true)
    }

    /// Sync on every connection that is in the middle of a pipeline. To roll an implicit transaction back it is made
    /// to fail first: a bare Sync would commit it.
    async fn end_unsynced(&mut self, mut commit: bool) -> bool {
        let writer = self.backends.transaction.writer;
        let mut all = commit;
        self.backends.held.sort_by_key(|h| (Some(h.shard) != writer, h.shard));
        for held in &mut self.backends.held {
            if !held.unsynced {
                continue;
            }
            let poison = !commit && !held.joined && self.pipeline.failed != Some(held.shard);
            if poison {
                frontend::put_parse(&mut held.lease.io.write, b"", b"rollback of a failed pipeline", &[]);
            }
            frontend::put_empty(&mut held.lease.io.write, frontend::SYNC);
            match held.lease.answer(backend::READY).await {
                Ok(_) => {}
                Err(_) if poison || !commit => {}
                Err(error) => {
                    backend::put_error(&mut self.client.write, &error);
                    commit = false;
                    all = false;
                }
            }
            held.unsynced = false;
        }
        all
    }

    /// COMMIT or ROLLBACK inside a pipeline without BEGIN: ends the implicit transaction so far.
    pub(super) async fn end_pipeline_transaction(&mut self, commit: bool) -> Outcome<bool> {
        for held in &mut self.backends.held {
            if held.unsynced {
                run_on(held, if commit { "COMMIT" } else { "ROLLBACK" }).await?;
            }
        }
        self.backends.transaction.writer = None;
        Ok(commit)
    }

    /// Sends what waits for the target shard and relays its replies, until everything owed has come.
    async fn drain(&mut self, sync: bool) -> Outcome<Drained> {
        let drained = self.drain_owed(sync).await;
        if drained.is_ok() {
            let kept = std::mem::take(&mut self.pipeline.kept);
            self.client.write.extend_from_slice(&kept);
        } else {
            self.pipeline.kept.clear();
        }
        drained
    }

    async fn drain_owed(&mut self, sync: bool) -> Outcome<Drained> {
        let Some(shard) = self.pipeline.target else {
            self.give_locals();
            return Ok(Drained::Open);
        };
        if !sync && self.pipeline.owed.iter().all(|o| matches!(o, Owed::Local(_))) {
            self.give_locals();
            return Ok(Drained::Open);
        }
        let mut executed = Vec::new();
        let outcome = self.relay_pipeline(shard, sync, &mut executed).await;
        let planned_changes = std::mem::take(&mut executed);
        self.note_changes(shard);
        let drained = outcome?;
        for planned in planned_changes {
            if let Plan::Rows(rows) = &planned.plan {
                self.after_whole(rows, shard).await?;
            }
        }
        Ok(drained)
    }

    fn give_locals(&mut self) {
        while let Some(Owed::Local(bytes)) = self.pipeline.owed.front() {
            self.client.write.extend_from_slice(bytes);
            self.pipeline.owed.pop_front();
        }
    }

    async fn relay_pipeline(&mut self, shard: ShardId, sync: bool, executed: &mut Vec<Arc<Planned>>) -> Outcome<Drained> {
        let Some(held) = self.backends.held.iter_mut().find(|h| h.shard == shard) else {
            return Err(Error::internal("a lease is gone").into());
        };
        held.lease.changed.clear();
        frontend::put_empty(&mut held.lease.io.write, if sync { frontend::SYNC } else { frontend::FLUSH });
        held.lease.broken = true;
        let owed = &mut self.pipeline.owed;
        let client = &mut self.client;
        let mut relay = Relay::default();
        let mut waiting = sync;
        let mut swallowed = false;
        let mut failure: Option<Error> = None;
        loop {
            while let Some(Owed::Local(bytes)) = owed.front() {
                client.write.extend_from_slice(bytes);
                owed.pop_front();
            }
            if owed.is_empty() && !waiting {
                break;
            }
            let mut copying = false;
            let ran = relay
                .run(&mut held.lease, client, |server, tag, body| {
                    let action = match tag {
                        backend::READY => {
                            server.note_ready(body)?;
                            waiting = false;
                            return Ok(Action::SwallowStop);
                        }
                        backend::ERROR => {
                            forget_unprepared(server, owed);
                            owed.clear();
                            failure.get_or_insert(backend::error(body));
                            return Ok(if waiting { Action::Forward } else { Action::ForwardStop });
                        }
                        backend::PARAMETER_STATUS => {
                            server.note_parameter(body);
                            return Ok(Action::Swallow);
                        }
                        backend::NOTICE | backend::NOTIFICATION | backend::COPY_OUT | backend::COPY_DONE => {
                            return Ok(Action::Forward);
                        }
                        backend::COPY_IN => {
                            copying = true;
                            return Ok(Action::ForwardStop);
                        }
                        _ => answer_to(owed.pop_front(), tag, executed)?,
                    };
                    let stop = match owed.front() {
                        Some(Owed::Local(_)) => true,
                        Some(_) => false,
                        None => !waiting,
                    };
                    Ok(match (action, stop) {
                        (Action::Forward, true) => Action::ForwardStop,
                        (Action::Swallow, true) => Action::SwallowStop,
                        (action, _) => action,
                    })
                })
                .await;
            if let Err(broken) = ran {
                held.lease.dead = true;
                held.unsynced = false;
                owed.clear();
                return Err(broken.into());
            }
            if failure.is_some() && !waiting {
                break;
            }
            if copying {
                // A Sync that came before the data is swallowed by the server.
                swallowed = waiting;
                waiting = false;
                copy::copy_in(&mut held.lease, client).await?;
            }
        }
        if let Some(error) = failure {
            if sync && !swallowed {
                held.unsynced = false;
            } else {
                self.pipeline.failed = Some(shard);
            }
            self.learn_from(&error);
            return Err(Failure::Reported);
        }
        let ready = sync && !swallowed;
        if ready {
            held.unsynced = false;
        }
        Ok(if ready { Drained::Ready } else { Drained::Open })
    }

    /// EXECUTE name (arguments).
    pub(super) async fn sql_execute(&mut self, name: &str, arguments: &[&str]) -> Outcome {
        let prepared = self.find_prepared(name.as_bytes()).await?;
        let types = prepared.description.as_ref().map(|d| d.params.clone()).unwrap_or_default();
        if types.len() != arguments.len() {
            return Err(Error::new(
                codes::SYNTAX_ERROR,
                format!("wrong number of parameters for prepared statement \"{name}\""),
            )
            .detail(format!("Expected {} parameters but got {}.", types.len(), arguments.len()))
            .into());
        }
        let values = self.evaluate(arguments).await?;
        let tail = text_tail(&values);
        let bind_body = [b"\0\0".as_slice(), &tail].concat();
        let bind = Bind::decode(&bind_body)?;
        let params = typed_params(&bind, &prepared);
        match &prepared.planned.plan {
            Plan::Rows(rows) => match self.place(rows, &prepared.text, &params)? {
                Route::One(shard) => {
                    self.before_whole(rows, shard)?;
                    let planned = Arc::clone(&prepared.planned);
                    let executing = self.pipeline.executing;
                    self.bind_remote(shard, &planned, b"", bind.tail, Owed::OwnBind).await?;
                    let held = self.backends.acquire(shard, &self.variables).await?;
                    if !executing {
                        frontend::put_describe_portal(&mut held.lease.io.write, b"");
                        self.pipeline.owed.push_back(Owed::DescribeRows);
                    }
                    frontend::put_execute(&mut held.lease.io.write, b"", 0);
                    self.pipeline.owed.push_back(Owed::Execute(Some(planned)));
                    let drained = self.drain(!executing).await;
                    if !executing {
                        self.pipeline.target = None;
                        self.pipeline.failed = None;
                    }
                    drained.map(|_| ())
                }
                Route::Several(shards) => {
                    let Portal::Scatter(portal) = self.bind_scatter(&bind, rows, &prepared, shards, &params)? else {
                        return Err(Error::internal("a portal of another kind").into());
                    };
                    let mut preface = BytesMut::new();
                    if !self.pipeline.executing {
                        let fields = portal.description.fields.clone().unwrap_or_default();
                        backend::put_row_description(&mut preface, &fields);
                    }
                    let execution = Execution {
                        planned: &portal.planned,
                        plan: &portal.plan,
                        text: shard_text(&portal.planned)?,
                        shards: &portal.shards,
                        parameters: &portal.parameters,
                        formats: &portal.formats,
                        limit: portal.limit,
                        offset: portal.offset,
                    };
                    let rows = self.run_scatter(&execution, &portal.description, preface).await?;
                    backend::put_command_complete(&mut self.client.write, &format!("SELECT {rows}"));
                    Ok(())
                }
                _ => Err(Error::internal("a route was not resolved").into()),
            },
            _ => Box::pin(self.execute_local(&prepared)).await,
        }
    }

    /// The values of EXECUTE's arguments as text: constants here, anything else by a server.
    async fn evaluate(&mut self, arguments: &[&str]) -> Outcome<Vec<Option<Vec<u8>>>> {
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            let argument = argument.trim();
            let conforming = self.conforming_strings();
            let number = argument.strip_prefix('-').unwrap_or(argument);
            if argument.eq_ignore_ascii_case("null") {
                values.push(None);
            } else if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) {
                values.push(Some(argument.as_bytes().to_vec()));
            } else if argument.starts_with('\'')
                && crate::sql::lexer::tokenize(argument, conforming).is_ok_and(|t| t.len() == 1)
                && let Some(text) = crate::sql::normalize::string_value(argument, 0..argument.len(), conforming)
            {
                values.push(Some(text.as_bytes().to_vec()));
            } else {
                let planned = self.plan_text(&format!("SELECT ({argument})::pg_catalog.text"), &[])?;
                if !matches!(&planned.plan, Plan::Rows(r) if matches!(r.target, crate::plan::Target::Home) && !r.opaque) {
                    return Err(Error::unsupported("an argument of EXECUTE that is no constant expression").into());
                }
                let shard = self.nearest();
                let held = self.backends.acquire(shard, &self.variables).await?;
                let answer = run_on(held, &planned.text).await?;
                values.push(answer.rows.into_iter().next().and_then(|r| r.into_iter().next()).flatten());
            }
        }
        Ok(values)
    }

    /// Whether the transaction is one of an open pipeline.
    pub fn in_pipeline_transaction(&self) -> bool {
        self.backends.transaction.state == State::Idle && self.pipeline.open
    }
}

/// What a reply means for the client.
fn answer_to(owed: Option<Owed>, tag: Tag, executed: &mut Vec<Arc<Planned>>) -> Result<Action, Error> {
    let wrong = || Error::internal(format!("a server's reply of type '{}' was not expected", char::from(tag)));
    match (owed, tag) {
        (Some(Owed::Parse(_)), backend::PARSE_COMPLETE)
        | (Some(Owed::OwnBind), backend::BIND_COMPLETE)
        | (Some(Owed::Close(_)), backend::CLOSE_COMPLETE)
        | (Some(Owed::DescribeRows), backend::NO_DATA) => Ok(Action::Swallow),
        (Some(Owed::Bind), backend::BIND_COMPLETE)
        | (Some(Owed::ClosePortal), backend::CLOSE_COMPLETE)
        | (Some(Owed::DescribeRows), backend::ROW_DESCRIPTION)
        | (Some(Owed::Describe), backend::ROW_DESCRIPTION | backend::NO_DATA) => Ok(Action::Forward),
        (
            Some(Owed::Execute(planned)),
            backend::COMMAND_COMPLETE | backend::EMPTY_QUERY | backend::PORTAL_SUSPENDED,
        ) => {
            executed.extend(planned);
            Ok(Action::Forward)
        }
        _ => Err(wrong()),
    }
}

/// After an error the server skips to Sync: what it would have prepared it has not, what it would have closed is there.
fn forget_unprepared(server: &mut crate::pool::ServerConnection, owed: &VecDeque<Owed>) {
    for owed in owed {
        match owed {
            Owed::Parse(number) => {
                server.statements.pop(number);
            }
            Owed::Close(number) => {
                server.statements.put(*number, ());
            }
            _ => {}
        }
    }
}

fn no_portal(name: &[u8]) -> Error {
    Error::new(codes::INVALID_CURSOR_NAME, format!("portal \"{}\" does not exist", String::from_utf8_lossy(name)))
}

fn check_counts(bind: &Bind<'_>, prepared: &Prepared) -> Outcome {
    let given = bind.params().len();
    let formats = bind.format_count();
    if formats > 1 && formats != given {
        return Err(Error::protocol_error(format!("bind message has {formats} parameter formats but {given} parameters")).into());
    }
    let wanted = prepared.description.as_ref().map_or(0, |d| d.params.len());
    if given != wanted {
        return Err(Error::protocol_error(format!(
            "bind message supplies {given} parameters, but prepared statement \"{}\" requires {wanted}",
            String::from_utf8_lossy(bind.statement)
        ))
        .into());
    }
    Ok(())
}

fn typed_params<'a>(bind: &Bind<'a>, prepared: &Prepared) -> Vec<Param<'a>> {
    let types = prepared.description.as_ref().map(|d| d.params.as_slice()).unwrap_or_default();
    bind.params()
        .iter()
        .enumerate()
        .map(|(i, value)| Param { oid: types.get(i).copied().unwrap_or(0), format: bind.format(i), value: *value })
        .collect()
}

/// Parameters as text, behind the names of a Bind; results as text.
fn text_tail(values: &[Option<Vec<u8>>]) -> Vec<u8> {
    let mut tail = vec![0, 0];
    tail.extend_from_slice(&u16::try_from(values.len()).unwrap_or(u16::MAX).to_be_bytes());
    for value in values {
        match value {
            None => tail.extend_from_slice(&(-1i32).to_be_bytes()),
            Some(v) => {
                tail.extend_from_slice(&i32::try_from(v.len()).unwrap_or(i32::MAX).to_be_bytes());
                tail.extend_from_slice(v);
            }
        }
    }
    tail.extend_from_slice(&[0, 0]);
    tail
}
