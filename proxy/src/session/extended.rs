//! The messages of the extended protocol: Parse, Bind, Describe, Execute, Close, Flush, Sync.

use crate::catalog::ShardId;
use crate::error::Error;
use crate::error::SqlState;
use crate::error::codes;
use crate::exec::backends::State;
use crate::exec::cache::Planned;
use crate::exec::scatter;
use crate::exec::scatter::statement_name;
use crate::plan::Plan;
use crate::plan::RowsPlan;
use crate::plan::TellsTime;
use crate::pool::RowNumbers;
use crate::route::Param;
use crate::route::Route;
use crate::route::Values;
use crate::session::Failure;
use crate::session::HOME;
use crate::session::Outcome;
use crate::session::Session;
use crate::session::measure;
use crate::session::pipeline::Owed;
use crate::session::pipeline::Undo;
use crate::session::portal::Portal;
use crate::session::portal::ScatterPortal;
use crate::session::portal::check_counts;
use crate::session::portal::check_forms;
use crate::session::portal::no_portal;
use crate::session::portal::typed_params;
use crate::session::prepared::Prepared;
use crate::session::prepared::kept_name;
use crate::session::rows::shard_text;
use crate::session::simple::ends_transaction;
use crate::sql::command::Command;
use crate::value::Oid;
use crate::wire::Tag;
use crate::wire::backend;
use crate::wire::frontend;
use crate::wire::frontend::Bind;
use crate::wire::frontend::Execute;
use crate::wire::frontend::Object;
use crate::wire::frontend::Parse;
use crate::wire::read::Reader;
use bytes::Bytes;
use bytes::BytesMut;
use std::sync::Arc;
use std::time::Instant;

impl Session {
    pub(super) async fn extended(&mut self, tag: Tag, body: &[u8]) -> Outcome {
        if tag == frontend::SYNC {
            if !body.is_empty() {
                self.settle_pipeline(Err(Error::protocol_error("invalid message format").into())).await?;
            }
            return self.sync().await;
        }
        let first = !self.pipeline.is_open();
        self.open_pipeline();
        let outcome = match tag {
            frontend::PARSE => self.parse(body, first).await,
            frontend::BIND => self.bind(body).await,
            frontend::DESCRIBE => self.describe_object(body).await,
            frontend::EXECUTE => {
                let executed = self.execute(body).await;
                self.pipeline.ran = !std::mem::take(&mut self.pipeline.fresh);
                executed
            }
            frontend::CLOSE => self.close_object(body).await,
            _ if !body.is_empty() => Err(Error::protocol_error("invalid message format").into()),
            _ => self.flush_pipeline().await,
        };
        let outcome = match outcome {
            Ok(()) if !self.is_pipeline_long() => return Ok(()),
            Ok(()) => self.drain(false).await.map(|_| ()),
            failed => failed,
        };
        self.settle_pipeline(outcome).await
    }

    async fn parse(&mut self, body: &[u8], first: bool) -> Outcome {
        let parse = Parse::decode(body).map_err(|error| self.first_wrong(body, 0, 2, error));
        let Parse { name, text, types } = parse?;
        self.check_name(name)?;
        let text = self.readable(text)?;
        if name.is_empty() {
            self.forget_prepared(name);
        }
        self.settle_catalog().await?;
        let planned = match self.known_plan(text, &types) {
            // Only single statements are planned.
            Some(planned) => planned,
            None => {
                self.refuse_several(text).await?;
                self.plan_text(text, &types)?
            }
        };
        if !is_always_allowed(&planned.command)
            && let Err(error) = self.refuse_if_failed()
        {
            return Err(Box::pin(self.syntax_first(&planned, text, error)).await);
        }
        let prepared = match self.prepared_before(&planned, &types) {
            Some(prepared) if !prepared.shows_channels => prepared,
            _ => Box::pin(self.prepare(text, &types)).await?,
        };
        self.keep_prepared(name, prepared)?;
        self.may_undo(Undo::Prepared(kept_name(name).to_vec(), None));
        self.reply(|out| backend::put_bare(out, backend::PARSE_COMPLETE));
        if first && self.pipeline.target.is_none() {
            // Nothing has run yet: a connection that only described goes back.
            self.end_statement().await?;
        }
        Ok(())
    }

