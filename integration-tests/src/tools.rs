//! Programs that the tests run: psql and whatever else, and a small HTTP client.

use crate::client::Address;
use crate::process;
use std::io::Read;
use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Longer than any client program of the tests takes on a busy machine.
pub const PROGRAM_LIMIT: Duration = Duration::from_secs(60);

/// What a program said, for failure messages.
pub fn said(output: &Output) -> String {
    format!("{}\n{}{}", output.status, String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs a program to its end, and kills it when that does not come in time: a hang is a failure, not a wait.
pub fn output_within(command: &mut Command, limit: Duration) -> std::io::Result<Output> {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let pid = child.id();
    let (done, waiting) = mpsc::channel();
    let watch = thread::spawn(move || {
        if waiting.recv_timeout(limit).is_err() {
            process::signal(pid, "KILL");
        }
    });
    let output = child.wait_with_output();
    let _ = done.send(());
    let _ = watch.join();
    output
}

/// A program that speaks libpq's environment variables, set to an address.
pub fn libpq_program(program: &str, address: &Address) -> Command {
    let mut command = Command::new(program);
    command
        .env("PGHOST", "127.0.0.1")
        .env("PGPORT", address.port.to_string())
        .env("PGUSER", &address.user)
        .env("PGPASSWORD", &address.password)
        .env("PGDATABASE", &address.database)
        .env("PGCONNECT_TIMEOUT", "10")
        .env("PGSSLMODE", "disable")
        .stdin(Stdio::null());
    command
}

/// Runs psql without a start-up file; `arguments` follow its usual ones.
pub fn psql(address: &Address, arguments: &[&str]) -> Output {
    let mut command = libpq_program("psql", address);
    command.args(["-X", "-v", "ON_ERROR_STOP=1"]).args(arguments);
    output_within(&mut command, PROGRAM_LIMIT).expect("psql: install PostgreSQL's client programs (scripts/setup does)")
}

/// psql's standard output for one command, which must succeed.
pub fn psql_says(address: &Address, command: &str) -> String {
    let output = psql(address, &["-c", command]);
    assert!(output.status.success(), "{command}: {}", said(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What `scripts/setup` installs for the tests: `.local` in the repository.
pub fn local() -> PathBuf {
    crate::proxy::root().join(".local")
}

/// GET over HTTP/1.1: status and body.
pub fn get(port: u16, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the HTTP port");
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an answer");
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
    let body =
        if head.to_ascii_lowercase().contains("transfer-encoding: chunked") { unchunk(body) } else { body.into() };
    (status, body)
}

fn unchunk(mut body: &str) -> String {
    let mut out = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 {
            break;
        }
        out.push_str(&rest[..size]);
        body = &rest[size + 2..];
    }
    out
}
