//! Writes to reference tables: on the lead shard first, then on all others, in one transaction.
//!
//! Writers of one table wait for each other by an advisory lock on every shard, the lead's first. It is a statement of
//! its own: the write's snapshot is taken when the lock is held, so that it sees what the writer before it has done. On
//! every shard, because a commit may be through on one shard while another has it still before it.

use crate::catalog::ShardId;
use crate::error::Error;
use crate::error::Result;
use crate::error::SqlState;
use crate::error::codes;
use crate::exec::backends::Held;
use crate::exec::cache::Description;
use crate::exec::cache::Planned;
use crate::exec::everyone;
use crate::exec::everyone::Done;
use crate::exec::everyone::Step;
use crate::plan::EveryonePlan;
use crate::plan::ImagesPlan;
use crate::plan::Plan;
use crate::route;
use crate::route::Param;
use crate::route::Values;
use crate::session::Failure;
use crate::session::HOME;
use crate::session::Outcome;
use crate::session::Session;
use crate::session::encoding::foreign_encoding;
use crate::session::measure;
use crate::session::portal::Portal;
use crate::session::portal::no_portal;
use crate::session::rows::NO_VALUES;
use crate::sql::lexer;
use crate::wire::backend;
use crate::wire::backend::without_position;
use crate::wire::frontend;
use crate::wire::read::row_values;
use bytes::BufMut;
use bytes::Bytes;
use bytes::BytesMut;
use futures::future::join_all;
use std::sync::Arc;
use std::time::Instant;

/// Rows that are applied in one exchange.
const BATCH: usize = 500;

/// What a portal runs that writes reference tables.
pub struct EveryonePortal {
    pub planned: Arc<Planned>,
    pub plan: Arc<EveryonePlan>,
    pub description: Arc<Description>,
    /// A Bind from its parameter formats on, without result formats.
    pub parameters: Bytes,
    /// The format of each of the client's columns.
    pub formats: Vec<i16>,
    /// The values hold a word for the present time.
    pub present: bool,
    pub done: bool,
}

/// The lead's rows that are applied elsewhere: for each a Bind from its parameter formats on.
struct Images<'a> {
    plan: &'a ImagesPlan,
    rows: Vec<BytesMut>,
    bytes: usize,
    most: usize,
}

impl Session {
    pub(super) async fn everyone_simple(
        &mut self,
        planned: &Arc<Planned>,
        plan: &Arc<EveryonePlan>,
        values: &Values<'_>,
    ) -> Outcome {
        let description = self.description(planned).await?;
        let columns = description.fields.as_ref().map_or(0, Vec::len);
        let portal = EveryonePortal {
            planned: Arc::clone(planned),
            plan: Arc::clone(plan),
            description: Arc::clone(&description),
            parameters: Bytes::from_static(NO_VALUES),
            formats: vec![0; columns],
            present: route::is_present_time(values),
            done: false,
        };
        self.run_everyone(&portal, true).await
    }

    /// Runs the write and answers it, its RowDescription too if `describe`.
    pub(super) async fn run_everyone(&mut self, portal: &EveryonePortal, describe: bool) -> Outcome {
        self.ran = measure::Ran::Everywhere;
        if self.is_foreign() && !portal.planned.text.is_ascii() {
            return Err(foreign_encoding().into());
        }
        self.drain(false).await?;
        let shards: Vec<ShardId> = self.backends.database.shards().collect();
        let Plan::Rows(rows) = &portal.planned.plan else { return Err(Error::internal("a write of no rows").into()) };
        let own = self.begin_writes(&shards).await?;
        let outcome = self.write_everyone(portal, &shards, describe).await;
        self.pin_after(rows, HOME);
        let outcome = match outcome {
            Ok(tag) => self.after_whole(rows, HOME).await.map(|()| tag),
            failed => failed,
        };
        for &shard in &shards {
            self.note_changes(shard);
        }
        let tag = self.end_writes(own, outcome).await?;
        backend::put_command_complete(&mut self.client.write, &tag);
        Ok(())
    }

