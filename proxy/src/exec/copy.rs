//! COPY FROM STDIN on one shard: the client's data go to the server while its answer is listened for.

use crate::error::Error;
use crate::exec::relay::Broken;
use crate::limits;
use crate::net::Connection;
use crate::pool::ServerConnection;
use crate::wire::HEAD;
use crate::wire::Tag;
use crate::wire::backend;
use crate::wire::frontend;
use bytes::Buf;
use bytes::BytesMut;

/// Passes CopyData on until the client ends it, or the server answers before the end: that is an error, after which the
/// rest of the client's data is nobody's (in the simple protocol the server ignores it, in the extended one it skips to
/// Sync). What is written to the server already stays whole frames: it throws them away itself. Notices go to the
/// client as they come. The caller reads on from the server's answer.
///
/// Not cancel-safe: a client that is in the middle of its data has to be brought to their end.
///
/// # Errors
/// Who was lost, or a message that has no place in a copy.
pub async fn copy_in(server: &mut ServerConnection, client: &mut Connection) -> Result<(), Broken> {
    client.flush().await.map_err(|_| Broken::Client)?;
    loop {
        let ended = pass(server, client)?;
        while server.io.write.len() >= limits::WRITE_BURST_BYTES && !answered(server, &mut client.write)? {
            server.io.write_some().await.map_err(|e| gone(server, &e))?;
        }
        if ended || answered(server, &mut client.write)? {
            return Ok(());
        }
        if client.write.len() >= limits::WRITE_BURST_BYTES {
            client.flush().await.map_err(|_| Broken::Client)?;
        }
        if is_whole(client)? {
            continue;
        }
        // Only when the client has nothing more to say now, the server gets what there is.
        while !server.io.write.is_empty() && !answered(server, &mut client.write)? {
            server.io.write_some().await.map_err(|e| gone(server, &e))?;
        }
        wait(server, client).await?;
    }
}

/// Waits for either side.
async fn wait(server: &mut ServerConnection, client: &mut Connection) -> Result<(), Broken> {
    if answered(server, &mut client.write)? {
        return Ok(());
    }
    tokio::select! {
        got = client.fill() => match got {
            Ok(n) if n > 0 => Ok(()),
            _ => Err(Broken::Client),
        },
        got = server.io.fill() => match got {
            Ok(n) if n > 0 => Ok(()),
            Ok(_) => Err(gone(server, &std::io::ErrorKind::UnexpectedEof.into())),
            Err(e) => Err(gone(server, &e)),
        },
    }
}

/// Whether the client's next message is there whole.
///
/// # Errors
/// One that has no place in a copy: its type is enough to tell.
pub fn is_whole(client: &Connection) -> Result<bool, Broken> {
    match client.read.first() {
        Some(&tag) if !is_expected(tag) => return Err(Broken::Protocol(unexpected(tag))),
        _ => {}
    }
    let head = client.head().map_err(Broken::Protocol)?;
    Ok(head.is_some_and(|h| client.read.len() >= h.total))
}

fn is_expected(tag: Tag) -> bool {
    let data = matches!(tag, frontend::COPY_DATA | frontend::COPY_DONE | frontend::COPY_FAIL);
    data || matches!(tag, frontend::FLUSH | frontend::SYNC)
}

/// A message that has no place in a copy. PostgreSQL tells it and then ends the session, since it has not read the
/// message (CopyGetData in copyfromparse.c).
pub fn unexpected(tag: Tag) -> Error {
    let message = format!("unexpected message type 0x{tag:02X} during COPY from stdin");
    let mut error = Error::protocol_error(message);
    error.last_words = Some(Error::protocol("terminating connection because protocol synchronization was lost"));
    error
}

fn gone(server: &ServerConnection, error: &std::io::Error) -> Broken {
    Broken::Server { error: server.lost(error), torn: false }
}

/// Whether the server has begun its answer. What comes beside it (a trigger's notices) is dealt with and not kept, since
/// there may be one for every row.
pub fn answered(server: &mut ServerConnection, news: &mut BytesMut) -> Result<bool, Broken> {
    loop {
        let head = match crate::wire::head(&server.io.read, server.io.max_message) {
            Ok(Some(head)) => head,
            Ok(None) => return Ok(false),
            Err(error) => return Err(Broken::Server { error, torn: false }),
        };
        if !backend::is_asynchronous(head.tag) {
            return Ok(true);
        }
        if server.io.read.len() < head.total {
            return Ok(false);
        }
        let frame = server.io.read.split_to(head.total);
        match head.tag {
            backend::PARAMETER_STATUS => server.note_parameter(frame.get(HEAD..).unwrap_or_default()),
            _ => news.extend_from_slice(&frame),
        }
    }
}

/// Moves the client's messages that are there whole to the server's buffer, up to a burst; true when the data ended.
fn pass(server: &mut ServerConnection, client: &mut Connection) -> Result<bool, Broken> {
    while server.io.write.len() < limits::WRITE_BURST_BYTES {
        let head = match client.head().map_err(Broken::Protocol)? {
            Some(head) if client.read.len() >= head.total => head,
            _ => return Ok(false),
        };
        let frame = client.read.get(..head.total).unwrap_or_default();
        let ended = match head.tag {
            frontend::COPY_DATA => {
                server.io.write.extend_from_slice(frame);
                false
            }
            frontend::COPY_DONE | frontend::COPY_FAIL => {
                server.io.write.extend_from_slice(frame);
                true
            }
            // PostgreSQL ignores them here.
            frontend::FLUSH | frontend::SYNC => false,
            tag => return Err(Broken::Protocol(unexpected(tag))),
        };
        client.read.advance(head.total);
        if ended {
            return Ok(true);
        }
    }
    Ok(false)
}
