//! A socket, plain or TLS, with a buffer on each side; frames are cut out of the read buffer.

use crate::error::Error;
use crate::error::Result;
use crate::error::codes;
use crate::limits;
use crate::wire;
use crate::wire::HEAD;
use crate::wire::Head;
use crate::wire::Tag;
use bytes::Buf;
use bytes::BytesMut;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Context;
use std::task::Poll;
use tokio::io::AsyncRead;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWrite;
use tokio::io::AsyncWriteExt;
use tokio::io::ReadBuf;
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

/// What a connection runs over.
#[derive(Debug)]
pub enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    pub fn tcp(&self) -> &TcpStream {
        match self {
            Stream::Plain(s) => s,
            Stream::Tls(s) => s.get_ref().0,
        }
    }

    /// What a login on the server at the other end is bound to, over TLS (`tls::end_point`).
    pub fn end_point(&self) -> Option<Vec<u8>> {
        match self {
            Stream::Plain(_) => None,
            Stream::Tls(s) => s.get_ref().1.peer_certificates()?.first().and_then(|own| crate::tls::end_point(own)),
        }
    }

    pub fn is_tls(&self) -> bool {
        matches!(self, Stream::Tls(_))
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(s) => Pin::new(s).poll_read(cx, buf),
            Stream::Tls(s) => Pin::new(s.as_mut()).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(s) => Pin::new(s).poll_write(cx, buf),
            Stream::Tls(s) => Pin::new(s.as_mut()).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(s) => Pin::new(s).poll_flush(cx),
            Stream::Tls(s) => Pin::new(s.as_mut()).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(s) => Pin::new(s).poll_shutdown(cx),
            Stream::Tls(s) => Pin::new(s.as_mut()).poll_shutdown(cx),
        }
    }
}

/// A framed connection. All waiting methods are cancel-safe: what was read stays in `read`, what was not written yet
/// stays in `write`.
#[derive(Debug)]
pub struct Connection {
    pub stream: Stream,
    pub read: BytesMut,
    pub write: BytesMut,
    /// The longest message that is accepted now.
    pub max_message: usize,
    pub received: u64,
    pub sent: u64,
    /// How much is read at once: little at first, so that thousands of idle clients need little memory, and more when
    /// what came has filled the buffer.
    burst: usize,
}

/// A query or a short answer.
const FIRST_BURST: usize = 1024;

/// What one system call reads at most once much has come.
const LONG_BURST: usize = 8 * 1024;

/// The error for a peer that is gone; the caller says who it was.
pub fn lost(what: &str, error: &io::Error) -> Error {
    Error::new(codes::CONNECTION_FAILURE, format!("{what}: {error}"))
}

impl Connection {
    pub fn new(stream: Stream) -> Self {
        Connection {
            stream,
            read: BytesMut::new(),
            write: BytesMut::new(),
            max_message: limits::MESSAGE_BYTES,
            received: 0,
            sent: 0,
            burst: FIRST_BURST,
        }
    }

    /// Reads once; 0 is the end of the stream.
    pub async fn fill(&mut self) -> io::Result<usize> {
        self.reserve();
        let n = self.stream.read_buf(&mut self.read).await?;
        self.received += n as u64;
        Ok(n)
    }

    /// Waits until the socket has something to read, or has ended. Cheaper than `fill` where mostly nothing comes.
    /// Cancel-safe.
    pub async fn readable(&self) -> io::Result<()> {
        poll_fn(|cx| self.stream.tcp().poll_read_ready(cx)).await
    }

    fn reserve(&mut self) {
        let free = self.read.capacity() - self.read.len();
        if free < self.burst / 2 {
            // All that it had was used.
            if free == 0 && self.read.capacity() > 0 {
                self.burst = LONG_BURST;
            }
            self.read.reserve(limits::READ_BURST_BYTES.min(self.burst + self.read.len()));
        }
    }

    /// Writes all that waits.
    pub async fn flush(&mut self) -> io::Result<()> {
        self.sent += self.write.len() as u64;
        self.stream.write_all_buf(&mut self.write).await?;
        if self.stream.is_tls() {
            self.stream.flush().await?;
        }
        Ok(())
    }

