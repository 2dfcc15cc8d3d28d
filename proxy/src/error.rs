//! The one error that a client can see, with PostgreSQL's fields.
//!
//! Everything that goes wrong on the path of a statement ends as an [`Error`]; errors that a server wrote are kept as
//! the bytes it wrote (`raw`), so that no field is lost on the way to the client.

use bytes::Bytes;
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::ops::DerefMut;

/// A C function of PostgreSQL by which drivers know an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routine {
    RevalidateCachedQuery,
}

impl Routine {
    pub fn name(self) -> &'static str {
        match self {
            Routine::RevalidateCachedQuery => "RevalidateCachedQuery",
        }
    }
}

/// How far the damage goes: the statement, or the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Error,
    Fatal,
}

/// A five-character SQLSTATE (PostgreSQL, appendix A).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState(pub [u8; 5]);

impl SqlState {
    pub const fn new(code: &[u8; 5]) -> Self {
        SqlState(*code)
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("XX000")
    }

    /// The class: the first two characters.
    pub fn class(&self) -> &str {
        self.as_str().get(..2).unwrap_or("XX")
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The SQLSTATEs that the proxy itself gives.
pub mod codes {
    use super::SqlState;
    pub const CONNECTION_FAILURE: SqlState = SqlState::new(b"08006");
    pub const CONNECTION_REJECTED: SqlState = SqlState::new(b"08004");
    pub const PROTOCOL_VIOLATION: SqlState = SqlState::new(b"08P01");
    pub const TRANSACTION_UNKNOWN: SqlState = SqlState::new(b"08007");
    pub const NOT_SUPPORTED: SqlState = SqlState::new(b"0A000");
    pub const INVALID_PARAMETER_VALUE: SqlState = SqlState::new(b"22023");
    pub const INVALID_TEXT: SqlState = SqlState::new(b"22P02");
    pub const INVALID_BINARY: SqlState = SqlState::new(b"22P03");
    pub const CHARACTER_NOT_IN_REPERTOIRE: SqlState = SqlState::new(b"22021");
    pub const NUMERIC_OUT_OF_RANGE: SqlState = SqlState::new(b"22003");
    pub const BAD_LIMIT: SqlState = SqlState::new(b"2201W");
    pub const BAD_OFFSET: SqlState = SqlState::new(b"2201X");
    pub const ACTIVE_TRANSACTION: SqlState = SqlState::new(b"25001");
    pub const READ_ONLY_TRANSACTION: SqlState = SqlState::new(b"25006");
    pub const NO_ACTIVE_TRANSACTION: SqlState = SqlState::new(b"25P01");
    pub const IN_FAILED_TRANSACTION: SqlState = SqlState::new(b"25P02");
    pub const TRANSACTION_ROLLBACK: SqlState = SqlState::new(b"40000");
    pub const SERIALIZATION_FAILURE: SqlState = SqlState::new(b"40001");
    pub const INVALID_STATEMENT_NAME: SqlState = SqlState::new(b"26000");
    pub const INVALID_AUTHORIZATION: SqlState = SqlState::new(b"28000");
    pub const INVALID_PASSWORD: SqlState = SqlState::new(b"28P01");
    pub const INVALID_CATALOG_NAME: SqlState = SqlState::new(b"3D000");
    pub const INVALID_CURSOR_NAME: SqlState = SqlState::new(b"34000");
    pub const INVALID_SAVEPOINT: SqlState = SqlState::new(b"3B001");
    pub const NAME_TOO_LONG: SqlState = SqlState::new(b"42622");
    pub const SYNTAX_ERROR: SqlState = SqlState::new(b"42601");
    pub const UNDEFINED_TABLE: SqlState = SqlState::new(b"42P01");
    pub const UNDEFINED_COLUMN: SqlState = SqlState::new(b"42703");
    pub const UNDEFINED_OBJECT: SqlState = SqlState::new(b"42704");
    pub const DUPLICATE_STATEMENT: SqlState = SqlState::new(b"42P05");
    pub const DUPLICATE_CURSOR: SqlState = SqlState::new(b"42P03");
    pub const RESERVED_NAME: SqlState = SqlState::new(b"42939");
    pub const INSUFFICIENT_PRIVILEGE: SqlState = SqlState::new(b"42501");
    pub const TOO_MANY_CONNECTIONS: SqlState = SqlState::new(b"53300");
    pub const OUT_OF_MEMORY: SqlState = SqlState::new(b"53200");
    pub const PROGRAM_LIMIT: SqlState = SqlState::new(b"54000");
    pub const STATEMENT_TOO_COMPLEX: SqlState = SqlState::new(b"54001");
    pub const NOT_IN_PREREQUISITE_STATE: SqlState = SqlState::new(b"55000");
    pub const LOCK_NOT_AVAILABLE: SqlState = SqlState::new(b"55P03");
    pub const QUERY_CANCELED: SqlState = SqlState::new(b"57014");
    pub const DEADLOCK_DETECTED: SqlState = SqlState::new(b"40P01");
    pub const ADMIN_SHUTDOWN: SqlState = SqlState::new(b"57P01");
    pub const CANNOT_CONNECT_NOW: SqlState = SqlState::new(b"57P03");
    pub const INTERNAL: SqlState = SqlState::new(b"XX000");
}

/// One error as a client sees it. One word wide, since every result has a place for it.
#[derive(Clone, Debug)]
pub struct Error(Box<Fields>);

/// What an error says. `position` counts characters from 1 in the client's own text, as PostgreSQL does.
#[derive(Clone, Debug)]
pub struct Fields {
    pub severity: Severity,
    pub code: SqlState,
    pub message: Cow<'static, str>,
    pub detail: Option<Cow<'static, str>>,
    pub hint: Option<Cow<'static, str>>,
    pub position: Option<u32>,
    /// The C function that PostgreSQL would name: for errors that drivers know by it.
    pub routine: Option<Routine>,
    /// The body of the ErrorResponse that a server wrote (without type and length), when one did.
    pub raw: Option<Bytes>,
    /// The FATAL error by which a server has ended its session: what PostgreSQL tells the client before it closes.
    pub last_words: Option<Error>,
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub fn new(code: SqlState, message: impl Into<Cow<'static, str>>) -> Self {
        Error(Box::new(Fields {
            severity: Severity::Error,
            code,
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            routine: None,
            raw: None,
            last_words: None,
        }))
    }

    /// An error after which the session ends.
    pub fn fatal(code: SqlState, message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(code, message).with_severity(Severity::Fatal)
    }

    #[must_use]
    pub fn with_severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    pub fn into_message(self) -> Cow<'static, str> {
        self.0.message
    }

    /// As an error of our own: not as the server wrote it.
    #[must_use]
    pub fn without_raw(mut self) -> Self {
        self.raw = None;
        self
    }

    /// What Shardway does not do: always `0A000`, naming the construct.
    pub fn unsupported(message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(codes::NOT_SUPPORTED, message)
    }

    pub fn protocol(message: impl Into<Cow<'static, str>>) -> Self {
        Error::fatal(codes::PROTOCOL_VIOLATION, message)
    }

    /// A message that is well formed but does not fit: the session goes on.
    pub fn protocol_error(message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(codes::PROTOCOL_VIOLATION, message)
    }

    pub fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Error::new(codes::INTERNAL, message)
    }

    #[must_use]
    pub fn with_last_words(mut self, last_words: Error) -> Self {
        self.last_words = Some(last_words);
        self
    }

    #[must_use]
    pub fn detail(mut self, detail: impl Into<Cow<'static, str>>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<Cow<'static, str>>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub fn at(mut self, position: u32) -> Self {
        self.position = Some(position);
        self
    }

    #[must_use]
    pub fn from_routine(mut self, routine: Routine) -> Self {
        self.routine = Some(routine);
        self
    }

    pub fn is_fatal(&self) -> bool {
        self.severity == Severity::Fatal
    }
}

impl Deref for Error {
    type Target = Fields;

    fn deref(&self) -> &Fields {
        &self.0
    }
}

impl DerefMut for Error {
    fn deref_mut(&mut self) -> &mut Fields {
        &mut self.0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code.as_str(), self.message)?;
        if let Some(detail) = &self.detail {
            write!(f, " ({detail})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
