//! The same statement on several shards, and one answer: all are started before any is waited for; rows flow through
//! the merge, which says whose row it wants next, so that what it does not want yet stays in the shards' sockets.

use crate::catalog::ShardId;
use crate::error::Error;
use crate::error::Result;
use crate::error::codes;
use crate::exec::backends::Backends;
use crate::exec::backends::Held;
use crate::exec::cache::Description;
use crate::exec::cache::Planned;
use crate::exec::finish;
use crate::exec::finish::FinalStatement;
use crate::exec::relay::Broken;
use crate::exec::room::Room;
use crate::exec::snapshots;
use crate::exec::snapshots::Bound;
use crate::limits;
use crate::merge::Merge;
use crate::merge::Want;
use crate::net::Connection;
use crate::plan::Layout;
use crate::plan::ScatterPlan;
use crate::plan::ShardColumn;
use crate::pool::RowNumbers;
use crate::pool::ServerConnection;
use crate::value::Oid;
use crate::value::oid;
use crate::variables::Variables;
use crate::wire::backend;
use crate::wire::backend::without_position;
use crate::wire::frontend;
use bytes::Buf;
use bytes::BufMut;
use bytes::BytesMut;
use futures::FutureExt;
use std::sync::Arc;

/// Values and formats of one execution.
#[derive(Clone, Copy)]
pub struct Execution<'a> {
    pub planned: &'a Planned,
    pub plan: &'a ScatterPlan,
    /// The shards' text, with the client's literals in it.
    pub text: &'a str,
    pub shards: &'a [ShardId],
    /// Parameter formats and values as in a Bind message, up to the result formats.
    pub parameters: &'a [u8],
    /// The format of each of the client's columns.
    pub formats: &'a [i16],
    pub limit: Option<u64>,
    pub offset: u64,
    /// All rows are kept in the client's write buffer, up to this many bytes, instead of being written as they come.
    pub keep: Option<usize>,
}

/// What rows of several shards are fed to.
pub trait Join {
    fn wants(&self) -> Want;

    /// # Errors
    /// What keeps the rows from becoming one answer.
    fn row(&mut self, input: usize, body: &[u8], out: &mut BytesMut) -> Result<()>;

    /// The input's CommandComplete has come, with this body.
    ///
    /// # Errors
    /// As for `row`.
    fn end(&mut self, input: usize, tag: &[u8], out: &mut BytesMut) -> Result<()>;
}

impl Join for Merge {
    fn wants(&self) -> Want {
        Merge::wants(self)
    }

    fn row(&mut self, input: usize, body: &[u8], out: &mut BytesMut) -> Result<()> {
        Merge::row(self, input, body, out)
    }

    fn end(&mut self, input: usize, _tag: &[u8], out: &mut BytesMut) -> Result<()> {
        Merge::end(self, input, out)
    }
}

/// Makes sure that a statement is prepared on a connection; true when a ParseComplete will come.
pub fn prepare(server: &mut ServerConnection, number: u64, text: &[u8], types: &[Oid]) -> bool {
    if server.statements.get(&number).is_some() {
        return false;
    }
    server.put_parse(statement_name(number).as_bytes(), text, types);
    server.statements.put(number, ());
    true
}

pub fn statement_name(number: u64) -> StatementName {
    let mut name = StatementName { bytes: *b"shardway_00000000000000000000", start: 0 };
    // Digits from behind, then the prefix before them.
    let mut rest = number;
    let mut at = name.bytes.len();
    for byte in name.bytes.iter_mut().rev() {
        *byte = b'0' + (rest % 10) as u8;
        rest /= 10;
        at -= 1;
        if rest == 0 {
            break;
        }
    }
    name.start = at.saturating_sub(PREFIX.len());
    for (byte, letter) in name.bytes.iter_mut().skip(name.start).zip(PREFIX) {
        *byte = *letter;
    }
    name
}

const PREFIX: &[u8] = b"shardway_";

