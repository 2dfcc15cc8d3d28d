//! From the first packet to ReadyForQuery: TLS, protocol version, login, the session's first settings.

use crate::auth::logins::Method;
use crate::auth::scram::ServerScram;
use crate::auth::wrong_password;
use crate::config::PoolMode;
use crate::config::User;
use crate::error::Error;
use crate::error::Result;
use crate::error::Severity;
use crate::error::codes;
use crate::exec::backends::Backends;
use crate::exec::database::Database;
use crate::limits;
use crate::net::Connection;
use crate::net::Stream;
use crate::pool::CancelSlot;
use crate::session::Failure;
use crate::session::Outcome;
use crate::session::Session;
use crate::session::listen::Listening;
use crate::session::peers;
use crate::session::pipeline::Pipeline;
use crate::session::registry::Seat;
use crate::session::registry::Shared;
use crate::session::registry::State;
use crate::session::reported::Reported;
use crate::sql::names;
use crate::sql::normalize::Normalized;
use crate::tls;
use crate::tls::Acceptor;
use crate::variables;
use crate::variables::Variables;
use crate::variables::kinds;
use crate::wire::Status;
use crate::wire::backend;
use crate::wire::frontend;
use crate::wire::startup;
use crate::wire::startup::First;
use crate::wire::startup::Startup;
use bytes::BytesMut;
use hashbrown::HashMap;
use hashbrown::HashSet;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The first byte of a TLS record that carries a handshake (RFC 8446, section 5.1).
const TLS_HANDSHAKE: u8 = 22;

/// What a new connection turned out to be.
enum Arrived {
    Client(Connection, Startup),
    /// A cancel request, or a client that went away: done with.
    Nothing,
}

/// One accepted socket, from its first byte to its last.
pub async fn serve(shared: Arc<Shared>, socket: TcpStream) {
    let state = shared.state.load_full();
    prepare_socket(&socket);
    let mut draining = shared.draining.subscribe();
    let session = tokio::select! {
        session = timeout(state.config.listen.login_timeout, Box::pin(log_in(&shared, &state, socket))) => session,
        // Who is not logged in yet has nothing to lose.
        _ = draining.wait_for(|draining| *draining) => return,
    };
    // A session lives long: neither the configuration that it began with nor the channel is to live with it.
    drop((state, draining));
    let Ok(Some(mut session)) = session else { return };
    let peer = session.client.stream.tcp().peer_addr().map(|a| a.to_string()).unwrap_or_default();
    let started = std::time::Instant::now();
    let database = session.backends.database.config.name.clone();
    let user = session.backends.user.name.clone();
    tracing::info!(%peer, %database, %user, tls = session.client.stream.is_tls(), "client connected");
    session.client.max_message = limits::MESSAGE_BYTES;
    super::run(session).await;
    tracing::info!(%peer, %database, %user, seconds = started.elapsed().as_secs(), "client disconnected");
}

/// A client that is gone without a word must be noticed some day, as PostgreSQL does.
fn prepare_socket(socket: &TcpStream) {
    let _ = socket.set_nodelay(true);
    let keepalive = socket2::TcpKeepalive::new().with_time(limits::KEEPALIVE);
    let _ = socket2::SockRef::from(socket).set_tcp_keepalive(&keepalive);
}

/// One client too many: cancel requests are taken all the same, everybody else is told.
pub async fn turn_away(shared: Arc<Shared>, socket: TcpStream, error: Error) {
    prepare_socket(&socket);
    let state = shared.state.load_full();
    let told = async {
        // The start-up packet is read first: a socket that is closed with unread bytes loses what was written.
        if let Ok(Arrived::Client(mut connection, _)) = arrive(&shared, &state, socket).await {
            super::measure::count_error(&error);
            backend::put_error(&mut connection.write, &error);
            let _ = connection.flush().await;
        }
    };
    let _ = timeout(limits::TURN_AWAY_TIMEOUT, told).await;
}

async fn log_in(shared: &Arc<Shared>, state: &Arc<State>, socket: TcpStream) -> Option<Box<Session>> {
    let (mut connection, startup) = match arrive(shared, state, socket).await {
        Ok(Arrived::Client(connection, startup)) => (connection, startup),
        _ => return None,
    };
    match open(shared, state, &mut connection, &startup).await {
        Ok(parts) => {
            super::measure::count_login("ok");
            Some(Box::new(parts.into_session(Arc::clone(shared), connection)))
        }
        Err(Failure::Error(error) | Failure::Fatal(error)) => {
            tracing::info!(%error, user = startup.parameter("user").unwrap_or(""), "login refused");
            super::measure::count_error(&error);
            super::measure::count_login("refused");
            // As PostgreSQL: whatever goes wrong before login ends the connection.
            let error = error.with_severity(Severity::Fatal).without_raw();
            backend::put_error(&mut connection.write, &error);
            let _ = connection.flush().await;
            None
        }
        Err(_) => None,
    }
}

