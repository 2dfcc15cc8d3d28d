//! Statements of our own making on one connection, by the extended protocol: what is run on every shard when a
//! reference table is written.

use crate::error::Error;
use crate::error::Result;
use crate::exec::backends::Held;
use crate::limits;
use crate::net::Connection;
use crate::pool::ServerConnection;
use crate::pool::own_portal;
use crate::value::Oid;
use crate::wire::backend;
use crate::wire::frontend;
use bytes::BytesMut;

/// One execution.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The statement and the types of its parameters; `None`: the one of the step before it.
    pub statement: Option<(&'a str, &'a [Oid])>,
    /// A Bind message from its parameter formats on.
    pub tail: &'a [u8],
}

/// What became of the steps that were sent together.
#[derive(Debug, Default)]
pub struct Done {
    /// The command tag of each step.
    pub tags: Vec<String>,
    /// Whole frames of notices.
    pub notices: BytesMut,
}

/// Puts steps into a connection's buffer. Nothing may be owed on it; [`finish`] reads the answers.
pub fn send<'a>(held: &mut Held, steps: impl IntoIterator<Item = Step<'a>>) {
    let unsynced = held.unsynced;
    held.lease.broken = true;
    let server: &mut ServerConnection = &mut held.lease;
    let mut types: &[Oid] = &[];
    for step in steps {
        let portal = own_portal();
        if let Some((text, own)) = step.statement {
            types = own;
            server.put_parse(b"", text.as_bytes(), types);
        }
        server.put_bind(portal.as_bytes(), b"", step.tail, types);
        let out = &mut server.io.write;
        frontend::put_execute(out, portal.as_bytes(), 0);
        frontend::put_close_portal(out, portal.as_bytes());
    }
    frontend::put_empty(&mut server.io.write, if unsynced { frontend::FLUSH } else { frontend::SYNC });
}

/// Reads the answers to `steps` steps. `on_row` is given the number of the step and the body of each DataRow, with the
/// client's buffer to write to; the client gets what there is when there is much of it.
///
/// # Errors
/// `Ok(Err)`: what the server says, or `on_row`; the connection is in step again, unless it is lost. `Err`: the client
/// is gone.
pub async fn finish(
    held: &mut Held,
    steps: usize,
    mut client: Option<&mut Connection>,
    mut on_row: impl FnMut(usize, &[u8], Option<&mut BytesMut>) -> Result<()>,
) -> std::result::Result<Result<Done>, std::io::Error> {
    let mut done = Done::default();
    let mut failure: Option<Error> = None;
    loop {
        let (tag, body) = match held.lease.next(&mut done.notices).await {
            Ok(frame) => frame,
            Err(error) => return Ok(Err(error)),
        };
        match tag {
            backend::DATA_ROW => {
                let at = done.tags.len();
                if failure.is_none()
                    && let Err(error) = on_row(at, &body, client.as_deref_mut().map(|c| &mut c.write))
                {
                    failure = Some(error);
                }
            }
            backend::COMMAND_COMPLETE => {
                done.tags.push(String::from_utf8_lossy(&body).trim_end_matches('\0').to_owned());
            }
            backend::EMPTY_QUERY => done.tags.push(String::new()),
            backend::ERROR => {
                failure.get_or_insert(held.lease.error(&body));
                if held.unsynced {
                    break;
                }
            }
            backend::CLOSE_COMPLETE if held.unsynced && done.tags.len() == steps => break,
            backend::READY => {
                if let Err(error) = held.lease.note_ready(&body) {
                    held.lease.dead = true;
                    failure.get_or_insert(error);
                }
                break;
            }
            _ => {}
        }
        if let Some(client) = client.as_deref_mut()
            && client.write.len() >= limits::WRITE_BURST_BYTES
        {
            client.flush().await?;
        }
    }
    Ok(match failure {
        Some(error) => Err(error),
        None => Ok(done),
    })
}