/// A statement's name on servers: `shardway_<number>`, made without the heap, since every Bind names one.
#[derive(Clone, Copy, Debug)]
pub struct StatementName {
    bytes: [u8; PREFIX.len() + 20],
    start: usize,
}

impl StatementName {
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }
}

/// Closes the least recently used statements above the bound; how many CloseComplete will come.
pub fn evict(server: &mut ServerConnection) -> Vec<u64> {
    let mut closed = Vec::new();
    while server.statements.len() > limits::SERVER_STATEMENTS {
        let Some((number, ())) = server.statements.pop_lru() else { break };
        frontend::put_close_statement(&mut server.io.write, statement_name(number).as_bytes());
        closed.push(number);
    }
    closed
}

/// As `prepare` and `evict`, outside a client's pipeline: what the server does not confirm is taken back.
pub fn prepare_here(server: &mut ServerConnection, number: u64, text: &[u8], types: &[Oid]) {
    if prepare(server, number, text, types) {
        server.parsing(number);
        for closed in evict(server) {
            server.closing(closed);
        }
    }
}

/// Asks a server for a statement's parameter types and columns. Nothing may be owed on the connection.
///
/// # Errors
/// The server's error: the text is wrong, or a name in it is unknown; 08006 when it is gone.
pub async fn describe(held: &mut Held, number: u64, text: &[u8], types: &[Oid]) -> Result<Description> {
    let unsynced = held.unsynced;
    let server: &mut ServerConnection = &mut held.lease;
    server.broken = true;
    server.unknown_type = false;
    prepare_here(server, number, text, types);
    frontend::put_describe_statement(&mut server.io.write, statement_name(number).as_bytes());
    frontend::put_empty(&mut server.io.write, if unsynced { frontend::FLUSH } else { frontend::SYNC });
    let mut description = Description::default();
    let mut failure = None;
    let mut notices = BytesMut::new();
    loop {
        let (tag, body) = server.next(&mut notices).await?;
        // What cannot be read leaves the rest of the answer unread.
        note_description(server, &mut description, tag, &body).inspect_err(|_| server.dead = true)?;
        if tag == backend::ERROR {
            failure = Some(server.error(&body));
        }
        let last = match tag {
            backend::READY => true,
            backend::ROW_DESCRIPTION | backend::NO_DATA | backend::ERROR => unsynced,
            _ => false,
        };
        if last {
            break;
        }
    }
    match failure {
        Some(error) => Err(error),
        None if server.unknown_type => Err(server.lacks_type()),
        None => Ok(description),
    }
}

fn note_description(server: &mut ServerConnection, description: &mut Description, tag: u8, body: &[u8]) -> Result<()> {
    match tag {
        backend::PARSE_COMPLETE | backend::CLOSE_COMPLETE => server.confirmed(),
        backend::PARAMETER_DESCRIPTION => description.params = backend::parameter_description(body)?,
        backend::ROW_DESCRIPTION => description.fields = Some(backend::row_description(body)?),
        backend::ERROR => server.not_confirmed(),
        backend::READY => {
            server.note_ready(body)?;
        }
        _ => {}
    }
    Ok(())
}

/// The column types of the shard text, asked once.
async fn shard_types(held: &mut Held, execution: &Execution<'_>, params: &[Oid]) -> Result<Arc<Vec<Oid>>> {
    if let Some(types) = execution.planned.shard_types.get() {
        return Ok(Arc::clone(types));
    }
    let text = execution.text.as_bytes();
    let described = describe(held, execution.planned.scatter_number, text, params).await.map_err(without_position)?;
    let types = Arc::new(described.fields.unwrap_or_default().iter().map(|f| f.type_oid).collect::<Vec<_>>());
    Ok(Arc::clone(execution.planned.shard_types.get_or_init(|| types)))
}

