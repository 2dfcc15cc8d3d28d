//! Server → client: frames found by their heads and forwarded in runs, without looking into rows.

use crate::error::Error;
use crate::error::Result;
use crate::limits;
use crate::net::Connection;
use crate::pool::ServerConnection;
use crate::wire::HEAD;
use crate::wire::backend;
use bytes::Buf;
use futures::FutureExt;

/// What to do with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Forward,
    Swallow,
    /// Forward it and look up from the stream: the caller has to do something.
    ForwardStop,
    SwallowStop,
}

/// Why a scan ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scan {
    /// All that was there is done.
    More,
    Stopped,
}

/// What went wrong between the two.
#[derive(Debug)]
pub enum Broken {
    /// The client is gone: nobody is left to answer.
    Client,
    /// The server is gone or talks nonsense. `torn`: a part of a row is on its way to the client, so that no error can
    /// be put behind it.
    Server { error: Error, torn: bool },
    /// The client has broken the protocol: its session ends.
    Protocol(Error),
}

/// A row of which a part was forwarded already.
#[derive(Debug, Default)]
pub struct Relay {
    left: usize,
}

/// From this size on a row is forwarded in parts, so that memory stays small whatever the row's size.
const PARTIAL_FRAME: usize = 64 * 1024;

impl Relay {
    pub fn is_torn(&self) -> bool {
        self.left > 0
    }

    /// Goes through the frames that have come. Rows (DataRow, CopyData) are forwarded in runs without asking
    /// `on_frame`, which sees every other frame whole.
    pub fn scan(
        &mut self,
        server: &mut ServerConnection,
        client: &mut Connection,
        mut on_frame: impl FnMut(&mut ServerConnection, u8, &[u8]) -> Result<Action>,
    ) -> Result<Scan> {
        self.forward_rest(server, client);
        // Taken out so that frames can be looked at while the connection is told what they say.
        let mut buffer = std::mem::take(&mut server.io.read);
        let max = server.io.max_message;
        let mut run = 0; // start of what is to be forwarded
        let mut at = 0;
        let mut result = Ok(Scan::More);
        loop {
            let rest = buffer.get(at..).unwrap_or_default();
            let head = match crate::wire::head(rest, max) {
                Ok(Some(head)) => head,
                Ok(None) => break,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            };
            let is_row = matches!(head.tag, backend::DATA_ROW | backend::COPY_DATA);
            if rest.len() < head.total {
                // What is looked into is waited for whole.
                if is_row && head.total > PARTIAL_FRAME && !server.looks_into_rows() {
                    self.left = head.total - rest.len();
                    at = buffer.len();
                }
                break;
            }
            if (!is_row || server.looks_into_rows())
                && let Err(error) =
                    server.translate(head.tag, buffer.get_mut(at + HEAD..at + head.total).unwrap_or_default())
            {
                result = Err(error);
                break;
            }
            if is_row {
                at += head.total;
                continue;
            }
            let body = buffer.get(at + HEAD..at + head.total).unwrap_or_default();
            if !backend::is_whole(head.tag, body) {
                result = Err(backend::malformed(head.tag));
                break;
            }
            let action = match server
                .is_ahead(head.tag, body)
                .and_then(|ahead| if ahead { Ok(Action::Swallow) } else { on_frame(server, head.tag, body) })
            {
                Ok(action) => action,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            };
            let end = at + head.total;
            if let Some(own) = server.instead.take() {
                client.write.extend_from_slice(buffer.get(run..at).unwrap_or_default());
                client.write.extend_from_slice(&own);
                run = end;
            } else if matches!(action, Action::Swallow | Action::SwallowStop) {
                client.write.extend_from_slice(buffer.get(run..at).unwrap_or_default());
                run = end;
            }
            at = end;
            if matches!(action, Action::ForwardStop | Action::SwallowStop) {
                result = Ok(Scan::Stopped);
                break;
            }
        }
        client.write.extend_from_slice(buffer.get(run..at).unwrap_or_default());
        buffer.advance(at);
        server.io.read = buffer;
        result
    }

    fn forward_rest(&mut self, server: &mut ServerConnection, client: &mut Connection) {
        if self.left > 0 {
            let n = self.left.min(server.io.read.len());
            client.write.extend_from_slice(server.io.read.get(..n).unwrap_or_default());
            server.io.read.advance(n);
            self.left -= n;
        }
    }

    /// Runs scans until one stops, waiting for the server between them, and writing to the client in bursts.
    ///
    /// # Errors
    /// `Broken`: who was lost.
    pub async fn run(
        &mut self,
        server: &mut ServerConnection,
        client: &mut Connection,
        mut on_frame: impl FnMut(&mut ServerConnection, u8, &[u8]) -> Result<Action>,
    ) -> Result<(), Broken> {
        loop {
            if !server.io.read.is_empty() {
                match self.scan(server, client, &mut on_frame) {
                    Ok(Scan::Stopped) => return Ok(()),
                    Ok(Scan::More) => {}
                    Err(error) => return Err(Broken::Server { error, torn: self.is_torn() }),
                }
                if client.write.len() >= limits::WRITE_BURST_BYTES {
                    client.flush().await.map_err(|_| Broken::Client)?;
                }
            }
            if !client.write.is_empty() {
                // More may be there already; only when it is not, the client gets what there is.
                match server.io.exchange().now_or_never() {
                    Some(Ok(_)) => continue,
                    Some(Err(e)) => return Err(Broken::Server { error: server.lost(&e), torn: self.is_torn() }),
                    None => client.flush().await.map_err(|_| Broken::Client)?,
                }
            }
            self.wait(server, client).await?;
        }
    }

    /// Waits for bytes from the server; sees when the client goes away meanwhile.
    async fn wait(&self, server: &mut ServerConnection, client: &mut Connection) -> Result<(), Broken> {
        loop {
            let watch = client.read.len() < PARTIAL_FRAME;
            tokio::select! {
                biased;
                got = server.io.exchange() => {
                    return match got {
                        Ok(_) => Ok(()),
                        Err(e) => Err(Broken::Server { error: server.lost(&e), torn: self.is_torn() }),
                    };
                }
                got = client.readable(), if watch => {
                    // Not waited for: what is there may be less than it takes to read something.
                    let filled = got.and_then(|()| client.fill().now_or_never().transpose());
                    if matches!(filled, Ok(Some(0)) | Err(_)) {
                        return Err(Broken::Client);
                    }
                }
            }
        }
    }
}
