//! Portals, and EXECUTE of a prepared statement by SQL.

use crate::catalog::ShardId;
use crate::error::Error;
use crate::error::codes;
use crate::exec::backends::run_on;
use crate::exec::cache::Description;
use crate::exec::cache::Planned;
use crate::exec::scatter::Execution;
use crate::plan::Effect;
use crate::plan::Plan;
use crate::plan::RowsPlan;
use crate::plan::ScatterPlan;
use crate::plan::Target;
use crate::plan::TellsTime;
use crate::plan::writes::WritePlan;
use crate::pool::RowNumbers;
use crate::route::Param;
use crate::route::Route;
use crate::session::Failure;
use crate::session::Outcome;
use crate::session::Session;
use crate::session::pipeline::Owed;
use crate::session::prepared::Prepared;
use crate::session::reference::EveryonePortal;
use crate::session::writes::WritePortal;
use crate::session::writes::tag;
use crate::sql::command::Command;
use crate::value::Oid;
use crate::value::oid;
use crate::wire::backend;
use crate::wire::backend::Field;
use crate::wire::backend::without_position;
use crate::wire::frontend;
use crate::wire::frontend::Bind;
use bytes::Bytes;
use bytes::BytesMut;
use std::sync::Arc;

/// What a portal runs.
pub enum Portal {
    /// It lives on a shard, under the client's name.
    Remote {
        shard: ShardId,
        planned: Arc<Planned>,
        /// What is looked into in its rows.
        rows: Option<Arc<RowNumbers>>,
    },
    Scatter(Box<ScatterPortal>),
    /// A write to reference tables.
    Everyone(Box<EveryonePortal>),
    Write(Box<WritePortal>),
    /// The session runs it when it is executed.
    Local {
        prepared: Arc<Prepared>,
        /// Of its one column, if it has any.
        format: i16,
        /// The values of a DECLARE, as a Bind has them, without result formats.
        parameters: Bytes,
        done: bool,
    },
}

pub struct ScatterPortal {
    pub planned: Arc<Planned>,
    pub plan: Arc<ScatterPlan>,
    pub description: Arc<Description>,
    pub shards: Vec<ShardId>,
    pub parameters: Bytes,
    pub formats: Vec<i16>,
    pub limit: Option<u64>,
    pub offset: u64,
    pub done: bool,
    /// Rows of an Execute with a row limit that are not given yet: whole DataRow frames.
    pub rest: BytesMut,
}

impl ScatterPortal {
    /// Its execution with the shards' text; `keep`: see [`Execution::keep`].
    pub fn execution<'a>(&'a self, text: &'a str, keep: Option<usize>) -> Execution<'a> {
        Execution {
            planned: &self.planned,
            plan: &self.plan,
            text,
            shards: &self.shards,
            parameters: &self.parameters,
            formats: &self.formats,
            limit: self.limit,
            offset: self.offset,
            keep,
        }
    }
}

impl Portal {
    pub fn command(&self) -> &Command {
        match self {
            Portal::Remote { planned, .. } => &planned.command,
            Portal::Scatter(portal) => &portal.planned.command,
            Portal::Everyone(portal) => &portal.planned.command,
            Portal::Write(portal) => &portal.planned.command,
            Portal::Local { prepared, .. } => &prepared.planned.command,
        }
    }

    /// Whether it gives rows, as far as that is known.
    pub fn gives_rows(&self) -> bool {
        match self {
            Portal::Remote { planned, .. } => {
                matches!(planned.command, Command::Show(_) | Command::Fetch { .. })
                    || planned.description.get().is_some_and(|d| d.fields.is_some())
            }
            _ => self.fields().is_some(),
        }
    }

    /// The columns of a portal that we run ourselves, with the formats that the client asked for.
    pub fn fields(&self) -> Option<Vec<Field>> {
        let with = |f: &Field, format: i16| Field { format, ..f.clone() };
        match self {
            Portal::Scatter(portal) => {
                let fields = portal.description.fields.as_ref()?;
                Some(fields.iter().zip(&portal.formats).map(|(f, &format)| with(f, format)).collect())
            }
            Portal::Everyone(portal) => {
                let fields = portal.description.fields.as_ref()?;
                Some(fields.iter().zip(&portal.formats).map(|(f, &format)| with(f, format)).collect())
            }
            Portal::Write(portal) => {
                let fields = portal.description.fields.as_ref()?;
                Some(fields.iter().zip(&portal.formats).map(|(f, &format)| with(f, format)).collect())
            }
            Portal::Local { prepared, format, .. } => {
                let fields = prepared.description.as_ref()?.fields.as_ref()?;
                Some(fields.iter().map(|f| with(f, *format)).collect())
            }
            Portal::Remote { .. } => None,
        }
    }
}

