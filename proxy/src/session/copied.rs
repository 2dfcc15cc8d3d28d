//! Object identifiers in the data of a binary COPY.

use crate::catalog::ShardId;
use crate::error::Error;
use crate::exec::cache::next_number;
use crate::plan::BinaryCopy;
use crate::plan::CopyDirection;
use crate::plan::RowsPlan;
use crate::session::Outcome;
use crate::session::Session;
use crate::value::Oid;

impl Session {
    /// What a binary COPY on one shard needs before it begins there.
    ///
    /// # Errors
    /// 0A000 for data into a shard that knows the types by other numbers: they come in pieces that end anywhere.
    pub(super) async fn before_copy(&mut self, rows: &RowsPlan, shard: ShardId) -> Outcome {
        let (Some(binary), Some(direction)) = (&rows.binary_copy, rows.copy) else { return Ok(()) };
        self.drain(false).await?;
        match direction {
            CopyDirection::Out => self.expect_copied(binary, &[shard]).await,
            CopyDirection::In => self.refuse_copied(binary, &[shard]).await,
        }
    }

    /// Tells the connections what to look into in the data that come.
    pub(super) async fn expect_copied(&mut self, binary: &BinaryCopy, shards: &[ShardId]) -> Outcome {
        for &shard in shards {
            if self.backends.acquire(shard, &self.variables).await?.lease.differing().is_none() {
                continue;
            }
            let types = self.copied_types(binary, shard).await?;
            let held = self.backends.acquire(shard, &self.variables).await?;
            held.lease.expect_copied(&types)?;
        }
        Ok(())
    }

    pub(super) async fn refuse_copied(&mut self, binary: &BinaryCopy, shards: &[ShardId]) -> Outcome {
        for &shard in shards {
            let BinaryCopy::Table(types) = binary else { continue };
            let held = self.backends.acquire(shard, &self.variables).await?;
            if held.lease.row_numbers(types.iter().map(|oid| (*oid, 1)))?.is_some() {
                return Err(Error::unsupported("a binary COPY into this table with types that hold object identifiers")
                    .detail("Arrays and composite values of users' types hold the numbers of these types, which differ from shard to shard.")
                    .hint("Use the text format.")
                    .into());
            }
        }
        Ok(())
    }

    async fn copied_types(&mut self, binary: &BinaryCopy, shard: ShardId) -> Outcome<Vec<Oid>> {
        match binary {
            BinaryCopy::Table(types) => Ok(types.clone()),
            BinaryCopy::Query(query) => {
                let described = self.ask(shard, next_number(), query, &[]).await?;
                Ok(described.fields.iter().flatten().map(|f| f.type_oid).collect())
            }
        }
    }
}
