//! Our login on a PostgreSQL server: the bodies of its Authentication messages ('R') in, the bodies of our answers ('p')
//! out. Trust, cleartext, md5 and SCRAM-SHA-256; the server's own proof is checked.

use crate::auth::scram::MECHANISM;
use crate::auth::scram::MECHANISM_PLUS;
use crate::error::Error;
use crate::error::Result;
use crate::error::codes;
use crate::limits;
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::ChannelBinding;
use postgres_protocol::authentication::sasl::ScramSha256;

/// One login on one server connection.
pub struct ServerAuth {
    user: String,
    password: Option<String>,
    /// What the login is bound to over TLS, where the server offers that.
    end_point: Option<Vec<u8>>,
    state: State,
}

enum State {
    Started,
    /// We have sent client-first-message.
    SaslFirst(ScramSha256),
    /// We have sent client-final-message; the server must prove that it knows the password too.
    SaslFinal(ScramSha256),
    Proven,
    Over,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthStep {
    /// The server lets us in (AuthenticationOk).
    Done,
    /// Send a message of type 'p' with this body, then wait for the next 'R'.
    Send(Vec<u8>),
    /// Nothing to send: wait for the next 'R'.
    Continue,
}

impl ServerAuth {
    /// `end_point`: of the server's certificate, over TLS (`tls::end_point`).
    pub fn new(user: &str, password: Option<&str>, end_point: Option<Vec<u8>>) -> ServerAuth {
        ServerAuth { user: user.to_owned(), password: password.map(str::to_owned), end_point, state: State::Started }
    }

    /// `body`: the body of an 'R' message, its code (int32) first.
    ///
    /// # Errors
    /// No password where one is asked for (28P01), a method that we do not speak (28000), a malformed message or a
    /// server that cannot prove to know the password (08P01). The connection is of no use afterwards.
    pub fn on_message(&mut self, body: &[u8]) -> Result<AuthStep> {
        let (code, data) = body.split_first_chunk::<4>().ok_or_else(malformed)?;
        let state = std::mem::replace(&mut self.state, State::Over);
        match (i32::from_be_bytes(*code), state) {
            (0, State::Started | State::Proven) => Ok(AuthStep::Done),
            (3, State::Started) => self.cleartext(),
            (5, State::Started) => self.md5(data),
            (10, State::Started) => self.sasl(data),
            (11, State::SaslFirst(scram)) => self.sasl_continue(scram, data),
            (12, State::SaslFinal(scram)) => self.sasl_final(scram, data),
            (code, State::Started) => Err(self.unknown_method(code)),
            (_, State::SaslFirst(_) | State::SaslFinal(_) | State::Proven | State::Over) => {
                Err(protocol("the server sent an authentication message out of turn"))
            }
        }
    }

    fn cleartext(&mut self) -> Result<AuthStep> {
        let mut body = self.password()?.as_bytes().to_vec();
        body.push(0);
        self.state = State::Started;
        Ok(AuthStep::Send(body))
    }

    fn md5(&mut self, data: &[u8]) -> Result<AuthStep> {
        let salt = <[u8; 4]>::try_from(data).map_err(|_| malformed())?;
        let mut body = md5_hash(self.user.as_bytes(), self.password()?.as_bytes(), salt).into_bytes();
        body.push(0);
        self.state = State::Started;
        Ok(AuthStep::Send(body))
    }

    /// AuthenticationSASL: mechanisms, each ended by NUL, and one NUL more.
    fn sasl(&mut self, data: &[u8]) -> Result<AuthStep> {
        let offers = |wanted: &str| data.split(|byte| *byte == 0).any(|mechanism| mechanism == wanted.as_bytes());
        let (mechanism, binding) = match self.end_point.take() {
            Some(end_point) if offers(MECHANISM_PLUS) => {
                (MECHANISM_PLUS, ChannelBinding::tls_server_end_point(end_point))
            }
            // Whoever took the offer away would be found out.
            Some(_) if offers(MECHANISM) => (MECHANISM, ChannelBinding::unrequested()),
            // "n": with "y" a server that offers channel binding would see a downgrade.
            None if offers(MECHANISM) => (MECHANISM, ChannelBinding::unsupported()),
            _ => return Err(self.not_spoken("SASL without SCRAM-SHA-256")),
        };
        let scram = ScramSha256::new(self.password()?.as_bytes(), binding);
        let first = scram.message();
        let length = i32::try_from(first.len()).map_err(|_| malformed())?;
        let mut body = Vec::with_capacity(mechanism.len() + 5 + first.len());
        body.extend_from_slice(mechanism.as_bytes());
        body.push(0);
        body.extend_from_slice(&length.to_be_bytes());
        body.extend_from_slice(first);
        self.state = State::SaslFirst(scram);
        Ok(AuthStep::Send(body))
    }

