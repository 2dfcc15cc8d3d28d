//! As written → as used: the checks that concern one value, and the top-level tables.

use crate::config::Config;
use crate::config::Listen;
use crate::config::ListenTls;
use crate::config::Log;
use crate::config::Pool;
use crate::config::PoolMode;
use crate::config::Secret;
use crate::config::User;
use crate::config::UserAuth;
use crate::config::databases::databases;
use crate::config::mistake::At;
use crate::config::mistake::Mistakes;
use crate::config::mistake::Place;
use crate::config::mistake::choices_text;
use crate::config::units;
use crate::config::written::ConfigFile;
use crate::config::written::ListenFile;
use crate::config::written::LogFile;
use crate::config::written::PoolFile;
use crate::config::written::TlsFile;
use crate::config::written::UserFile;
use crate::limits;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

/// Clients at once, unless configured: about 1 GB of memory at 100 kB each.
const MAX_CLIENTS: i64 = 10_000;
/// Server connections per pool, unless configured: PgBouncer's default_pool_size.
const POOL_SIZE: i64 = 20;
const IDLE_TIMEOUT: Duration = Duration::from_secs(600);
const MAX_LIFETIME: Duration = Duration::from_secs(3600);

/// What checks need beside the file: where mistakes go, and the readers of secrets.
pub struct Checker<'a> {
    pub mistakes: &'a Mistakes,
    pub env: &'a dyn Fn(&str) -> Option<String>,
    pub read: &'a dyn Fn(&Path) -> io::Result<String>,
}

impl Checker<'_> {
    pub fn add(&self, place: &Place, message: impl Into<String>) {
        self.mistakes.add(place, message);
    }

    /// A value that must be there; its absence is told at the table.
    pub fn required<'v, T>(&self, table: &Place, key: &str, value: &'v Option<At<T>>) -> Option<&'v At<T>> {
        if value.is_none() {
            self.missing(table, key, "missing");
        }
        value.as_ref()
    }

    /// Tells that something is not in a table. A value of the wrong type is absent too, but told already.
    pub fn missing(&self, table: &Place, key: &str, message: impl Into<String>) {
        let place = table.child(key);
        if !self.mistakes.told(&place) {
            self.add(&place, message);
        }
    }

    /// A value converted, or its mistake told.
    pub fn take<T, U>(&self, at: &At<T>, convert: impl FnOnce(&T) -> Result<U, String>) -> Option<U> {
        match convert(&at.value) {
            Ok(value) => Some(value),
            Err(message) => {
                self.add(&at.place, message);
                None
            }
        }
    }

    /// One of a few words.
    pub fn choice<T: Copy>(&self, value: &Option<At<String>>, choices: &[(&str, T)]) -> Option<T> {
        let at = value.as_ref()?;
        let found = choices.iter().find(|(word, _)| *word == at.value);
        if found.is_none() {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            self.add(&at.place, format!("unknown value \"{}\"; {}", at.value, choices_text(&at.value, &words)));
        }
        found.map(|(_, choice)| *choice)
    }

    /// An integer within bounds, or the default.
    pub fn integer(&self, value: &Option<At<i64>>, least: i64, most: i64, default: i64) -> i64 {
        let Some(at) = value else { return default };
        if at.value < least || at.value > most {
            self.add(&at.place, format!("expected an integer from {least} to {most}, not {}", at.value));
            return default;
        }
        at.value
    }

    /// A duration longer than nothing, or the default.
    fn duration(&self, value: &Option<At<String>>, default: Duration) -> Duration {
        let Some(at) = value else { return default };
        let positive = |text: &String| match units::duration(text)? {
            Duration::ZERO => Err("expected a duration longer than 0".to_owned()),
            duration => Ok(duration),
        };
        self.take(at, positive).unwrap_or(default)
    }

    /// A duration, or "off".
    fn duration_or_off(&self, value: &Option<At<String>>, default: Option<Duration>) -> Option<Duration> {
        match value {
            Some(at) if at.value == "off" => None,
            Some(_) => Some(self.duration(value, default.unwrap_or(Duration::MAX))),
            None => default,
        }
    }

    /// A secret: as written, or from `env:NAME` or `file:PATH`.
    pub fn secret(&self, at: &At<String>) -> Option<String> {
        self.take(at, |text| self.resolve(text))
    }

    /// # Errors
    /// The variable is not set or the file cannot be read.
    pub fn resolve(&self, text: &str) -> Result<String, String> {
        let found = if let Some(name) = text.strip_prefix("env:") {
            (self.env)(name).ok_or_else(|| format!("the environment variable {name} is not set"))?
        } else if let Some(path) = text.strip_prefix("file:") {
            let content = (self.read)(Path::new(path)).map_err(|error| format!("cannot read {path}: {error}"))?;
            content.trim_end_matches(['\n', '\r']).to_owned()
        } else {
            text.to_owned()
        };
        match found {
            secret if secret.is_empty() => Err("empty".to_owned()),
            secret if secret.contains('\0') => Err("holds a NUL byte".to_owned()),
            secret => Ok(secret),
        }
    }

    /// The first of each equal pair stays; the later one is told.
    pub fn unique<'v>(&self, what: &str, names: impl IntoIterator<Item = &'v At<String>>) {
        let mut seen = std::collections::HashMap::new();
        for at in names {
            if let Some(line) = seen.insert(at.value.as_str(), at.place.line) {
                self.add(&at.place, format!("{what} \"{}\" is there already, on line {line}", at.value));
            }
        }
    }
}

