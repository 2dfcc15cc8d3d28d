//! Text → `ConfigFile` (as written) → [`Config`] (as used); all mistakes at once, with file, line and key.

mod check;
mod databases;
mod literal;
pub mod mistake;
pub mod name;
pub mod placement;
mod reader;
mod levels;
mod shard_maps;
pub mod units;
pub mod url;
pub mod written;

use crate::config::check::Checker;
use crate::config::mistake::Mistake;
use crate::config::mistake::Mistakes;
use crate::config::mistake::Place;
use crate::config::reader::Section;
use crate::config::written::ConfigFile;
use crate::value::Datum;
use crate::value::KeyType;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use toml::de::DeTable;

/// Reads a configuration file's text. `file_name` is only told in mistakes; `env` and `read` give the values of
/// `env:NAME` and `file:PATH`, so that this module does no I/O itself.
///
/// # Errors
/// Every mistake of the file, in its order. Where the text is not TOML, only that is told.
pub fn load(
    text: &str,
    file_name: &str,
    env: &dyn Fn(&str) -> Option<String>,
    read: &dyn Fn(&Path) -> io::Result<String>,
) -> Result<Config, Vec<Mistake>> {
    let mistakes = Mistakes::new(file_name, text);
    let (table, syntax) = DeTable::parse_recoverable(text);
    for error in &syntax {
        let line = mistakes.line(error.span().map_or(0, |span| span.start));
        mistakes.add(&Place { line, key: String::new() }, error.message().replace('\n', ", "));
    }
    if !syntax.is_empty() {
        return Err(mistakes.into_sorted());
    }
    let file = ConfigFile::read(Section::root(table.get_ref(), &mistakes));
    let config = check::config(&Checker { mistakes: &mistakes, env, read }, &file);
    match config.filter(|_| mistakes.is_empty()) {
        Some(config) => Ok(config),
        None => Err(mistakes.into_sorted()),
    }
}

/// The configuration as used: checked, defaults filled in, secrets read.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub listen: Listen,
    pub pool: Pool,
    pub log: Log,
    pub users: Vec<User>,
    pub databases: Vec<Database>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Listen {
    pub address: SocketAddr,
    /// `/metrics`, `/healthz`, `/readyz`; none without it.
    pub http: Option<SocketAddr>,
    pub tls: Option<ListenTls>,
    /// HOST:PORT of other proxies before the same databases: a cancel request of a session that is not here goes there.
    pub peers: Vec<String>,
    /// Clients at once; more are refused with 53300.
    pub max_clients: usize,
    pub login_timeout: Duration,
    pub drain_timeout: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ListenTls {
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Clients without TLS are refused.
    pub required: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Pool {
    pub mode: PoolMode,
    /// Server connections per endpoint, database and user.
    pub size: u32,
    pub min_idle: u32,
    pub wait_timeout: Duration,
    pub connect_timeout: Duration,
    pub idle_timeout: Option<Duration>,
    pub max_lifetime: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolMode {
    Transaction,
    Session,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    pub json: bool,
    pub level: String,
    /// Statements that take longer are logged (without their values); none when absent.
    pub slow_statement: Option<Duration>,
}

/// A secret never shows in `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct User {
    pub name: String,
    pub auth: UserAuth,
    /// The login on the servers, where it is not the client's own name and password.
    pub server_user: Option<String>,
    pub server_password: Option<Secret>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum UserAuth {
    Trust,
    Password(Secret),
    /// `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`, as PostgreSQL stores it.
    Verifier(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Database {
    pub name: String,
    pub unlisted: UnlistedTables,
    /// The proxy's own login on every shard.
    pub control: Option<Login>,
    pub shards: Vec<Shard>,
    pub maps: Vec<MapConfig>,
    pub tables: Vec<TableConfig>,
    /// "every table that has column c is sharded by it": (column, position in `maps`).
    pub column_rules: Vec<(String, usize)>,
    pub functions: Vec<FunctionConfig>,
    /// Memory of one merge.
    pub merge_bytes: usize,
    pub commit: CommitMode,
}

/// How a transaction that has written on several shards commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitMode {
    /// Everywhere or nowhere, by PostgreSQL's prepared transactions.
    TwoPhase,
    /// One shard after the other: what dies in between leaves it committed on some only.
    OnePhase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnlistedTables {
    Single,
    Reference,
    Refuse,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Login {
    pub user: String,
    pub password: Option<Secret>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Shard {
    pub name: String,
    pub primary: Endpoint,
}

/// A parsed `postgresql://user:password@host:port/database?sslmode=…`.
#[derive(Clone, Debug, PartialEq)]
pub struct Endpoint {
    pub host: String,
    pub port: u16,
    pub database: String,
    pub login: Option<Login>,
    pub tls: ServerTls,
}

/// libpq's sslmode names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    pub mode: SslMode,
    pub root_certificate: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SslMode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// Shards are positions in `Database::shards`.
#[derive(Clone, Debug, PartialEq)]
pub struct MapConfig {
    pub name: String,
    pub key: Vec<KeyType>,
    pub function: MapFunction,
    pub pins: Vec<(Vec<Datum>, usize)>,
    /// A hash map without `placement`: its buckets were spread evenly over the shards.
    pub placed_by_default: bool,
}

/// ([from, to), shard). A bound may name only the first key columns: it stands before every key that begins so.
pub type RangePart = (Option<Vec<Datum>>, Option<Vec<Datum>>, usize);

#[derive(Clone, Debug, PartialEq)]
pub enum MapFunction {
    /// The shard of each bucket; the length is a power of two.
    Hash(Vec<usize>),
    /// Ordered and non-overlapping.
    Range(Vec<RangePart>),
    List {
        values: Vec<(Vec<Datum>, usize)>,
        default: Option<usize>,
    },
    /// Two levels: the first `columns` of the key choose a group, the others a shard in it.
    Groups {
        columns: usize,
        /// A range or list whose places are positions in `groups`.
        first: Box<MapFunction>,
        /// Over the other key columns. One shard alone is a hash of one bucket.
        groups: Vec<MapFunction>,
    },
}

impl MapFunction {
    /// Every key lives there.
    pub fn whole(shard: usize) -> MapFunction {
        MapFunction::Hash(vec![shard])
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct TableConfig {
    /// Folded as in SQL: schema (default `public`) and name.
    pub schema: String,
    pub name: String,
    pub place: TablePlace,
}

#[derive(Clone, Debug, PartialEq)]
pub enum TablePlace {
    Sharded { map: usize, key: Vec<String> },
    Reference,
    Single(usize),
}

/// What an opaque function does, said by the operator.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionConfig {
    pub schema: String,
    pub name: String,
    pub runs_on: RunsOn,
    pub stateless: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum RunsOn {
    Any,
    Home,
    /// By a shard key: the position of the argument (from 0) and of the map.
    Key {
        argument: usize,
        map: usize,
    },
}

#[cfg(test)]
mod tests;
