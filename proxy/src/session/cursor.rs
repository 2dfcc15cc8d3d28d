//! A cursor over several shards: its rows are gathered when it is declared, and go to one server, where a cursor of
//! the same name and options gives them. FETCH, MOVE and CLOSE are that server's then, tags and errors too.

use crate::catalog::ShardId;
use crate::error::Error;
use crate::error::codes;
use crate::exec::backends::State;
use crate::exec::backends::quote_identifier;
use crate::exec::backends::run_on;
use crate::exec::cache::Description;
use crate::exec::cache::Planned;
use crate::exec::cache::next_number;
use crate::exec::finish;
use crate::exec::scatter::Execution;
use crate::merge::Merge;
use crate::plan::Effect;
use crate::plan::Plan;
use crate::plan::RowsPlan;
use crate::plan::finish::Carried;
use crate::plan::finish::FinalCollation;
use crate::pool::ServerConnection;
use crate::route::Route;
use crate::session::Failure;
use crate::session::HOME;
use crate::session::Outcome;
use crate::session::Session;
use crate::session::portal::with_types;
use crate::session::prepared::Prepared;
use crate::session::rows::shard_text;
use crate::session::simple::needs_block;
use crate::sql::command::Command;
use crate::value::Oid;
use crate::wire::backend;
use crate::wire::backend::Field;
use crate::wire::frontend::Bind;
use bytes::BytesMut;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

/// A DECLARE.
pub(super) struct Declared<'t> {
    pub name: &'t str,
    pub hold: bool,
    /// The whole text, and the part before the query.
    pub text: &'t str,
    pub prefix: &'t str,
    /// The types of its parameters, and their values as a Bind has them, without result formats.
    pub types: &'t [Oid],
    pub parameters: &'t [u8],
}

impl Session {
    /// Declares a cursor over rows of several shards; the shard where it is.
    ///
    /// # Errors
    /// What PostgreSQL says to the statement; 0A000 where its rows are locked; 54000 where they are too many.
    pub(super) async fn declare_scattered(
        &mut self,
        declared: &Declared<'_>,
        planned: &Arc<Planned>,
        rows: &RowsPlan,
        shards: &[ShardId],
    ) -> Outcome<ShardId> {
        let shard = shards.first().copied().ok_or_else(|| Error::internal("a cursor over no shards"))?;
        // What is wrong with it, PostgreSQL says.
        self.ask(shard, next_number(), declared.text, declared.types).await?;
        if self.backends.transaction.state == State::Idle && !declared.hold {
            return Err(needs_block("DECLARE CURSOR").into());
        }
        if self.cursors.contains_key(declared.name) {
            let message = format!("cursor \"{}\" already exists", declared.name);
            return Err(Error::new(codes::DUPLICATE_CURSOR, message).into());
        }
        let plan = match &rows.scatter {
            Ok(plan) => Arc::clone(plan),
            Err(error) => return Err(error.clone().into()),
        };
        if rows.effect != Effect::Read {
            return Err(Error::unsupported("a cursor that locks rows of several shards")
                .hint("Lock the rows with a SELECT of its own, or name one value of the shard key in WHERE.")
                .into());
        }
        let description = self.description(planned).await?;
        let fields = description.fields.clone().unwrap_or_default();
        let types: Vec<u32> = fields.iter().map(|f| f.type_oid).collect();
        let held = self.backends.acquire(shard, &self.variables).await?;
        let carried = finish::carriers(held, &types, |_| &FinalCollation::Default).await?;
        let formats: Vec<i16> = carried.iter().map(|c| i16::from(c.cast.is_none())).collect();
        finish::check_text(held, &self.variables, &formats)?;
        let tail = whole_bind(declared.parameters);
        let (limit, offset) = Session::counts(&plan, &with_types(&Bind::decode(&tail)?, declared.types))?;
        let keep = self.backends.database.config.merge_bytes;
        let execution = Execution {
            planned,
            plan: &plan,
            text: shard_text(planned)?,
            shards,
            parameters: declared.parameters,
            formats: &formats,
            limit,
            offset,
            keep: Some(keep),
        };
        let before = std::mem::take(&mut self.client.write);
        let ran = self.run_scatter(&execution, &description, BytesMut::new()).await;
        let frames = std::mem::replace(&mut self.client.write, before);
        ran?;
        let arrays = gather(&frames, &carried)?;
        let held = self.backends.acquire(shard, &self.variables).await?;
        let names = type_names(&held.lease, &fields);
        let names = if fields.is_empty() { Vec::new() } else { run_on(held, &names).await?.rows };
        let names = names.into_iter().next().unwrap_or_default();
        let sql = format!("{}{}", declared.prefix, query(&fields, &names));
        let array_types: Vec<u32> = carried.iter().map(|c| c.array_oid).collect();
        finish::run(held, &sql, &array_types, &arrays).await?;
        Ok(shard)
    }