impl Session {
    /// EXECUTE name (arguments) in a simple Query.
    pub(super) async fn sql_execute(&mut self, name: &str, arguments: &[&str]) -> Outcome {
        let (prepared, tail) = self.executed(name, arguments, &[]).await?;
        let body = [b"\0\0".as_slice(), &tail].concat();
        let bind = Bind::decode(&body)?;
        let params = typed_params(&bind, &prepared);
        let rows = match &prepared.planned.plan {
            Plan::Rows(rows) => rows,
            _ => return Box::pin(self.run_local(&prepared.planned)).await,
        };
        if let Some(plan) = rows.writes.as_ref().filter(|plan| plan.always_draws()) {
            return Box::pin(self.execute_written(&bind, plan, &prepared, &params)).await;
        }
        match self.place_planned(rows, &prepared.planned, &params)? {
            Route::Several(_) if let Some(plan) = &rows.writes => {
                Box::pin(self.execute_written(&bind, plan, &prepared, &params)).await
            }
            Route::One(shard) if let Some(plan) = rows.writes.as_ref().filter(|p| self.needs_moments(p, shard)) => {
                Box::pin(self.execute_written(&bind, plan, &prepared, &params)).await
            }
            Route::One(shard) => {
                self.before_whole(rows, shard).await?;
                if rows.time != TellsTime::No
                    && Box::pin(self.clocked(rows, shard, &prepared.text)).await?.is_some_and(|t| *t != *prepared.text)
                {
                    return Err(Error::unsupported(
                        "EXECUTE that tells the time, in a transaction over several shards",
                    )
                    .hint("Use the extended protocol, or give the time as a parameter.")
                    .into());
                }
                self.execute_whole(shard, &prepared.planned, bind.tail).await
            }
            Route::Several(_) if rows.everyone.is_some() => {
                let Some(plan) = &rows.everyone else { return Err(Error::internal("a plan is gone").into()) };
                let portal = self.bind_everyone(&bind, plan, &prepared, &params)?;
                let describe = true;
                self.run_everyone(&portal, describe).await
            }
            Route::Several(shards) => {
                let Portal::Scatter(portal) = self.bind_scatter(&bind, rows, &prepared, shards, &params)? else {
                    return Err(Error::internal("a portal of another kind").into());
                };
                let fields = portal.description.fields.clone().unwrap_or_default();
                let mut preface = BytesMut::new();
                backend::put_row_description(&mut preface, &fields);
                let rows = self.run_portal(&portal, preface).await?;
                backend::put_command_complete(&mut self.client.write, &format!("SELECT {rows}"));
                Ok(())
            }
            _ => Err(Error::internal("a route was not resolved").into()),
        }
    }

