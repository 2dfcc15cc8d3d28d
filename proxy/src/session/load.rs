//! COPY over several shards: rows split by key, the same data to every shard, or the rows of each shard in turn.

use crate::catalog::Catalog;
use crate::catalog::ShardId;
use crate::error::Error;
use crate::error::Result;
use crate::error::codes;
use crate::exec::backends::run_on;
use crate::exec::load;
use crate::exec::load::Lost;
use crate::exec::load::Place;
use crate::exec::load::Sort;
use crate::exec::snapshots::not_together;
use crate::exec::unload;
use crate::limits;
use crate::plan::BinaryCopy;
use crate::plan::CopyPlan;
use crate::plan::CopySplit;
use crate::plan::RowsPlan;
use crate::route;
use crate::route::Route;
use crate::session::Failure;
use crate::session::HOME;
use crate::session::Outcome;
use crate::session::Session;
use crate::session::encoding::foreign_encoding;
use crate::session::measure;
use crate::session::reference::lock_text;
use crate::wire::backend;
use crate::wire::copy::Cutter;
use crate::wire::copy::Field;
use crate::wire::copy::Format;
use crate::wire::copy::Kind;
use crate::wire::copy::Shape;
use crate::wire::copy::fields;
use crate::wire::frontend;
use bytes::BytesMut;
use futures::future::join_all;
use std::sync::Arc;

impl Session {
    /// Runs COPY over several shards and answers it, with its data, up to ReadyForQuery.
    pub(super) async fn copy_several(
        &mut self,
        plan: &CopyPlan,
        binary: Option<&BinaryCopy>,
        shards: &[ShardId],
        text: &str,
    ) -> Outcome {
        self.ran = measure::Ran::Scatter;
        self.drain(false).await?;
        match plan {
            CopyPlan::Out { shape } => self.copy_out(shape, binary, shards, text).await,
            CopyPlan::Split(split) => {
                let (foreign, tricky) = self.copy_encoding(split.encoding.as_deref());
                if tricky {
                    return Err(Error::unsupported("COPY into several shards in this encoding")
                        .hint("Use UTF8, or an encoding in which bytes below 128 are ASCII.")
                        .into());
                }
                let catalog = Arc::clone(&self.snapshot());
                let mut sort = Sorter {
                    cutter: Cutter::new(split.shape.clone()),
                    split,
                    shards,
                    catalog: &catalog.catalog,
                    foreign,
                    most: self.client.max_message,
                };
                self.copy_in(shards, text, &mut sort, binary, None).await
            }
            CopyPlan::Everyone { table } => {
                if let Some(binary) = binary {
                    self.refuse_copied(binary, shards).await?;
                }
                let lock = lock_text(std::slice::from_ref(table));
                self.copy_in(shards, text, &mut Whole(BytesMut::new()), None, Some(&lock)).await
            }
        }
    }

    /// The shards of a COPY that has no parameters.
    pub(super) fn shards_of_copy(&mut self, rows: &RowsPlan, text: &str) -> Outcome<Vec<ShardId>> {
        match self.place(rows, text, &[])? {
            Route::Several(shards) => Ok(shards),
            _ => Err(Error::internal("a copy that was placed differently the second time").into()),
        }
    }

    /// COPY … FROM STDIN. With `lock` the same data go to every shard, once that has been run on each, the lead first.
    async fn copy_in(
        &mut self,
        shards: &[ShardId],
        text: &str,
        sort: &mut impl Sort,
        binary: Option<&BinaryCopy>,
        lock: Option<&str>,
    ) -> Outcome {
        let own = self.begin_writes(shards).await?;
        let outcome = self.load(shards, text, sort, binary, lock).await;
        for &shard in shards {
            self.note_changes(shard);
        }
        let count = self.end_writes(own, outcome).await?;
        backend::put_command_complete(&mut self.client.write, &format!("COPY {count}"));
        Ok(())
    }

    async fn load(
        &mut self,
        shards: &[ShardId],
        text: &str,
        sort: &mut impl Sort,
        binary: Option<&BinaryCopy>,
        lock: Option<&str>,
    ) -> Outcome<u64> {
        for &shard in shards {
            let held = self.backends.acquire(shard, &self.variables).await?;
            held.lease.changed.clear();
        }
        if let Some(lock) = lock {
            if let Some(lead) = self.backends.find(HOME) {
                run_on(lead, lock).await?;
            }
            let others =
                self.backends.held.iter_mut().filter(|held| held.shard != HOME && shards.contains(&held.shard));
            for locked in join_all(others.map(|held| run_on(held, lock))).await {
                locked?;
            }
        }
        let response = match load::start(&mut self.backends, shards, text).await {
            Ok(response) => response,
            Err(error) => {
                load::give_up(&mut self.backends, shards).await;
                self.learn_from(&error);
                return Err(error.into());
            }
        };
        let types = match binary {
            Some(BinaryCopy::Table(types)) => types.as_slice(),
            _ => &[],
        };
        frontend::frame(&mut self.client.write, backend::COPY_IN, |b| b.extend_from_slice(&response));
        match load::run(&mut self.backends, &mut self.client, shards, sort, types, lock.is_some()).await {
            Ok(Ok(count)) => Ok(count),
            Ok(Err(error)) => {
                self.learn_from(&error);
                Err(Failure::Error(error))
            }
            Err(Lost::Client) => Err(Failure::Gone),
            Err(Lost::Protocol(error)) => Err(Failure::Fatal(error)),
        }
    }

