//! COPY … FROM STDIN over several shards: the client's data are cut into rows while they stream, and each row's bytes go
//! to the COPY of its shard; or all data go to every shard.
//!
//! Memory is bounded: what waits for a shard is written before more is read from the client.

use crate::catalog::ShardId;
use crate::error::Error;
use crate::error::Result;
use crate::error::codes;
use crate::exec::backends::Backends;
use crate::exec::backends::Held;
use crate::exec::copy::answered;
use crate::exec::copy::is_whole;
use crate::exec::copy::unexpected;
use crate::limits;
use crate::net::Connection;
use crate::pool::SentNumbers;
use crate::pool::own_portal;
use crate::value::Oid;
use crate::wire::HEAD;
use crate::wire::backend;
use crate::wire::frontend;
use bytes::Buf;
use bytes::BufMut;
use bytes::Bytes;
use bytes::BytesMut;
use futures::future::join_all;
use futures::future::select_all;
use std::collections::VecDeque;

/// Where a piece of the data goes.
pub enum Place {
    Every,
    One(usize),
    /// A server says what is wrong with it; if it does not, this is.
    Doomed(Error),
    Nowhere,
}

/// What decides where rows go.
pub trait Sort {
    /// Takes the client's bytes in.
    fn feed(&mut self, bytes: &[u8]);
    /// The next piece, where it goes, and how many lines it spans; with `last`, also what has no end.
    ///
    /// # Errors
    /// A row that has no place.
    fn next(&mut self, last: bool) -> Result<Option<(Place, BytesMut, u64)>>;
}

/// How many lines are remembered for the place of an error, for each shard.
const REMEMBERED: usize = 200_000;

/// One shard's part of the data.
#[derive(Default)]
struct Part {
    pending: BytesMut,
    /// Lines that were given to it.
    lines: u64,
    /// (its own line, the client's line) of rows that it may be at work on.
    known: VecDeque<(u64, u64)>,
    /// What is rewritten in its rows.
    numbers: Option<SentNumbers>,
}

impl Part {
    fn push(&mut self, bytes: &[u8], lines: u64, client_line: u64) {
        self.pending.put_slice(bytes);
        self.known.push_back((self.lines + 1, client_line));
        self.lines += lines;
        if self.known.len() > REMEMBERED {
            self.known.pop_front();
        }
    }

    /// As `push`, of a row.
    fn push_row(&mut self, bytes: &[u8], lines: u64, client_line: u64) {
        let start = self.pending.len();
        self.push(bytes, lines, client_line);
        if let Some(numbers) = &self.numbers {
            numbers.translate(self.pending.get_mut(start..).unwrap_or_default());
        }
    }

    fn frame(&mut self, held: &mut Held) {
        if !self.pending.is_empty() {
            let pending = &mut self.pending;
            frontend::frame(&mut held.lease.io.write, frontend::COPY_DATA, |b| b.put_slice(pending));
            pending.clear();
        }
    }

    /// The client's line for one of the shard's.
    fn client_line(&self, line: u64, client_lines: u64) -> Option<u64> {
        if line > self.lines {
            return Some(client_lines + (line - self.lines));
        }
        let at = self.known.partition_point(|(own, _)| *own <= line);
        let (own, client) = at.checked_sub(1).and_then(|at| self.known.get(at))?;
        Some(client + (line - own))
    }
}

/// How the client's data ended.
#[derive(Debug)]
enum End {
    Done,
    /// CopyFail, with its message.
    Failed(Bytes),
    /// A shard has answered early, or the data are wrong: the rest of them is nobody's.
    Early(Option<Error>),
}

/// Why it cannot go on at all.
#[derive(Debug)]
pub enum Lost {
    Client,
    Protocol(Error),
}

/// Starts COPY on every shard; the body of the first one's CopyInResponse. Nothing may be owed on the connections.
///
/// # Errors
/// What a server says; the caller brings the others back by [`give_up`].
pub async fn start(backends: &mut Backends, shards: &[ShardId], text: &str) -> Result<BytesMut> {
    for &shard in shards {
        let held = backends.find(shard).ok_or_else(|| Error::internal("a lease is gone"))?;
        held.lease.broken = true;
        held.answering = true;
        let portal = own_portal();
        let out = &mut held.lease.io.write;
        frontend::put_parse(out, b"", text.as_bytes(), &[]);
        frontend::put_bind(out, portal.as_bytes(), b"", frontend::NO_PARAMETERS);
        frontend::put_execute(out, portal.as_bytes(), 0);
        frontend::put_empty(out, frontend::FLUSH);
    }
    let waiting = backends.held.iter_mut().filter(|held| shards.contains(&held.shard));
    let answers = join_all(waiting.map(begun)).await;
    let mut first = None;
    for answer in answers {
        let body = answer?;
        first.get_or_insert(body);
    }
    first.ok_or_else(|| Error::internal("a copy on no shard"))
}