/// The packets before the start-up packet, and it.
async fn arrive(shared: &Shared, state: &State, socket: TcpStream) -> Outcome<Arrived> {
    let (mut asked_tls, mut asked_gss) = (false, false);
    let mut connection = match &state.tls {
        // sslnegotiation=direct: no start-up packet begins like a TLS handshake.
        Some(tls) if begins_with(&socket, TLS_HANDSHAKE).await => {
            asked_tls = true;
            start_tls(socket, tls, true).await?
        }
        _ => Connection::new(Stream::Plain(socket)),
    };
    loop {
        let packet = match first_packet(&mut connection).await {
            Ok(Some(packet)) => packet,
            Ok(None) => return Ok(Arrived::Nothing),
            Err(Failure::Fatal(error) | Failure::Error(error)) => {
                backend::put_error(&mut connection.write, &error);
                let _ = connection.flush().await;
                return Ok(Arrived::Nothing);
            }
            Err(other) => return Err(other),
        };
        match packet {
            First::Ssl if !asked_tls => {
                asked_tls = true;
                connection = answer_tls(connection, state).await?;
            }
            First::Gss if !asked_gss => {
                asked_gss = true;
                connection.write.extend_from_slice(b"N");
                connection.flush().await.map_err(|_| Failure::Gone)?;
            }
            First::Ssl | First::Gss => return Err(Failure::Gone),
            First::Cancel { pid, secret } => {
                match shared.registry.find(pid, &secret) {
                    Some(slot) => slot.cancel().await,
                    None => peers::pass_on(&shared.passed_on, &state.config.listen.peers, pid, &secret).await,
                }
                return Ok(Arrived::Nothing);
            }
            First::Startup(startup) => return Ok(Arrived::Client(connection, startup)),
        }
    }
}

async fn first_packet(connection: &mut Connection) -> Outcome<Option<First>> {
    loop {
        if let Some(length) = startup::packet_length(&connection.read)?
            && connection.read.len() >= length
        {
            let packet = connection.read.split_to(length);
            return Ok(Some(startup::decode(&packet)?));
        }
        match connection.fill().await {
            Ok(n) if n > 0 => {}
            _ => return Ok(None),
        }
    }
}

async fn answer_tls(mut connection: Connection, state: &State) -> Outcome<Connection> {
    let Some(tls) = &state.tls else {
        connection.write.extend_from_slice(b"N");
        connection.flush().await.map_err(|_| Failure::Gone)?;
        return Ok(connection);
    };
    // Bytes that came before the answer would be taken for encrypted ones, or for ours: PostgreSQL refuses them too.
    if !connection.read.is_empty() {
        return Err(Failure::Gone);
    }
    connection.write.extend_from_slice(b"S");
    connection.flush().await.map_err(|_| Failure::Gone)?;
    let Stream::Plain(tcp) = connection.stream else { return Err(Failure::Gone) };
    start_tls(tcp, tls, false).await
}

/// `direct`: without SSLRequest, where ALPN must say that PostgreSQL's protocol follows (ProcessSSLStartup in
/// backend_startup.c).
async fn start_tls(tcp: TcpStream, tls: &Acceptor, direct: bool) -> Outcome<Connection> {
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::clone(&tls.config));
    let stream = acceptor.accept(tcp).await.map_err(|error| {
        tracing::info!(%error, "TLS handshake failed");
        Failure::Gone
    })?;
    let stream = stream.into();
    if direct && !tls::has_alpn(&stream) {
        tracing::info!("direct TLS connection without ALPN refused");
        return Err(Failure::Gone);
    }
    Ok(Connection::new(Stream::Tls(Box::new(stream))))
}

async fn begins_with(socket: &TcpStream, byte: u8) -> bool {
    let mut first = [0];
    matches!(socket.peek(&mut first).await, Ok(1)) && first == [byte]
}

/// What a login has brought.
struct Parts {
    state: Arc<State>,
    user: User,
    database: Arc<Database>,
    logins: Arc<crate::auth::logins::Logins>,
    variables: Variables,
    reported: BTreeMap<String, String>,
    cancel: CancelSlot,
    seat: Seat,
    keep_all: bool,
}

