//! COPY … TO STDOUT over several shards: the rows of each in turn, as one stream: the header of the first only, the
//! trailer once.

use crate::catalog::ShardId;
use crate::error::Error;
use crate::error::Result;
use crate::exec::backends::Backends;
use crate::exec::backends::Held;
use crate::exec::load::copied;
use crate::limits;
use crate::net::Connection;
use crate::wire::backend;
use crate::wire::copy::BINARY_HEADER;
use crate::wire::copy::Format;
use crate::wire::copy::Shape;
use crate::wire::frontend;
use bytes::BufMut;
use bytes::BytesMut;

/// The binary trailer.
const TRAILER: &[u8] = &[0xff, 0xff];

/// Gives the rows of every shard to the client; their number. All connections are in step again.
///
/// # Errors
/// `Ok(Err)`: a shard's error. `Err`: the client is gone.
pub async fn run(
    backends: &mut Backends,
    client: &mut Connection,
    shards: &[ShardId],
    shape: &Shape,
) -> std::result::Result<Result<u64>, std::io::Error> {
    let mut rows = 0;
    let mut failure = None;
    for (index, &shard) in shards.iter().enumerate() {
        let Some(held) = backends.find(shard) else { continue };
        if failure.is_some() {
            continue;
        }
        match one(held, client, shape, index == 0).await? {
            Ok(count) => rows += count,
            Err(error) => failure = Some(error),
        }
    }
    if let Some(error) = failure {
        give_up(backends, shards).await;
        return Ok(Err(error));
    }
    if shape.format == Format::Binary {
        frontend::frame(&mut client.write, backend::COPY_DATA, |b| b.put_slice(TRAILER));
    }
    Ok(Ok(rows))
}

/// After an error: what is left of the shards' answers is read and thrown away.
pub async fn give_up(backends: &mut Backends, shards: &[ShardId]) {
    backends.cancel.cancel().await;
    for &shard in shards {
        if let Some(held) = backends.find(shard).filter(|held| held.answering || (!held.unsynced && held.lease.broken))
        {
            let _ = rest(held).await;
        }
    }
}

async fn one(
    held: &mut Held,
    client: &mut Connection,
    shape: &Shape,
    first_shard: bool,
) -> std::result::Result<Result<u64>, std::io::Error> {
    let mut notices = BytesMut::new();
    let mut first = true;
    let count = loop {
        let (tag, body) = match held.lease.next(&mut notices).await {
            Ok(frame) => frame,
            Err(error) => {
                held.answering = false;
                return Ok(Err(error));
            }
        };
        match tag {
            backend::COPY_DATA => {
                if let Some(data) = kept(&body, shape, std::mem::take(&mut first), first_shard) {
                    frontend::frame(&mut client.write, backend::COPY_DATA, |b| b.put_slice(data));
                }
                if client.write.len() >= limits::WRITE_BURST_BYTES {
                    client.flush().await?;
                }
            }
            backend::COMMAND_COMPLETE => {
                held.answering = false;
                break copied(&body);
            }
            backend::ERROR => {
                held.answering = false;
                return Ok(Err(backend::error(&body)));
            }
            _ => {}
        }
    };
    client.write.extend_from_slice(&notices);
    if let Err(error) = rest(held).await {
        return Ok(Err(error));
    }
    Ok(count.ok_or_else(|| Error::internal("a copy ended without its count")))
}

/// What the client gets of a CopyData: headers once, trailers not.
fn kept<'a>(body: &'a [u8], shape: &Shape, first: bool, first_shard: bool) -> Option<&'a [u8]> {
    match shape.format {
        Format::Binary => {
            let skip = if first && !first_shard { BINARY_HEADER } else { 0 };
            let data = body.get(skip..).unwrap_or_default();
            let header = if first && first_shard { BINARY_HEADER } else { 0 };
            let data = if data.get(header..) == Some(TRAILER) { data.get(..header)? } else { data };
            (!data.is_empty()).then_some(data)
        }
        _ => (!(shape.header && first && !first_shard)).then_some(body),
    }
}

/// Reads to the end of the answer.
async fn rest(held: &mut Held) -> Result<()> {
    if held.unsynced && !held.answering {
        return Ok(());
    }
    if held.lease.dead {
        held.answering = false;
        return Ok(());
    }
    if !held.unsynced {
        frontend::put_empty(&mut held.lease.io.write, frontend::SYNC);
    }
    let mut notices = BytesMut::new();
    loop {
        let (tag, body) = held.lease.next(&mut notices).await.inspect_err(|_| held.answering = false)?;
        match tag {
            backend::READY => {
                held.answering = false;
                held.lease.note_ready(&body).inspect_err(|_| held.lease.dead = true)?;
                return Ok(());
            }
            backend::ERROR | backend::COMMAND_COMPLETE => {
                held.answering = false;
                if held.unsynced {
                    return Ok(());
                }
            }
            _ => {}
        }
    }
}