    /// Execute of such a portal: all its rows at once, whatever number was asked for.
    pub(super) async fn execute_everyone(&mut self, name: &[u8]) -> Outcome {
        let Some(Portal::Everyone(mut portal)) = self.portals.remove(name) else { return Err(no_portal(name).into()) };
        let done = std::mem::replace(&mut portal.done, true);
        let started = Instant::now();
        if done {
            self.portals.insert(name.to_vec(), Portal::Everyone(portal));
            let message = format!("portal \"{}\" cannot be run", String::from_utf8_lossy(name));
            return Err(Error::new(SqlState::new(b"55000"), message).into());
        }
        let ran = self.run_everyone(&portal, false).await;
        let command = &portal.planned.command;
        measure::count_statement(command, measure::Ran::Everywhere, ran.is_ok(), started.elapsed());
        self.portals.insert(name.to_vec(), Portal::Everyone(portal));
        ran
    }

    async fn write_everyone(&mut self, portal: &EveryonePortal, shards: &[ShardId], describe: bool) -> Outcome<String> {
        // Every connection first: a shard that is away must not be found out half way.
        for &shard in shards {
            self.backends.acquire(shard, &self.variables).await?;
        }
        let images = match portal.plan.varies.is_some() || portal.present || self.is_repeatable_read() {
            true => Some(portal.plan.images.as_ref().map_err(Error::clone)?),
            false => None,
        };
        if images.is_some_and(|images| images.binary.contains(&false)) {
            self.refuse_lossy_text()?;
        }
        if describe && let Some(fields) = &portal.description.fields {
            backend::put_row_description(&mut self.client.write, fields);
        }
        let lock = lock_text(&portal.plan.locks);
        let most = self.backends.database.config.merge_bytes;
        let mut taken = images.map(|plan| Images { plan, rows: Vec::new(), bytes: 0, most });
        let lead = self.on_lead(portal, &lock, &mut taken).await?;
        match &taken {
            Some(images) => self.apply(images, &lock, shards).await?,
            None => self.repeat(portal, &lock, &lead, shards).await?,
        }
        Ok(lead)
    }

    /// The tag of the statement on the lead shard, whose rows go to the client.
    async fn on_lead(
        &mut self,
        portal: &EveryonePortal,
        lock: &str,
        taken: &mut Option<Images<'_>>,
    ) -> Outcome<String> {
        let mut tail = BytesMut::from(&*portal.parameters);
        let hidden = taken.as_ref().map_or(&[][..], |images| &images.plan.binary);
        tail.put_u16(u16::try_from(portal.formats.len() + hidden.len()).unwrap_or(u16::MAX));
        portal.formats.iter().for_each(|format| tail.put_i16(*format));
        hidden.iter().for_each(|binary| tail.put_i16(i16::from(*binary)));
        let text = match taken {
            Some(images) => returning(images.plan, &portal.planned.text, self.conforming_strings())?,
            None => portal.planned.text.to_string(),
        };
        let types = &portal.description.params;
        let columns = portal.formats.len();
        let Some(held) = self.backends.find(HOME) else { return Err(Error::internal("a lease is gone").into()) };
        held.lease.changed.clear();
        everyone::send(held, [locking(lock), Step { statement: Some((&text, types)), tail: &tail }]);
        let done = everyone::finish(held, 2, Some(&mut self.client), |step, body, out| match (step, out) {
            (1, Some(out)) => take_row(body, columns, taken.as_mut(), out),
            _ => Ok(()),
        });
        let done = done.await.map_err(|_| Failure::Gone)?;
        let done = done.map_err(|error| self.failed(error))?;
        self.client.write.extend_from_slice(&done.notices);
        Ok(done.tags.into_iter().nth(1).unwrap_or_default())
    }

    fn failed(&self, error: Error) -> Failure {
        self.learn_from(&error);
        Failure::Error(error)
    }

