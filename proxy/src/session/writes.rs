//! Writes that are not forwarded as they stand: values are drawn, rows are divided, all in one transaction.

use crate::catalog::ShardId;
use crate::error::Error;
use crate::error::Result;
use crate::error::SqlState;
use crate::error::codes;
use crate::exec::backends::run_on;
use crate::exec::cache::Description;
use crate::exec::cache::Planned;
use crate::exec::split;
use crate::exec::split::ShardText;
use crate::plan::Plan;
use crate::plan::RowsPlan;
use crate::plan::writes;
use crate::plan::writes::Draw;
use crate::plan::writes::Shape;
use crate::plan::writes::Split;
use crate::plan::writes::Value;
use crate::plan::writes::When;
use crate::plan::writes::WritePlan;
use crate::route;
use crate::route::Param;
use crate::route::Route;
use crate::route::Values;
use crate::session::Failure;
use crate::session::HOME;
use crate::session::Outcome;
use crate::session::Session;
use crate::session::encoding::foreign_encoding;
use crate::session::extended::give_rows;
use crate::session::measure;
use crate::session::portal::Portal;
use crate::session::portal::no_portal;
use crate::session::prepared::Prepared;
use crate::sql::command::Command;
use crate::sql::lexer;
use crate::sql::lexer::Token;
use crate::value::Oid;
use crate::wire::backend;
use crate::wire::frontend::Bind;
use bytes::BufMut;
use bytes::Bytes;
use bytes::BytesMut;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

/// A write with its values.
pub struct Write<'a> {
    pub planned: &'a Planned,
    pub rows: &'a RowsPlan,
    pub plan: &'a WritePlan,
    pub text: &'a str,
    pub params: &'a [Param<'a>],
    pub description: &'a Description,
    /// The format of each column of RETURNING.
    pub formats: &'a [i16],
    /// See [`split::Execution::keep`].
    pub keep: Option<usize>,
}

/// A write bound to values: the session runs it when it is executed.
pub struct WritePortal {
    pub planned: Arc<Planned>,
    pub plan: Arc<WritePlan>,
    pub text: Arc<str>,
    pub description: Arc<Description>,
    /// Type, format, value.
    pub params: Vec<(Oid, i16, Option<Bytes>)>,
    pub formats: Vec<i16>,
    /// The tag's number, once it has run.
    pub written: Option<u64>,
    /// Rows that are not given yet: whole DataRow frames.
    pub rest: BytesMut,
}

impl Session {
    /// A write of a simple Query.
    pub(super) async fn write_simple(
        &mut self,
        planned: &Arc<Planned>,
        rows: &RowsPlan,
        plan: &WritePlan,
        text: &str,
    ) -> Outcome {
        // A statement that is wrong draws nothing, and is not refused: what a server says about it comes first.
        let description = self.description(planned).await?;
        let fields = description.fields.as_deref();
        let mut preface = BytesMut::new();
        if let Some(fields) = fields {
            backend::put_row_description(&mut preface, fields);
        }
        let formats = vec![0; fields.map_or(0, <[_]>::len)];
        let write =
            Write { planned, rows, plan, text, params: &[], description: &description, formats: &formats, keep: None };
        let written = self.write(&write, preface).await?;
        backend::put_command_complete(&mut self.client.write, &tag(&planned.command, written));
        Ok(())
    }

