//! SCRAM-SHA-256 as a server does it (RFC 5802, RFC 7677; PostgreSQL's auth-scram.c): a state machine without I/O. Over
//! TLS SCRAM-SHA-256-PLUS is offered too, which binds the login to the server's certificate (tls-server-end-point).

use crate::auth::wrong_password;
use crate::error::Error;
use crate::error::Result;
use crate::error::codes;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::Hmac;
use hmac::Mac;
use sha2::Digest;
use sha2::Sha256;
use std::sync::Arc;
use subtle::ConstantTimeEq;

pub const MECHANISM: &str = "SCRAM-SHA-256";
/// The same with channel binding.
pub const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";
/// The only kind of channel binding.
const BINDING: &[u8] = b"tls-server-end-point";
/// PostgreSQL's SCRAM_SHA_256_DEFAULT_ITERATIONS.
const ITERATIONS: u32 = 4096;
/// Random bytes of a nonce: PostgreSQL's SCRAM_RAW_NONCE_LEN.
const NONCE_BYTES: usize = 18;

/// What the server side knows of a password; the password does not follow from it.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    iterations: u32,
    /// In base64, as it is sent.
    salt: String,
    stored_key: [u8; 32],
    server_key: [u8; 32],
    /// Made up for a user who does not exist: no proof is right.
    doomed: bool,
}

/// Keys are secrets: knowing StoredKey and one exchange is to know ClientKey.
impl std::fmt::Debug for Verifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Verifier(…)")
    }
}

impl Verifier {
    /// `SCRAM-SHA-256$<iterations>:<salt>$<StoredKey>:<ServerKey>`, as pg_authid.rolpassword has it.
    pub fn parse(text: &str) -> Option<Verifier> {
        let (head, keys) = text.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
        let (iterations, salt) = head.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        let key = |text: &str| <[u8; 32]>::try_from(STANDARD.decode(text).ok()?).ok();
        STANDARD.decode(salt).ok()?;
        Some(Verifier {
            iterations: iterations.parse().ok().filter(|count| *count > 0)?,
            salt: salt.to_owned(),
            stored_key: key(stored)?,
            server_key: key(server)?,
            doomed: false,
        })
    }

    /// For a password, with a random salt. Takes about a millisecond, so keep it.
    pub fn of_password(password: &str) -> Option<Verifier> {
        Verifier::parse(&postgres_protocol::password::scram_sha_256(password.as_bytes()))
    }

    /// For a user who does not exist: looks as any other and is always the same for one name, as long as `seed` is
    /// (mock_scram_secret in PostgreSQL).
    pub fn doomed(user: &str, seed: &[u8; 32]) -> Verifier {
        let derive = |part: &[u8]| hmac(seed, &[part, b":", user.as_bytes()]);
        let salt = derive(b"salt");
        Verifier {
            iterations: ITERATIONS,
            salt: STANDARD.encode(salt.get(..16).unwrap_or_default()),
            stored_key: derive(b"stored"),
            server_key: derive(b"server"),
            doomed: true,
        }
    }
}

/// One login of a client. [`ServerScram::first`], then [`ServerScram::finish`]; after an error it is over.
#[derive(Debug)]
pub struct ServerScram {
    user: String,
    verifier: Arc<Verifier>,
    /// What a client that binds to the channel must know; `None`: not offered.
    end_point: Option<Vec<u8>>,
    state: State,
}

#[derive(Debug)]
enum State {
    Started,
    Challenged(Challenge),
    Over,
}

#[derive(Debug)]
struct Challenge {
    /// What the client must send back as `c=`.
    channel_binding: String,
    bound: bool,
    /// Client's and server's nonce together.
    nonce: String,
    client_first_bare: String,
    server_first: String,
}

impl ServerScram {
    /// `user` is the name from the startup packet; the one in the SCRAM messages is ignored, as PostgreSQL does.
    pub fn start(user: &str, verifier: Arc<Verifier>, end_point: Option<Vec<u8>>) -> ServerScram {
        ServerScram { user: user.to_owned(), verifier, end_point, state: State::Started }
    }

    /// The mechanisms that are offered: the data of AuthenticationSASL.
    pub fn offer(&self) -> Vec<u8> {
        let plus = self.end_point.is_some().then_some(MECHANISM_PLUS);
        let mut offer = Vec::new();
        for mechanism in plus.into_iter().chain([MECHANISM]) {
            offer.extend_from_slice(mechanism.as_bytes());
            offer.push(0);
        }
        offer.push(0);
        offer
    }

