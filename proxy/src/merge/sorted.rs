//! Inputs that are sorted → one sorted stream: a k-way merge over the inputs' heads.
//!
//! Equal rows come in the order of their inputs, so the merge is stable.

use super::distinct::check;
use super::row::Fields;
use crate::error::Error;
use crate::error::Result;
use crate::value::binary::Comparer;
use std::cmp::Ordering;

#[derive(Clone, Copy)]
pub(super) struct Direction {
    pub descending: bool,
    pub nulls_first: bool,
}

impl Direction {
    pub(super) fn compare(self, comparer: Comparer, a: Option<&[u8]>, b: Option<&[u8]>) -> Ordering {
        match (a, b) {
            (Some(a), Some(b)) if self.descending => comparer.compare(b, a),
            (Some(a), Some(b)) => comparer.compare(a, b),
            (None, Some(_)) if self.nulls_first => Ordering::Less,
            (Some(_), None) if self.nulls_first => Ordering::Greater,
            (a, b) => a.is_none().cmp(&b.is_none()),
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Key {
    pub column: usize,
    pub comparer: Comparer,
    pub direction: Direction,
}

/// A row with its columns found.
#[derive(Default)]
struct Head {
    row: Vec<u8>,
    fields: Fields,
    /// Waits in the heap.
    present: bool,
}

pub(super) struct Sorted {
    keys: Vec<Key>,
    /// One for each input; the buffers are reused.
    heads: Vec<Head>,
    /// Inputs whose heads are present, as a binary heap with the least first.
    heap: Vec<usize>,
}

impl Sorted {
    pub(super) fn new(keys: Vec<Key>, inputs: usize) -> Sorted {
        let heads = (0..inputs).map(|_| Head::default()).collect();
        Sorted { keys, heads, heap: Vec::with_capacity(inputs) }
    }

    /// The first input that has neither a head nor ended.
    pub(super) fn missing(&self, ended: &[bool]) -> Option<usize> {
        self.heads.iter().zip(ended).position(|(head, ended)| !head.present && !ended)
    }

    /// Takes an input's next row, whose columns are in `fields` (which is exchanged for another), and emits the least
    /// row if no other input is missing. A row that is the least itself is emitted without being copied.
    pub(super) fn row(
        &mut self,
        input: usize,
        body: &[u8],
        fields: &mut Fields,
        ended: &[bool],
        emit: impl FnOnce(&[u8], &Fields) -> Result<()>,
    ) -> Result<()> {
        self.check_keys(body, fields)?;
        let Some(head) = self.heads.get_mut(input).filter(|head| !head.present) else {
            return Err(Error::internal(format!("row of input {input}, which has one already")));
        };
        head.present = true;
        let complete = self.missing(ended).is_none();
        if complete && self.is_least(input, body, fields) {
            self.set_present(input, false);
            return emit(body, fields);
        }
        if let Some(head) = self.heads.get_mut(input) {
            head.row.clear();
            head.row.extend_from_slice(body);
            std::mem::swap(&mut head.fields, fields);
        }
        self.push(input);
        if complete { self.emit_least(emit) } else { Ok(()) }
    }

    /// Emits the least row, unless an input is missing or there is none; whether it did.
    pub(super) fn pop(&mut self, ended: &[bool], emit: impl FnOnce(&[u8], &Fields) -> Result<()>) -> Result<bool> {
        if self.heap.is_empty() || self.missing(ended).is_some() {
            return Ok(false);
        }
        self.emit_least(emit).map(|()| true)
    }

    fn emit_least(&mut self, emit: impl FnOnce(&[u8], &Fields) -> Result<()>) -> Result<()> {
        let Some(&least) = self.heap.first() else { return Ok(()) };
        self.heap.swap_remove(0);
        self.sift_down(0);
        self.set_present(least, false);
        match self.heads.get(least) {
            Some(head) => emit(&head.row, &head.fields),
            None => Ok(()),
        }
    }

    fn set_present(&mut self, input: usize, present: bool) {
        if let Some(head) = self.heads.get_mut(input) {
            head.present = present;
        }
    }

    fn check_keys(&self, body: &[u8], fields: &Fields) -> Result<()> {
        let mut values = self.keys.iter().filter_map(|key| Some((key.comparer, fields.get(body, key.column)?)));
        values.try_for_each(|(comparer, value)| check(comparer, value))
    }

    /// Whether a row of this input comes before all heads.
    fn is_least(&self, input: usize, body: &[u8], fields: &Fields) -> bool {
        let Some(top) = self.heap.first() else { return true };
        let Some(head) = self.heads.get(*top) else { return true };
        self.compare_rows((body, fields), (&head.row, &head.fields)).then(input.cmp(top)) == Ordering::Less
    }

    fn compare_rows(&self, a: (&[u8], &Fields), b: (&[u8], &Fields)) -> Ordering {
        for key in &self.keys {
            let (x, y) = (a.1.get(a.0, key.column), b.1.get(b.0, key.column));
            let order = key.direction.compare(key.comparer, x, y);
            if order != Ordering::Equal {
                return order;
            }
        }
        Ordering::Equal
    }

    /// Whether the head at one place of the heap comes before the head at another.
    fn before(&self, a: usize, b: usize) -> bool {
        let input = |place: usize| self.heap.get(place).copied().unwrap_or(usize::MAX);
        let (a, b) = (input(a), input(b));
        match (self.heads.get(a), self.heads.get(b)) {
            (Some(x), Some(y)) => {
                self.compare_rows((&x.row, &x.fields), (&y.row, &y.fields)).then(a.cmp(&b)) == Ordering::Less
            }
            (x, y) => x.is_some() && y.is_none(),
        }
    }

    fn push(&mut self, input: usize) {
        self.heap.push(input);
        let mut place = self.heap.len() - 1;
        while place > 0 && self.before(place, (place - 1) / 2) {
            self.heap.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
    }

    fn sift_down(&mut self, mut place: usize) {
        loop {
            let (left, right) = (2 * place + 1, 2 * place + 2);
            let child = if right < self.heap.len() && self.before(right, left) { right } else { left };
            if child >= self.heap.len() || !self.before(child, place) {
                return;
            }
            self.heap.swap(child, place);
            place = child;
        }
    }
}
