//! The proxy's side of a login at a server, by every method, with a real PostgreSQL at the other end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::postgres::Cluster;
use shardway::auth::server_auth::AuthStep;
use shardway::auth::server_auth::ServerAuth;
use std::io::Read;
use std::io::Write;
use std::net::TcpStream;

const HBA: &str = "host all by_scram 127.0.0.1/32 scram-sha-256\nhost all by_md5 127.0.0.1/32 md5\n\
                   host all by_password 127.0.0.1/32 password\nhost all all 127.0.0.1/32 trust\n";

/// Reads messages until ReadyForQuery or an error; answers what is asked.
fn log_in(port: u16, user: &str, password: &str) -> Result<(), String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let startup = [&[0, 3, 0, 0], &b"user\0"[..], user.as_bytes(), b"\0database\0postgres\0\0"].concat();
    let length = u32::try_from(startup.len() + 4).unwrap();
    stream.write_all(&[&length.to_be_bytes(), startup.as_slice()].concat()).unwrap();
    let mut auth = ServerAuth::new(user, Some(password), None);
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head).map_err(|error| error.to_string())?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = vec![0; usize::try_from(length).unwrap() - 4];
        stream.read_exact(&mut body).unwrap();
        match head[0] {
            b'R' => match auth.on_message(&body).map_err(|error| error.to_string())? {
                AuthStep::Send(body) => {
                    let length = u32::try_from(body.len() + 4).unwrap();
                    stream.write_all(&[b"p", &length.to_be_bytes()[..], &body].concat()).unwrap();
                }
                AuthStep::Done | AuthStep::Continue => {}
            },
            b'E' => return Err(String::from_utf8_lossy(&body).into_owned()),
            b'Z' => return Ok(()),
            _ => {}
        }
    }
}

#[test]
fn a_real_server_lets_us_in() {
    let cluster = Cluster::builder().hba(HBA).start();
    for sql in [
        "SET password_encryption = 'scram-sha-256'; CREATE ROLE by_scram LOGIN PASSWORD 'secret'",
        "CREATE ROLE by_password LOGIN PASSWORD 'secret'",
        "SET password_encryption = 'md5'; CREATE ROLE by_md5 LOGIN PASSWORD 'secret'",
        "CREATE ROLE by_trust LOGIN",
    ] {
        cluster.execute("postgres", sql);
    }
    for user in ["by_scram", "by_md5", "by_password", "by_trust"] {
        log_in(cluster.port, user, "secret").unwrap();
    }
    for user in ["by_scram", "by_md5", "by_password"] {
        assert!(log_in(cluster.port, user, "other").unwrap_err().contains("28P01"), "{user}");
    }
}
