//! One control connection: tokio-postgres over TCP or TLS, with settings under which what we read means one thing.

use crate::config::Endpoint;
use crate::config::Login;
use crate::config::SslMode;
use crate::error::Error;
use crate::error::Result;
use crate::error::SqlState;
use crate::error::codes;
use crate::limits;
use crate::tls;
use rustls::ClientConfig;
use std::error::Error as _;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Context;
use std::task::Poll;
use tokio::io::AsyncRead;
use tokio::io::AsyncWrite;
use tokio::io::ReadBuf;
use tokio_postgres::Client;
use tokio_postgres::NoTls;
use tokio_postgres::error::DbError;
use tokio_postgres::error::Severity;
use tokio_postgres::tls::ChannelBinding;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::tls::TlsConnect;
use tokio_postgres::tls::TlsStream;

/// Names come out qualified (search_path), row security raises an error instead of hiding rows, no statement of ours
/// waits long for a lock, and dates, floats and strings are written in one way.
const OPTIONS: &str = "-c search_path=pg_catalog -c row_security=off -c lock_timeout=5s -c statement_timeout=0 \
     -c standard_conforming_strings=on -c DateStyle=ISO -c TimeZone=UTC -c extra_float_digits=1 \
     -c default_transaction_read_only=off -c default_transaction_isolation=read\\ committed -c synchronous_commit=on";

/// Where and how to connect for one shard.
pub struct Target {
    pub shard: String,
    config: tokio_postgres::Config,
    tls: Option<Arc<ClientConfig>>,
}

impl Target {
    /// `login`: the control login; without it the one in the URL.
    ///
    /// # Errors
    /// The root certificate cannot be read.
    pub fn new(shard: &str, endpoint: &Endpoint, login: Option<&Login>) -> Result<Target> {
        let mut config = tokio_postgres::Config::new();
        config.host(&endpoint.host).port(endpoint.port).dbname(&endpoint.database).options(OPTIONS);
        config.application_name("shardway control").connect_timeout(limits::CONNECT_TIMEOUT);
        if let Some(login) = login.or(endpoint.login.as_ref()) {
            config.user(&login.user);
            login.password.iter().for_each(|secret| {
                config.password(&secret.0);
            });
        }
        config.ssl_mode(match endpoint.tls.mode {
            SslMode::Disable => tokio_postgres::config::SslMode::Disable,
            SslMode::Prefer => tokio_postgres::config::SslMode::Prefer,
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => tokio_postgres::config::SslMode::Require,
        });
        Ok(Target { shard: shard.to_owned(), config, tls: tls::client_config(&endpoint.tls)? })
    }

    /// A connection of its own; it ends when the client is dropped. Cancel safe.
    ///
    /// # Errors
    /// 08006 with the cause, also where the server refuses the login.
    pub async fn connect(&self) -> Result<Client> {
        let away = |cause: String| {
            Error::new(codes::CONNECTION_FAILURE, format!("could not connect to shard \"{}\": {cause}", self.shard))
        };
        let connecting = async {
            match &self.tls {
                Some(tls) => {
                    let (client, connection) = self.config.connect(Connector(tls.clone())).await?;
                    tokio::spawn(connection);
                    Ok(client)
                }
                None => {
                    let (client, connection) = self.config.connect(NoTls).await?;
                    tokio::spawn(connection);
                    Ok(client)
                }
            }
        };
        match tokio::time::timeout(limits::CONNECT_TIMEOUT, connecting).await {
            Ok(Ok(client)) => Ok(client),
            Ok(Err(error)) => Err(away(cause(&error))),
            Err(_) => Err(away("no answer in time".to_owned())),
        }
    }

    /// An error of a statement: as the server wrote it, or 08006 if the connection is lost.
    pub fn error(&self, error: &tokio_postgres::Error) -> Error {
        let Some(db) = error.as_db_error().filter(|_| !is_lost(error)) else {
            let message = format!("lost the connection to shard \"{}\": {}", self.shard, cause(error));
            return Error::new(codes::CONNECTION_FAILURE, message);
        };
        let code = <[u8; 5]>::try_from(db.code().code().as_bytes()).map_or(codes::INTERNAL, SqlState);
        let told = Error::new(code, db.message().to_owned()).detail(match db.detail() {
            Some(detail) => format!("On shard \"{}\": {detail}", self.shard),
            None => format!("On shard \"{}\".", self.shard),
        });
        db.hint().map_or(told.clone(), |hint| told.hint(hint.to_owned()))
    }
}

/// Whether the connection is of no use any more: it broke, or the server ended it.
pub fn is_lost(error: &tokio_postgres::Error) -> bool {
    let ends = |db: &DbError| matches!(db.parsed_severity(), Some(Severity::Fatal | Severity::Panic));
    error.as_db_error().is_none_or(ends)
}

/// tokio-postgres shows the kind of an error and keeps the cause behind it.
fn cause(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(db), _) => db.message().to_owned(),
        (None, Some(source)) => source.to_string(),
        (None, None) => error.to_string(),
    }
}

/// rustls for tokio-postgres.
#[derive(Clone)]
struct Connector(Arc<ClientConfig>);

struct Handshake {
    config: Arc<ClientConfig>,
    host: String,
}

type Handshaking<S> = Pin<Box<dyn Future<Output = io::Result<Stream<S>>> + Send>>;

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Connector {
    type Stream = Stream<S>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> io::Result<Handshake> {
        Ok(Handshake { config: self.0.clone(), host: host.to_owned() })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Handshake {
    type Stream = Stream<S>;
    type Error = io::Error;
    type Future = Handshaking<S>;

    fn connect(self, stream: S) -> Handshaking<S> {
        Box::pin(async move {
            let name =
                tls::server_name(&self.host).map_err(|error| io::Error::other(error.into_message().into_owned()))?;
            let connector = tokio_rustls::TlsConnector::from(self.config);
            Ok(Stream(connector.connect(name, stream).await?))
        })
    }
}

struct Stream<S>(tokio_rustls::client::TlsStream<S>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Stream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