impl Parts {
    fn into_session(self, shared: Arc<Shared>, client: Connection) -> Session {
        Session {
            backends: Backends::new(self.database, self.user, self.logins, self.cancel, self.keep_all),
            shared,
            state: self.state,
            client,
            variables: self.variables,
            scan: Normalized::default(),
            key: Vec::new(),
            prepared: HashMap::new(),
            portals: HashMap::new(),
            depths: HashMap::new(),
            late: HashSet::new(),
            pipeline: Pipeline::default(),
            cursors: HashMap::new(),
            temporary: Vec::new(),
            own_names: 0,
            listening: Listening::default(),
            forced: None,
            ran: super::measure::Ran::Session,
            reported: Reported::new(self.reported),
            context_key: Vec::new(),
            context_of: None,
            untold: BTreeMap::new(),
            several: false,
            before: 0,
            told: 0,
            seat: self.seat,
        }
    }
}

async fn open(
    shared: &Arc<Shared>,
    state: &Arc<State>,
    connection: &mut Connection,
    startup: &Startup,
) -> Outcome<Parts> {
    connection.max_message = limits::AUTH_MESSAGE_BYTES;
    if shared.is_draining() {
        return Err(Error::fatal(codes::CANNOT_CONNECT_NOW, "the proxy is shutting down").into());
    }
    if state.config.listen.tls.as_ref().is_some_and(|t| t.required) && !connection.stream.is_tls() {
        return Err(Error::fatal(codes::INVALID_AUTHORIZATION, "connections without TLS are not accepted").into());
    }
    negotiate(connection, startup);
    let Some(user_name) = startup.parameter("user").filter(|u| !u.is_empty()) else {
        return Err(
            Error::fatal(codes::INVALID_AUTHORIZATION, "no PostgreSQL user name specified in startup packet").into()
        );
    };
    refuse_replication(startup)?;
    authenticate(connection, state, user_name).await?;
    let database_name = startup.parameter("database").filter(|d| !d.is_empty()).unwrap_or(user_name);
    let Some(database) = state.databases.get(database_name) else {
        return Err(
            Error::fatal(codes::INVALID_CATALOG_NAME, format!("database \"{database_name}\" does not exist")).into()
        );
    };
    let Some(user) = state.config.users.iter().find(|u| u.name == user_name) else {
        return Err(Error::fatal(codes::INVALID_PASSWORD, wrong_password(user_name).into_message()).into());
    };
    let variables = Variables::with_startup(crate::variables::startup::settings(
        startup.parameters.iter().map(|(n, v)| (n.as_str(), v.as_str())),
    )?);
    backend::put_authentication(&mut connection.write, 0, &[]);
    let cancel = CancelSlot::default();
    let reported = greet(state, database, user, &variables, startup, &cancel).await?;
    for value in variables.desired().iter().filter(|(name, _)| kinds::is_name(name)).map(|(_, value)| value) {
        warn_of_truncation(&mut connection.write, value);
    }
    for (name, value) in &reported {
        backend::put_parameter_status(&mut connection.write, name, value);
    }
    let secret_bytes = if startup.minor >= 2 { 32 } else { 4 };
    let (seat, secret) = Seat::take(shared, &cancel, secret_bytes)?;
    backend::put_backend_key(&mut connection.write, seat.number, &secret);
    backend::put_ready(&mut connection.write, Status::Idle);
    let keep_all = state.config.pool.mode == PoolMode::Session;
    Ok(Parts {
        state: Arc::clone(state),
        user: user.clone(),
        database: Arc::clone(database),
        logins: Arc::clone(&state.logins),
        variables,
        reported,
        cancel,
        seat,
        keep_all,
    })
}

/// What PostgreSQL says before its parameters where one that is a name is too long (truncate_identifier).
fn warn_of_truncation(out: &mut BytesMut, value: &str) {
    let kept = names::truncate(value);
    if kept.len() < value.len() {
        let message = format!("identifier \"{value}\" will be truncated to \"{kept}\"");
        backend::put_notice(out, "NOTICE", &Error::new(codes::NAME_TOO_LONG, message));
    }
}