/// Runs a scattered SELECT; rows go to the client, whose RowDescription the caller has sent. The number of rows.
///
/// # Errors
/// `Err(Broken)`: a lost peer. `Ok(Err)`: the statement failed; all shards are in step again.
pub async fn run(
    backends: &mut Backends,
    client: &mut Connection,
    variables: &Variables,
    execution: &Execution<'_>,
    description: &Description,
    preface: BytesMut,
) -> Result<Result<u64>, Broken> {
    if execution.plan.in_turn && execution.shards.len() > 1 {
        return Box::pin(run_in_turn(backends, client, variables, execution, description, preface)).await;
    }
    let database = Arc::clone(&backends.database);
    let started = match start(backends, &database.room, variables, execution, description).await {
        Ok(started) => started,
        // What was sent already is answered; it must not be taken for the answer to the next statement.
        Err(error) => return bring_back(backends, execution.shards, Ok(Err(error))).await.map(|r| r.map(|()| 0)),
    };
    let Started { mut merge, last, parameters, bound } = started;
    let mut preface = preface;
    let Some(last) = last else {
        if bound.told {
            client.write.extend_from_slice(&preface.split());
        }
        let outcome = drive(backends, client, execution.shards, execution.keep, &mut merge, &mut preface).await;
        client.write.extend_from_slice(&preface);
        return bring_back(backends, execution.shards, outcome).await.map(|r| r.map(|()| merge.rows()));
    };
    let outcome = drive(backends, client, execution.shards, execution.keep, &mut merge, &mut BytesMut::new()).await;
    if let Err(error) = bring_back(backends, execution.shards, outcome).await? {
        return Ok(Err(error));
    }
    let one = Execution { shards: execution.shards.get(..1).unwrap_or_default(), ..*execution };
    let arrays = merge.take_arrays(&last.elements);
    let mut answer = Merge::pass(one.formats.len());
    if let Err(error) = start_last(backends, &one, &last, description, &parameters, &arrays).await {
        return bring_back(backends, one.shards, Ok(Err(error))).await.map(|r| r.map(|()| 0));
    }
    drop(arrays);
    let outcome = drive(backends, client, one.shards, one.keep, &mut answer, &mut preface).await;
    client.write.extend_from_slice(&preface);
    bring_back(backends, one.shards, outcome).await.map(|r| r.map(|()| answer.rows()))
}

/// One shard after the other, each for the rows that are missing.
async fn run_in_turn(
    backends: &mut Backends,
    client: &mut Connection,
    variables: &Variables,
    execution: &Execution<'_>,
    description: &Description,
    preface: BytesMut,
) -> Result<Result<u64>, Broken> {
    let (mut preface, mut rows, mut left) = (preface, 0, execution.limit);
    for shard in execution.shards.chunks(1) {
        let one = Execution { shards: shard, limit: left, ..*execution };
        let before = std::mem::take(&mut preface);
        match Box::pin(run(backends, client, variables, &one, description, before)).await? {
            Ok(given) => {
                rows += given;
                left = left.map(|left| left.saturating_sub(given));
            }
            Err(error) => return Ok(Err(error)),
        }
        if left == Some(0) {
            break;
        }
    }
    Ok(Ok(rows))
}

/// What the shards were sent.
struct Started<'r> {
    merge: Merge,
    /// What one server runs over their rows.
    last: Option<Arc<FinalStatement>>,
    /// Parameter formats and values, those of the times too.
    parameters: BytesMut,
    bound: Bound<'r>,
}

/// Sends the final statement with the shards' rows.
async fn start_last(
    backends: &mut Backends,
    execution: &Execution<'_>,
    last: &FinalStatement,
    description: &Description,
    parameters: &[u8],
    arrays: &[BytesMut],
) -> Result<()> {
    let tail = with_formats(&finish::with_values(parameters, arrays)?, execution.formats);
    let first = execution.shards.first().copied().ok_or_else(|| Error::internal("a scatter over no shards"))?;
    let held = backends.find(first).ok_or_else(|| Error::internal("a lease is gone"))?;
    put_bind(held, last.number, last.text.as_bytes(), &last.types, &tail);
    let types = description.fields.iter().flatten().map(|f| f.type_oid);
    held.lease.rows = held.lease.row_numbers(types.zip(execution.formats.iter().copied()))?;
    put_execute(held);
    flush(held).await
}