/// Waits for CopyInResponse or CopyOutResponse.
async fn begun(held: &mut Held) -> Result<BytesMut> {
    let mut notices = BytesMut::new();
    loop {
        let (tag, body) = held.lease.next(&mut notices).await.inspect_err(|_| held.answering = false)?;
        match tag {
            backend::COPY_IN | backend::COPY_OUT => return Ok(body),
            backend::ERROR => {
                held.answering = false;
                return Err(held.lease.error(&body));
            }
            _ => {}
        }
    }
}

/// Passes the client's data on until they end; the sum of the shards' counts. All connections are in step again.
/// `types`: of the columns of binary data, by the home shard's numbers.
///
/// # Errors
/// `Ok(Err)`: the copy failed. `Err`: the session is over.
pub async fn run(
    backends: &mut Backends,
    client: &mut Connection,
    shards: &[ShardId],
    sort: &mut impl Sort,
    types: &[Oid],
    same: bool,
) -> std::result::Result<Result<u64>, Lost> {
    let part = |shard: &ShardId| Part {
        numbers: backends.find(*shard).and_then(|held| held.lease.sent_numbers(types)),
        ..Part::default()
    };
    let parts = shards.iter().map(part).collect();
    let mut loader = Loader { parts, lines: 0, first: None, doomed: None };
    let end = loader.pass(backends, client, shards, sort).await?;
    Ok(loader.finish(backends, shards, end, same).await)
}

/// After a failure to start: brings back what has begun.
pub async fn give_up(backends: &mut Backends, shards: &[ShardId]) {
    let held = backends.held.iter_mut().filter(|held| shards.contains(&held.shard));
    join_all(held.map(|held| async move {
        if held.answering {
            put_fail(held, b"another shard has failed");
        }
        ended(held).await
    }))
    .await;
}

fn put_fail(held: &mut Held, message: &[u8]) {
    frontend::frame(&mut held.lease.io.write, frontend::COPY_FAIL, |b| {
        b.put_slice(message);
        b.put_u8(0);
    });
}

/// Reads to the end of one shard's answer: its count, if it has not failed.
async fn ended(held: &mut Held) -> Result<u64> {
    if held.lease.dead {
        return Err(Error::new(codes::CONNECTION_FAILURE, format!("connection to {} was lost", held.lease.place())));
    }
    let unsynced = held.unsynced;
    frontend::put_empty(&mut held.lease.io.write, if unsynced { frontend::FLUSH } else { frontend::SYNC });
    let mut notices = BytesMut::new();
    let (mut count, mut failure) = (None, None);
    loop {
        if unsynced && !held.answering {
            break;
        }
        let (tag, body) = match held.lease.next(&mut notices).await {
            Ok(frame) => frame,
            Err(error) => {
                held.answering = false;
                return Err(error);
            }
        };
        match tag {
            backend::COMMAND_COMPLETE => {
                held.answering = false;
                count = copied(&body);
            }
            backend::ERROR => {
                held.answering = false;
                failure.get_or_insert(held.lease.error(&body));
            }
            backend::READY => {
                held.answering = false;
                held.lease.note_ready(&body).inspect_err(|_| held.lease.dead = true)?;
                break;
            }
            _ => {}
        }
    }
    match failure {
        Some(error) => Err(error),
        None => count.ok_or_else(|| Error::internal("a copy ended without its count")),
    }
}

/// n of `COPY n`
pub fn copied(body: &[u8]) -> Option<u64> {
    std::str::from_utf8(body).ok()?.trim_end_matches('\0').strip_prefix("COPY ")?.parse().ok()
}

struct Loader {
    parts: Vec<Part>,
    /// Lines of the client's data so far.
    lines: u64,
    /// The first shard that was given a row: it knows how lines end.
    first: Option<usize>,
    doomed: Option<Error>,
}

impl Loader {
    async fn pass(
        &mut self,
        backends: &mut Backends,
        client: &mut Connection,
        shards: &[ShardId],
        sort: &mut impl Sort,
    ) -> std::result::Result<End, Lost> {
        client.flush().await.map_err(|_| Lost::Client)?;
        loop {
            let mut end = self.take(backends, client, shards, sort)?;
            if end.is_none() && self.doomed.is_some() {
                end = Some(End::Early(None));
            }
            if let Some(end) = end {
                return Ok(end);
            }
            if !is_whole(client).map_err(broken)? || self.pending(backends, shards) >= limits::WRITE_BURST_BYTES {
                self.write(backends, client, shards).await?;
            }
            if answered_any(backends, client, shards)? {
                return Ok(End::Early(None));
            }
            if client.write.len() >= limits::WRITE_BURST_BYTES {
                client.flush().await.map_err(|_| Lost::Client)?;
            }
            if !is_whole(client).map_err(broken)? {
                wait(backends, client, shards).await?;
                if answered_any(backends, client, shards)? {
                    return Ok(End::Early(None));
                }
            }
        }
    }