/// `replication` is a boolean, or `database`.
///
/// # Errors
/// 22023 for what is neither, 0A000 where replication is asked for.
fn refuse_replication(startup: &Startup) -> Result<()> {
    let Some(value) = startup.parameter("replication") else { return Ok(()) };
    match variables::text::boolean(value) {
        Some(false) => Ok(()),
        None if value != "database" => {
            let message = format!("invalid value for parameter \"replication\": \"{value}\"");
            Err(Error::fatal(codes::INVALID_PARAMETER_VALUE, message)
                .hint("Valid values are: \"false\", 0, \"true\", 1, \"database\"."))
        }
        Some(true) | None => Err(Error::fatal(codes::NOT_SUPPORTED, "replication connections are not supported")
            .hint("Connect to a shard itself.")),
    }
}

/// Versions and options that we do not know are named, and the client decides whether to go on.
fn negotiate(connection: &mut Connection, startup: &Startup) {
    if startup.minor > startup::NEWEST_MINOR || startup.minor == 1 || !startup.protocol_options.is_empty() {
        let minor = if startup.minor >= startup::NEWEST_MINOR { startup::NEWEST_MINOR } else { 0 };
        let version = startup::PROTOCOL_3_0 | u32::from(minor);
        backend::put_negotiate(&mut connection.write, version, &startup.protocol_options);
    }
}

async fn authenticate(connection: &mut Connection, state: &State, user: &str) -> Outcome {
    let verifier = match state.logins.method(user) {
        Method::Trust => return Ok(()),
        Method::Scram(verifier) => verifier,
    };
    let tls = state.tls.as_ref().filter(|_| connection.stream.is_tls());
    let mut scram = ServerScram::start(user, verifier, tls.and_then(|tls| tls.end_point.clone()));
    backend::put_authentication(&mut connection.write, 10, &scram.offer());
    let body = password_message(connection).await?;
    let answer = scram.first(&body)?;
    backend::put_authentication(&mut connection.write, 11, &answer);
    let body = password_message(connection).await?;
    let answer = scram.finish(&body)?;
    backend::put_authentication(&mut connection.write, 12, &answer);
    Ok(())
}

async fn password_message(connection: &mut Connection) -> Outcome<BytesMut> {
    connection.flush().await.map_err(|_| Failure::Gone)?;
    match connection.frame().await? {
        Some((frontend::PASSWORD, body)) => Ok(body),
        Some((tag, _)) => Err(Error::protocol(format!("expected password response, got message type {tag}")).into()),
        None => Err(Failure::Gone),
    }
}

/// What a server reports of its parameters under this session's settings. Asked of a server, except where the client
/// sets nothing whose value a server would have to put into its own form.
async fn greet(
    state: &State,
    database: &Arc<Database>,
    user: &User,
    variables: &Variables,
    startup: &Startup,
    cancel: &CancelSlot,
) -> Outcome<BTreeMap<String, String>> {
    if let Some(kept) = database.greeting(&user.name)
        && let Some(reported) = plain_greeting(&kept, startup)
    {
        return Ok(reported);
    }
    let mut backends =
        Backends::new(Arc::clone(database), user.clone(), Arc::clone(&state.logins), cancel.clone(), false);
    let mut failure = None;
    for shard in database.shards() {
        match backends.acquire(shard, variables).await {
            Ok(held) => {
                let parameters = held.lease.parameters.clone();
                backends.give_back().await;
                let nothing_set = variables.difference(&crate::variables::applied::Applied::default()).is_none();
                if nothing_set {
                    database.keep_greeting(&user.name, &parameters);
                }
                return Ok(parameters);
            }
            Err(error) => {
                let lost = error.code == codes::CONNECTION_FAILURE;
                backends.give_back().await;
                failure.get_or_insert(error);
                if !lost {
                    break;
                }
            }
        }
    }
    Err(failure.unwrap_or_else(|| Error::internal("a database without shards")).into())
}

/// The kept greeting, if the client's own parameters do not change it beyond what is certain.
fn plain_greeting(kept: &BTreeMap<String, String>, startup: &Startup) -> Option<BTreeMap<String, String>> {
    let mut reported = kept.clone();
    for (name, value) in &startup.parameters {
        match name.to_ascii_lowercase().as_str() {
            "user" | "database" | "replication" => {}
            "application_name" if value.bytes().all(|b| (b' '..=b'~').contains(&b)) => {
                reported.insert("application_name".to_owned(), names::truncate(value).to_owned());
            }
            "client_encoding" if matches!(value.trim_matches('\'').to_ascii_lowercase().as_str(), "utf8" | "utf-8") => {
                reported.insert("client_encoding".to_owned(), "UTF8".to_owned());
            }
            "extra_float_digits" if value.parse::<i32>().is_ok_and(|n| (-15..=3).contains(&n)) => {}
            _ => return None,
        }
    }
    Some(reported)
}