    async fn copy_out(
        &mut self,
        shape: &Shape,
        binary: Option<&BinaryCopy>,
        shards: &[ShardId],
        text: &str,
    ) -> Outcome {
        if shards.len() > 1 {
            self.serializable_over_shards().await?;
        }
        for &shard in shards {
            let held = self.backends.acquire(shard, &self.variables).await?;
            held.lease.changed.clear();
        }
        self.backends.take_together(shards, &self.variables).await?;
        if let Some(binary) = binary {
            self.expect_copied(binary, shards).await?;
        }
        let database = Arc::clone(&self.backends.database);
        let room = &database.room;
        // Each shard answers once it has taken its snapshot (DoCopyTo in copyto.c).
        let together = room.snapshot().await;
        let before = room.count();
        let started = {
            let mut starting = std::pin::pin!(load::start(&mut self.backends, shards, text));
            tokio::select! {
                started = &mut starting => started,
                // Someone's lock is waited for, which may be that of a commit that waits for us.
                () = tokio::time::sleep(limits::BIND_PATIENCE) => {
                    drop(together);
                    let started = starting.await;
                    // A commit is remembered before it leaves the room.
                    let _quiet = room.snapshot().await;
                    if room.has_changed(before, shards) { Err(not_together()) } else { started }
                }
            }
        };
        let response = match started {
            Ok(response) => response,
            Err(error) => {
                unload::give_up(&mut self.backends, shards).await;
                self.learn_from(&error);
                return Err(error.into());
            }
        };
        frontend::frame(&mut self.client.write, backend::COPY_OUT, |b| b.extend_from_slice(&response));
        let ran = unload::run(&mut self.backends, &mut self.client, shards, shape).await.map_err(|_| Failure::Gone)?;
        for &shard in shards {
            self.note_changes(shard);
        }
        let count = ran.map_err(|error| {
            self.learn_from(&error);
            Failure::Error(error)
        })?;
        backend::put_bare(&mut self.client.write, backend::COPY_DONE);
        backend::put_command_complete(&mut self.client.write, &format!("COPY {count}"));
        Ok(())
    }
}

/// The data as they come, to every shard.
struct Whole(BytesMut);

impl Sort for Whole {
    fn feed(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn next(&mut self, _last: bool) -> Result<Option<(Place, BytesMut, u64)>> {
        let bytes = self.0.split();
        Ok((!bytes.is_empty()).then(|| {
            let lines = bytes.iter().filter(|b| **b == b'\n').count() as u64;
            (Place::Every, bytes, lines)
        }))
    }
}

/// Each row to the shard of its key.
struct Sorter<'a> {
    cutter: Cutter,
    split: &'a CopySplit,
    shards: &'a [ShardId],
    catalog: &'a Catalog,
    /// Bytes beyond ASCII are not those of UTF-8.
    foreign: bool,
    /// A row may be this long.
    most: usize,
}

impl Sort for Sorter<'_> {
    fn feed(&mut self, bytes: &[u8]) {
        self.cutter.feed(bytes);
    }

    fn next(&mut self, last: bool) -> Result<Option<(Place, BytesMut, u64)>> {
        let cut = match self.cutter.next_cut() {
            Some(cut) => Some(cut),
            None if last => self.cutter.last_cut(),
            None => None,
        };
        let Some(cut) = cut else {
            if self.cutter.waiting() > self.most {
                return Err(Error::new(
                    codes::PROGRAM_LIMIT,
                    format!("a row of COPY of more than {} bytes", self.most),
                ));
            }
            return Ok(None);
        };
        let place = match cut.kind {
            Kind::Header | Kind::End => Place::Every,
            Kind::Foul => Place::Doomed(Error::internal("a row that cannot be read was taken")),
            Kind::Row => self.place(&cut.bytes)?,
        };
        Ok(Some((place, cut.bytes, cut.lines)))
    }
}

impl Sorter<'_> {
    fn place(&self, row: &[u8]) -> Result<Place> {
        let split = self.split;
        let fields = fields(&split.shape, row, split.fields);
        if fields.len() < split.fields {
            return Ok(Place::Doomed(Error::internal("a row with too few fields was taken")));
        }
        let value = |key: &crate::plan::CopyKey| match key.field.and_then(|field| fields.get(field)) {
            None => None,
            // In this order (NextCopyFrom in copyfromparse.c): an unquoted null is the first, a quoted one the second.
            Some(Field { value: None, .. }) if key.force_not_null => Some(split.shape.null.clone()),
            Some(Field { like_null: true, .. }) if key.force_null => None,
            Some(Field { value, .. }) => value.clone(),
        };
        let values: Vec<Option<Vec<u8>>> = split.keys.iter().map(value).collect();
        if self.foreign && values.iter().flatten().any(|value| !value.is_ascii()) {
            return Err(foreign_encoding());
        }
        let binary = split.shape.format == Format::Binary;
        let shard = match route::copied_row(split, &values, binary, self.catalog) {
            Ok(Some(shard)) => shard,
            Ok(None) => {
                let names: Vec<&str> = split.keys.iter().map(|key| key.name.as_str()).collect();
                return Ok(Place::Doomed(
                    Error::unsupported(format!(
                        "the shard key value of column {} cannot be determined here",
                        names.join(", ")
                    ))
                    .hint("Give the shard key in its plain form."),
                ));
            }
            // a server words it, with its place
            Err(error) if error.code.class() == "22" => return Ok(Place::Doomed(error)),
            Err(error) => return Err(error),
        };
        match self.shards.iter().position(|s| *s == shard) {
            Some(at) => Ok(Place::One(at)),
            None => Err(Error::internal("a row for a shard that is not written")),
        }
    }
}
