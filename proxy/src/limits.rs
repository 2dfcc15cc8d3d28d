//! Every bound, with its reason. What is configurable has its default here.

use std::time::Duration;

/// A startup packet: PostgreSQL's MAX_STARTUP_PACKET_LENGTH.
pub const STARTUP_PACKET_BYTES: usize = 10_000;
/// A message before login: a SASL response or a password, as PostgreSQL's PG_MAX_AUTH_TOKEN_LENGTH.
pub const AUTH_MESSAGE_BYTES: usize = 65_535;
/// Rounds of SCRAM that a server may ask of us: half a second's work (PostgreSQL asks for 4,096 unless told otherwise).
pub const SCRAM_ROUNDS: u32 = 1_000_000;
/// A message after login: PostgreSQL's PQ_LARGE_MESSAGE_LIMIT (MaxAllocSize - 1).
pub const MESSAGE_BYTES: usize = 0x3fff_ffff - 1;
/// A message of a kind that has no use for more: PostgreSQL's PQ_SMALL_MESSAGE_LIMIT, without its length word.
pub const SHORT_MESSAGE_BYTES: usize = 10_000 - 4;
/// A statement that is parsed here: larger ones take too long (a list of 100,000 elements takes seconds).
pub const PARSED_STATEMENT_BYTES: usize = 1 << 20;
/// Tokens of a statement that is parsed here.
pub const PARSED_STATEMENT_TOKENS: usize = 200_000;
/// Operators in a statement: the parser's tree is as deep as a chain of them, and dropping it recurses.
pub const PARSED_STATEMENT_OPERATORS: usize = 1_000;
/// A text that cannot be cut into tokens is given to a server up to this length, for its error.
pub const ASKED_TEXT_BYTES: usize = 16 * 1024;
/// Joins one inside the other, without parentheses: the parser does not count them as nesting.
pub const PARSED_STATEMENT_JOINS: usize = 100;
/// Nesting that the SQL parser follows.
pub const PARSER_DEPTH: usize = 200;
/// Key values that one statement may name before it is sent to all shards instead.
pub const KEY_VALUES: usize = 10_000;
/// Bytes of statement texts in one database's plan cache.
pub const PLAN_CACHE_BYTES: usize = 64 << 20;
/// Entries in one database's plan cache.
pub const PLAN_CACHE_ENTRIES: usize = 20_000;
/// Statements prepared on one server connection before the least recently used is closed.
pub const SERVER_STATEMENTS: usize = 500;
/// Prepared statements that one client may hold.
pub const CLIENT_STATEMENTS: usize = 20_000;
/// Memory of one merge (groups, distinct values, sort buffers) unless configured.
pub const MERGE_BYTES: usize = 256 << 20;
/// Bytes gathered for a client before they are written to its socket.
pub const WRITE_BURST_BYTES: usize = 32 * 1024;
/// Bytes read from a socket at once.
pub const READ_BURST_BYTES: usize = 32 * 1024;
/// Time for a client to finish its handshake: PostgreSQL's authentication_timeout.
pub const LOGIN_TIMEOUT: Duration = Duration::from_secs(60);
/// Clients beyond listen.max_clients that are told so at a time; those beyond are closed without a word.
pub const TURNED_AWAY: usize = 100;
/// Time for such a client to send its start-up packet and take the answer.
pub const TURN_AWAY_TIMEOUT: Duration = Duration::from_secs(2);
/// A silent peer is asked whether it is still there: often enough to free its connections within minutes.
pub const KEEPALIVE: Duration = Duration::from_secs(60);
/// Time for a server to reset a connection of session mode: longer, and a new one is cheaper.
pub const RESET_TIMEOUT: Duration = Duration::from_secs(2);
/// Time to open a server connection, login included.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time to wait for a server connection: short enough that an application sees the cause.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for a cancel request to be taken by a server.
pub const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
/// Cancel requests that are passed on to other proxies at a time.
pub const CANCELS_PASSED_ON: usize = 32;
/// How long a shard is not asked again after it could not be reached.
pub const BREAKER_PAUSE: Duration = Duration::from_millis(500);
/// How long shards may take to bind a statement over several of them before commits over several shards go on.
pub const BIND_PATIENCE: Duration = Duration::from_millis(300);
/// Time that running transactions have to end when the proxy drains.
pub const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// Time that a shard has to commit what was decided before the client is answered with a warning.
pub const SECOND_PHASE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a decision is asked for whose COMMIT was lost on the way.
pub const DECISION_PATIENCE: Duration = Duration::from_secs(10);
/// A prepared transaction younger than that is left to its coordinator.
pub const PREPARED_REST: Duration = Duration::from_secs(5);
/// The time between two looks at what is prepared on the shards.
pub const RECOVERY_PAUSE: Duration = Duration::from_secs(5);
/// Decisions kept to be taken off the record; those beyond are swept later.
pub const FINISHED_DECISIONS: usize = 100_000;
/// The least time between two catalog reads that unknown names ask for.
pub const CATALOG_REFRESH_PAUSE: Duration = Duration::from_secs(1);
/// How often waits of several shards are put together, to find deadlocks.
pub const DEADLOCK_PAUSE: Duration = Duration::from_secs(1);
/// Time for LISTEN to reach the server, and for the notifications committed before to come back.
pub const LISTEN_PATIENCE: Duration = Duration::from_secs(5);
/// Notifications that wait for a session that is in a transaction: those beyond would fill memory as they fill
/// PostgreSQL's queue, and the session is ended.
pub const UNHEARD_BYTES: usize = 16 << 20;
/// How often a catalog is asked for again that others change while it is read.
pub const CATALOG_TRIES: u32 = 5;
/// How long a session that holds connections waits for a further one before it takes a place beyond the pool's size.
pub const SPARE_PAUSE: Duration = Duration::from_millis(100);
