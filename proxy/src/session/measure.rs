//! Counting what sessions do.

use crate::error::Error;
use crate::plan::Plan;
use crate::plan::Target;
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
enum Kind {
    Session,
    Any,
    Home,
    Single,
    Keys,
    All,
    Everywhere,
    Explain,
    Unknown,
    Refused,
}

/// As metrics name them, in the order of [`Kind`].
const KINDS: [&str; 10] =
    ["session", "any", "home", "single", "keys", "all", "everywhere", "explain", "unknown", "refused"];

fn kind(plan: &Plan) -> Kind {
    match plan {
        Plan::Session => Kind::Session,
        Plan::Rows(rows) => match rows.target {
            Target::Any => Kind::Any,
            Target::Home => Kind::Home,
            Target::Shard(_) => Kind::Single,
            Target::Keys { .. } => Kind::Keys,
            Target::All => Kind::All,
        },
        Plan::Everywhere(_) => Kind::Everywhere,
        Plan::Explain(_) => Kind::Explain,
        Plan::Unknown(_) | Plan::AskFirst(_) => Kind::Unknown,
        Plan::Refuse(_) => Kind::Refused,
    }
}

/// Looked up once: a statement's counting must not cost a look-up of names.
struct Handles {
    ok: metrics::Counter,
    error: metrics::Counter,
    seconds: metrics::Histogram,
}

static HANDLES: LazyLock<Vec<Handles>> = LazyLock::new(|| {
    let handles = |kind: &&'static str| Handles {
        ok: metrics::counter!(telemetry::STATEMENTS_TOTAL, "kind" => *kind, "outcome" => "ok"),
        error: metrics::counter!(telemetry::STATEMENTS_TOTAL, "kind" => *kind, "outcome" => "error"),
        seconds: metrics::histogram!(telemetry::STATEMENT_SECONDS, "kind" => *kind),
    };
    KINDS.iter().map(handles).collect()
});

pub fn count_statement(plan: &Plan, ok: bool, elapsed: Duration) {
    let Some(handles) = HANDLES.get(kind(plan) as usize) else { return };
    if ok {
        handles.ok.increment(1)
    } else {
        handles.error.increment(1)
    }
    handles.seconds.record(elapsed);
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
