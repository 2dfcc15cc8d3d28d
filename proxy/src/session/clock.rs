//! One time for a transaction over several shards: the first participant's. A statement that tells the time on another
//! shard gets it as a constant.

use crate::catalog::ShardId;
use crate::error::Error;
use crate::exec::backends::run_on;
use crate::plan::RowsPlan;
use crate::plan::TellsTime;
use crate::plan::clocked;
use crate::plan::moment;
use crate::session::Outcome;
use crate::session::Session;
use crate::sql::lexer;

impl Session {
    /// The text that one shard runs in place of the client's, if that would tell another time than the transaction's.
    ///
    /// # Errors
    /// 0A000 where the time cannot be put in.
    pub(super) async fn clocked(&mut self, rows: &RowsPlan, shard: ShardId, text: &str) -> Outcome<Option<String>> {
        let Some(clock) = self.backends.transaction.clock.filter(|clock| *clock != shard) else { return Ok(None) };
        if rows.time == TellsTime::No || rows.writes.is_some() {
            return Ok(None);
        }
        let refused = || {
            Error::unsupported("now() in this place, in a transaction over several shards")
                .detail("Each shard would tell a time of its own.")
                .hint("Name the column (now() AS …), or give the time as a parameter.")
        };
        if rows.time == TellsTime::Hidden {
            return Err(refused().into());
        }
        self.drain(false).await?;
        let held = self.backends.acquire(clock, &self.variables).await?;
        let answer = run_on(held, moment::QUERY).await?;
        self.note_changes(clock);
        let value = |n: usize| {
            let micros = answer.rows.first().and_then(|row| row.get(n)).cloned().flatten().unwrap_or_default();
            let micros = String::from_utf8_lossy(&micros).into_owned();
            format!("(timestamptz '2000-01-01 00:00:00+00' + {micros} * interval '1 microsecond')")
        };
        let tokens = lexer::tokenize(text, self.conforming_strings())?;
        let done = clocked::clocked(text, &tokens, &value(0), &value(1)).ok_or_else(refused)?;
        Ok(Some(done))
    }
}
