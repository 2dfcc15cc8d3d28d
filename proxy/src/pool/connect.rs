//! Opening a server connection: TCP, TLS as sslmode says, start-up, login.

use crate::auth::server_auth::AuthStep;
use crate::auth::server_auth::ServerAuth;
use crate::config::Endpoint;
use crate::config::Login;
use crate::config::SslMode;
use crate::error::Error;
use crate::error::Result;
use crate::error::Severity;
use crate::error::codes;
use crate::limits;
use crate::net::Connection;
use crate::net::Stream;
use crate::net::lost;
use crate::pool::CancelTarget;
use crate::pool::ServerConnection;
use crate::tls;
use crate::wire::backend;
use crate::wire::frontend;
use crate::wire::read::Reader;
use crate::wire::startup;
use bytes::BufMut;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

/// How to reach and log in to one endpoint. Cheap to clone.
#[derive(Clone)]
pub struct Connector(Arc<Inner>);

struct Inner {
    /// The shard's name, for messages.
    shard: String,
    endpoint: Endpoint,
    login: Login,
    connect_timeout: Duration,
    tls: Option<Arc<rustls::ClientConfig>>,
    failures: watch::Sender<Option<Error>>,
    /// How many attempts have failed.
    failed: AtomicU64,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Connector({self})")
    }
}

impl std::fmt::Display for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "shard {} ({}:{})", self.0.shard, self.0.endpoint.host, self.0.endpoint.port)
    }
}

impl Connector {
    /// # Errors
    /// A root certificate that cannot be read.
    pub fn new(shard: &str, endpoint: &Endpoint, login: Login, connect_timeout: Duration) -> Result<Self> {
        let tls = tls::client_config(&endpoint.tls)?;
        Ok(Connector(Arc::new(Inner {
            shard: shard.to_owned(),
            endpoint: endpoint.clone(),
            login,
            connect_timeout,
            tls,
            failures: watch::Sender::new(None),
            failed: AtomicU64::new(0),
        })))
    }

    pub fn shard(&self) -> &str {
        &self.0.shard
    }

    pub fn user(&self) -> &str {
        &self.0.login.user
    }

    /// How many attempts to connect have failed so far.
    pub fn failed(&self) -> u64 {
        self.0.failed.load(Ordering::Acquire)
    }

    /// Changes whenever an attempt to connect has failed, after `failed` has.
    pub fn failures(&self) -> watch::Receiver<Option<Error>> {
        self.0.failures.subscribe()
    }

    fn unreachable(&self, cause: impl std::fmt::Display) -> Error {
        Error::new(codes::CONNECTION_FAILURE, format!("could not connect to {self}: {cause}"))
            .hint("Statements that do not need this shard go on.")
    }

    /// A socket to the endpoint, with TLS where sslmode asks for it.
    pub async fn open(&self) -> Result<Stream> {
        let Inner { endpoint, tls, .. } = &*self.0;
        let tcp = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await.map_err(|e| self.unreachable(e))?;
        tcp.set_nodelay(true).map_err(|e| self.unreachable(e))?;
        let keepalive = socket2::TcpKeepalive::new().with_time(limits::KEEPALIVE);
        let _ = socket2::SockRef::from(&tcp).set_tcp_keepalive(&keepalive);
        match tls {
            None => Ok(Stream::Plain(tcp)),
            Some(config) => self.start_tls(tcp, config).await,
        }
    }

    async fn start_tls(&self, mut tcp: TcpStream, config: &Arc<rustls::ClientConfig>) -> Result<Stream> {
        let mut request = [0u8; 8];
        request[..4].copy_from_slice(&8u32.to_be_bytes());
        request[4..].copy_from_slice(&startup::SSL_REQUEST.to_be_bytes());
        tcp.write_all(&request).await.map_err(|e| self.unreachable(e))?;
        match tcp.read_u8().await.map_err(|e| self.unreachable(e))? {
            b'S' => {
                let name = tls::server_name(&self.0.endpoint.host)?;
                let stream = tokio_rustls::TlsConnector::from(Arc::clone(config)).connect(name, tcp).await;
                let stream = stream.map_err(|e| self.unreachable(e))?;
                Ok(Stream::Tls(Box::new(stream.into())))
            }
            _ if self.0.endpoint.tls.mode == SslMode::Prefer => Ok(Stream::Plain(tcp)),
            _ => Err(self.unreachable("server does not support TLS, but sslmode demands it")),
        }
    }