    fn pending(&self, backends: &Backends, shards: &[ShardId]) -> usize {
        let buffers = backends.held.iter().filter(|h| shards.contains(&h.shard)).map(|h| h.lease.io.write.len());
        buffers.sum::<usize>() + self.parts.iter().map(|part| part.pending.len()).sum::<usize>()
    }

    /// Deals with the client's messages that are there whole, up to a burst.
    fn take(
        &mut self,
        backends: &mut Backends,
        client: &mut Connection,
        shards: &[ShardId],
        sort: &mut impl Sort,
    ) -> std::result::Result<Option<End>, Lost> {
        loop {
            let head = match client.head().map_err(Lost::Protocol)? {
                Some(head) if client.read.len() >= head.total => head,
                _ => return Ok(None),
            };
            let body = client.read.get(HEAD..head.total).unwrap_or_default();
            let end = match head.tag {
                frontend::COPY_DATA => {
                    sort.feed(body);
                    None
                }
                frontend::COPY_DONE => Some(End::Done),
                frontend::COPY_FAIL => {
                    Some(End::Failed(Bytes::copy_from_slice(body.strip_suffix(b"\0").unwrap_or(body))))
                }
                // PostgreSQL ignores them here.
                frontend::FLUSH | frontend::SYNC => None,
                tag => return Err(Lost::Protocol(unexpected(tag))),
            };
            client.read.advance(head.total);
            if let Err(error) = self.place(sort, matches!(end, Some(End::Done))) {
                return Ok(Some(End::Early(Some(error))));
            }
            if end.is_some() {
                return Ok(end);
            }
            if self.doomed.is_some() || self.pending(backends, shards) >= limits::WRITE_BURST_BYTES {
                return Ok(None);
            }
        }
    }

    /// Gives the pieces that are whole to their shards.
    fn place(&mut self, sort: &mut impl Sort, last: bool) -> Result<()> {
        while self.doomed.is_none()
            && let Some((place, bytes, lines)) = sort.next(last).map_err(|error| in_line(error, self.lines + 1))?
        {
            let line = self.lines + 1;
            self.lines += lines;
            match place {
                Place::Every => self.parts.iter_mut().for_each(|part| part.push(&bytes, lines, line)),
                Place::One(at) => {
                    self.first.get_or_insert(at);
                    if let Some(part) = self.parts.get_mut(at) {
                        part.push_row(&bytes, lines, line);
                    }
                }
                Place::Doomed(error) => {
                    self.doomed = Some(in_line(error, line));
                    if let Some(part) = self.parts.get_mut(self.first.unwrap_or(0)) {
                        part.push_row(&bytes, lines, line);
                    }
                }
                Place::Nowhere => {}
            }
        }
        Ok(())
    }

    /// Writes what waits for the shards, to all at the same time.
    async fn write(
        &mut self,
        backends: &mut Backends,
        client: &mut Connection,
        shards: &[ShardId],
    ) -> std::result::Result<(), Lost> {
        self.frame(backends, shards);
        let held = backends.held.iter_mut().filter(|held| shards.contains(&held.shard));
        let sides = join_all(held.map(|held| async move {
            let mut news = BytesMut::new();
            while !held.lease.io.write.is_empty() && held.answering {
                if answered(&mut held.lease, &mut news).unwrap_or(true) {
                    break;
                }
                if held.lease.io.write_some().await.is_err() {
                    held.lease.dead = true;
                    held.answering = false;
                }
            }
            news
        }))
        .await;
        sides.iter().for_each(|news| client.write.extend_from_slice(news));
        Ok(())
    }

    fn frame(&mut self, backends: &mut Backends, shards: &[ShardId]) {
        for (part, &shard) in self.parts.iter_mut().zip(shards) {
            if let Some(held) = backends.find(shard) {
                part.frame(held);
            }
        }
    }