/// Adds a statement's Bind.
fn put_bind(held: &mut Held, number: u64, text: &[u8], types: &[Oid], tail: &[u8]) {
    let server: &mut ServerConnection = &mut held.lease;
    server.broken = true;
    prepare_here(server, number, text, types);
    server.put_bind(b"", statement_name(number).as_bytes(), tail, types);
}

/// Adds the execution of what is bound, with the end that its connection needs.
pub(super) fn put_execute(held: &mut Held) {
    held.answering = true;
    held.owes_ready = !held.unsynced;
    let out = &mut held.lease.io.write;
    frontend::put_execute(out, b"", 0);
    frontend::put_empty(out, if held.unsynced { frontend::FLUSH } else { frontend::SYNC });
}

async fn flush(held: &mut Held) -> Result<()> {
    match held.lease.io.flush().await {
        Ok(()) => Ok(()),
        Err(error) => {
            held.lease.dead = true;
            Err(held.lease.lost(&error))
        }
    }
}

/// Sends to every shard what it has to run.
async fn start<'r>(
    backends: &mut Backends,
    room: &'r Room,
    variables: &Variables,
    execution: &Execution<'_>,
    description: &Description,
) -> Result<Started<'r>> {
    let fields = description.fields.as_deref().unwrap_or_default();
    let client_types: Vec<Oid> = fields.iter().map(|f| f.type_oid).collect();
    // Every connection first: one that cannot be had must not leave others at work.
    for &shard in execution.shards {
        backends.acquire(shard, variables).await?;
    }
    backends.take_together(execution.shards, variables).await?;
    let first = execution.shards.first().copied().ok_or_else(|| Error::internal("a scatter over no shards"))?;
    let mut params = description.params.clone();
    let mut parameters = BytesMut::from(execution.parameters);
    if let Some(moment) = execution.plan.moment {
        if moment.transaction != params.len() + 1 {
            return Err(Error::internal("the number of parameters is not the plan's"));
        }
        params.extend([oid::TIMESTAMPTZ; 2]);
        // The transaction's clock, where it has one; its connection may be none of the statement's.
        let clock = backends.transaction.clock.filter(|_| backends.transaction.is_block()).unwrap_or(first);
        let clock = backends.find(clock).ok_or_else(|| Error::internal("a lease is gone"))?;
        parameters = finish::with_values(&parameters, &finish::times(clock).await?)?;
    }
    let held = backends.find(first).ok_or_else(|| Error::internal("a lease is gone"))?;
    if execution.plan.in_turn {
        params.push(oid::INT8);
        let most = execution.limit.map_or(i64::MAX, |l| i64::try_from(l).unwrap_or(i64::MAX));
        parameters = finish::with_values(&parameters, &[most.to_be_bytes()])?;
    }
    let types = shard_types(held, execution, &params).await?;
    let bound = backends.database.config.merge_bytes;
    let formats;
    let (merge, last) = match &execution.plan.layout {
        Layout::Final(last) => {
            refuse_unequal(backends, &types)?;
            let held = backends.find(first).ok_or_else(|| Error::internal("a lease is gone"))?;
            let last = finish::statement(held, execution.planned, last, &types, &params, description).await?;
            finish::check_text(held, variables, &last.formats)?;
            formats = last.formats.clone();
            (Merge::gather(types.len(), execution.shards.len(), bound), Some(last))
        }
        Layout::Rows { .. } | Layout::Grouped { .. } => {
            let (columns, spec) = execution.plan.resolve(fields.len());
            let inputs = execution.shards.len();
            let (limit, offset) = (execution.limit, execution.offset);
            let merge = Merge::new(&spec, &types, execution.formats, &client_types, inputs, limit, offset, bound);
            let merge = match (merge, otherwise(execution)) {
                (Err(error), Some(other)) if error.code == codes::NOT_SUPPORTED => {
                    return Box::pin(start(backends, room, variables, &other, description)).await;
                }
                (merge, _) => merge?,
            };
            formats = result_formats(&columns, execution.formats);
            (merge, None)
        }
    };
    let (number, text) = (execution.planned.scatter_number, execution.text.as_bytes());
    let tail = with_formats(&parameters, &formats);
    let put = |held: &mut Held| put_bind(held, number, text, &params, &tail);
    let columns = || types.iter().copied().zip(formats.iter().copied());
    let looked_into = row_numbers(backends, execution.shards, columns)?;
    let bound = snapshots::bind(backends, room, variables, execution.shards, put).await?;
    look_into(backends, execution.shards, looked_into);
    execute_all(backends, execution.shards).await?;
    Ok(Started { merge, last, parameters, bound })
}

