//! Memory that a merge holds, counted and bounded.

use crate::error::Error;
use crate::error::Result;
use crate::error::codes;

/// What a table entry costs beside its bytes: pointers, lengths, the allocator's own.
pub(super) const ENTRY_BYTES: usize = 64;

pub(super) struct Budget {
    used: usize,
    max: usize,
}

impl Budget {
    pub(super) fn new(max: usize) -> Budget {
        Budget { used: 0, max }
    }

    /// Counts bytes before they are held. Error: 54000 if they are too many.
    pub(super) fn take(&mut self, bytes: usize) -> Result<()> {
        self.used = self.used.saturating_add(bytes);
        if self.used <= self.max {
            return Ok(());
        }
        Err(Error::new(codes::PROGRAM_LIMIT, format!("merge needs more than {} bytes", self.max))
            .detail("Groups, distinct values and sort keys of a statement over several shards are held in memory.")
            .hint("Narrow the statement, name the shard key so that one shard answers, or raise the limit."))
    }

    pub(super) fn release_all(&mut self) {
        self.used = 0;
    }
}