    /// A portal of a write; `bind` is its Bind message.
    ///
    /// # Errors
    /// 08P01 where the formats are not as many as the columns.
    pub(super) fn bind_write(
        &self,
        bind: &Bind<'_>,
        plan: &Arc<WritePlan>,
        prepared: &Prepared,
        params: &[Param<'_>],
    ) -> Outcome<Portal> {
        self.refuse_foreign(params.iter().filter(|p| p.format == 0).filter_map(|p| p.value))?;
        let unknown = || Error::internal("a write was not described");
        let description = prepared.description.clone().ok_or_else(unknown)?;
        let columns = description.fields.as_ref().map_or(0, Vec::len);
        let given = bind.result_format_count();
        if given > 1 && given != columns {
            let message = format!("bind message has {given} result formats but query has {columns} columns");
            return Err(Error::protocol_error(message).into());
        }
        Ok(Portal::Write(Box::new(WritePortal {
            planned: Arc::clone(&prepared.planned),
            plan: Arc::clone(plan),
            text: Arc::clone(&prepared.text),
            params: params.iter().map(|p| (p.oid, p.format, p.value.map(Bytes::copy_from_slice))).collect(),
            formats: (0..columns).map(|i| bind.result_format(i)).collect(),
            description,
            written: None,
            rest: BytesMut::new(),
        })))
    }

    /// Execute of a portal. As in PostgreSQL, all rows are written whatever the number that is asked for.
    pub(super) async fn execute_write(&mut self, name: &[u8], max_rows: i32) -> Outcome {
        self.drain(false).await?;
        let Some(Portal::Write(mut portal)) = self.portals.remove(name) else { return Err(no_portal(name).into()) };
        let most = usize::try_from(max_rows).ok().filter(|most| *most > 0);
        let command = &portal.planned.command;
        let first = portal.written.is_none();
        if first {
            let started = Instant::now();
            self.ran = measure::ran(&portal.planned.plan);
            let keep = most.map(|_| self.backends.database.config.merge_bytes);
            let before = keep.map(|_| std::mem::take(&mut self.client.write));
            let ran = self.write_portal(&portal, keep).await;
            if let Some(before) = before {
                portal.rest = std::mem::replace(&mut self.client.write, before);
            }
            measure::count_statement(command, self.ran, ran.is_ok(), started.elapsed());
            portal.written = Some(ran?);
        } else if portal.description.fields.is_none() {
            let message = format!("portal \"{}\" cannot be run", String::from_utf8_lossy(name));
            return Err(Error::new(SqlState::new(b"55000"), message).into());
        }
        let streamed = first && most.is_none();
        let (given, whole) = match portal.description.fields {
            Some(_) if !streamed => give_rows(&mut portal.rest, &mut self.client.write, most.unwrap_or(usize::MAX)),
            // Its rows, if it has any, went as they came.
            _ => (portal.written.unwrap_or(0), true),
        };
        if whole {
            // A portal that gives rows in parts tells how many it has given last.
            backend::put_command_complete(&mut self.client.write, &tag(command, given));
        } else {
            backend::put_bare(&mut self.client.write, backend::PORTAL_SUSPENDED);
        }
        self.portals.insert(name.to_vec(), Portal::Write(portal));
        Ok(())
    }

    /// Runs a portal's write; its rows go to the client's write buffer.
    pub(super) async fn write_portal(&mut self, portal: &WritePortal, keep: Option<usize>) -> Outcome<u64> {
        let params: Vec<Param<'_>> = portal
            .params
            .iter()
            .map(|(oid, format, value)| Param { oid: *oid, format: *format, value: value.as_deref() })
            .collect();
        let Plan::Rows(rows) = &portal.planned.plan else {
            return Err(Error::internal("a write without a plan").into());
        };
        let write = Write {
            planned: &portal.planned,
            rows,
            plan: &portal.plan,
            text: &portal.text,
            params: &params,
            description: &portal.description,
            formats: &portal.formats,
            keep,
        };
        Box::pin(self.write(&write, BytesMut::new())).await
    }

    /// Runs a write up to the end of its own transaction, if it has one; its rows go to the client behind `preface`.
    /// How many rows were written.
    pub(super) async fn write(&mut self, write: &Write<'_>, preface: BytesMut) -> Outcome<u64> {
        if write.plan.always_draws() && self.is_foreign() {
            // Keys that are drawn are hashed as bytes.
            return Err(foreign_encoding().into());
        }
        let tokens = lexer::tokenize(write.text, self.conforming_strings())?;
        if let Shape::Gathered(gathered) = &write.plan.shape {
            return Box::pin(self.gather(write, gathered, &tokens, preface)).await;
        }
        let mut drawn: Vec<Option<Value>> = vec![None; write.plan.values()];
        self.draw(write, &tokens, When::Always, &mut drawn).await?;
        self.scan_text(write.text)?;
        let literals = std::mem::take(&mut self.scan.literals);
        let divided = self.divide(write, &literals, &drawn);
        self.scan.literals = literals;
        let (shards, of_rows) = divided?;
        if shards.len() > 1
            && let Err(error) = &write.plan.several
        {
            return Err(error.clone().into());
        }
        if shards.len() > 1 || shards.first().is_some_and(|shard| self.needs_moments(write.plan, *shard)) {
            self.draw(write, &tokens, When::Several, &mut drawn).await?;
        }
        let texts = texts(write.plan, write.text, write.params, &tokens, &drawn, &shards, of_rows.as_deref());
        let order = match (&write.plan.shape, &of_rows) {
            (Shape::Rows(split), Some(of_rows)) if split.returning && shards.len() > 1 => {
                Some(of_rows.iter().map(|s| input_of(&shards, *s)).collect())
            }
            _ => None,
        };
        self.run_write(write, &texts, &write.description.params, order, preface).await
    }

    /// Whether a write that is whole on one shard must take the time from another: the one that joined the
    /// transaction first.
    pub(super) fn needs_moments(&self, plan: &WritePlan, shard: ShardId) -> bool {
        self.backends.transaction.clock.is_some_and(|clock| clock != shard) && plan.has_moments()
    }

    /// The shards that are written, in order, and for an INSERT the shard of each row.
    fn divide(
        &self,
        write: &Write<'_>,
        literals: &[crate::sql::normalize::Literal],
        drawn: &writes::Drawn,
    ) -> Result<(Vec<ShardId>, Option<Vec<ShardId>>)> {
        let values = Values {
            text: write.text,
            literals,
            params: write.params,
            standard_conforming_strings: self.conforming_strings(),
            drawn,
        };
        let shards = match self.choose(write.rows, &values)? {
            Route::One(shard) => vec![shard],
            Route::Several(shards) => shards,
            Route::Any | Route::Home | Route::Nowhere => return Err(Error::internal("a route was not resolved")),
        };
        let Shape::Rows(split) = &write.plan.shape else { return Ok((shards, None)) };
        if shards.len() == 1 {
            return Ok((shards, None));
        }
        let of_rows = route::row_shards(&split.condition, &values, &self.snapshot().catalog)?;
        let mut shards = of_rows.clone();
        shards.sort_unstable();
        shards.dedup();
        Ok((shards, Some(of_rows)))
    }

    /// The shards' texts, with nothing drawn: for EXPLAIN.
    pub(super) fn explained_texts(
        &self,
        plan: &WritePlan,
        values: &Values<'_>,
        shards: &[ShardId],
    ) -> Result<Vec<(ShardId, String)>> {
        let tokens = lexer::tokenize(values.text, self.conforming_strings())?;
        if let Shape::Gathered(gathered) = &plan.shape {
            let mut read = String::new();
            writes::render(&gathered.read, values.text, &tokens, &[], &mut read);
            return Ok(vec![(HOME, read)]);
        }
        let of_rows = match &plan.shape {
            Shape::Rows(split) => Some(route::row_shards(&split.condition, values, &self.snapshot().catalog)?),
            Shape::Same(_) | Shape::Gathered(_) => None,
        };
        let texts = texts(plan, values.text, &[], &tokens, &[], shards, of_rows.as_deref());
        Ok(texts.into_iter().map(|text| (text.shard, text.text)).collect())
    }

    /// Values that one server gives for all: the home shard, or for times the one that joined the transaction first.
    async fn draw(&mut self, write: &Write<'_>, tokens: &[Token], when: When, drawn: &mut [Option<Value>]) -> Outcome {
        let mut first = 0;
        let mut draws = Vec::new();
        for draw in &write.plan.draws {
            if draw.when == when {
                draws.push((first, draw));
            }
            first += draw.count;
        }
        if draws.is_empty() {
            return Ok(());
        }
        self.drain(false).await?;
        let sql = draw_text(&draws, write.text, tokens);
        let in_pipeline = self.pipeline.is_open();
        let shard = match when {
            When::Always => HOME,
            When::Several => self.backends.transaction.clock.unwrap_or(HOME),
        };
        let held = self.backends.acquire(shard, &self.variables).await?;
        // What is drawn in a pipeline belongs to its transaction.
        held.unsynced |= in_pipeline;
        let answer = run_on(held, &sql).await;
        self.note_changes(shard);
        self.backends.transaction.drew |= when == When::Always && self.backends.transaction.is_block();
        let answer = answer.map_err(|error| as_if_whole(error, &write.planned.command))?;
        self.client.write.extend_from_slice(&answer.notices);
        for (row, values) in answer.rows.into_iter().enumerate() {
            for ((first, draw), value) in draws.iter().zip(values) {
                if row < draw.count
                    && let Some(place) = drawn.get_mut(first + row)
                {
                    *place = Some(value.map(|v| String::from_utf8_lossy(&v).into_owned().into_boxed_str()));
                }
            }
        }
        Ok(())
    }

    pub(super) async fn run_write(
        &mut self,
        write: &Write<'_>,
        texts: &[ShardText],
        types: &[Oid],
        order: Option<Vec<u16>>,
        preface: BytesMut,
    ) -> Outcome<u64> {
        let shards: Vec<ShardId> = texts.iter().map(|t| t.shard).collect();
        let own = match shards.as_slice() {
            [shard] => {
                self.before_whole(write.rows, *shard).await?;
                None
            }
            several => {
                self.ran = measure::Ran::Scatter;
                Some(self.begin_writes(several).await?)
            }
        };
        let in_pipeline = self.pipeline.is_open() && !self.backends.transaction.is_block();
        // Rows of constants read nothing, unless a query stands among them.
        let reads = !matches!(write.plan.shape, Shape::Rows(_))
            || write.text.as_bytes().windows(6).any(|word| word.eq_ignore_ascii_case(b"select"));
        let (formats, keep) = (write.formats, write.keep);
        let returning = write.description.fields.as_deref();
        let execution = split::Execution { texts, types, returning, formats, order, keep, reads, in_pipeline };
        let ran = split::run(&mut self.backends, &mut self.client, &self.variables, execution, preface).await;
        for &shard in &shards {
            self.note_changes(shard);
        }
        let outcome = match ran {
            Ok(Ok(written)) => Ok(written),
            Ok(Err(error)) => {
                self.learn_from(&error);
                Err(Failure::Error(error))
            }
            Err(broken) => Err(broken.into()),
        };
        match own {
            Some(own) => self.end_writes(own, outcome).await,
            None => {
                let gathered = matches!(write.plan.shape, Shape::Gathered(_));
                // What a gathered statement has left behind is on the server that computed its rows.
                for &shard in shards.iter().filter(|_| !gathered) {
                    self.pin_after(write.rows, shard);
                }
                let written = outcome?;
                for &shard in &shards {
                    self.after_whole(write.rows, shard).await?;
                }
                Ok(written)
            }
        }
    }
}

/// What the draw says that the statement itself would have said.
fn as_if_whole(error: Error, command: &Command) -> Error {
    if error.code == codes::READ_ONLY_TRANSACTION {
        return Error::new(
            codes::READ_ONLY_TRANSACTION,
            format!("cannot execute {} in a read-only transaction", word(command)),
        );
    }
    error
}

/// One query for all values, a column for each draw. Each is drawn as often as it is needed.
fn draw_text(draws: &[(usize, &Draw)], text: &str, tokens: &[Token]) -> String {
    let most = draws.iter().map(|(_, draw)| draw.count).max().unwrap_or(0);
    let mut sql = String::from("SELECT ");
    for (n, (_, draw)) in draws.iter().enumerate() {
        let all = draw.count == most;
        sql.push_str(if n == 0 { "" } else { ", " });
        if !all {
            let _ = write!(sql, "CASE WHEN shardway_row <= {} THEN ", draw.count);
        }
        writes::render(&draw.expr, text, tokens, &[], &mut sql);
        sql.push_str(if all { "" } else { " END" });
    }
    let _ = write!(sql, " FROM pg_catalog.generate_series(1, {most}) AS shardway_rows(shardway_row)");
    sql
}

/// The text for each shard, with the parameters that are in it.
fn texts(
    plan: &WritePlan,
    text: &str,
    params: &[Param<'_>],
    tokens: &[Token],
    drawn: &writes::Drawn,
    shards: &[ShardId],
    of_rows: Option<&[ShardId]>,
) -> Vec<ShardText> {
    let mut texts = Vec::with_capacity(shards.len());
    for &shard in shards {
        let mut out = String::with_capacity(text.len() + 64);
        let parameters = match &plan.shape {
            Shape::Same(parts) => {
                writes::render(parts, text, tokens, drawn, &mut out);
                parameters(params, |_| true)
            }
            Shape::Gathered(gathered) => {
                writes::render(&gathered.write, text, tokens, drawn, &mut out);
                Bytes::new()
            }
            Shape::Rows(split) => {
                let used = rows_text(
                    split,
                    text,
                    tokens,
                    drawn,
                    |row| of_rows.is_none_or(|of_rows| of_rows.get(row) == Some(&shard)),
                    &mut out,
                );
                parameters(params, |number| of_rows.is_none() || used.contains(&number))
            }
        };
        texts.push(ShardText { shard, text: out, parameters });
    }
    texts
}

/// The INSERT of some of its rows; numbers of the parameters in it.
fn rows_text(
    split: &Split,
    text: &str,
    tokens: &[Token],
    drawn: &writes::Drawn,
    is_here: impl Fn(usize) -> bool,
    out: &mut String,
) -> std::collections::HashSet<usize> {
    let mut used: std::collections::HashSet<usize> = split.params.iter().copied().collect();
    writes::render(&split.head, text, tokens, drawn, out);
    let here = split.rows.iter().enumerate().filter(|(n, _)| is_here(*n));
    for (n, (_, row)) in here.enumerate() {
        if n > 0 {
            out.push_str(", ");
        }
        writes::render(&row.parts, text, tokens, drawn, out);
        used.extend(&row.params);
    }
    writes::render(&split.tail, text, tokens, drawn, out);
    used
}

/// Formats and values as in a Bind message. What is not used is sent as NULL: its type is declared all the same.
pub fn parameters(params: &[Param<'_>], used: impl Fn(usize) -> bool) -> Bytes {
    let mut out = BytesMut::new();
    let count = u16::try_from(params.len()).unwrap_or(u16::MAX);
    out.put_u16(count);
    for param in params {
        out.put_i16(param.format);
    }
    out.put_u16(count);
    for (n, param) in params.iter().enumerate() {
        match param.value.filter(|_| used(n + 1)) {
            None => out.put_i32(-1),
            Some(value) => {
                out.put_i32(i32::try_from(value.len()).unwrap_or(i32::MAX));
                out.put_slice(value);
            }
        }
    }
    out.freeze()
}

pub fn input_of(shards: &[ShardId], shard: ShardId) -> u16 {
    shards.iter().position(|s| *s == shard).and_then(|n| u16::try_from(n).ok()).unwrap_or(u16::MAX)
}

fn word(command: &Command) -> &'static str {
    match command {
        Command::Insert => "INSERT",
        Command::Update => "UPDATE",
        Command::Delete => "DELETE",
        _ => "MERGE",
    }
}

/// The command tag of a write (BuildQueryCompletionString in cmdtag.c).
pub fn tag(command: &Command, written: u64) -> String {
    match command {
        Command::Insert => format!("INSERT 0 {written}"),
        command => format!("{} {written}", word(command)),
    }
}
