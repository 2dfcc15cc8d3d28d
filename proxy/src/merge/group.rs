//! Partial groups of the shards → whole groups: the second phase of an aggregation, then its order.

use super::Sink;
use super::aggregate::Combine;
use super::aggregate::State;
use super::budget::Budget;
use super::budget::ENTRY_BYTES;
use super::column_type;
use super::comparer;
use super::distinct::check;
use super::distinct::write_key;
use super::output::FrameWriter;
use super::row::Fields;
use super::sorted::Direction;
use crate::error::Error;
use crate::error::Result;
use crate::plan::MergeSpec;
use crate::plan::Output;
use crate::plan::SortBy;
use crate::value::Oid;
use crate::value::binary::Comparer;
use bytes::BytesMut;
use std::cmp::Ordering;
use std::collections::HashMap;

/// Canonical key → partial groups met so far → answer.
pub(super) struct Grouping {
    keys: Vec<(usize, Comparer)>,
    outputs: Vec<Item>,
    order: Vec<GroupKey>,
    columns: usize,
    index: HashMap<Box<[u8]>, usize>,
    groups: Vec<Group>,
    budget: Budget,
    scratch: Vec<u8>,
    finished: bool,
}

/// An output column, and for aggregates the place of its state in a group.
enum Item {
    Column(usize),
    Aggregate { combine: Combine, state: usize },
}

struct GroupKey {
    by: SortBy,
    comparer: Comparer,
    direction: Direction,
}

struct Group {
    /// The first row, whose plain columns are the group's; none in a group without rows.
    first: Option<Box<[u8]>>,
    states: Box<[State]>,
}

/// Sort values of a group, in the order of the sort keys, and the group.
type Ranked = (Vec<Option<Vec<u8>>>, Group);

impl Grouping {
    pub(super) fn new(
        spec: &MergeSpec,
        keys: Vec<(usize, Comparer)>,
        columns: &[Oid],
        formats: &[i16],
        types: &[Oid],
        budget: Budget,
    ) -> Result<Grouping> {
        let mut outputs = Vec::new();
        let mut state = 0;
        for ((output, format), due) in spec.output.iter().zip(formats).zip(types) {
            outputs.push(match output {
                Output::Column(column) => Item::Column(*column),
                Output::Aggregate(aggregate) => {
                    let combine = Combine::new(aggregate, columns, *due, *format)?;
                    state += 1;
                    Item::Aggregate { combine, state: state - 1 }
                }
            });
        }
        let order = group_order(spec, columns, &outputs)?;
        let mut grouping = Grouping {
            keys,
            outputs,
            order,
            columns: columns.len(),
            index: HashMap::new(),
            groups: Vec::new(),
            budget,
            scratch: Vec::new(),
            finished: false,
        };
        if grouping.keys.is_empty() {
            // the one group of an aggregate without GROUP BY is there even without rows
            grouping.add_group(None)?;
        }
        Ok(grouping)
    }

    /// Adds a partial group. Errors: 54000, 22003, XX000.
    pub(super) fn row(&mut self, body: &[u8], fields: &Fields) -> Result<()> {
        self.scratch.clear();
        write_key(&self.keys, body, fields, &mut self.scratch)?;
        let place = match self.index.get(self.scratch.as_slice()) {
            Some(place) => *place,
            None => self.add_group(Some(body))?,
        };
        let Some(group) = self.groups.get_mut(place) else { return Ok(()) };
        if group.first.is_none() {
            self.budget.take(body.len())?;
            group.first = Some(body.into());
        }
        for item in &self.outputs {
            if let Item::Aggregate { combine, state } = item
                && let Some(state) = group.states.get_mut(*state)
            {
                let held = state.held_bytes();
                combine.add(state, |column| fields.get(body, column))?;
                self.budget.take(state.held_bytes().saturating_sub(held))?;
            }
        }
        Ok(())
    }

    fn add_group(&mut self, first: Option<&[u8]>) -> Result<usize> {
        let combines = self.outputs.iter().filter_map(|item| match item {
            Item::Aggregate { combine, .. } => Some(combine.start()),
            Item::Column(_) => None,
        });
        let states: Box<[State]> = combines.collect();
        let bytes = self.scratch.len() + first.map_or(0, <[u8]>::len) + states.len() * size_of::<State>();
        self.budget.take(bytes + 2 * ENTRY_BYTES)?;
        self.groups.push(Group { first: first.map(Into::into), states });
        let place = self.groups.len() - 1;
        self.index.insert(self.scratch.as_slice().into(), place);
        Ok(place)
    }