    async fn refuse_several(&mut self, text: &str) -> Outcome {
        if let Err(error) = self.scan_text(text) {
            return Err(Box::pin(self.wrong_before(text, error)).await);
        }
        if self.scan.more_at.is_some() && crate::sql::lexer::split(text, self.conforming_strings())?.len() > 1 {
            Box::pin(self.check_syntax(text)).await?;
            let message = "cannot insert multiple commands into a prepared statement";
            return Err(Error::new(codes::SYNTAX_ERROR, message).into());
        }
        Ok(())
    }

    async fn bind(&mut self, body: &[u8]) -> Outcome {
        let bind = match Bind::decode(body) {
            Ok(bind) => bind,
            Err(error) => return Err(Box::pin(self.malformed_bind(body, error)).await),
        };
        self.check_name(bind.portal)?;
        self.check_name(bind.statement)?;
        let prepared = self.find_prepared(bind.statement).await?;
        check_counts(bind.format_count(), bind.params().len(), bind.statement, &prepared)?;
        if !ends_transaction(&prepared.planned.command) {
            self.refuse_if_failed()?;
        }
        let key = kept_name(bind.portal);
        if !key.is_empty() && self.portals.contains_key(key) {
            let name = String::from_utf8_lossy(bind.portal);
            return Err(Error::new(codes::DUPLICATE_CURSOR, format!("cursor \"{name}\" already exists")).into());
        }
        let portal = match (&prepared.planned.plan, &prepared.planned.command) {
            (Plan::Session, Command::Execute { name, arguments }) => {
                let range = |r: &std::ops::Range<usize>| prepared.planned.text.get(r.clone()).unwrap_or_default();
                let arguments: Vec<&str> = arguments.iter().map(range).collect();
                let (inner, tail) = Box::pin(self.executed(name, &arguments, bind.result_formats())).await?;
                let body = [bind.portal, b"\0\0", &tail].concat();
                self.bind_to(&Bind::decode(&body)?, &inner).await?
            }
            _ => self.bind_to(&bind, &prepared).await?,
        };
        match &portal {
            Portal::Remote { .. } => {}
            Portal::Local { .. } | Portal::Everyone(_) | Portal::Write(_) => {
                self.reply(|out| backend::put_bare(out, backend::BIND_COMPLETE))
            }
            Portal::Scatter(_) => {
                check_forms(&bind, &prepared)?;
                self.drain(false).await?;
                backend::put_bare(&mut self.pipeline.kept, backend::BIND_COMPLETE);
            }
        }
        let depth = self.backends.transaction.savepoints.len();
        if depth > 0 {
            self.depths.insert(key.to_vec(), depth);
        }
        if self.backends.transaction.state == State::Failed {
            self.late.insert(key.to_vec());
        }
        let before = self.portals.insert(key.to_vec(), portal);
        self.may_undo(Undo::Portal(key.to_vec(), before));
        Ok(())
    }

    /// A Bind that cannot be read: PostgreSQL has looked for its statement and counted its values before it comes to
    /// what is wrong.
    async fn malformed_bind(&mut self, body: &[u8], error: Error) -> Failure {
        let mut reader = Reader::new(body);
        let error = self.first_wrong(body, 0, 2, error);
        let (Ok(_), Ok(statement)) = (reader.cstr(), reader.cstr()) else { return error.into() };
        if error.code == codes::CHARACTER_NOT_IN_REPERTOIRE {
            return error.into();
        }
        let prepared = match self.find_prepared(statement).await {
            Ok(prepared) => prepared,
            Err(failure) => return failure,
        };
        let Ok(formats) = reader.count() else { return error.into() };
        let (Ok(formats), Ok(values)) = (reader.take(formats * 2), reader.count()) else { return error.into() };
        if let Err(failure) = check_counts(formats.len() / 2, values, statement, &prepared) {
            return failure;
        }
        // Values are taken one by one.
        for n in 0..values {
            let Ok(value) = reader.value() else { break };
            if let (0, Some(text)) = (frontend::format_at(formats, n), value)
                && let Err(unreadable) = self.check_name(text)
            {
                return unreadable.into();
            }
        }
        error.into()
    }