/// What has to be looked into in the rows of each shard; see [`ServerConnection::row_numbers`].
pub(super) fn row_numbers<C: Iterator<Item = (Oid, i16)>>(
    backends: &mut Backends,
    shards: &[ShardId],
    columns: impl Fn() -> C,
) -> Result<Vec<Option<Arc<RowNumbers>>>> {
    let one = |shard: &ShardId| match backends.find(*shard) {
        Some(held) => held.lease.row_numbers(columns()),
        None => Ok(None),
    };
    shards.iter().map(one).collect()
}

/// Tells the connections of what is bound: their own answers before that are none of these rows.
pub(super) fn look_into(backends: &mut Backends, shards: &[ShardId], rows: Vec<Option<Arc<RowNumbers>>>) {
    for (&shard, rows) in shards.iter().zip(rows) {
        if let Some(held) = backends.find(shard) {
            held.lease.rows = rows;
        }
    }
}

/// Starts what is bound on every shard, before any is waited for.
pub(super) async fn execute_all(backends: &mut Backends, shards: &[ShardId]) -> Result<()> {
    for &shard in shards {
        put_execute(backends.find(shard).ok_or_else(|| Error::internal("a lease is gone"))?);
    }
    for &shard in shards {
        if let Some(held) = backends.find(shard) {
            flush(held).await?;
        }
    }
    Ok(())
}

/// The same by a final statement, for types that the merge does not take.
fn otherwise<'a>(execution: &Execution<'a>) -> Option<Execution<'a>> {
    let planned: &'a Planned = execution.planned.otherwise.as_deref()?;
    let plan: &'a ScatterPlan = execution.plan.otherwise.as_deref()?;
    let text = planned.shard_text.as_deref()?;
    Some(Execution { planned, plan, text, limit: None, offset: 0, ..*execution })
}

/// Types that are defined otherwise on some shard have no order, and no text, that all shards agree on.
fn refuse_unequal(backends: &Backends, types: &[Oid]) -> Result<()> {
    let catalog = &backends.snapshot().catalog;
    if types.iter().any(|t| catalog.unequal_types.contains(t)) {
        return Err(Error::unsupported(
            "a statement over several shards that compares or computes values of this user-defined type",
        )
        .detail("The type is not defined alike on every shard.")
        .hint("Make the type the same on every shard."));
    }
    Ok(())
}

/// Client columns in the client's format, hidden ones in binary.
fn result_formats(columns: &[ShardColumn], formats: &[i16]) -> Vec<i16> {
    let format = |column: &ShardColumn| match column {
        ShardColumn::Client(n) => formats.get(*n).copied().unwrap_or(0),
        ShardColumn::Hidden => 1,
    };
    columns.iter().map(format).collect()
}

/// Parameter formats and values, and behind them the formats of the result.
fn with_formats(parameters: &[u8], formats: &[i16]) -> BytesMut {
    let mut tail = BytesMut::with_capacity(parameters.len() + 2 + 2 * formats.len());
    tail.put_slice(parameters);
    tail.put_u16(u16::try_from(formats.len()).unwrap_or(u16::MAX));
    formats.iter().for_each(|format| tail.put_i16(*format));
    tail
}