    /// Orders the groups and gives them. Errors: 54000, 22003, XX000.
    pub(super) fn finish(&mut self, sink: &mut Sink, out: &mut BytesMut) -> Result<()> {
        if std::mem::replace(&mut self.finished, true) {
            return Ok(());
        }
        self.index = HashMap::new();
        let mut fields = Fields::default();
        for group in self.ranked(&mut fields)? {
            if sink.window.is_full() {
                return Ok(());
            }
            let body = group.first.as_deref().unwrap_or_default();
            let known = group.first.is_some();
            if known {
                fields.parse(body, self.columns)?;
            } else {
                fields = Fields::default();
            }
            // a group without rows is the only one: nothing to compare it with
            let admitted = if known { sink.admits(body, &fields)? } else { sink.window.admit() };
            if admitted {
                self.write(&group, body, &fields, out)?;
            }
        }
        Ok(())
    }

    fn ranked(&mut self, fields: &mut Fields) -> Result<Vec<Group>> {
        let groups = std::mem::take(&mut self.groups);
        if self.order.is_empty() || groups.len() < 2 {
            return Ok(groups);
        }
        let mut ranked: Vec<Ranked> = Vec::with_capacity(groups.len());
        for group in groups {
            let body = group.first.as_deref().unwrap_or_default();
            fields.parse(body, self.columns)?;
            let values = self.order.iter().map(|key| self.sort_value(key, &group, body, fields));
            let values = values.collect::<Result<Vec<_>>>()?;
            let bytes = values.iter().flatten().map(|value| value.len() + ENTRY_BYTES).sum();
            self.budget.take(bytes)?;
            ranked.push((values, group));
        }
        ranked.sort_by(|(a, _), (b, _)| compare(&self.order, a, b));
        Ok(ranked.into_iter().map(|(_, group)| group).collect())
    }

    fn sort_value(&self, key: &GroupKey, group: &Group, body: &[u8], fields: &Fields) -> Result<Option<Vec<u8>>> {
        let value = match key.by {
            SortBy::Column(column) => fields.get(body, column).map(<[u8]>::to_vec),
            SortBy::Output(output) => match self.outputs.get(output) {
                Some(Item::Aggregate { combine, state }) => match group.states.get(*state) {
                    Some(state) => combine.sort_value(state)?,
                    None => None,
                },
                _ => None,
            },
        };
        if let Some(value) = &value {
            check(key.comparer, value)?;
        }
        Ok(value)
    }

    fn write(&self, group: &Group, body: &[u8], fields: &Fields, out: &mut BytesMut) -> Result<()> {
        let mut frame = FrameWriter::new(self.outputs.len(), out);
        match self.write_values(group, body, fields, &mut frame) {
            Ok(()) => frame.finish(),
            Err(error) => {
                frame.discard();
                Err(error)
            }
        }
    }

    fn write_values(&self, group: &Group, body: &[u8], fields: &Fields, frame: &mut FrameWriter<'_>) -> Result<()> {
        for item in &self.outputs {
            match item {
                Item::Column(column) => frame.value(fields.get(body, *column)),
                Item::Aggregate { combine, state } => match group.states.get(*state) {
                    Some(state) => frame.value(combine.result(state)?.as_deref()),
                    None => frame.value(None),
                },
            }
        }
        Ok(())
    }
}

fn compare(order: &[GroupKey], a: &[Option<Vec<u8>>], b: &[Option<Vec<u8>>]) -> Ordering {
    let pairs = order.iter().zip(a.iter().zip(b));
    let mut orders = pairs.map(|(key, (a, b))| key.direction.compare(key.comparer, a.as_deref(), b.as_deref()));
    orders.find(|order| *order != Ordering::Equal).unwrap_or(Ordering::Equal)
}

fn group_order(spec: &MergeSpec, columns: &[Oid], outputs: &[Item]) -> Result<Vec<GroupKey>> {
    let mut order = Vec::new();
    for key in &spec.order {
        let type_oid = match key.by {
            SortBy::Column(column) => column_type(columns, column)?,
            SortBy::Output(output) => match outputs.get(output) {
                Some(Item::Aggregate { combine, .. }) => combine.sort_type(),
                _ => return Err(Error::internal(format!("order by output {output}, which is no aggregate"))),
            },
        };
        let direction = Direction { descending: key.descending, nulls_first: key.nulls_first };
        order.push(GroupKey { by: key.by, comparer: comparer("ORDER BY", type_oid)?, direction });
    }
    Ok(order)
}
