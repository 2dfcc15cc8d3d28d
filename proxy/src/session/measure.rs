//! Counting what sessions do.

use crate::error::Error;
use crate::net::Connection;
use crate::plan::Plan;
use crate::plan::Target;
use crate::sql::command::Command;
use crate::sql::normalize;
use crate::telemetry;
use std::sync::LazyLock;
use std::time::Duration;

/// Counts an error by the class of its SQLSTATE.
pub fn count_error(error: &Error) {
    metrics::counter!(telemetry::ERRORS_TOTAL, "class" => error.code.class().to_owned()).increment(1);
}

/// How a statement was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// Answered or led by the session itself.
    Session,
    /// On a shard that need not be a certain one, or on the home shard.
    Any,
    /// Whole on the one shard that has its rows.
    Route,
    /// On several shards, and merged.
    Scatter,
    /// The same on every shard concerned.
    Everywhere,
    Refused,
}

/// As metrics name them, in the order of [`Ran`].
const RANS: [&str; 6] = ["session", "any", "route", "scatter", "everywhere", "refused"];

/// Kinds of statements, as metrics name them; the position is that of [`kind`].
const KINDS: [&str; 9] = ["select", "insert", "update", "delete", "merge", "copy", "schema", "transaction", "other"];

fn kind(command: &Command) -> usize {
    match command {
        Command::Select | Command::Explain => 0,
        Command::Insert => 1,
        Command::Update => 2,
        Command::Delete => 3,
        Command::Merge => 4,
        Command::Copy => 5,
        Command::Schema | Command::Truncate | Command::Maintenance => 6,
        Command::Begin(_)
        | Command::Commit { .. }
        | Command::Rollback { .. }
        | Command::Savepoint(_)
        | Command::Release(_)
        | Command::RollbackTo(_) => 7,
        _ => 8,
    }
}

/// How a plan runs, as long as its key names one shard; a scatter is told by who runs it.
pub fn ran(plan: &Plan) -> Ran {
    match plan {
        Plan::Session => Ran::Session,
        Plan::Rows(rows) => match rows.target {
            Target::Any | Target::Home => Ran::Any,
            Target::Shard(_) | Target::Keys { .. } | Target::All => Ran::Route,
        },
        Plan::Everywhere(_) => Ran::Everywhere,
        Plan::Explain(_) | Plan::Unknown(_) | Plan::AskFirst(_) => Ran::Any,
        Plan::Refuse(_) => Ran::Refused,
    }
}

/// Looked up once: a statement's counting must not cost a look-up of names.
struct Handles {
    ok: metrics::Counter,
    error: metrics::Counter,
    seconds: metrics::Histogram,
}

static HANDLES: LazyLock<Vec<Handles>> = LazyLock::new(|| {
    let handles = |(kind, ran): (&'static str, &'static str)| Handles {
        ok: metrics::counter!(telemetry::STATEMENTS_TOTAL, "kind" => kind, "run" => ran, "outcome" => "ok"),
        error: metrics::counter!(telemetry::STATEMENTS_TOTAL, "kind" => kind, "run" => ran, "outcome" => "error"),
        seconds: metrics::histogram!(telemetry::STATEMENT_SECONDS, "run" => ran),
    };
    KINDS.iter().flat_map(|kind| RANS.iter().map(move |ran| (*kind, *ran))).map(handles).collect()
});

pub fn count_statement(command: &Command, ran: Ran, ok: bool, elapsed: Duration) {
    let Some(handles) = HANDLES.get(kind(command) * RANS.len() + ran as usize) else { return };
    if ok {
        handles.ok.increment(1)
    } else {
        handles.error.increment(1)
    }
    handles.seconds.record(elapsed);
}

static BYTES: LazyLock<[metrics::Counter; 2]> = LazyLock::new(|| {
    [metrics::counter!(telemetry::CLIENT_RECEIVED_BYTES_TOTAL), metrics::counter!(telemetry::CLIENT_SENT_BYTES_TOTAL)]
});

/// Counts what went over a client's connection since it was counted last.
pub fn count_bytes(client: &mut Connection) {
    let [received, sent] = &*BYTES;
    received.increment(std::mem::take(&mut client.received));
    sent.increment(std::mem::take(&mut client.sent));
}

pub fn count_login(outcome: &'static str) {
    metrics::counter!(telemetry::LOGINS_TOTAL, "outcome" => outcome).increment(1);
}

/// A statement without its values: what may stand in a log.
pub fn fingerprint(text: &str) -> String {
    let mut scan = normalize::Normalized::default();
    match normalize::scan(text, true, &mut scan) {
        Ok(()) => scan
            .key
            .iter()
            .map(|&b| if b.is_ascii_graphic() || b == b' ' || b >= 0x80 { b } else { b'?' })
            .map(char::from)
            .take(500)
            .collect(),
        Err(_) => "(not readable)".to_owned(),
    }
}