    /// A prepared write whose text is not forwarded as it stands.
    async fn execute_written(
        &mut self,
        bind: &Bind<'_>,
        plan: &Arc<WritePlan>,
        prepared: &Prepared,
        params: &[Param<'_>],
    ) -> Outcome {
        let Portal::Write(portal) = self.bind_write(bind, plan, prepared, params)? else {
            return Err(Error::internal("a portal of another kind").into());
        };
        if let Some(fields) = &portal.description.fields {
            backend::put_row_description(&mut self.client.write, fields);
        }
        let written = self.write_portal(&portal, None).await?;
        backend::put_command_complete(&mut self.client.write, &tag(&portal.planned.command, written));
        Ok(())
    }

    /// A prepared statement on one shard, with its Sync.
    async fn execute_whole(&mut self, shard: ShardId, planned: &Arc<Planned>, tail: &[u8]) -> Outcome {
        self.bind_remote(shard, planned, b"", tail, Owed::OwnBind).await?;
        let held = self.backends.acquire(shard, &self.variables).await?;
        frontend::put_describe_portal(&mut held.lease.io.write, b"");
        frontend::put_execute(&mut held.lease.io.write, b"", 0);
        self.pipeline.owed.extend([Owed::DescribeRows, Owed::Execute(Arc::clone(planned))]);
        let drained = self.drain(true).await;
        self.pipeline.target = None;
        self.pipeline.failed = None;
        drained.map(|_| ())
    }

    /// The statement that an EXECUTE names, and its arguments as the tail of a Bind, with these result formats.
    ///
    /// # Errors
    /// 26000; 42601 for a wrong number of arguments; what a server says to one of them.
    pub(super) async fn executed(
        &mut self,
        name: &str,
        arguments: &[&str],
        formats: &[u8],
    ) -> Outcome<(Arc<Prepared>, Vec<u8>)> {
        self.drain(false).await?;
        // A position in the prepared text means nothing in the text of EXECUTE.
        let prepared = self.find_prepared(name.as_bytes()).await.map_err(|failure| match failure {
            Failure::Error(error) => Failure::Error(without_position(error)),
            other => other,
        })?;
        let wanted = prepared.description.as_ref().map_or(0, |d| d.params.len());
        // PostgreSQL does not look at arguments of a statement that takes none (ExecuteQuery in prepare.c).
        let arguments = if wanted == 0 { &[] } else { arguments };
        if wanted != arguments.len() {
            let message = format!("wrong number of parameters for prepared statement \"{name}\"");
            return Err(Error::new(codes::SYNTAX_ERROR, message)
                .detail(format!("Expected {wanted} parameters but got {}.", arguments.len()))
                .into());
        }
        let values = self.evaluate(arguments).await?;
        Ok((prepared, text_tail(&values, formats)))
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
                if !matches!(&planned.plan, Plan::Rows(rows) if is_expression(rows)) {
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
}

/// A SELECT that any server can answer and that leaves nothing behind.
fn is_expression(rows: &RowsPlan) -> bool {
    matches!(rows.target, Target::Home | Target::Any | Target::Shard(_))
        && rows.effect == Effect::Read
        && !rows.opaque
        && rows.pins.is_none()
        && rows.set_config.is_empty()
}

pub fn no_portal(name: &[u8]) -> Error {
    Error::new(codes::INVALID_CURSOR_NAME, format!("portal \"{}\" does not exist", String::from_utf8_lossy(name)))
}

/// Whether a Bind fits its statement (exec_bind_message in postgres.c).
///
/// # Errors
/// 08P01 for a Bind with as many formats and values as its statement does not take.
pub fn check_counts(formats: usize, given: usize, statement: &[u8], prepared: &Prepared) -> Outcome {
    if formats > 1 && formats != given {
        let message = format!("bind message has {formats} parameter formats but {given} parameters");
        return Err(Error::protocol_error(message).into());
    }
    let wanted = prepared.description.as_ref().map_or(0, |d| d.params.len());
    if given != wanted {
        return Err(Error::protocol_error(format!(
            "bind message supplies {given} parameters, but prepared statement \"{}\" requires {wanted}",
            String::from_utf8_lossy(statement)
        ))
        .into());
    }
    Ok(())
}

/// What a server would say of the form of a portal's values, where none is asked before the portal is run
/// (exec_bind_message in postgres.c, and the receiving functions of the types that have one length).
///
/// # Errors
/// 22023, 08P01, 22P03
pub fn check_forms(bind: &Bind<'_>, prepared: &Prepared) -> Outcome {
    let types = prepared.description.as_ref().map(|d| d.params.as_slice()).unwrap_or_default();
    for (n, value) in bind.params().iter().enumerate() {
        let format = bind.format(n);
        if !matches!(format, 0 | 1) {
            let message = format!("unsupported format code: {format}");
            return Err(Error::new(codes::INVALID_PARAMETER_VALUE, message).into());
        }
        let (1, Some(value)) = (format, value) else { continue };
        let Some(length) = types.get(n).and_then(|oid| oid::binary_length(*oid)) else { continue };
        if value.is_empty() && length == 1 {
            return Err(Error::protocol_error("no data left in message").into());
        }
        if value.len() < length {
            return Err(Error::protocol_error("insufficient data left in message").into());
        }
        if value.len() > length {
            let message = format!("incorrect binary data format in bind parameter {}", n + 1);
            return Err(Error::new(codes::INVALID_BINARY, message).into());
        }
    }
    Ok(())
}

pub fn typed_params<'a>(bind: &Bind<'a>, prepared: &Prepared) -> Vec<Param<'a>> {
    with_types(bind, prepared.description.as_ref().map(|d| d.params.as_slice()).unwrap_or_default())
}

pub fn with_types<'a>(bind: &Bind<'a>, types: &[Oid]) -> Vec<Param<'a>> {
    bind.params()
        .iter()
        .enumerate()
        .map(|(i, value)| Param { oid: types.get(i).copied().unwrap_or(0), format: bind.format(i), value: *value })
        .collect()
}

/// Parameters as text, behind the names of a Bind; then result formats as a Bind has them (two bytes each).
fn text_tail(values: &[Option<Vec<u8>>], formats: &[u8]) -> Vec<u8> {
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
    tail.extend_from_slice(&u16::try_from(formats.len() / 2).unwrap_or(u16::MAX).to_be_bytes());
    tail.extend_from_slice(formats);
    tail
}
