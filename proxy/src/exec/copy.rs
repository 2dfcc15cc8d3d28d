//! COPY FROM STDIN on one shard: the client's data go to the server while its answer is listened for.

use crate::exec::relay::Broken;
use crate::limits;
use crate::net::Connection;
use crate::pool::ServerConnection;
use crate::wire::backend;
use crate::wire::frontend;
use bytes::Buf;

/// How the client ended its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyEnd {
    /// CopyDone or CopyFail was passed on; the server's answer comes.
    Sent,
    /// The server has answered before the end (an error): the rest of the client's data is nobody's.
    Answered,
}

/// Passes CopyData on until the client ends it. After an error the server throws the rest away itself (simple
/// protocol: it ignores copy messages; extended: it skips to Sync), so the caller reads on until its answer.
///
/// # Errors
/// Who was lost, or a message that has no place in a copy.
pub async fn copy_in(server: &mut ServerConnection, client: &mut Connection) -> Result<CopyEnd, Broken> {
    client.flush().await.map_err(|_| Broken::Client)?;
    loop {
        match pass(server, client)? {
            Passed::End => return Ok(CopyEnd::Sent),
            Passed::More => {}
        }
        if server.io.write.len() >= limits::WRITE_BURST_BYTES {
            write(server).await?;
        }
        if answered(server)? {
            return Ok(CopyEnd::Answered);
        }
        if client.head().map_err(|_| Broken::Client)?.is_some_and(|h| client.read.len() >= h.total) {
            continue;
        }
        write(server).await?;
        tokio::select! {
            got = client.fill() => {
                if !matches!(got, Ok(n) if n > 0) {
                    return Err(Broken::Client);
                }
            }
            got = server.io.fill() => {
                match got {
                    Ok(n) if n > 0 => {}
                    Ok(_) => return Err(gone(server, &std::io::ErrorKind::UnexpectedEof.into())),
                    Err(e) => return Err(gone(server, &e)),
                }
            }
        }
    }
}

fn gone(server: &ServerConnection, error: &std::io::Error) -> Broken {
    Broken::Server { error: server.lost(error), torn: false }
}

/// Writes to the server, reading what it says meanwhile: it may stop reading to report an error.
async fn write(server: &mut ServerConnection) -> Result<(), Broken> {
    while !server.io.write.is_empty() {
        if let Err(e) = server.io.write_some().await {
            return Err(gone(server, &e));
        }
        if answered(server)? {
            server.io.write.clear();
            return Ok(());
        }
    }
    Ok(())
}

/// An error stands in what the server has sent.
fn answered(server: &ServerConnection) -> Result<bool, Broken> {
    let mut rest: &[u8] = &server.io.read;
    loop {
        match crate::wire::head(rest, server.io.max_message) {
            Ok(Some(head)) if rest.len() >= head.total => {
                if head.tag == backend::ERROR {
                    return Ok(true);
                }
                rest = rest.get(head.total..).unwrap_or_default();
            }
            Ok(_) => return Ok(false),
            Err(error) => return Err(Broken::Server { error, torn: false }),
        }
    }
}

enum Passed {
    More,
    End,
}

fn pass(server: &mut ServerConnection, client: &mut Connection) -> Result<Passed, Broken> {
    loop {
        let head = match client.head() {
            Ok(Some(head)) if client.read.len() >= head.total => head,
            Ok(_) => return Ok(Passed::More),
            Err(_) => return Err(Broken::Client),
        };
        let frame = client.read.get(..head.total).unwrap_or_default();
        match head.tag {
            frontend::COPY_DATA => server.io.write.extend_from_slice(frame),
            frontend::COPY_DONE | frontend::COPY_FAIL => {
                server.io.write.extend_from_slice(frame);
                client.read.advance(head.total);
                return Ok(Passed::End);
            }
            // PostgreSQL ignores them here.
            frontend::FLUSH | frontend::SYNC => {}
            frontend::TERMINATE => return Err(Broken::Client),
            tag => {
                // As PostgreSQL: an unexpected message ends the copy with an error; the message itself is lost.
                let message = format!("unexpected message type 0x{tag:02X} during COPY from stdin");
                frontend::frame(&mut server.io.write, frontend::COPY_FAIL, |b| {
                    b.extend_from_slice(message.as_bytes());
                    b.extend_from_slice(&[0]);
                });
                client.read.advance(head.total);
                return Ok(Passed::End);
            }
        }
        client.read.advance(head.total);
        if server.io.write.len() >= limits::WRITE_BURST_BYTES {
            return Ok(Passed::More);
        }
    }
}