    /// The body of a SASLInitialResponse → server-first-message (the data of AuthenticationSASLContinue).
    ///
    /// # Errors
    /// A malformed message (08P01) or one that wants what we do not offer; both end the session.
    pub fn first(&mut self, body: &[u8]) -> Result<Vec<u8>> {
        let (mechanism, message) = initial_response(body)?;
        let plus = match mechanism {
            mechanism if mechanism == MECHANISM.as_bytes() => false,
            mechanism if mechanism == MECHANISM_PLUS.as_bytes() && self.end_point.is_some() => true,
            _ => return Err(Error::protocol("client selected an invalid SASL authentication mechanism")),
        };
        let mut nonce = [0; NONCE_BYTES];
        getrandom::fill(&mut nonce).map_err(|_| Error::fatal(codes::INTERNAL, "could not generate random nonce"))?;
        self.first_with(message, plus, &STANDARD.encode(nonce))
    }

    fn first_with(&mut self, message: &[u8], plus: bool, server_nonce: &str) -> Result<Vec<u8>> {
        if !matches!(std::mem::replace(&mut self.state, State::Over), State::Started) {
            return Err(malformed("The exchange has begun already."));
        }
        let message = text(message)?;
        let (header, bare) = split_gs2_header(message, plus, self.end_point.is_some())?;
        let mut binding = header.as_bytes().to_vec();
        if plus {
            binding.extend_from_slice(self.end_point.as_deref().unwrap_or_default());
        }
        let client_nonce = client_nonce(bare)?;
        let nonce = format!("{client_nonce}{server_nonce}");
        let server_first = format!("r={nonce},s={},i={}", self.verifier.salt, self.verifier.iterations);
        let reply = server_first.clone().into_bytes();
        self.state = State::Challenged(Challenge {
            channel_binding: STANDARD.encode(binding),
            bound: plus,
            nonce,
            client_first_bare: bare.to_owned(),
            server_first,
        });
        Ok(reply)
    }

    /// client-final-message → server-final-message (the data of AuthenticationSASLFinal). The client is who it says.
    ///
    /// # Errors
    /// A wrong password or an unknown user (28P01), a malformed message (08P01); both end the session.
    pub fn finish(&mut self, message: &[u8]) -> Result<Vec<u8>> {
        let State::Challenged(challenge) = std::mem::replace(&mut self.state, State::Over) else {
            return Err(malformed("The exchange has not begun."));
        };
        let message = text(message)?;
        let (without_proof, proof) =
            message.rsplit_once(",p=").ok_or_else(|| malformed("Attribute \"p\" is missing."))?;
        let proof = STANDARD.decode(proof).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        let proof = proof.ok_or_else(|| malformed("Malformed proof in client-final-message."))?;
        let mut attributes = without_proof.split(',');
        let binding = attributes.next().and_then(|attribute| attribute.strip_prefix("c="));
        if binding != Some(challenge.channel_binding.as_str()) {
            if challenge.bound {
                return Err(Error::fatal(codes::INVALID_AUTHORIZATION, "SCRAM channel binding check failed"));
            }
            let message = "unexpected SCRAM channel-binding attribute in client-final-message";
            return Err(Error::protocol(message));
        }
        if attributes.next().and_then(|attribute| attribute.strip_prefix("r=")) != Some(challenge.nonce.as_str()) {
            return Err(Error::protocol("invalid SCRAM response").detail("Nonce does not match."));
        }
        let auth_message = format!("{},{},{without_proof}", challenge.client_first_bare, challenge.server_first);
        if !self.is_right(&proof, auth_message.as_bytes()) {
            return Err(wrong_password(&self.user));
        }
        let signature = hmac(&self.verifier.server_key, &[auth_message.as_bytes()]);
        Ok(format!("v={}", STANDARD.encode(signature)).into_bytes())
    }

