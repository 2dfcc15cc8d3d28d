//! PostgreSQL's partition hash: the bucket of a key is the remainder that `satisfies_hash_partition` checks.
//!
//! Sources of the rule: src/common/hashfn.c (hash_bytes_extended, hash_bytes_uint32_extended, after Bob Jenkins'
//! lookup3), src/include/common/hashfn.h (hash_combine64), the types' `…hashextended` functions, and
//! compute_partition_hash_value in src/backend/partitioning/partbounds.c.

use super::Datum;
use super::KeyType;
use super::trim_padding;

/// HASH_PARTITION_SEED.
pub const PARTITION_SEED: u64 = 0x7A5B_2236_7996_DCFD;

/// What the type's extended hash function gives for the partition seed. NULL has no hash: it gives 0, and
/// [`bucket`] leaves it out.
pub fn hash_extended(key: KeyType, value: &Datum) -> u64 {
    match value {
        Datum::Null => 0,
        Datum::Bool(value) => hash_u32(u32::from(*value), PARTITION_SEED),
        Datum::Int(value) | Datum::Time(value) | Datum::Timestamp(value) => hash_i64(*value),
        Datum::Date(days) => hash_u32(days.cast_unsigned(), PARTITION_SEED),
        Datum::Text(bytes) if key == KeyType::Bpchar => hash_bytes(trim_padding(bytes), PARTITION_SEED),
        Datum::Text(bytes) | Datum::Bytea(bytes) => hash_bytes(bytes, PARTITION_SEED),
        Datum::Uuid(bytes) => hash_bytes(bytes, PARTITION_SEED),
    }
}

/// The bucket (0 … modulus - 1) of a key; `types` and `key` are the key's columns in order. A NULL column adds nothing,
/// so the bucket of an all-NULL key is 0. A modulus of 0 counts as 1.
pub fn bucket(types: &[KeyType], key: &[Datum], modulus: u64) -> u64 {
    let columns = types.iter().zip(key).filter(|(_, value)| **value != Datum::Null);
    columns.fold(0, |row, (key, value)| hash_combine(row, hash_extended(*key, value))) % modulus.max(1)
}

/// hash_combine64.
fn hash_combine(a: u64, b: u64) -> u64 {
    a ^ b.wrapping_add(0x49a0_f4dd_15e5_a8e3).wrapping_add(a << 54).wrapping_add(a >> 7)
}

/// hashint8extended: folded so that equal integers of any width have equal hashes.
fn hash_i64(value: i64) -> u64 {
    let bits = value.cast_unsigned();
    let (low, high) = (bits as u32, (bits >> 32) as u32);
    hash_u32(low ^ if value >= 0 { high } else { !high }, PARTITION_SEED)
}

/// hash_bytes_uint32_extended.
fn hash_u32(value: u32, seed: u64) -> u64 {
    let mut state = State::new(4, seed);
    state.a = state.a.wrapping_add(value);
    state.finish()
}

/// hash_bytes_extended, as it works on little-endian machines.
fn hash_bytes(bytes: &[u8], seed: u64) -> u64 {
    let mut state = State::new(bytes.len() as u32, seed);
    let mut chunks = bytes.chunks_exact(12);
    for chunk in &mut chunks {
        state.add(chunk);
        state.mix();
    }
    state.add_tail(chunks.remainder());
    state.finish()
}

struct State {
    a: u32,
    b: u32,
    c: u32,
}

impl State {
    fn new(len: u32, seed: u64) -> State {
        let start = 0x9e37_79b9_u32.wrapping_add(len).wrapping_add(3_923_095);
        let mut state = State { a: start, b: start, c: start };
        if seed != 0 {
            state.a = state.a.wrapping_add((seed >> 32) as u32);
            state.b = state.b.wrapping_add(seed as u32);
            state.mix();
        }
        state
    }

    fn add(&mut self, chunk: &[u8]) {
        self.a = self.a.wrapping_add(word(chunk, 0));
        self.b = self.b.wrapping_add(word(chunk, 4));
        self.c = self.c.wrapping_add(word(chunk, 8));
    }

    /// Fewer than 12 bytes: the lowest byte of `c` is left for the length.
    fn add_tail(&mut self, tail: &[u8]) {
        self.a = self.a.wrapping_add(word(tail, 0));
        self.b = self.b.wrapping_add(word(tail, 4));
        self.c = self.c.wrapping_add(word(tail, 8) << 8);
    }

    fn mix(&mut self) {
        let State { mut a, mut b, mut c } = *self;
        a = a.wrapping_sub(c) ^ c.rotate_left(4);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(6);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(8);
        b = b.wrapping_add(a);
        a = a.wrapping_sub(c) ^ c.rotate_left(16);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(19);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(4);
        b = b.wrapping_add(a);
        *self = State { a, b, c };
    }

    fn finish(&self) -> u64 {
        let State { mut a, mut b, mut c } = *self;
        c = (c ^ b).wrapping_sub(b.rotate_left(14));
        a = (a ^ c).wrapping_sub(c.rotate_left(11));
        b = (b ^ a).wrapping_sub(a.rotate_left(25));
        c = (c ^ b).wrapping_sub(b.rotate_left(16));
        a = (a ^ c).wrapping_sub(c.rotate_left(4));
        b = (b ^ a).wrapping_sub(a.rotate_left(14));
        c = (c ^ b).wrapping_sub(b.rotate_left(24));
        (u64::from(b) << 32) | u64::from(c)
    }
}

/// Up to four bytes from `at` on, little-endian; missing ones are 0.
fn word(bytes: &[u8], at: usize) -> u32 {
    let rest = bytes.get(at..).unwrap_or_default();
    if let Some(four) = rest.first_chunk::<4>() {
        return u32::from_le_bytes(*four);
    }
    rest.iter().rev().fold(0, |word, &byte| (word << 8) | u32::from(byte))
}

#[cfg(test)]
mod tests;