    /// What a DECLARE with parameters is in the extended protocol: its parameters are those of its query.
    ///
    /// # Errors
    /// What PostgreSQL says to the statement.
    pub(super) async fn describe_declare(
        &mut self,
        body: Range<usize>,
        text: &str,
        declared: &[Oid],
    ) -> Outcome<Option<Arc<Description>>> {
        let query = text.get(body).unwrap_or_default();
        match Box::pin(self.prepare(query, declared)).await {
            Ok(Prepared { description: Some(query), .. }) => {
                Ok(Some(Arc::new(Description { params: query.params.clone(), fields: None })))
            }
            Ok(_) => Ok(None),
            // Its positions are to be those of the whole statement.
            Err(Failure::Error(error)) => Err(Box::pin(self.mistake_first(text, declared, &error)).await),
            Err(failure) => Err(failure),
        }
    }

    /// DECLARE with values, inside a pipeline: as without, but for the values.
    pub(super) async fn declare_bound(&mut self, prepared: &Prepared, parameters: &[u8]) -> Outcome {
        let text = &*prepared.text;
        let Command::Declare { name, hold, body, .. } = &prepared.planned.command else {
            return Err(Error::internal("no cursor is declared").into());
        };
        let query = Box::pin(self.prepare(text.get(body.clone()).unwrap_or_default(), &prepared.declared)).await?;
        let types = query.description.as_ref().map(|d| d.params.as_slice()).unwrap_or_default();
        let tail = whole_bind(parameters);
        let rows = match &query.planned.plan {
            Plan::Rows(rows) => rows,
            // A table that the transaction has made on the only shard.
            Plan::Unknown(_) => {
                self.bound_in_pipeline(HOME, text.as_bytes(), types, tail.get(2..).unwrap_or_default()).await?;
                self.keep_cursor(name, HOME, *hold);
                return Ok(());
            }
            _ => return Err(Error::unsupported("a cursor with parameters over what is no query").into()),
        };
        let shard = match self.place_planned(rows, &query.planned, &with_types(&Bind::decode(&tail)?, types))? {
            Route::One(shard) => {
                self.bound_in_pipeline(shard, text.as_bytes(), types, tail.get(2..).unwrap_or_default()).await?;
                shard
            }
            Route::Several(shards) => {
                let prefix = text.get(..body.start).unwrap_or_default();
                let declared = Declared { name, hold: *hold, text, prefix, types, parameters };
                let shard = Box::pin(self.declare_scattered(&declared, &query.planned, rows, &shards)).await?;
                backend::put_command_complete(&mut self.client.write, "DECLARE CURSOR");
                shard
            }
            _ => return Err(Error::internal("a route was not resolved").into()),
        };
        self.keep_cursor(name, shard, *hold);
        Ok(())
    }
}

/// The body of a Bind without names, of these values and without result formats.
fn whole_bind(parameters: &[u8]) -> Vec<u8> {
    [b"\0\0", parameters, b"\0\0"].concat()
}

/// The rows of DataRow frames as arrays.
fn gather(frames: &[u8], carried: &[Carried]) -> Result<Vec<BytesMut>, Error> {
    let mut merge = Merge::gather(carried.len(), 1, usize::MAX);
    let mut out = BytesMut::new();
    let mut at = 0;
    while let Some(head) = crate::wire::head(frames.get(at..).unwrap_or_default(), usize::MAX)? {
        let body = frames.get(at + crate::wire::HEAD..at + head.total).unwrap_or_default();
        if head.tag == crate::wire::backend::DATA_ROW {
            merge.row(0, body, &mut out)?;
        }
        at += head.total;
    }
    Ok(merge.take_arrays(&carried.iter().map(|c| c.element_oid).collect::<Vec<_>>()))
}

/// Asks a server for the columns' types as they are written, modifiers and all.
fn type_names(server: &ServerConnection, fields: &[Field]) -> String {
    let one = |f: &Field| {
        format!("pg_catalog.format_type({}::pg_catalog.oid, {})", server.own_type(f.type_oid), f.type_modifier)
    };
    format!("SELECT {}", fields.iter().map(one).collect::<Vec<_>>().join(", "))
}

/// The query of the cursor on the server: the gathered rows in their order.
fn query(fields: &[Field], types: &[Option<Vec<u8>>]) -> String {
    let mut list = String::new();
    for (n, field) in fields.iter().enumerate() {
        let cast = types.get(n).and_then(|t| t.as_deref()).map(String::from_utf8_lossy).unwrap_or_default();
        let name = quote_identifier(&String::from_utf8_lossy(&field.name));
        let comma = if n == 0 { "" } else { ", " };
        let _ = write!(list, "{comma}u.shardway_{n}::{cast} AS {name}");
    }
    let arrays: Vec<String> = (1..=fields.len()).map(|n| format!("pg_catalog.unnest(${n})")).collect();
    let columns: Vec<String> = (0..fields.len()).map(|n| format!("shardway_{n}")).collect();
    format!("SELECT {list} FROM ROWS FROM ({}) AS u ({})", arrays.join(", "), columns.join(", "))
}