/// The whole file. The value is to be used only if no mistake was told.
pub fn config(checker: &Checker<'_>, file: &ConfigFile) -> Option<Config> {
    let top = Place { line: 1, key: String::new() };
    if file.listen.is_none() {
        checker.missing(&top, "listen", "missing: expected [listen] with address = \"IP:PORT\"");
    }
    if file.databases.is_empty() {
        checker.missing(&top, "database", "missing: expected at least one [database.NAME] with its shards");
    }
    if file.users.is_empty() {
        checker.missing(&top, "user", "missing: expected at least one [[user]], or nobody can log in");
    }
    checker.unique("user", file.users.iter().filter_map(|user| user.name.as_ref()));
    let listen = file.listen.as_ref().and_then(|section| listen(checker, section));
    let users = file.users.iter().filter_map(|section| user(checker, section)).collect();
    let pool = pool(checker, &file.pool);
    let log = log(checker, &file.log);
    let databases = databases(checker, &file.databases);
    Some(Config { listen: listen?, pool, log, users, databases })
}

fn listen(checker: &Checker<'_>, file: &ListenFile) -> Option<Listen> {
    let address = checker.required(&file.place, "address", &file.address).and_then(|at| socket(checker, at));
    let http = file.http.as_ref().and_then(|at| Some((at, socket(checker, at)?)));
    if let (Some(address), Some((at, http))) = (address, http)
        && collide(address, http)
    {
        checker.add(&at.place, format!("{http} is taken by listen.address already; use another port"));
    }
    let login_timeout = checker.duration(&file.login_timeout, limits::LOGIN_TIMEOUT);
    let drain_timeout = checker.duration(&file.drain_timeout, limits::DRAIN_TIMEOUT);
    let max_clients = checker.integer(&file.max_clients, 1, 1_000_000, MAX_CLIENTS);
    let tls = file.tls.as_ref().and_then(|section| listen_tls(checker, section));
    let peers = file.peers.as_ref().map(|at| at.value.as_slice()).unwrap_or_default();
    let peers = peers.iter().filter_map(|at| peer(checker, at)).collect();
    Some(Listen {
        address: address?,
        http: http.map(|(_, address)| address),
        tls,
        peers,
        max_clients: usize::try_from(max_clients).ok()?,
        login_timeout,
        drain_timeout,
    })
}

fn socket(checker: &Checker<'_>, at: &At<String>) -> Option<SocketAddr> {
    checker.take(at, |text| {
        text.parse()
            .map_err(|_| format!("expected IP:PORT, such as \"127.0.0.1:6432\" or \"[::]:6432\", not \"{text}\""))
    })
}

fn peer(checker: &Checker<'_>, at: &At<String>) -> Option<String> {
    checker.take(at, |text| match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0) => Ok(text.to_owned()),
        _ => Err(format!("expected HOST:PORT of another proxy, such as \"10.0.0.2:6432\", not \"{text}\"")),
    })
}

/// Whether the second listener could not be opened beside the first. Port 0 is any free one.
fn collide(a: SocketAddr, b: SocketAddr) -> bool {
    let overlap = a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified();
    a.port() != 0 && a.port() == b.port() && overlap
}

fn listen_tls(checker: &Checker<'_>, file: &TlsFile) -> Option<ListenTls> {
    let certificate = checker.required(&file.place, "certificate", &file.certificate);
    let key = checker.required(&file.place, "key", &file.key);
    Some(ListenTls {
        certificate: PathBuf::from(&certificate?.value),
        key: PathBuf::from(&key?.value),
        required: file.required.as_ref().is_some_and(|at| at.value),
    })
}

