//! Rows of several shards → one answer. Pure: it is fed rows and says which input it wants next.
//!
//! A row is the body of a DataRow message (16-bit column count, then for each column a 32-bit length, -1 for NULL, and
//! the bytes). The steps follow [`MergeSpec`]: group → distinct → order → offset and limit → output. Rows that are only
//! passed on are copied once; groups, distinct values and sort keys are held, within a bound of bytes.

mod aggregate;
mod arrays;
mod budget;
mod distinct;
mod group;
mod output;
mod row;
mod sorted;

use crate::error::Error;
use crate::error::Result;
use crate::plan::MergeSpec;
use crate::plan::Output;
use crate::plan::SortBy;
use crate::value::Oid;
use crate::value::binary::Comparer;
use crate::value::oid;
use arrays::Arrays;
use budget::Budget;
use bytes::BytesMut;
use distinct::Distinct;
use group::Grouping;
use output::Projection;
use output::Window;
use row::Fields;
use sorted::Key;
use sorted::Sorted;

/// What the merge waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// The next row of this input, or its end.
    Input(usize),
    /// Nothing: every row of the answer was given. Inputs that still have rows may be drained or cancelled.
    Done,
}

/// One answer in the making.
pub struct Merge {
    /// Columns of the shards' rows.
    columns: usize,
    ended: Vec<bool>,
    engine: Engine,
    sink: Sink,
    /// Of the row that is being looked at; reused.
    fields: Fields,
}

enum Engine {
    Concat,
    Sorted(Sorted),
    Group(Grouping),
    Arrays(Arrays),
}

/// Where finished rows go: distinct → offset and limit → output.
struct Sink {
    distinct: Option<Distinct>,
    window: Window,
    projection: Projection,
}

