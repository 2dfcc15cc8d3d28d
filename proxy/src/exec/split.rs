//! A write on several shards: each gets a text of its own, all are started before any is waited for, rows that come
//! back are given in the order of the rows that were sent, and counts are added.

use crate::catalog::ShardId;
use crate::error::Error;
use crate::error::Result;
use crate::exec::backends::Backends;
use crate::exec::backends::Held;
use crate::exec::relay::Broken;
use crate::exec::room::Room;
use crate::exec::scatter::Join;
use crate::exec::scatter::bring_back;
use crate::exec::scatter::drive;
use crate::exec::scatter::execute_all;
use crate::exec::scatter::look_into;
use crate::exec::scatter::row_numbers;
use crate::exec::snapshots;
use crate::exec::snapshots::Bound;
use crate::merge::Want;
use crate::net::Connection;
use crate::pool::ServerConnection;
use crate::value::Oid;
use crate::variables::Variables;
use crate::wire::backend;
use crate::wire::backend::Field;
use crate::wire::frontend;
use bytes::BufMut;
use bytes::Bytes;
use bytes::BytesMut;
use std::sync::Arc;

/// What one shard runs.
#[derive(Debug)]
pub struct ShardText {
    pub shard: ShardId,
    pub text: String,
    /// Parameter formats and values as in a Bind message, up to the result formats.
    pub parameters: Bytes,
}

/// One execution.
pub struct Execution<'a> {
    pub texts: &'a [ShardText],
    /// Types of the client's parameters: a shard's text may leave some of them out.
    pub types: &'a [Oid],
    /// The columns of RETURNING, as the client was told, and the format of each.
    pub returning: Option<&'a [Field]>,
    pub formats: &'a [i16],
    /// For each row that comes back, which of the texts gives it; `None`: one text's rows after the other's.
    pub order: Option<Vec<u16>>,
    /// All rows are kept in the client's write buffer, up to this many bytes, instead of being written as they come.
    pub keep: Option<usize>,
    /// It reads tables: what it sees of them on several shards must belong together.
    pub reads: bool,
    /// The statement is part of a pipeline's transaction, which Sync ends.
    pub in_pipeline: bool,
}

/// Runs a write; rows go to the client behind `preface`. How many rows it has written.
///
/// # Errors
/// `Err(Broken)`: a lost peer. `Ok(Err)`: the statement failed; all shards are in step again.
pub async fn run(
    backends: &mut Backends,
    client: &mut Connection,
    variables: &Variables,
    execution: Execution<'_>,
    mut preface: BytesMut,
) -> Result<Result<u64>, Broken> {
    let shards: Vec<ShardId> = execution.texts.iter().map(|t| t.shard).collect();
    let database = Arc::clone(&backends.database);
    let bound = match start(backends, &database.room, variables, &execution, &shards).await {
        Ok(bound) => bound,
        // What was sent already is answered; it must not be taken for the answer to the next statement.
        Err(error) => return bring_back(backends, &shards, Ok(Err(error))).await.map(|r| r.map(|()| 0)),
    };
    if bound.told {
        client.write.extend_from_slice(&preface.split());
    }
    let mut rows = Rows::new(execution.order, shards.len());
    let outcome = drive(backends, client, &shards, execution.keep, &mut rows, &mut preface).await;
    client.write.extend_from_slice(&preface);
    let outcome = bring_back(backends, &shards, outcome).await?;
    if outcome.is_ok() {
        let wrote = shards.iter().zip(&rows.counts).filter(|(_, count)| **count > 0).map(|(shard, _)| *shard);
        backends.transaction.wrote.extend(wrote);
    }
    Ok(outcome.map(|()| rows.counts.iter().sum()))
}

async fn start<'r>(
    backends: &mut Backends,
    room: &'r Room,
    variables: &Variables,
    execution: &Execution<'_>,
    shards: &[ShardId],
) -> Result<Bound<'r>> {
    // Every connection first: one that cannot be had must not leave others at work.
    for text in execution.texts {
        let held = backends.acquire(text.shard, variables).await?;
        held.unsynced |= execution.in_pipeline;
    }
    backends.take_together(shards, variables).await?;
    let types = || execution.returning.iter().flat_map(|fields| fields.iter()).map(|f| f.type_oid);
    let looked_into = row_numbers(backends, shards, || types().zip(execution.formats.iter().copied()))?;
    let put = |held: &mut Held| {
        let Some(text) = execution.texts.iter().find(|text| text.shard == held.shard) else { return };
        let server: &mut ServerConnection = &mut held.lease;
        server.changed.clear();
        server.broken = true;
        server.put_parse(b"", text.text.as_bytes(), execution.types);
        server.put_bind(b"", b"", &bind_tail(&text.parameters, execution.formats), execution.types);
    };
    let bound = if execution.reads {
        snapshots::bind(backends, room, variables, shards, put).await?
    } else {
        backends.held.iter_mut().filter(|held| shards.contains(&held.shard)).for_each(put);
        Bound::default()
    };
    look_into(backends, shards, looked_into);
    execute_all(backends, shards).await?;
    Ok(bound)
}