    /// Writes a part of what waits, or reads when the peer has something to say first.
    pub async fn write_some(&mut self) -> io::Result<()> {
        self.reserve();
        let Connection { stream, read, write, sent, .. } = self;
        poll_fn(|cx| {
            match Pin::new(&mut *stream).poll_write(cx, write) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(n)) => {
                    write.advance(n);
                    *sent += n as u64;
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
                Poll::Pending => {}
            }
            match std::pin::pin!(stream.read_buf(read)).poll(cx) {
                Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Poll::Ready(Ok(_)) => Poll::Ready(Ok(())),
                Poll::Ready(Err(e)) => Poll::Ready(Err(e)),
                Poll::Pending => Poll::Pending,
            }
        })
        .await?;
        if self.write.is_empty() && self.stream.is_tls() {
            self.stream.flush().await?;
        }
        Ok(())
    }

    /// Writes what waits and reads what comes, whichever can go on; returns the bytes read. Neither side can hold the
    /// other up, so that a long pipeline and its long answers cannot block each other. Ends after some bytes were
    /// read; `UnexpectedEof` when the peer closed.
    pub async fn exchange(&mut self) -> io::Result<usize> {
        self.reserve();
        // A TLS stream may hold what an earlier write, cancelled here, has left in it.
        let mut unflushed = self.stream.is_tls();
        let Connection { stream, read, write, sent, .. } = self;
        let n = poll_fn(|cx| {
            let mut failed = None;
            while !write.is_empty() {
                match Pin::new(&mut *stream).poll_write(cx, write) {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    Poll::Ready(Ok(n)) => {
                        write.advance(n);
                        *sent += n as u64;
                        unflushed = stream.is_tls();
                    }
                    // What the peer said before it closed is still to be read.
                    Poll::Ready(Err(e)) => {
                        failed = Some(e);
                        break;
                    }
                    Poll::Pending => break,
                }
            }
            if unflushed && failed.is_none() {
                match Pin::new(&mut *stream).poll_flush(cx) {
                    Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
                    Poll::Ready(Ok(())) => unflushed = false,
                    Poll::Pending => {}
                }
            }
            let future = std::pin::pin!(stream.read_buf(read));
            match (future.poll(cx), failed) {
                (Poll::Ready(Ok(n)), _) if n > 0 => Poll::Ready(Ok(n)),
                (_, Some(e)) => Poll::Ready(Err(e)),
                (Poll::Ready(Ok(_)), None) => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                (other, None) => other,
            }
        })
        .await?;
        self.received += n as u64;
        Ok(n)
    }

    /// The head of the next frame, if it is there.
    #[inline]
    pub fn head(&self) -> Result<Option<Head>> {
        wire::head(&self.read, self.max_message)
    }

    /// Cuts the next frame if it is there whole: its type and its body.
    pub fn cut(&mut self) -> Result<Option<(Tag, BytesMut)>> {
        match self.head()? {
            Some(head) if self.read.len() >= head.total => {
                let mut frame = self.read.split_to(head.total);
                frame.advance(HEAD);
                Ok(Some((head.tag, frame)))
            }
            _ => Ok(None),
        }
    }

    /// Waits for a whole frame; `None` when the peer closed between frames.
    pub async fn frame(&mut self) -> Result<Option<(Tag, BytesMut)>> {
        loop {
            if let Some(frame) = self.cut()? {
                return Ok(Some(frame));
            }
            match self.fill().await {
                Ok(0) if self.read.is_empty() => return Ok(None),
                Ok(0) => return Err(Error::protocol("unexpected end of the connection")),
                Ok(_) => {}
                Err(e) => return Err(lost("connection lost", &e)),
            }
        }
    }

    /// Gives memory back that a burst has taken.
    pub fn shrink(&mut self) {
        if self.read.is_empty() && self.read.capacity() > 16 * 1024 {
            self.read = BytesMut::new();
        }
        if self.write.is_empty() && self.write.capacity() > 16 * 1024 {
            self.write = BytesMut::new();
        }
    }

    /// Nothing has come that nobody asked for, and the peer has not closed. Costs no system call while the socket is
    /// not readable.
    pub fn is_quiet(&self) -> bool {
        if !self.read.is_empty() || !self.write.is_empty() {
            return false;
        }
        let mut byte = [0u8; 1];
        match self.stream.tcp().try_read(&mut byte) {
            Err(e) => e.kind() == io::ErrorKind::WouldBlock,
            Ok(_) => false,
        }
    }
}