    fn sasl_continue(&mut self, mut scram: ScramSha256, data: &[u8]) -> Result<AuthStep> {
        // The work is done in one go: a server must not keep us at it.
        if rounds(data).is_none_or(|rounds| rounds > limits::SCRAM_ROUNDS) {
            return Err(protocol(format!("the server asks for more than {} rounds of SCRAM", limits::SCRAM_ROUNDS)));
        }
        scram.update(data).map_err(|error| protocol(format!("SCRAM with the server failed: {error}")))?;
        let body = scram.message().to_vec();
        self.state = State::SaslFinal(scram);
        Ok(AuthStep::Send(body))
    }

    fn sasl_final(&mut self, mut scram: ScramSha256, data: &[u8]) -> Result<AuthStep> {
        scram
            .finish(data)
            .map_err(|error| protocol(format!("the server could not prove to know the password: {error}")))?;
        self.state = State::Proven;
        Ok(AuthStep::Continue)
    }

    fn password(&self) -> Result<&str> {
        let message = || format!("the server asks for a password, and none is known for user \"{}\"", self.user);
        let hint = "Set password or server_password of the [[user]], or write a login into the shard's URL.";
        self.password.as_deref().ok_or_else(|| Error::new(codes::INVALID_PASSWORD, message()).hint(hint))
    }

    fn unknown_method(&self, code: i32) -> Error {
        match code {
            2 => self.not_spoken("Kerberos V5"),
            7 | 8 => self.not_spoken("GSSAPI"),
            9 => self.not_spoken("SSPI"),
            11 | 12 => protocol("the server sent an authentication message out of turn"),
            code => self.not_spoken(&format!("method {code}")),
        }
    }