    /// Opens a connection and logs in, within the connect time-out.
    pub async fn connect(&self) -> Result<ServerConnection> {
        let result = match timeout(self.0.connect_timeout, self.log_in()).await {
            Ok(result) => result,
            Err(_) => Err(self.unreachable("timed out")),
        };
        if let Err(error) = &result {
            tracing::warn!(shard = %self.0.shard, user = %self.0.login.user, %error, "server connection failed");
            self.0.failed.fetch_add(1, Ordering::AcqRel);
            self.0.failures.send_replace(Some(error.clone()));
        }
        result
    }

    async fn log_in(&self) -> Result<ServerConnection> {
        let mut io = Connection::new(self.open().await?);
        io.max_message = limits::AUTH_MESSAGE_BYTES;
        let Inner { endpoint, login, .. } = &*self.0;
        let mut body = Vec::new();
        for text in ["user", &login.user, "database", &endpoint.database] {
            body.extend_from_slice(text.as_bytes());
            body.push(0);
        }
        body.push(0);
        io.write.put_u32(u32::try_from(body.len() + 8).unwrap_or(u32::MAX));
        io.write.put_u32(startup::PROTOCOL_3_0);
        io.write.put_slice(&body);
        let gone = |e: std::io::Error| lost(&format!("login to {self}"), &e);
        io.flush().await.map_err(gone)?;
        let mut auth =
            ServerAuth::new(&login.user, login.password.as_ref().map(|p| p.0.as_str()), io.stream.end_point());
        let mut parameters = BTreeMap::new();
        let mut key = (0, Vec::new());
        loop {
            let Some((tag, body)) = io.frame().await? else {
                return Err(self.unreachable("closed during login"));
            };
            match tag {
                backend::AUTHENTICATION => match auth.on_message(&body)? {
                    AuthStep::Send(answer) => {
                        frontend::frame(&mut io.write, frontend::PASSWORD, |b| b.put_slice(&answer));
                        io.flush().await.map_err(gone)?;
                    }
                    AuthStep::Done | AuthStep::Continue => {}
                },
                backend::PARAMETER_STATUS => {
                    let (name, value) = backend::parameter_status(&body)?;
                    let text = |b| String::from_utf8_lossy(b).into_owned();
                    parameters.insert(text(name), text(value));
                }
                backend::BACKEND_KEY_DATA => {
                    let mut reader = Reader::new(&body);
                    key = (reader.i32()?, reader.rest().to_vec());
                }
                backend::ERROR => {
                    let error = backend::error(&body);
                    return Err(error
                        .without_raw()
                        .with_severity(Severity::Error)
                        .detail(format!("This is what {self} said when it was asked for a connection.")));
                }
                backend::READY => break,
                _ => {}
            }
        }
        io.max_message = limits::MESSAGE_BYTES;
        let cancel = CancelTarget {
            connector: self.clone(),
            pid: key.0,
            secret: key.1,
            uncertain: AtomicBool::new(false),
            deadlocked: AtomicBool::new(false),
        };
        Ok(ServerConnection::new(io, cancel, parameters))
    }
}

impl bb8::ManageConnection for Connector {
    /// Boxed: a connection is moved some ten times on its way out of the pool and back.
    type Connection = Box<ServerConnection>;
    type Error = Error;

    async fn connect(&self) -> Result<Box<ServerConnection>> {
        Connector::connect(self).await.map(Box::new)
    }

    async fn is_valid(&self, connection: &mut Box<ServerConnection>) -> Result<()> {
        if connection.io.is_quiet() {
            Ok(())
        } else {
            Err(Error::new(codes::CONNECTION_FAILURE, "an idle server connection was closed"))
        }
    }

    fn has_broken(&self, connection: &mut Box<ServerConnection>) -> bool {
        connection.is_spent()
    }
}
