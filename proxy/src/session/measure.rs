//! Counting what sessions do.

use crate::error::Error;
use crate::plan::Plan;
use crate::plan::Target;
use crate::sql::normalize;
use crate::telemetry;
use std::time::Duration;

/// Counts an error by the class of its SQLSTATE.
pub fn count_error(error: &Error) {
    metrics::counter!(telemetry::ERRORS_TOTAL, "class" => error.code.class().to_owned()).increment(1);
}

/// How a statement was run, as metrics name it.
pub fn kind(plan: &Plan) -> &'static str {
    match plan {
        Plan::Session => "session",
        Plan::Rows(rows) => target_kind(&rows.target),
        Plan::Everywhere(_) => "everywhere",
        Plan::Explain(_) => "explain",
        Plan::Unknown(_) | Plan::AskFirst(_) => "unknown",
        Plan::Refuse(_) => "refused",
    }
}

pub fn count_statement(plan: &Plan, ok: bool, elapsed: Duration) {
    let kind = kind(plan);
    let outcome = if ok { "ok" } else { "error" };
    metrics::counter!(telemetry::STATEMENTS_TOTAL, "kind" => kind, "outcome" => outcome).increment(1);
    metrics::histogram!(telemetry::STATEMENT_SECONDS, "kind" => kind).record(elapsed);
}

/// A statement without its values: what may stand in a log.
pub fn fingerprint(text: &str) -> String {
    let mut scan = normalize::Normalized::default();
    match normalize::scan(text, true, &mut scan) {
        Ok(()) => scan.key.iter().map(|&b| if b.is_ascii_graphic() || b == b' ' || b >= 0x80 { b } else { b'?' }).map(char::from).take(500).collect(),
        Err(_) => "(not readable)".to_owned(),
    }
}

/// How a target is reached, as metrics name it.
fn target_kind(target: &Target) -> &'static str {
    match target {
        Target::Any => "any",
        Target::Home => "home",
        Target::Shard(_) => "single",
        Target::Keys { .. } => "keys",
        Target::All => "all",
    }
}