    fn not_spoken(&self, method: &str) -> Error {
        let message =
            format!("the server asks user \"{}\" for an authentication that is not supported: {method}", self.user);
        let hint = "Let pg_hba.conf ask for scram-sha-256, md5, password or trust.";
        Error::new(codes::INVALID_AUTHORIZATION, message).hint(hint)
    }
}

/// The rounds of a server-first-message (`r=…,s=…,i=…`); 0 where it does not say. `None`: more than anybody can do.
fn rounds(data: &[u8]) -> Option<u32> {
    let attributes = data.split(|byte| *byte == b',');
    let written = attributes.filter_map(|attribute| attribute.strip_prefix(b"i="));
    let counts = written.map(|count| {
        let mut digits = count.iter().take_while(|byte| byte.is_ascii_digit());
        digits.try_fold(0_u32, |sum, digit| sum.checked_mul(10)?.checked_add(u32::from(digit - b'0')))
    });
    counts.max_by_key(|count| count.unwrap_or(u32::MAX)).unwrap_or(Some(0))
}

fn protocol(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(codes::PROTOCOL_VIOLATION, message)
}

fn malformed() -> Error {
    protocol("malformed authentication message from the server")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
    use super::AuthStep;
    use super::ServerAuth;
    use crate::auth::scram::ServerScram;
    use crate::auth::scram::Verifier;
    use crate::error::codes;
    use std::sync::Arc;

    fn message(code: i32, data: &[u8]) -> Vec<u8> {
        [&code.to_be_bytes(), data].concat()
    }

    fn sent(step: AuthStep) -> Vec<u8> {
        match step {
            AuthStep::Send(body) => body,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn trust_cleartext_md5() {
        let start = || ServerAuth::new("md5_user", Some("password"), None);
        assert_eq!(start().on_message(&message(0, b"")).unwrap(), AuthStep::Done);
        let mut auth = start();
        assert_eq!(sent(auth.on_message(&message(3, b"")).unwrap()), b"password\0");
        assert_eq!(auth.on_message(&message(0, b"")).unwrap(), AuthStep::Done);
        let salted = sent(start().on_message(&message(5, &[0x2a, 0x3d, 0x8f, 0xe0])).unwrap());
        assert_eq!(salted, b"md562af4dd09bbb41884907a838a3233294\0");
    }

    #[test]
    fn scram_with_our_own_server_side() {
        let mut auth = ServerAuth::new("app", Some("secret"), None);
        let mut server = ServerScram::start("app", Arc::new(Verifier::of_password("secret").unwrap()), None);
        let offer = message(10, b"SCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0");
        let first = sent(auth.on_message(&offer).unwrap());
        let challenge = server.first(&first).unwrap();
        let last = sent(auth.on_message(&message(11, &challenge)).unwrap());
        let end = server.finish(&last).unwrap();
        assert_eq!(auth.on_message(&message(12, &end)).unwrap(), AuthStep::Continue);
        assert_eq!(auth.on_message(&message(0, b"")).unwrap(), AuthStep::Done);
    }

    #[test]
    fn a_server_that_does_not_know_the_password_is_not_believed() {
        let mut auth = ServerAuth::new("app", Some("secret"), None);
        auth.on_message(&message(10, b"SCRAM-SHA-256\0\0")).unwrap();
        assert_eq!(auth.on_message(&message(0, b"")).unwrap_err().code, codes::PROTOCOL_VIOLATION);
        let mut auth = ServerAuth::new("app", Some("secret"), None);
        let mut server = ServerScram::start("app", Arc::new(Verifier::of_password("secret").unwrap()), None);
        let first = sent(auth.on_message(&message(10, b"SCRAM-SHA-256\0\0")).unwrap());
        let challenge = server.first(&first).unwrap();
        auth.on_message(&message(11, &challenge)).unwrap();
        let error = auth.on_message(&message(12, b"v=AAAA")).unwrap_err();
        assert_eq!(error.code, codes::PROTOCOL_VIOLATION);
    }

    #[test]
    fn a_server_cannot_keep_us_at_work() {
        for (rounds, done) in [
            ("16", true),
            ("1000001", false),
            ("4294967295", false),
            ("99999999999999999999", false),
            ("5,i=9999999", false),
        ] {
            let mut auth = ServerAuth::new("app", Some("secret"), None);
            let first = sent(auth.on_message(&message(10, b"SCRAM-SHA-256\0\0")).unwrap());
            let text = String::from_utf8_lossy(&first).into_owned();
            let nonce = text.split_once("r=").unwrap().1;
            let challenge = format!("r={nonce}x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i={rounds}");
            assert_eq!(auth.on_message(&message(11, challenge.as_bytes())).is_ok(), done, "{rounds}");
        }
    }

    #[test]
    fn what_cannot_be_done_is_told() {
        let none = ServerAuth::new("app", None, None).on_message(&message(3, b"")).unwrap_err();
        assert_eq!(none.code, codes::INVALID_PASSWORD);
        for code in [2, 7, 9, 99] {
            let error = ServerAuth::new("app", Some("x"), None).on_message(&message(code, b"")).unwrap_err();
            assert_eq!(error.code, codes::INVALID_AUTHORIZATION, "{code}");
        }
        let plus =
            ServerAuth::new("app", Some("x"), None).on_message(&message(10, b"SCRAM-SHA-256-PLUS\0\0")).unwrap_err();
        assert_eq!(plus.code, codes::INVALID_AUTHORIZATION);
        for body in [&b""[..], b"\0\0\0", b"\0\0\0\x05abc", b"\0\0\0\x0b", b"\0\0\0\x0c"] {
            let error = ServerAuth::new("app", Some("x"), None).on_message(body).unwrap_err();
            assert_eq!(error.code, codes::PROTOCOL_VIOLATION, "{body:?}");
        }
    }
}
