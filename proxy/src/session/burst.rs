//! The most common pipeline at the price of one message: Bind, Describe or not, Execute and Sync of the unnamed portal,
//! come together, of a statement that runs whole on one shard. That is what drivers send for a prepared statement.
//!
//! It takes the same steps as the messages one by one (`session::extended`, `session::pipeline`), and only where each of
//! them would do nothing else: outside a transaction, with nothing owed and no connection held. In every other case the
//! messages are left where they are.

use crate::catalog::ShardId;
use crate::error::Error;
use crate::error::Result;
use crate::exec::backends::State;
use crate::exec::relay::Action;
use crate::exec::relay::Relay;
use crate::exec::scatter;
use crate::plan::Plan;
use crate::plan::RowsPlan;
use crate::plan::TellsTime;
use crate::pool::ServerConnection;
use crate::route::Route;
use crate::session::Failure;
use crate::session::Outcome;
use crate::session::Session;
use crate::session::measure;
use crate::session::pipeline::doubt_statements;
use crate::session::portal::check_counts;
use crate::session::portal::with_types;
use crate::session::prepared::Prepared;
use crate::sql::command::Command;
use crate::wire::Tag;
use crate::wire::backend;
use crate::wire::frontend::Bind;
use bytes::Buf;
use std::sync::Arc;
use std::time::Instant;

const DESCRIBE: &[u8] = b"D\0\0\0\x06P\0";
const EXECUTE: &[u8] = b"E\0\0\0\x09\0\0\0\0\0";
const SYNC: &[u8] = b"S\0\0\0\x04";

/// The frames behind a Bind: all of the unnamed portal is executed, and the pipeline ends.
struct Rest {
    describe: bool,
    bytes: usize,
}

/// What comes behind a Bind, if it is that.
fn rest_of(read: &[u8]) -> Option<Rest> {
    let describe = read.starts_with(DESCRIBE);
    let start = if describe { DESCRIBE.len() } else { 0 };
    let end = start + EXECUTE.len();
    let whole = read.get(start..)?.starts_with(EXECUTE) && read.get(end..)?.starts_with(SYNC);
    whole.then_some(Rest { describe, bytes: end + SYNC.len() })
}

/// A statement that asks nothing of the session but to run where its keys say.
fn is_plain(rows: &RowsPlan) -> bool {
    !rows.opaque
        && !rows.names_prepared
        && !rows.notifies
        && rows.time == TellsTime::No
        && rows.writes.is_none()
        && rows.pins.is_none()
        && rows.reads_sequence.is_none()
        && rows.copy.is_none()
        && rows.copies.is_none()
        && rows.binary_copy.is_none()
        && rows.set_config.is_empty()
        && !rows.makes.changes_schema
        && rows.makes.temporary.is_empty()
}

impl Session {
    /// Runs a Bind with what has come behind it; false when they are not such a burst: nothing has happened then.
    pub(super) async fn burst(&mut self, body: &[u8]) -> Outcome<bool> {
        let Some(rest) = rest_of(&self.client.read) else { return Ok(false) };
        if !self.is_at_rest() {
            return Ok(false);
        }
        let Ok(bind) = Bind::decode(body) else { return Ok(false) };
        let Some((prepared, shard)) = self.aim_of(&bind) else { return Ok(false) };
        let started = Instant::now();
        let outcome = self.run_burst(&bind, &rest, &prepared, shard).await;
        self.client.read.advance(rest.bytes);
        let ok = outcome.is_ok();
        let planned = &prepared.planned;
        measure::count_statement(&planned.command, measure::ran(&planned.plan), ok, started.elapsed());
        self.note_changes(shard);
        self.settle_outcome(outcome)?;
        if self.pipeline.is_open() || !ok {
            self.end_alone(ok).await?;
        }
        self.end_statement().await?;
        self.ready();
        Ok(true)
    }

    /// No transaction, no connection of its own, nothing owed: at most a Parse has opened the pipeline.
    fn is_at_rest(&self) -> bool {
        self.backends.transaction.state == State::Idle
            && self.backends.held.is_empty()
            && self.pipeline.target.is_none()
            && self.pipeline.owed.is_empty()
            && self.pipeline.kept.is_empty()
            && !self.pipeline.skipping
            && !self.listening.awaits_commit()
            && !self.backends.database.is_outdated()
    }