/// Feeds the answers of the shards until nothing more is wanted of them.
pub(super) async fn drive<J: Join>(
    backends: &mut Backends,
    client: &mut Connection,
    shards: &[ShardId],
    keep: Option<usize>,
    merge: &mut J,
    preface: &mut BytesMut,
) -> Result<Result<()>, Broken> {
    while let Want::Input(input) = merge.wants() {
        let Some(held) = shards.get(input).and_then(|&s| backends.find(s)) else {
            return Ok(Err(Error::internal("the merge wants an input that is not there")));
        };
        let fed = feed(held, client, merge, input, preface, keep);
        let server: &mut ServerConnection = &mut held.lease;
        match fed {
            Ok(true) => {}
            Ok(false) => {
                if let Err(error) = wait(server, client, keep.is_none()).await? {
                    return Ok(Err(error));
                }
            }
            Err(error) => return Ok(Err(error)),
        }
        if keep.is_none() && client.write.len() >= limits::WRITE_BURST_BYTES {
            client.flush().await.map_err(|_| Broken::Client)?;
        }
    }
    Ok(Ok(()))
}

/// Feeds frames of one input while the merge wants this input; false when bytes are missing.
fn feed<J: Join>(
    held: &mut Held,
    client: &mut Connection,
    merge: &mut J,
    input: usize,
    preface: &mut BytesMut,
    keep: Option<usize>,
) -> Result<bool> {
    let server: &mut ServerConnection = &mut held.lease;
    let mut buffer = std::mem::take(&mut server.io.read);
    let mut at = 0;
    let mut result = Ok(false);
    loop {
        if let Some(most) = keep.filter(|most| client.write.len() > *most) {
            result = Err(Error::new(
                codes::PROGRAM_LIMIT,
                format!("a portal over several shards keeps more than {most} bytes"),
            )
            .hint("Add LIMIT to the query, or fetch all rows at once."));
            break;
        }
        let burst = keep.is_none() && client.write.len() >= limits::WRITE_BURST_BYTES;
        if merge.wants() != Want::Input(input) || burst {
            result = Ok(true);
            break;
        }
        let rest = buffer.get(at..).unwrap_or_default();
        let head = match crate::wire::head(rest, server.io.max_message) {
            Ok(Some(head)) if rest.len() >= head.total => head,
            Ok(_) => break,
            Err(error) => {
                result = Err(error);
                break;
            }
        };
        let (start, end) = (at + crate::wire::HEAD, at + head.total);
        if server.rows.is_some()
            && let Err(error) = server.translate(head.tag, buffer.get_mut(start..end).unwrap_or_default())
        {
            result = Err(error);
            break;
        }
        let body = buffer.get(start..end).unwrap_or_default();
        at = end;
        match server.is_ahead(head.tag, body) {
            Ok(true) => continue,
            Ok(false) => {}
            Err(error) => {
                result = Err(error);
                break;
            }
        }
        if matches!(head.tag, backend::COMMAND_COMPLETE | backend::ERROR) {
            held.answering = false;
        }
        let step = match head.tag {
            backend::DATA_ROW => merge.row(input, body, &mut client.write),
            backend::COMMAND_COMPLETE | backend::EMPTY_QUERY => merge.end(input, body, &mut client.write),
            backend::ERROR => {
                preface.clear();
                Err(failed(server, body))
            }
            backend::PARSE_COMPLETE | backend::CLOSE_COMPLETE => {
                server.confirmed();
                Ok(())
            }
            backend::BIND_COMPLETE => {
                client.write.extend_from_slice(preface);
                preface.clear();
                Ok(())
            }
            backend::PARAMETER_STATUS => {
                server.note_parameter(body);
                Ok(())
            }
            backend::NOTICE | backend::NOTIFICATION => {
                frontend::frame(&mut client.write, head.tag, |b| b.put_slice(body));
                Ok(())
            }
            backend::READY => {
                server.dead = true;
                Err(Error::internal("a shard ended its answer early"))
            }
            _ => Ok(()),
        };
        if let Err(error) = step {
            result = Err(error);
            break;
        }
    }
    let _ = buffer.split_to(at.min(buffer.len()));
    server.io.read = buffer;
    result
}

