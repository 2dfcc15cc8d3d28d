//! The exchanges of a login, client → us and us → PostgreSQL, for a secret that is given. No I/O: bodies of messages
//! go in, bodies of messages come out.

pub mod logins;
pub mod scram;
pub mod server_auth;

use crate::error::Error;
use crate::error::codes;

/// What PostgreSQL tells a client whose password is wrong, or whose user does not exist (auth_failed in auth.c).
pub fn wrong_password(user: &str) -> Error {
    Error::fatal(codes::INVALID_PASSWORD, format!("password authentication failed for user \"{user}\""))
}