    /// The statement that a Bind names and its shard; none where there is more to do, or something to complain of.
    fn aim_of(&self, bind: &Bind<'_>) -> Option<(Arc<Prepared>, ShardId)> {
        let prepared = self.prepared.get(bind.statement)?;
        let planned = &prepared.planned;
        let Plan::Rows(rows) = &planned.plan else { return None };
        let plain = is_plain(rows) && planned.command != Command::Schema;
        let counts = check_counts(bind.format_count(), bind.params().len(), bind.statement, prepared);
        if !bind.portal.is_empty() || !plain || !self.is_current(prepared) || counts.is_err() {
            return None;
        }
        let types = prepared.description.as_ref()?.params.as_slice();
        match self.place_planned(rows, planned, &with_types(bind, types)) {
            Ok(Route::One(shard)) => Some((Arc::clone(prepared), shard)),
            _ => None,
        }
    }

    async fn run_burst(&mut self, bind: &Bind<'_>, rest: &Rest, prepared: &Prepared, shard: ShardId) -> Outcome {
        let planned = &prepared.planned;
        let params = planned.description.get().map(|d| d.params.as_slice()).unwrap_or_default();
        let held = self.backends.acquire(shard, &self.variables).await?;
        let lease = &mut held.lease;
        let fields = prepared.description.as_ref().and_then(|d| d.fields.as_deref()).unwrap_or_default();
        lease.rows = lease.row_numbers(fields.iter().enumerate().map(|(n, f)| (f.type_oid, bind.result_format(n))))?;
        lease.changed.clear();
        lease.broken = true;
        scatter::prepare_here(lease, planned.number, planned.text.as_bytes(), params);
        lease.put_bind(b"", scatter::statement_name(planned.number).as_bytes(), bind.tail, params);
        lease.io.write.extend_from_slice(self.client.read.get(..rest.bytes).unwrap_or_default());
        let mut replies = Replies { due: Due::Bind, describe: rest.describe, failure: None };
        let mut relay = Relay::default();
        let ran = relay.run(lease, &mut self.client, |server, tag, body| replies.frame(server, tag, body)).await;
        lease.rows = None;
        if let Err(broken) = ran {
            lease.dead = true;
            return Err(broken.into());
        }
        match replies.failure {
            None => Ok(()),
            Some(error) => {
                self.learn_from(&error);
                Err(Failure::Reported)
            }
        }
    }
}

/// The reply that comes next, behind the confirmations that are due.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    Bind,
    Describe,
    Execute,
    Ready,
}

struct Replies {
    due: Due,
    describe: bool,
    failure: Option<Error>,
}

impl Replies {
    fn frame(&mut self, server: &mut ServerConnection, tag: Tag, body: &[u8]) -> Result<Action> {
        if server.confirms(tag) {
            return Ok(Action::Swallow);
        }
        match (self.due, tag) {
            (_, backend::NOTICE | backend::NOTIFICATION) => Ok(Action::Forward),
            (_, backend::PARAMETER_STATUS) => {
                server.note_parameter(body);
                Ok(Action::Swallow)
            }
            (Due::Bind, backend::BIND_COMPLETE) if server.is_confirmed() => {
                self.due = if self.describe { Due::Describe } else { Due::Execute };
                Ok(Action::Forward)
            }
            (Due::Describe, backend::ROW_DESCRIPTION | backend::NO_DATA) => {
                self.due = Due::Execute;
                Ok(Action::Forward)
            }
            (Due::Execute, backend::COMMAND_COMPLETE | backend::EMPTY_QUERY) => {
                self.due = Due::Ready;
                Ok(Action::Forward)
            }
            (Due::Ready, backend::READY) => {
                server.note_ready(body)?;
                Ok(Action::SwallowStop)
            }
            (_, backend::ERROR) => {
                let error = server.relayed_error(body)?;
                server.not_confirmed();
                doubt_statements(server, &error);
                self.failure.get_or_insert(error);
                self.due = Due::Ready;
                Ok(Action::Forward)
            }
            _ => Err(Error::internal(format!("a server's reply of type '{}' was not expected", char::from(tag)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::rest_of;

    #[test]
    fn only_a_whole_burst_of_the_unnamed_portal_is_one() {
        let describe = b"D\0\0\0\x06P\0";
        let execute = b"E\0\0\0\x09\0\0\0\0\0";
        let sync = b"S\0\0\0\x04";
        let of = |parts: &[&[u8]]| rest_of(&parts.concat()).map(|rest| (rest.describe, rest.bytes));
        assert_eq!(of(&[execute, sync]), Some((false, 15)));
        assert_eq!(of(&[describe, execute, sync, b"B"]), Some((true, 22)));
        assert_eq!(of(&[describe, execute]), None);
        assert_eq!(of(&[describe, execute, b"S\0\0\0"]), None);
        assert_eq!(of(&[b"E\0\0\0\x09\0\0\0\0\x05", sync]), None, "a row limit");
        assert_eq!(of(&[b"E\0\0\0\x0ap\0\0\0\0\0", sync]), None, "a named portal");
        assert_eq!(of(&[execute, describe, sync]), None);
        assert_eq!(of(&[]), None);
    }
}