/// Waits for bytes from a shard. The client gets what there is (`give`) when none have come yet, and is seen to go away.
async fn wait(server: &mut ServerConnection, client: &mut Connection, give: bool) -> Result<Result<()>, Broken> {
    if give && !client.write.is_empty() {
        if let Some(got) = server.io.exchange().now_or_never() {
            return Ok(received(server, got));
        }
        client.flush().await.map_err(|_| Broken::Client)?;
    }
    loop {
        let watch = client.read.len() < limits::READ_BURST_BYTES;
        tokio::select! {
            biased;
            got = server.io.exchange() => return Ok(received(server, got)),
            got = client.fill(), if watch => {
                if !matches!(got, Ok(n) if n > 0) {
                    return Err(Broken::Client);
                }
            }
        }
    }
}

fn received(server: &mut ServerConnection, got: std::io::Result<usize>) -> Result<()> {
    got.map(|_| ()).map_err(|e| {
        server.dead = true;
        server.lost(&e)
    })
}

/// The error that a shard has reported, as the client is to see it.
pub(super) fn failed(server: &mut ServerConnection, body: &[u8]) -> Error {
    let error = server.error(body);
    server.not_confirmed();
    if error.is_fatal() { server.ended(&error) } else { without_position(error) }
}

/// Brings every shard's connection back in step: what is left of its answer is read and thrown away; after an error
/// the others are cancelled first.
pub(super) async fn bring_back(
    backends: &mut Backends,
    shards: &[ShardId],
    outcome: Result<Result<()>, Broken>,
) -> Result<Result<()>, Broken> {
    if !matches!(outcome, Ok(Ok(()))) {
        backends.cancel.cancel().await;
    }
    let mut outcome = outcome?;
    for &shard in shards {
        let Some(held) = backends.find(shard) else { continue };
        held.lease.rows = None;
        if let Err(error) = drain(held).await
            && outcome.is_ok()
        {
            outcome = Err(error);
        }
    }
    Ok(outcome)
}

/// Throws whole rows away that have come and that nobody wants.
fn pass_rows(server: &mut ServerConnection) {
    if server.begun_ahead {
        return;
    }
    let mut at = 0;
    loop {
        let rest = server.io.read.get(at..).unwrap_or_default();
        match crate::wire::head(rest, server.io.max_message) {
            Ok(Some(head)) if head.tag == backend::DATA_ROW && rest.len() >= head.total => at += head.total,
            // What is wrong with it is told by who reads it.
            _ => break,
        }
    }
    server.io.read.advance(at);
}

/// Reads to the end of one shard's answer: ReadyForQuery after a Sync, else CommandComplete or an error.
async fn drain(held: &mut Held) -> Result<()> {
    let mut notices = BytesMut::new();
    let mut failure = None;
    while held.answering || (!held.unsynced && held.owes_ready) {
        pass_rows(&mut held.lease);
        let (tag, body) = match held.lease.next(&mut notices).await {
            Ok(frame) => frame,
            Err(error) => {
                held.answering = false;
                held.owes_ready = false;
                return Err(error);
            }
        };
        match tag {
            backend::ERROR => {
                held.answering = false;
                failure = Some(failed(&mut held.lease, &body));
            }
            backend::PARSE_COMPLETE | backend::CLOSE_COMPLETE => held.lease.confirmed(),
            backend::COMMAND_COMPLETE => held.answering = false,
            backend::READY => {
                held.lease.note_ready(&body).inspect_err(|_| held.lease.dead = true)?;
                held.answering = false;
                held.owes_ready = false;
            }
            _ => {}
        }
    }
    match failure {
        Some(error) => Err(error),
        None => Ok(()),
    }
}