impl Merge {
    /// * `columns`: types of the shards' columns, from their RowDescription
    /// * `client_formats`, `client_types`: one for each column that the client sees; formats are 0 (text) or 1 (binary),
    ///   types those that the client was told
    /// * `inputs`: how many shards send rows
    /// * `max_bytes`: bound of what is held (groups, distinct values, sort keys)
    ///
    /// Errors: 0A000 for types that are not compared or summed exactly, XX000 where the shards' columns are not those
    /// that the plan speaks of.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        spec: &MergeSpec,
        columns: &[Oid],
        client_formats: &[i16],
        client_types: &[Oid],
        inputs: usize,
        limit: Option<u64>,
        offset: u64,
        max_bytes: usize,
    ) -> Result<Merge> {
        check_output(spec, columns, client_formats, client_types)?;
        let keys = sort_keys(spec, columns)?;
        let distinct = match &spec.distinct {
            None => None,
            Some(distinct) => {
                refuse_distinct_aggregates(spec)?;
                let compared = comparers("DISTINCT", distinct, columns)?;
                // the leading sort keys that are distinct columns never come back once they have changed
                let sorted = if spec.group.is_none() { keys.as_slice() } else { &[] };
                let run = sorted.iter().take_while(|key| distinct.contains(&key.column));
                let run = run.map(|key| (key.column, key.comparer)).collect();
                Some(Distinct::new(compared, run, Budget::new(max_bytes)))
            }
        };
        let engine = match &spec.group {
            Some(group) => {
                let keys = comparers("GROUP BY", group, columns)?;
                let budget = Budget::new(max_bytes);
                Engine::Group(Grouping::new(spec, keys, columns, client_formats, client_types, budget)?)
            }
            None if keys.is_empty() => Engine::Concat,
            None => Engine::Sorted(Sorted::new(keys, inputs)),
        };
        Ok(Merge {
            columns: columns.len(),
            ended: vec![false; inputs],
            engine,
            sink: Sink {
                distinct,
                window: Window::new(limit, offset),
                projection: Projection::new(&spec.output, columns.len()),
            },
            fields: Fields::default(),
        })
    }

    /// Keeps all rows, as an array for each of their columns: nothing is given as they come. `max_bytes`: as above.
    pub fn gather(columns: usize, inputs: usize, max_bytes: usize) -> Merge {
        Merge {
            columns,
            ended: vec![false; inputs],
            engine: Engine::Arrays(Arrays::new(columns, Budget::new(max_bytes))),
            sink: Sink { distinct: None, window: Window::new(None, 0), projection: Projection::new(&[], columns) },
            fields: Fields::default(),
        }
    }

    /// Passes on the rows of one input as they are.
    pub fn pass(columns: usize) -> Merge {
        Merge {
            columns,
            ended: vec![false],
            engine: Engine::Concat,
            sink: Sink {
                distinct: None,
                window: Window::new(None, 0),
                projection: Projection::new(&(0..columns).map(Output::Column).collect::<Vec<_>>(), columns),
            },
            fields: Fields::default(),
        }
    }

    /// The gathered rows: for each column an array in binary form, whose elements are of these types.
    pub fn take_arrays(&mut self, elements: &[Oid]) -> Vec<BytesMut> {
        match &mut self.engine {
            Engine::Arrays(arrays) => arrays.take(elements),
            Engine::Concat | Engine::Sorted(_) | Engine::Group(_) => Vec::new(),
        }
    }

    /// The input whose next row, or end, is needed.
    pub fn wants(&self) -> Want {
        if self.sink.window.is_full() {
            return Want::Done;
        }
        let waiting = match &self.engine {
            Engine::Concat | Engine::Group(_) | Engine::Arrays(_) => self.ended.iter().position(|ended| !ended),
            Engine::Sorted(sorted) => sorted.missing(&self.ended),
        };
        waiting.map_or(Want::Done, Want::Input)
    }

    /// Feeds one row; rows of the answer that are finished by it are appended to `out` as whole DataRow messages. Rows
    /// that come after the answer is complete are dropped. Errors: 54000 if too much would be held, 22003 if a sum is
    /// out of range, XX000 if the row is malformed.
    pub fn row(&mut self, input: usize, body: &[u8], out: &mut BytesMut) -> Result<()> {
        if self.sink.window.is_full() {
            return Ok(());
        }
        if self.ended.get(input).is_none_or(|ended| *ended) {
            return Err(Error::internal(format!("row of input {input}, which has ended")));
        }
        if matches!(self.engine, Engine::Concat) && self.sink.takes_whole_rows() {
            row::check_count(body, self.columns)?;
            self.sink.whole_row(body, out);
            return Ok(());
        }
        self.fields.parse(body, self.columns)?;
        match &mut self.engine {
            Engine::Concat => self.sink.row(body, &self.fields, out),
            Engine::Group(grouping) => grouping.row(body, &self.fields),
            Engine::Arrays(arrays) => arrays.row(body, &self.fields),
            Engine::Sorted(sorted) => {
                sorted.row(input, body, &mut self.fields, &self.ended, |body, fields| self.sink.row(body, fields, out))
            }
        }
    }

    /// The input has no more rows. After the end of the last one everything has been appended to `out`. Errors: as for
    /// [`Merge::row`].
    pub fn end(&mut self, input: usize, out: &mut BytesMut) -> Result<()> {
        match self.ended.get_mut(input) {
            Some(ended) => *ended = true,
            None => return Err(Error::internal(format!("end of input {input}, which is unknown"))),
        }
        match &mut self.engine {
            Engine::Concat | Engine::Arrays(_) => Ok(()),
            Engine::Group(_) => self.finish(out),
            Engine::Sorted(sorted) => {
                while !self.sink.window.is_full()
                    && sorted.pop(&self.ended, |body, fields| self.sink.row(body, fields, out))?
                {}
                Ok(())
            }
        }
    }

    /// Gives the groups once no input is left. [`Merge::end`] does it by itself; a merge without inputs needs this call
    /// for the one row that an aggregate without GROUP BY always has. Calling it again does nothing.
    pub fn finish(&mut self, out: &mut BytesMut) -> Result<()> {
        let Engine::Group(grouping) = &mut self.engine else { return Ok(()) };
        if self.ended.iter().all(|ended| *ended) {
            grouping.finish(&mut self.sink, out)?;
        }
        Ok(())
    }

    /// Rows of the answer so far: the number in the command tag.
    pub fn rows(&self) -> u64 {
        self.sink.window.rows()
    }
}