    /// Makes a portal of a statement and values; BindComplete is owed already if it lives on a server.
    async fn bind_to(&mut self, bind: &Bind<'_>, prepared: &Arc<Prepared>) -> Outcome<Portal> {
        let planned = &prepared.planned;
        let local = || {
            let parameters = match planned.command {
                Command::Declare { .. } => Bytes::copy_from_slice(values_of(bind)),
                _ => Bytes::new(),
            };
            Portal::Local { prepared: Arc::clone(prepared), format: bind.result_format(0), parameters, done: false }
        };
        let params = typed_params(bind, prepared);
        match &planned.plan {
            Plan::Rows(rows) if let Some(plan) = rows.writes.as_ref().filter(|plan| plan.always_draws()) => {
                self.bind_write(bind, plan, prepared, &params)
            }
            Plan::Rows(rows) => match self.place_planned(rows, planned, &params)? {
                Route::Several(_) if rows.copies.is_some() => Ok(local()),
                Route::Several(_) if let Some(plan) = &rows.writes => match &plan.several {
                    Ok(()) => self.bind_write(bind, plan, prepared, &params),
                    Err(error) => Err(error.clone().into()),
                },
                Route::One(shard) if let Some(plan) = rows.writes.as_ref().filter(|p| self.needs_moments(p, shard)) => {
                    self.bind_write(bind, plan, prepared, &params)
                }
                Route::Several(shards) => match &rows.everyone {
                    Some(plan) => Ok(Portal::Everyone(Box::new(self.bind_everyone(bind, plan, prepared, &params)?))),
                    None => self.bind_scatter(bind, rows, prepared, shards, &params),
                },
                Route::One(shard) => {
                    self.before_whole(rows, shard).await?;
                    let clocked = match rows.time {
                        TellsTime::No => None,
                        _ => Box::pin(self.clocked(rows, shard, &planned.text)).await?,
                    };
                    match clocked {
                        Some(text) => {
                            let types = prepared.description.as_ref().map(|d| d.params.clone()).unwrap_or_default();
                            self.bind_text(shard, &text, &types, bind.portal, bind.tail).await?;
                        }
                        None => self.bind_remote(shard, planned, bind.portal, bind.tail, Owed::Bind).await?,
                    }
                    self.remote(shard, bind, prepared)
                }
                _ => Err(Error::internal("a route was not resolved").into()),
            },
            Plan::Explain(explain) => {
                match self.place(&explain.inner, planned.text.get(explain.body..).unwrap_or_default(), &params)? {
                    Route::One(shard) => {
                        self.before_whole(&explain.inner, shard).await?;
                        self.bind_remote(shard, planned, bind.portal, bind.tail, Owed::Bind).await?;
                        self.remote(shard, bind, prepared)
                    }
                    _ if params.is_empty() => Ok(local()),
                    _ => {
                        Err(Error::unsupported("EXPLAIN of a scattered statement with parameters is not supported yet")
                            .hint("Write the values into the statement.")
                            .into())
                    }
                }
            }
            Plan::Session => match self.shard_of_rows(&planned.command) {
                Some(shard) => {
                    self.bind_text(shard, &planned.text, &[], bind.portal, bind.tail).await?;
                    self.remote(shard, bind, prepared)
                }
                None => Ok(local()),
            },
            Plan::Unknown(_) => {
                // As it was described: values of the client's types.
                let types = prepared.description.as_ref().map_or(planned.declared.as_slice(), |d| d.params.as_slice());
                self.bind_text(HOME, &planned.text, types, bind.portal, bind.tail).await?;
                self.remote(HOME, bind, prepared)
            }
            _ => Ok(local()),
        }
    }

    /// A portal that was bound on a shard.
    fn remote(&mut self, shard: ShardId, bind: &Bind<'_>, prepared: &Prepared) -> Outcome<Portal> {
        let fields = prepared.description.as_ref().and_then(|d| d.fields.as_deref()).unwrap_or_default();
        let columns = fields.iter().enumerate().map(|(n, field)| (field.type_oid, bind.result_format(n)));
        let rows = match self.backends.find(shard) {
            Some(held) => held.lease.row_numbers(columns)?,
            None => None,
        };
        Ok(Portal::Remote { shard, planned: Arc::clone(&prepared.planned), rows })
    }