    /// The same text on the other shards.
    async fn repeat(&mut self, portal: &EveryonePortal, lock: &str, lead: &str, shards: &[ShardId]) -> Outcome {
        let mut tail = BytesMut::from(&*portal.parameters);
        tail.put_u16(0);
        let types = &portal.description.params;
        let steps = [locking(lock), Step { statement: Some((&portal.planned.text, types)), tail: &tail }];
        for (shard, tags) in self.on_others(&steps, shards).await? {
            let tag = tags.get(1).map_or("", String::as_str);
            if tag != lead {
                let name = self.backends.database.config.shards.get(usize::from(shard.0)).map_or("?", |s| &s.name);
                return Err(diverged(&format!("The first shard answered \"{lead}\", shard {name} \"{tag}\".")).into());
            }
        }
        Ok(())
    }

    /// The lead's rows on the other shards.
    async fn apply(&mut self, images: &Images<'_>, lock: &str, shards: &[ShardId]) -> Outcome {
        let mut first = Some(locking(lock));
        let mut rest = images.rows.as_slice();
        while first.is_some() || !rest.is_empty() {
            let (batch, more) = rest.split_at(rest.len().min(BATCH));
            rest = more;
            let skip = usize::from(first.is_some());
            let statement = Some((images.plan.apply.as_str(), &[][..]));
            let rows = batch.iter().enumerate().map(|(n, tail)| Step { statement: statement.filter(|_| n == 0), tail });
            let steps: Vec<Step<'_>> = first.take().into_iter().chain(rows).collect();
            for (_, tags) in self.on_others(&steps, shards).await? {
                if tags.iter().skip(skip).any(|tag| !tag.ends_with(" 1")) {
                    return Err(self.not_applied().into());
                }
            }
        }
        Ok(())
    }

    fn not_applied(&self) -> Error {
        if self.is_repeatable_read() {
            return Error::new(codes::SERIALIZATION_FAILURE, "could not serialize access due to concurrent update");
        }
        diverged("A row of the first shard is not on another one.")
    }