fn pool(checker: &Checker<'_>, file: &PoolFile) -> Pool {
    let modes = [("transaction", PoolMode::Transaction), ("session", PoolMode::Session)];
    let size = checker.integer(&file.size, 1, 100_000, POOL_SIZE);
    let min_idle = checker.integer(&file.min_idle, 0, size, 0);
    Pool {
        mode: checker.choice(&file.mode, &modes).unwrap_or(PoolMode::Transaction),
        size: u32::try_from(size).unwrap_or(u32::MAX),
        min_idle: u32::try_from(min_idle).unwrap_or(0),
        wait_timeout: checker.duration(&file.wait_timeout, limits::WAIT_TIMEOUT),
        connect_timeout: checker.duration(&file.connect_timeout, limits::CONNECT_TIMEOUT),
        idle_timeout: checker.duration_or_off(&file.idle_timeout, Some(IDLE_TIMEOUT)),
        max_lifetime: checker.duration_or_off(&file.max_lifetime, Some(MAX_LIFETIME)),
    }
}

fn log(checker: &Checker<'_>, file: &LogFile) -> Log {
    let levels = ["error", "warn", "info", "debug", "trace"].map(|word| (word, word));
    let level = checker.choice(&file.level, &levels).unwrap_or("info");
    Log {
        json: checker.choice(&file.format, &[("text", false), ("json", true)]).unwrap_or(false),
        level: level.to_owned(),
        slow_statement: checker.duration_or_off(&file.slow_statement, None),
    }
}

fn user(checker: &Checker<'_>, file: &UserFile) -> Option<User> {
    let name = checker.required(&file.place, "name", &file.name);
    if let Some(at) = name.filter(|at| at.value.is_empty() || at.value.contains('\0')) {
        checker.add(&at.place, "expected the user's name");
    }
    let auth = user_auth(checker, file);
    let server_password = file.server_password.as_ref().and_then(|at| checker.secret(at));
    Some(User {
        name: name?.value.clone(),
        auth: auth?,
        server_user: file.server_user.as_ref().map(|at| at.value.clone()),
        server_password: server_password.map(Secret),
    })
}

fn user_auth(checker: &Checker<'_>, file: &UserFile) -> Option<UserAuth> {
    let methods = [("password", false), ("trust", true)];
    let trust = checker.choice(&file.auth, &methods);
    match (trust, &file.password) {
        (Some(true), None) => Some(UserAuth::Trust),
        (Some(true), Some(at)) => {
            let hint = "leave one out (the password for the servers is server_password)";
            checker.add(&at.place, format!("auth = \"trust\" asks for no password; {hint}"));
            None
        }
        (_, Some(at)) => checker.take(at, |text| password(checker.resolve(text)?)),
        (None, None) if file.auth.is_some() => None,
        (_, None) => {
            let expected = "a password, a SCRAM-SHA-256 verifier, \"env:NAME\", \"file:PATH\", or auth = \"trust\"";
            checker.missing(&file.place, "password", format!("missing: expected {expected}"));
            None
        }
    }
}

/// A password, or a verifier as pg_authid.rolpassword has it.
fn password(text: String) -> Result<UserAuth, String> {
    if text.starts_with("SCRAM-SHA-256$") {
        return if is_verifier(&text) {
            Ok(UserAuth::Verifier(text))
        } else {
            let form = "SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>";
            Err(format!("not a verifier as PostgreSQL stores it: expected {form}"))
        };
    }
    let md5 = text.strip_prefix("md5").is_some_and(|hex| hex.len() == 32 && hex.bytes().all(|b| b.is_ascii_hexdigit()));
    if md5 {
        return Err(
            "an md5 hash cannot serve SCRAM-SHA-256: expected the password or a SCRAM-SHA-256 verifier".to_owned()
        );
    }
    Ok(UserAuth::Password(Secret(text)))
}

/// parse_scram_secret of PostgreSQL's auth-scram.c: base64 parts, keys of 32 bytes.
fn is_verifier(text: &str) -> bool {
    let parse = || {
        let (head, keys) = text.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
        let (iterations, salt) = head.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        let is_key = |key: &str| STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == 32);
        let salted = STANDARD.decode(salt).is_ok_and(|bytes| !bytes.is_empty());
        Some(iterations.parse::<u32>().is_ok_and(|n| n > 0) && salted && is_key(stored) && is_key(server))
    };
    parse().unwrap_or(false)
}