    /// Commands that give rows and leave nothing behind: where they run, as they stand.
    fn shard_of_rows(&self, command: &Command) -> Option<ShardId> {
        match command {
            Command::Show(name) if !name.starts_with("shardway.") => Some(self.nearest()),
            Command::Fetch { cursor } | Command::Move { cursor } => Some(self.shard_of_cursor(cursor)),
            _ => None,
        }
    }

    pub(super) fn place(&mut self, rows: &RowsPlan, text: &str, params: &[Param<'_>]) -> Outcome<Route> {
        self.scan_text(text)?;
        let literals = std::mem::take(&mut self.scan.literals);
        let values = Values {
            text,
            literals: &literals,
            params,
            standard_conforming_strings: self.conforming_strings(),
            drawn: &[],
        };
        let route = self.choose(rows, &values);
        self.scan.literals = literals;
        self.placed(route?, params)
    }

    /// Where a statement runs whose literals were found when it was planned.
    pub(super) fn place_planned(&self, rows: &RowsPlan, planned: &Planned, params: &[Param<'_>]) -> Outcome<Route> {
        let values = Values {
            text: &planned.text,
            literals: &planned.literals,
            params,
            standard_conforming_strings: planned.conforming_strings,
            drawn: &[],
        };
        let route = self.choose(rows, &values)?;
        self.placed(route, params)
    }

    fn placed(&self, route: Route, params: &[Param<'_>]) -> Outcome<Route> {
        if self.backends.database.config.shards.len() > 1 {
            self.refuse_foreign(params.iter().filter(|p| p.format == 0).filter_map(|p| p.value))?;
        }
        Ok(route)
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
        self.aim(shard).await?;
        let params = planned.description.get().map(|d| d.params.as_slice()).unwrap_or_default();
        let held = self.backends.acquire_for_statement(shard, &self.variables).await?;
        held.unsynced = true;
        held.lease.broken = true;
        if scatter::prepare(&mut held.lease, planned.number, planned.text.as_bytes(), params) {
            self.pipeline.owed.push_back(Owed::OwnParse(planned.number));
            for number in scatter::evict(&mut held.lease) {
                self.pipeline.owed.push_back(Owed::OwnClose(number));
            }
        }
        held.lease.put_bind(portal, statement_name(planned.number).as_bytes(), tail, params);
        self.pipeline.owed.push_back(owed);
        Ok(())
    }

    /// The same for a text that is not worth keeping on the server.
    async fn bind_text(&mut self, shard: ShardId, text: &str, types: &[Oid], portal: &[u8], tail: &[u8]) -> Outcome {
        self.aim(shard).await?;
        let held = self.backends.acquire(shard, &self.variables).await?;
        held.unsynced = true;
        held.lease.broken = true;
        held.lease.put_parse(b"", text.as_bytes(), types);
        held.lease.put_bind(portal, b"", tail, types);
        self.pipeline.owed.extend([Owed::OwnUnnamed, Owed::Bind]);
        Ok(())
    }

    /// Runs a text as it stands on one shard inside the pipeline, and relays its answer.
    pub(super) async fn forward_in_pipeline(&mut self, shard: ShardId, text: &[u8]) -> Outcome {
        self.bound_in_pipeline(shard, text, &[], frontend::NO_PARAMETERS).await
    }

    /// The same with values: the types of its parameters, and the tail of a Bind.
    pub(super) async fn bound_in_pipeline(
        &mut self,
        shard: ShardId,
        text: &[u8],
        types: &[Oid],
        tail: &[u8],
    ) -> Outcome {
        self.aim(shard).await?;
        let held = self.backends.acquire_for_statement(shard, &self.variables).await?;
        held.unsynced = true;
        held.lease.broken = true;
        let portal = crate::pool::own_portal();
        held.lease.put_parse(b"", text, types);
        held.lease.put_bind(portal.as_bytes(), b"", tail, types);
        let out = &mut held.lease.io.write;
        frontend::put_execute(out, portal.as_bytes(), 0);
        frontend::put_close_portal(out, portal.as_bytes());
        let owed = [Owed::OwnUnnamed, Owed::OwnBind, Owed::ExecuteText, Owed::OwnClosePortal];
        self.pipeline.owed.extend(owed);
        self.drain(false).await?;
        Ok(())
    }

    pub(super) fn bind_scatter(
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
            let message = format!("bind message has {given} result formats but query has {columns} columns");
            return Err(Error::protocol_error(message).into());
        }
        let formats = (0..columns).map(|i| bind.result_format(i)).collect();
        let (limit, offset) = Session::counts(&plan, params)?;
        Ok(Portal::Scatter(Box::new(ScatterPortal {
            planned: Arc::clone(&prepared.planned),
            plan,
            description,
            shards,
            // The result formats of the shards' columns take the place of the client's.
            parameters: Bytes::copy_from_slice(values_of(bind)),
            formats,
            limit,
            offset,
            done: false,
            rest: BytesMut::new(),
        })))
    }

    async fn describe_object(&mut self, body: &[u8]) -> Outcome {
        let object = frontend::object(body, "DESCRIBE").map_err(|error| self.first_wrong(body, 1, 1, error))?;
        self.check_name(object.name())?;
        match object {
            Object::Statement(name) => {
                let prepared = self.find_prepared(name).await?;
                let (params, fields) = match prepared.description.as_deref() {
                    Some(d) => (d.params.clone(), d.fields.clone()),
                    None => (Vec::new(), None),
                };
                if fields.is_some() {
                    self.refuse_if_failed()?;
                }
                self.reply(|out| {
                    backend::put_parameter_description(out, &params);
                    put_fields(out, fields.as_deref());
                });
            }
            Object::Portal(name) => match self.shard_of_portal(name)? {
                Some(shard) => {
                    if self.portals.get(kept_name(name)).is_none_or(Portal::gives_rows) {
                        self.refuse_if_failed()?;
                    }
                    self.aim(shard).await?;
                    let held = self.backends.acquire(shard, &self.variables).await?;
                    frontend::put_describe_portal(&mut held.lease.io.write, name);
                    held.unsynced = true;
                    held.lease.broken = true;
                    self.pipeline.owed.push_back(Owed::Describe);
                }
                None => {
                    let fields = self.portals.get(kept_name(name)).and_then(Portal::fields);
                    if fields.is_some() {
                        self.refuse_if_failed()?;
                    }
                    self.reply(|out| put_fields(out, fields.as_deref()));
                }
            },
        }
        Ok(())
    }

    /// The shard on which a portal lives, `None` for those that we run ourselves. A cursor is a portal too.
    ///
    /// # Errors
    /// 34000
    fn shard_of_portal(&self, name: &[u8]) -> Result<Option<ShardId>, Error> {
        let key = kept_name(name);
        match self.portals.get(key) {
            Some(Portal::Remote { shard, .. }) => Ok(Some(*shard)),
            Some(_) => Ok(None),
            None => {
                let cursor = std::str::from_utf8(key).ok().and_then(|n| self.cursors.get(n));
                cursor.map(|c| Some(c.shard)).ok_or_else(|| no_portal(name))
            }
        }
    }

    async fn execute(&mut self, body: &[u8]) -> Outcome {
        let execute = Execute::decode(body).map_err(|error| self.first_wrong(body, 0, 1, error));
        let Execute { portal: name, max_rows } = execute?;
        self.check_name(name)?;
        let key = kept_name(name);
        // The server need not know that the transaction has failed.
        let failed = self.backends.transaction.state == State::Failed;
        let runnable = |portal: &Portal| is_always_allowed(portal.command()) && (!failed || self.late.contains(key));
        let ends = self.portals.get(key).is_some_and(runnable);
        if !ends && self.shard_of_portal(name).is_ok() {
            self.refuse_if_failed()?;
        }
        match self.portals.get_mut(key) {
            Some(Portal::Scatter(_)) => Box::pin(self.execute_scatter(key, max_rows)).await,
            Some(Portal::Everyone(_)) => Box::pin(self.execute_everyone(key)).await,
            Some(Portal::Write(_)) => Box::pin(self.execute_write(key, max_rows)).await,
            Some(Portal::Local { prepared, parameters, done, .. }) => {
                let (prepared, parameters) = (Arc::clone(prepared), parameters.clone());
                let empty = prepared.planned.command == Command::Empty;
                if std::mem::replace(done, !empty) {
                    let message = format!("portal \"{}\" cannot be run", String::from_utf8_lossy(name));
                    return Err(Error::new(SqlState::new(b"55000"), message).into());
                }
                self.drain(false).await?;
                Box::pin(self.execute_local(&prepared, &parameters)).await
            }
            Some(Portal::Remote { shard, planned, rows }) => {
                let (shard, planned, rows) = (*shard, Arc::clone(planned), rows.clone());
                // Its data follow: they are not ours to read.
                let copies = planned.command == Command::Copy;
                self.execute_remote(shard, name, max_rows, Owed::Execute(planned), rows).await?;
                if copies {
                    self.drain(false).await?;
                }
                Ok(())
            }
            None => match self.shard_of_portal(name)? {
                Some(shard) => self.execute_remote(shard, name, max_rows, Owed::ExecuteText, None).await,
                None => Err(no_portal(name).into()),
            },
        }
    }

    async fn execute_remote(
        &mut self,
        shard: ShardId,
        name: &[u8],
        max_rows: i32,
        owed: Owed,
        rows: Option<Arc<RowNumbers>>,
    ) -> Outcome {
        self.aim(shard).await?;
        let held = self.backends.acquire(shard, &self.variables).await?;
        held.unsynced = true;
        held.lease.broken = true;
        frontend::put_execute(&mut held.lease.io.write, name, max_rows);
        match rows {
            None => self.pipeline.owed.push_back(owed),
            rows => self.pipeline.owed.extend([Owed::Rows(rows), owed, Owed::Rows(None)]),
        }
        Ok(())
    }

    async fn execute_local(&mut self, prepared: &Prepared, parameters: &[u8]) -> Outcome {
        let planned = &prepared.planned;
        let started = Instant::now();
        self.pipeline.executing = true;
        let bound = prepared.description.as_ref().is_some_and(|d| !d.params.is_empty());
        let outcome = match planned.command {
            Command::Declare { .. } if bound => self.declare_bound(prepared, parameters).await,
            _ => self.run_local(planned).await,
        };
        self.pipeline.executing = false;
        measure::count_statement(&planned.command, measure::ran(&planned.plan), outcome.is_ok(), started.elapsed());
        outcome
    }

    pub(super) async fn run_local(&mut self, planned: &Arc<Planned>) -> Outcome {
        if planned.command == Command::Empty {
            backend::put_bare(&mut self.client.write, backend::EMPTY_QUERY);
            return Ok(());
        }
        if !is_always_allowed(&planned.command) {
            self.refuse_if_failed()?;
        }
        match &planned.plan {
            Plan::Session => self.command(&planned.command, &planned.text).await,
            Plan::Everywhere(everywhere) => self.everywhere(everywhere, &planned.text).await,
            Plan::Rows(rows @ RowsPlan { copies: Some(copies), .. }) => {
                let shards = self.shards_of_copy(rows, &planned.text)?;
                self.copy_several(copies, rows.binary_copy.as_deref(), &shards, &planned.text).await
            }
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
        let Some(Portal::Scatter(mut portal)) = self.portals.remove(name) else { return Err(no_portal(name).into()) };
        let most = usize::try_from(max_rows).ok().filter(|most| *most > 0);
        let started = Instant::now();
        let ran = match most {
            _ if portal.done => {
                self.client.write.extend_from_slice(&preface);
                Ok(None)
            }
            None => self.run_portal(&portal, preface).await.map(Some),
            Some(most) => self.fill_portal(&mut portal, preface, most).await.map(|()| None),
        };
        if !portal.done {
            measure::count_statement(&portal.planned.command, measure::Ran::Scatter, ran.is_ok(), started.elapsed());
        }
        let streamed = ran?;
        portal.done = true;
        let (rows, whole) = match streamed {
            Some(rows) => (rows, true),
            None => give_rows(&mut portal.rest, &mut self.client.write, most.unwrap_or(usize::MAX)),
        };
        self.portals.insert(name.to_vec(), Portal::Scatter(portal));
        if whole {
            backend::put_command_complete(&mut self.client.write, &format!("SELECT {rows}"));
        } else {
            backend::put_bare(&mut self.client.write, backend::PORTAL_SUSPENDED);
        }
        Ok(())
    }

    pub(super) async fn run_portal(&mut self, portal: &ScatterPortal, preface: BytesMut) -> Outcome<u64> {
        let text = shard_text(&portal.planned)?;
        self.run_scatter(&portal.execution(text, None), &portal.description, preface).await
    }

    /// Runs a portal whose rows are asked for in parts: what is left over is kept in it, within the bound of a merge.
    /// An error comes behind what the shards have answered before it: `preface`, once they have bound the portal, and
    /// rows, no more than were asked for.
    async fn fill_portal(&mut self, portal: &mut ScatterPortal, preface: BytesMut, most: usize) -> Outcome {
        let keep = Some(self.backends.database.config.merge_bytes);
        let before = std::mem::take(&mut self.client.write);
        let text = shard_text(&portal.planned)?;
        let ran = self.run_scatter(&portal.execution(text, keep), &portal.description, preface).await;
        portal.rest = std::mem::replace(&mut self.client.write, before);
        if ran.is_err() {
            give_rows(&mut portal.rest, &mut self.client.write, most);
        }
        ran.map(|_| ())
    }

    async fn close_object(&mut self, body: &[u8]) -> Outcome {
        let object = frontend::object(body, "CLOSE").map_err(|error| self.first_wrong(body, 1, 1, error))?;
        self.check_name(object.name())?;
        match object {
            Object::Statement(name) => self.forget_prepared(name),
            Object::Portal(name) => {
                let key = kept_name(name);
                if let Ok(Some(shard)) = self.shard_of_portal(name) {
                    self.aim(shard).await?;
                    self.cursors.retain(|cursor, _| cursor.as_bytes() != key);
                    let before = self.portals.remove(key);
                    if let Some(held) = self.backends.find(shard) {
                        frontend::put_close_portal(&mut held.lease.io.write, name);
                        held.unsynced = true;
                        held.lease.broken = true;
                        self.pipeline.owed.push_back(Owed::ClosePortal);
                        self.may_undo(Undo::Portal(key.to_vec(), before));
                        return Ok(());
                    }
                }
                let before = self.portals.remove(key);
                self.may_undo(Undo::Portal(key.to_vec(), before));
            }
        }
        self.reply(|out| backend::put_bare(out, backend::CLOSE_COMPLETE));
        Ok(())
    }
}

impl Session {
    fn forget_prepared(&mut self, name: &[u8]) {
        let name = kept_name(name);
        let before = self.prepared.remove(name);
        self.may_undo(Undo::Prepared(name.to_vec(), before));
    }
}

/// What a failed transaction still accepts.
fn is_always_allowed(command: &Command) -> bool {
    ends_transaction(command) || *command == Command::Empty
}

/// The parameters of a Bind, formats and values: its tail without the result formats.
fn values_of<'a>(bind: &Bind<'a>) -> &'a [u8] {
    bind.tail.get(..bind.tail.len().saturating_sub(2 + 2 * bind.result_format_count())).unwrap_or_default()
}

fn put_fields(out: &mut BytesMut, fields: Option<&[backend::Field]>) {
    match fields {
        Some(fields) => backend::put_row_description(out, fields),
        None => backend::put_bare(out, backend::NO_DATA),
    }
}

/// Gives up to `most` rows, with what else stands before them; their number, and whether the portal has come to its
/// end. As PostgreSQL, a portal that has given exactly what was asked for is suspended, whether it has more or not.
pub fn give_rows(rest: &mut BytesMut, out: &mut BytesMut, most: usize) -> (u64, bool) {
    let (mut at, mut rows) = (0, 0);
    while rows < most {
        let Ok(Some(head)) = crate::wire::head(rest.get(at..).unwrap_or_default(), usize::MAX) else { break };
        at += head.total;
        rows += usize::from(head.tag == backend::DATA_ROW);
    }
    out.extend_from_slice(&rest.split_to(at.min(rest.len())));
    (rows as u64, rows < most)
}