    /// Runs the same steps on all shards but the lead, at the same time; their tags.
    async fn on_others(&mut self, steps: &[Step<'_>], shards: &[ShardId]) -> Outcome<Vec<(ShardId, Vec<String>)>> {
        let others = self.backends.held.iter_mut().filter(|held| held.shard != HOME && shards.contains(&held.shard));
        let ran = join_all(others.map(|held| run(held, steps))).await;
        let mut answers = Vec::with_capacity(ran.len());
        let mut failure = None;
        for (shard, done) in ran {
            match done {
                Ok(done) => answers.push((shard, done.tags)),
                Err(error) => _ = failure.get_or_insert(error),
            }
        }
        match failure {
            Some(error) => Err(self.failed(without_position(error))),
            None => Ok(answers),
        }
    }

    /// A snapshot may be older than what the writer before this one has done.
    fn is_repeatable_read(&self) -> bool {
        let transaction = &self.backends.transaction;
        let level =
            transaction.modes.isolation.as_deref().or_else(|| self.variables.get("default_transaction_isolation"));
        level.is_some_and(|level| level.eq_ignore_ascii_case("repeatable read"))
    }

    /// Values that travel as text must come out as they went in.
    fn refuse_lossy_text(&self) -> Result<()> {
        let digits = self.variables.get("extra_float_digits").and_then(|digits| digits.trim().parse::<i32>().ok());
        let iso =
            self.variables.get("datestyle").is_none_or(|style| style.trim().to_ascii_lowercase().starts_with("iso"));
        if digits.is_some_and(|digits| digits < 1) || !iso {
            return Err(Error::unsupported(
                "a write to reference tables with types of users, whose effect may differ between shards, under this DateStyle or extra_float_digits",
            )
            .hint("RESET datestyle and extra_float_digits."));
        }
        Ok(())
    }

    /// A portal for a Bind of such a statement, which was scanned last.
    pub(super) fn bind_everyone(
        &self,
        bind: &frontend::Bind<'_>,
        plan: &Arc<EveryonePlan>,
        prepared: &crate::session::prepared::Prepared,
        params: &[Param<'_>],
    ) -> Outcome<EveryonePortal> {
        let description =
            prepared.description.clone().ok_or_else(|| Error::internal("a statement was not described"))?;
        let columns = description.fields.as_ref().map_or(0, Vec::len);
        let given = bind.result_format_count();
        if given > 1 && given != columns {
            let message = format!("bind message has {given} result formats but query has {columns} columns");
            return Err(Error::protocol_error(message).into());
        }
        let keep = bind.tail.len().saturating_sub(2 + 2 * given);
        let values = Values {
            text: &prepared.planned.text,
            literals: &prepared.planned.literals,
            params,
            standard_conforming_strings: prepared.planned.conforming_strings,
            drawn: &[],
        };
        Ok(EveryonePortal {
            planned: Arc::clone(&prepared.planned),
            plan: Arc::clone(plan),
            description,
            parameters: Bytes::copy_from_slice(bind.tail.get(..keep).unwrap_or_default()),
            formats: (0..columns).map(|n| bind.result_format(n)).collect(),
            present: route::is_present_time(&values),
            done: false,
        })
    }
}

async fn run(held: &mut Held, steps: &[Step<'_>]) -> (ShardId, Result<Done>) {
    held.lease.changed.clear();
    everyone::send(held, steps.iter().copied());
    let done = everyone::finish(held, steps.len(), None, |_, _, _| Ok(())).await;
    let done = done.unwrap_or_else(|_| Err(Error::internal("a client where there is none")));
    (held.shard, done)
}

/// The statement that makes writers wait for each other.
pub fn lock_text(tables: &[crate::catalog::QualifiedName]) -> String {
    let lock = |table: &crate::catalog::QualifiedName| {
        let name = format!("shardway reference {table}").replace('\'', "''");
        format!("pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(E'{}', 0))", name.replace('\\', "\\\\"))
    };
    format!("SELECT {}", tables.iter().map(lock).collect::<Vec<_>>().join(", "))
}

fn locking(lock: &str) -> Step<'_> {
    Step { statement: Some((lock, &[])), tail: frontend::NO_PARAMETERS }
}

fn diverged(detail: &str) -> Error {
    Error::internal("a reference table is not the same on every shard").detail(detail.to_owned())
}

/// The lead's text: the client's with the hidden columns behind its own.
fn returning(plan: &ImagesPlan, text: &str, conforming: bool) -> Result<String> {
    let tokens = lexer::tokenize(text, conforming)?;
    let end = tokens.get(plan.last).map_or(text.len(), |token| token.range().end);
    Ok(format!("{}{}", text.get(..end).unwrap_or(text), plan.returning))
}

/// A row of the lead's: its first columns are the client's, the others an image.
fn take_row(body: &[u8], columns: usize, images: Option<&mut Images<'_>>, out: &mut BytesMut) -> Result<()> {
    let Some(images) = images else {
        frontend::frame(out, backend::DATA_ROW, |b| b.put_slice(body));
        return Ok(());
    };
    let values = row_values(body)?;
    if columns > 0 {
        frontend::frame(out, backend::DATA_ROW, |b| put_values(b, values.iter().take(columns).copied(), columns));
    }
    let hidden = values.len().saturating_sub(columns);
    let mut tail = BytesMut::with_capacity(body.len() + 4 * hidden);
    tail.put_u16(u16::try_from(hidden).unwrap_or(u16::MAX));
    images.plan.binary.iter().for_each(|binary| tail.put_i16(i16::from(*binary)));
    put_values(&mut tail, values.iter().skip(columns).copied(), hidden);
    tail.put_u16(0);
    images.bytes += tail.len();
    if images.bytes > images.most {
        return Err(Error::new(
            codes::PROGRAM_LIMIT,
            format!("a write to a reference table whose rows take more than {} bytes", images.most),
        )
        .hint("Write fewer rows in one statement."));
    }
    images.rows.push(tail);
    Ok(())
}

/// A count and values, as DataRow and Bind have them.
fn put_values<'v>(out: &mut BytesMut, values: impl Iterator<Item = Option<&'v [u8]>>, count: usize) {
    out.put_u16(u16::try_from(count).unwrap_or(u16::MAX));
    for value in values {
        match value {
            None => out.put_i32(-1),
            Some(bytes) => {
                out.put_i32(i32::try_from(bytes.len()).unwrap_or(i32::MAX));
                out.put_slice(bytes);
            }
        }
    }
}