    /// verify_client_proof: the proof is ClientKey xor HMAC(StoredKey, messages), and StoredKey is H(ClientKey).
    fn is_right(&self, proof: &[u8; 32], auth_message: &[u8]) -> bool {
        let mut client_key = hmac(&self.verifier.stored_key, &[auth_message]);
        client_key.iter_mut().zip(proof).for_each(|(byte, proof)| *byte ^= proof);
        let stored_key: [u8; 32] = Sha256::digest(client_key).into();
        bool::from(stored_key.ct_eq(&self.verifier.stored_key)) && !self.verifier.doomed
    }
}

/// The body of a SASLInitialResponse → mechanism and data (client-first-message).
///
/// # Errors
/// A malformed message (08P01).
fn initial_response(body: &[u8]) -> Result<(&[u8], &[u8])> {
    let wrong = || Error::protocol("invalid message format");
    let end = body.iter().position(|byte| *byte == 0).ok_or_else(wrong)?;
    let (mechanism, rest) = body.split_at_checked(end).ok_or_else(wrong)?;
    let rest = rest.get(1..).ok_or_else(wrong)?;
    let (length, data) = rest.split_first_chunk::<4>().ok_or_else(wrong)?;
    if usize::try_from(i32::from_be_bytes(*length)).ok() != Some(data.len()) {
        return Err(wrong());
    }
    Ok((mechanism, data))
}

/// The header of a client-first-message (`n,,`, `y,,` or `p=…,,`) and what follows it. `plus`: the mechanism chosen has
/// channel binding; `offered`: it was there to choose (read_client_first_message in auth-scram.c).
fn split_gs2_header(message: &str, plus: bool, offered: bool) -> Result<(&str, &str)> {
    let (flag, _) = message.split_once(',').ok_or_else(|| malformed("Comma expected."))?;
    match flag.as_bytes() {
        [b'n' | b'y'] if plus => Err(malformed(
            "The client selected SCRAM-SHA-256-PLUS, but the SCRAM message does not include channel binding data.",
        )),
        // Somebody may have taken our offer away.
        [b'y'] if offered => Err(Error::fatal(
            codes::INVALID_AUTHORIZATION,
            "SCRAM channel binding negotiation error",
        )
        .detail(
            "The client supports SCRAM channel binding but thinks the server does not.  However, this server does support channel binding.",
        )),
        [b'p', b'=', ..] if !plus => Err(malformed(
            "The client selected SCRAM-SHA-256 without channel binding, but the SCRAM message includes channel binding data.",
        )),
        [b'n' | b'y'] => after_header(message, 3),
        [b'p', b'=', kind @ ..] if kind == BINDING => after_header(message, BINDING.len() + 4),
        [b'p', b'=', ..] => Err(Error::protocol("unsupported SCRAM channel-binding type")),
        _ => Err(malformed("Unexpected channel-binding flag.")),
    }
}

fn after_header(message: &str, length: usize) -> Result<(&str, &str)> {
    match message.split_at_checked(length) {
        Some((header, bare)) if header.ends_with(",,") => Ok((header, bare)),
        _ => Err(Error::fatal(codes::NOT_SUPPORTED, "client uses authorization identity, but it is not supported")),
    }
}

/// The nonce in client-first-message-bare: `n=<user>,r=<nonce>[,extensions]`.
fn client_nonce(bare: &str) -> Result<&str> {
    if bare.starts_with("m=") {
        return Err(Error::fatal(codes::NOT_SUPPORTED, "client requires an unsupported SCRAM extension"));
    }
    let mut attributes = bare.split(',');
    attributes.next().filter(|user| user.starts_with("n=")).ok_or_else(|| malformed("Attribute \"n\" expected."))?;
    let nonce = attributes.next().and_then(|attribute| attribute.strip_prefix("r="));
    let nonce = nonce.ok_or_else(|| malformed("Attribute \"r\" expected."))?;
    // is_scram_printable
    if nonce.is_empty() || !nonce.bytes().all(|byte| (0x21..=0x7e).contains(&byte)) {
        return Err(Error::protocol("non-printable characters in SCRAM nonce"));
    }
    Ok(nonce)
}

fn text(message: &[u8]) -> Result<&str> {
    match std::str::from_utf8(message) {
        Ok("") => Err(malformed("The message is empty.")),
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err(malformed("Message length does not match input length.")),
    }
}

fn malformed(detail: &'static str) -> Error {
    Error::protocol("malformed SCRAM message").detail(detail)
}

fn hmac(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    // A key of one block or less never fails; the branch is for the type.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return [0; 32] };
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests;