fn bind_tail(parameters: &[u8], formats: &[i16]) -> BytesMut {
    let mut tail = BytesMut::with_capacity(parameters.len() + 2 + 2 * formats.len());
    tail.put_slice(parameters);
    tail.put_u16(u16::try_from(formats.len()).unwrap_or(u16::MAX));
    for format in formats {
        tail.put_i16(*format);
    }
    tail
}

/// Rows in the order of the rows that were sent.
struct Rows {
    order: Option<Vec<u16>>,
    /// How many were given.
    given: usize,
    ended: Vec<bool>,
    /// Rows that each has written.
    counts: Vec<u64>,
}

impl Rows {
    fn new(order: Option<Vec<u16>>, inputs: usize) -> Rows {
        Rows { order, given: 0, ended: vec![false; inputs], counts: vec![0; inputs] }
    }

    /// Whose row is next; `None` if all have come, or any order is right.
    fn next(&self) -> Option<usize> {
        self.order.as_ref()?.get(self.given).map(|input| usize::from(*input))
    }
}

impl Join for Rows {
    fn wants(&self) -> Want {
        let next = self.next().or_else(|| self.ended.iter().position(|ended| !ended));
        next.map_or(Want::Done, Want::Input)
    }

    fn row(&mut self, input: usize, body: &[u8], out: &mut BytesMut) -> Result<()> {
        if self.order.is_some() && self.next() != Some(input) {
            return Err(other_rows());
        }
        self.given += 1;
        frontend::frame(out, backend::DATA_ROW, |b| b.put_slice(body));
        Ok(())
    }

    fn end(&mut self, input: usize, tag: &[u8], _out: &mut BytesMut) -> Result<()> {
        if let Some(written) = self.counts.get_mut(input) {
            *written = count(tag);
        }
        if let Some(ended) = self.ended.get_mut(input) {
            *ended = true;
        }
        let missing = self.order.as_ref().and_then(|order| order.get(self.given..));
        if missing.is_some_and(|rest| rest.iter().any(|i| usize::from(*i) == input)) {
            return Err(other_rows());
        }
        Ok(())
    }
}

/// A trigger has left rows out: where the others belong cannot be told.
fn other_rows() -> Error {
    Error::unsupported("RETURNING of rows on several shards of which a trigger has left some out")
        .hint("Leave RETURNING out, or insert the rows of each shard key by themselves.")
}

/// The number at the end of a command tag.
fn count(tag: &[u8]) -> u64 {
    let text = std::str::from_utf8(tag).unwrap_or("").trim_end_matches('\0');
    text.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::Rows;
    use crate::exec::scatter::Join;
    use crate::merge::Want;
    use bytes::BytesMut;

    #[test]
    fn rows_come_in_the_order_in_which_they_were_sent() {
        let mut rows = Rows::new(Some(vec![1, 0, 1]), 2);
        let mut out = BytesMut::new();
        assert_eq!(rows.wants(), Want::Input(1));
        rows.row(1, b"a", &mut out).unwrap();
        assert_eq!(rows.wants(), Want::Input(0));
        rows.row(0, b"b", &mut out).unwrap();
        rows.row(1, b"c", &mut out).unwrap();
        assert_eq!(rows.wants(), Want::Input(0));
        rows.end(0, b"INSERT 0 1\0", &mut out).unwrap();
        rows.end(1, b"INSERT 0 2\0", &mut out).unwrap();
        assert_eq!((rows.wants(), rows.counts), (Want::Done, vec![1, 2]));
        assert_eq!(&out[..], b"D\0\0\0\x05aD\0\0\0\x05bD\0\0\0\x05c");
    }

    #[test]
    fn rows_that_were_left_out_are_noticed() {
        let mut rows = Rows::new(Some(vec![0, 1, 0]), 2);
        let mut out = BytesMut::new();
        rows.row(0, b"a", &mut out).unwrap();
        assert!(rows.end(1, b"INSERT 0 0\0", &mut out).is_err());
    }
}
