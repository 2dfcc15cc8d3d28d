//! `postgresql://user:password@host:port/database?sslmode=…` → [`Endpoint`], by libpq's rules for connection URIs.

use crate::config::Endpoint;
use crate::config::Login;
use crate::config::Secret;
use crate::config::ServerTls;
use crate::config::SslMode;
use crate::config::mistake::choices_text;
use std::path::PathBuf;

const DEFAULT_PORT: u16 = 5432;
const MODES: [&str; 5] = ["disable", "prefer", "require", "verify-ca", "verify-full"];
const PARAMETERS: [&str; 2] = ["sslmode", "sslrootcert"];

/// Reads one URL. The text is never quoted in an error: it may hold a password.
///
/// # Errors
/// What was expected, for a message.
pub fn endpoint(url: &str) -> Result<Endpoint, String> {
    let rest = url
        .strip_prefix("postgresql://")
        .or_else(|| url.strip_prefix("postgres://"))
        .ok_or("expected \"postgresql://user:password@host:port/database\"")?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, host_port) = match authority.rsplit_once('@') {
        Some((login, host_port)) => (Some(parse_login(login)?), host_port),
        None => (None, authority),
    };
    let (host, port) = parse_host(host_port)?;
    let database = match (decode(database)?, &login) {
        (name, _) if !name.is_empty() => name,
        (_, Some(login)) => login.user.clone(),
        (_, None) => return Err("the database is missing: expected \"postgresql://…host:port/database\"".to_owned()),
    };
    Ok(Endpoint { host, port, database, login, tls: parse_tls(query)? })
}

/// `user` or `user:password`, percent-encoded.
fn parse_login(text: &str) -> Result<Login, String> {
    let (user, password) = match text.split_once(':') {
        Some((user, password)) => (decode(user)?, Some(Secret(decode(password)?))),
        None => (decode(text)?, None),
    };
    if user.is_empty() {
        return Err("the user before \"@\" is empty".to_owned());
    }
    Ok(Login { user, password: password.filter(|secret| !secret.0.is_empty()) })
}

fn parse_host(text: &str) -> Result<(String, u16), String> {
    if text.contains(',') {
        return Err("one host only: further ones belong into `replicas` or another shard".to_owned());
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or("\"]\" is missing after the IPv6 address")?;
            host.parse::<std::net::Ipv6Addr>().map_err(|_| format!("\"{host}\" is not an IPv6 address"))?;
            (host.to_owned(), after.strip_prefix(':').unwrap_or(after))
        }
        None => {
            let (host, port) = text.split_once(':').unwrap_or((text, ""));
            if port.contains(':') {
                return Err("an IPv6 address needs brackets: \"[::1]:5432\"".to_owned());
            }
            (decode(host)?, port)
        }
    };
    if host.is_empty() || host.starts_with('/') {
        return Err("the host is missing (Unix-domain sockets are not supported)".to_owned());
    }
    let port = if port.is_empty() { DEFAULT_PORT } else { port.parse().unwrap_or(0) };
    if port == 0 {
        return Err("the port must be a number from 1 to 65535".to_owned());
    }
    Ok((host, port))
}

fn parse_tls(query: &str) -> Result<ServerTls, String> {
    let mut mode = SslMode::Prefer;
    let mut root_certificate = None;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = decode(value)?;
        match name {
            "sslmode" => mode = parse_mode(&value)?,
            "sslrootcert" => root_certificate = Some(PathBuf::from(value)),
            _ => return Err(format!("unknown parameter \"{name}\"; {}", choices_text(name, &PARAMETERS))),
        }
    }
    if root_certificate.is_none() && matches!(mode, SslMode::VerifyCa | SslMode::VerifyFull) {
        return Err("sslmode=verify-ca and verify-full need sslrootcert=FILE".to_owned());
    }
    Ok(ServerTls { mode, root_certificate })
}

fn parse_mode(text: &str) -> Result<SslMode, String> {
    match text {
        "disable" => Ok(SslMode::Disable),
        "prefer" => Ok(SslMode::Prefer),
        "require" => Ok(SslMode::Require),
        "verify-ca" => Ok(SslMode::VerifyCa),
        "verify-full" => Ok(SslMode::VerifyFull),
        _ => Err(format!("unknown sslmode \"{text}\"; {}", choices_text(text, &MODES))),
    }
}

/// Percent-decoding as libpq's conninfo_uri_decode: `%` and two hexadecimal digits, never NUL.
fn decode(text: &str) -> Result<String, String> {
    let wrong = || "\"%\" must be followed by two hexadecimal digits other than 00".to_owned();
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| byte.and_then(|b| char::from(b).to_digit(16)).and_then(|d| u8::try_from(d).ok());
        let high = digit(rest.next()).ok_or_else(wrong)?;
        let low = digit(rest.next()).ok_or_else(wrong)?;
        match high * 16 + low {
            0 => return Err(wrong()),
            byte => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| "percent-encoded bytes are not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::endpoint;
    use crate::config::Secret;
    use crate::config::SslMode;

    #[test]
    fn parts_of_a_url() {
        let url = "postgresql://a%40b:p%3Aw%25@db.example:5501/shop?sslmode=verify-full&sslrootcert=/etc/ca.pem";
        let read = endpoint(url).unwrap();
        let login = read.login.unwrap();
        assert_eq!((login.user.as_str(), login.password), ("a@b", Some(Secret("p:w%".to_owned()))));
        assert_eq!((read.host.as_str(), read.port, read.database.as_str()), ("db.example", 5501, "shop"));
        assert_eq!(read.tls.mode, SslMode::VerifyFull);
        assert_eq!(read.tls.root_certificate.unwrap().to_str(), Some("/etc/ca.pem"));
    }

    #[test]
    fn defaults_and_ipv6() {
        let read = endpoint("postgres://app@[::1]").unwrap();
        assert_eq!((read.host.as_str(), read.port, read.database.as_str()), ("::1", 5432, "app"));
        assert_eq!(read.tls.mode, SslMode::Prefer);
        assert_eq!(endpoint("postgresql://[fe80::1]:6000/x").unwrap().port, 6000);
        assert!(endpoint("postgresql://h/x").unwrap().login.is_none());
    }

    #[test]
    fn mistakes_say_what_was_expected_and_hide_the_password() {
        let cases = [
            ("mysql://app:hush@h/x", "expected \"postgresql://"),
            ("postgresql://app:hush@h:0/x", "from 1 to 65535"),
            ("postgresql://app:hush@h:99999/x", "from 1 to 65535"),
            ("postgresql://app:hush@/x", "the host is missing"),
            ("postgresql://app:hush@::1/x", "needs brackets"),
            ("postgresql://app:hush@[::1/x", "\"]\" is missing"),
            ("postgresql://app:hush@a,b/x", "one host only"),
            ("postgresql://h", "the database is missing"),
            ("postgresql://app:hush@h/x?sslmode=required", "did you mean \"require\""),
            ("postgresql://app:hush@h/x?sslmode=verify-ca", "need sslrootcert"),
            ("postgresql://app:hush@h/x?ssl_mode=require", "did you mean \"sslmode\""),
            ("postgresql://app:hush%zz@h/x", "two hexadecimal digits"),
            ("postgresql://:hush@h/x", "user before \"@\" is empty"),
        ];
        for (url, expected) in cases {
            let told = endpoint(url).unwrap_err();
            assert!(told.contains(expected), "{url}: {told}");
            assert!(!told.contains("hush"), "{told}");
        }
    }
}