impl Sink {
    /// Whether a row can be taken without knowing where its columns are.
    fn takes_whole_rows(&self) -> bool {
        self.distinct.is_none() && self.projection.is_whole()
    }

    fn whole_row(&mut self, body: &[u8], out: &mut BytesMut) {
        if self.window.admit() {
            output::write_frame(body, out);
        }
    }

    /// Whether a row is one of the answer: its distinct columns are new, and it is within offset and limit.
    fn admits(&mut self, body: &[u8], fields: &Fields) -> Result<bool> {
        if let Some(distinct) = &mut self.distinct
            && !distinct.is_new(body, fields)?
        {
            return Ok(false);
        }
        Ok(self.window.admit())
    }

    fn row(&mut self, body: &[u8], fields: &Fields, out: &mut BytesMut) -> Result<()> {
        if self.admits(body, fields)? {
            self.projection.write(body, fields, out)?;
        }
        Ok(())
    }
}

/// Output columns must be there, have a format, and be of the type that the client was told.
fn check_output(spec: &MergeSpec, columns: &[Oid], formats: &[i16], types: &[Oid]) -> Result<()> {
    if spec.output.len() != types.len() || spec.output.len() != formats.len() {
        return Err(Error::internal(format!(
            "the merge gives {} columns, the client was told of {}",
            spec.output.len(),
            types.len()
        )));
    }
    for (output, due) in spec.output.iter().zip(types) {
        match output {
            Output::Column(column) if column_type(columns, *column)? != *due => {
                let found = oid::describe(column_type(columns, *column)?);
                let due = oid::describe(*due);
                return Err(Error::internal(format!("column {column} of the shards has {found}, not {due}")));
            }
            Output::Aggregate(_) if spec.group.is_none() => {
                return Err(Error::internal("aggregate in a merge without groups"));
            }
            Output::Column(_) | Output::Aggregate(_) => {}
        }
    }
    Ok(())
}

fn column_type(columns: &[Oid], column: usize) -> Result<Oid> {
    let missing =
        || Error::internal(format!("the merge needs column {column} of {} that the shards send", columns.len()));
    columns.get(column).copied().ok_or_else(missing)
}

/// The order's columns; aggregates in the order are the grouping's business.
fn sort_keys(spec: &MergeSpec, columns: &[Oid]) -> Result<Vec<Key>> {
    let mut keys = Vec::new();
    for key in &spec.order {
        match key.by {
            SortBy::Column(column) => keys.push(Key {
                column,
                comparer: comparer("ORDER BY", column_type(columns, column)?)?,
                direction: sorted::Direction { descending: key.descending, nulls_first: key.nulls_first },
            }),
            SortBy::Output(_) if spec.group.is_none() => {
                return Err(Error::internal("order by an aggregate in a merge without groups"));
            }
            SortBy::Output(_) => {}
        }
    }
    Ok(keys)
}

fn comparers(clause: &str, positions: &[usize], columns: &[Oid]) -> Result<Vec<(usize, Comparer)>> {
    let one = |position: &usize| Ok((*position, comparer(clause, column_type(columns, *position)?)?));
    positions.iter().map(one).collect()
}

fn comparer(clause: &str, type_oid: Oid) -> Result<Comparer> {
    Comparer::of(type_oid).ok_or_else(|| {
        let name = oid::describe(type_oid);
        Error::unsupported(format!("{clause} over several shards is not supported for {name}"))
            .hint("Use an expression of a type that has one order everywhere, or name the shard key so that one shard answers.")
    })
}

/// The distinct columns are of the shards' rows, so they cannot tell apart what only aggregates tell apart.
fn refuse_distinct_aggregates(spec: &MergeSpec) -> Result<()> {
    let aggregates = spec.output.iter().any(|output| matches!(output, Output::Aggregate(_)));
    if aggregates {
        return Err(Error::unsupported("DISTINCT over aggregates of several shards is not supported")
            .hint("Leave DISTINCT out if the grouped columns are selected: the rows are distinct already."));
    }
    Ok(())
}