    async fn finish(&mut self, backends: &mut Backends, shards: &[ShardId], end: End, same: bool) -> Result<u64> {
        self.frame(backends, shards);
        let doomed = self.doomed.take();
        let (fail, own) = match end {
            End::Done => (None, None),
            End::Failed(message) => (Some(message), None),
            End::Early(Some(error)) => (Some(Bytes::from_static(b"bad data")), Some(error)),
            // a server says what is wrong with the last row
            End::Early(None) if doomed.is_some() => (None, None),
            End::Early(None) => (Some(Bytes::from_static(b"another shard has failed")), None),
        };
        for &shard in shards {
            match (backends.find(shard), &fail) {
                (Some(held), Some(message)) => put_fail(held, message),
                (Some(held), None) => frontend::put_empty(&mut held.lease.io.write, frontend::COPY_DONE),
                (None, _) => {}
            }
        }
        let held = backends.held.iter_mut().filter(|held| shards.contains(&held.shard));
        let ended = join_all(held.map(|held| async move {
            let early = answered(&mut held.lease, &mut BytesMut::new()).unwrap_or(true);
            (held.shard, early, ended(held).await)
        }))
        .await;
        let mut failure: Option<(bool, Error)> = None;
        let mut counts = Vec::new();
        for (shard, early, outcome) in ended {
            match outcome {
                Ok(count) => counts.push(count),
                Err(error) => {
                    let at = shards.iter().position(|s| *s == shard);
                    let part = at.and_then(|at| self.parts.get(at));
                    let error = relocated(error, |line| part?.client_line(line, self.lines));
                    // An error that came by itself, not the one that was asked for.
                    if failure.as_ref().is_none_or(|(was_early, _)| early && !was_early) {
                        failure = Some((early, error));
                    }
                }
            }
        }
        match own.or(failure.map(|(_, error)| error)).or(doomed) {
            Some(error) => Err(error),
            None if same => match counts.first() {
                Some(first) if counts.iter().all(|count| count == first) => Ok(*first),
                _ => Err(Error::internal("a reference table is not the same on every shard")),
            },
            None => Ok(counts.iter().sum()),
        }
    }
}

fn in_line(mut error: Error, line: u64) -> Error {
    if error.raw.is_none() && error.detail.is_none() {
        error.detail = Some(format!("It is in line {line} of the data.").into());
    }
    error
}

fn broken(broken: crate::exec::relay::Broken) -> Lost {
    match broken {
        crate::exec::relay::Broken::Protocol(error) | crate::exec::relay::Broken::Server { error, .. } => {
            Lost::Protocol(error)
        }
        crate::exec::relay::Broken::Client => Lost::Client,
    }
}

/// Whether a shard has begun its answer, or is lost.
fn answered_any(
    backends: &mut Backends,
    client: &mut Connection,
    shards: &[ShardId],
) -> std::result::Result<bool, Lost> {
    let mut any = false;
    for held in backends.held.iter_mut().filter(|held| shards.contains(&held.shard)) {
        any |= !held.answering || answered(&mut held.lease, &mut client.write).unwrap_or(true);
    }
    Ok(any)
}

/// Waits for the client or any shard.
async fn wait(backends: &mut Backends, client: &mut Connection, shards: &[ShardId]) -> std::result::Result<(), Lost> {
    let held = backends.held.iter_mut().filter(|held| shards.contains(&held.shard));
    let servers = held.map(|held| {
        Box::pin(async move {
            if !matches!(held.lease.io.fill().await, Ok(n) if n > 0) {
                held.lease.dead = true;
                held.answering = false;
            }
        })
    });
    let servers = select_all(servers);
    tokio::select! {
        got = client.fill() => match got {
            Ok(n) if n > 0 => Ok(()),
            _ => Err(Lost::Client),
        },
        _ = servers => Ok(()),
    }
}

/// A server's error with the client's line in its context (`COPY t, line 3, column a: "x"`); a context whose line is
/// not known is left out.
fn relocated(mut error: Error, client_line: impl Fn(u64) -> Option<u64>) -> Error {
    let Some(raw) = &error.raw else { return error };
    let mut out = BytesMut::new();
    let mut reader = crate::wire::read::Reader::new(raw);
    while let Ok(code) = reader.u8() {
        if code == 0 {
            break;
        }
        let Ok(field) = reader.cstr() else { break };
        let place = match (code, std::str::from_utf8(field)) {
            (b'W', Ok(context)) => relocated_context(context, &client_line),
            (b'W', Err(_)) => None,
            _ => Some(field.to_vec()),
        };
        if let Some(field) = place {
            out.put_u8(code);
            out.put_slice(&field);
            out.put_u8(0);
        }
    }
    out.put_u8(0);
    error.raw = Some(out.freeze());
    error
}

fn relocated_context(context: &str, client_line: &impl Fn(u64) -> Option<u64>) -> Option<Vec<u8>> {
    let Some(start) = context.rfind("COPY ").filter(|_| context.contains(", line ")) else {
        // a trigger's own, or another language
        return (!context.contains("COPY ")).then(|| context.as_bytes().to_vec());
    };
    let at = start + context.get(start..)?.find(", line ")? + ", line ".len();
    let digits = context.get(at..)?.bytes().take_while(u8::is_ascii_digit).count();
    let line = client_line(context.get(at..at + digits)?.parse().ok()?)?;
    Some(format!("{}{line}{}", context.get(..at)?, context.get(at + digits..)?).into_bytes())
}
