//! Inputs made of others: flipped bits, cuts, splices, edges in place of numbers, words of a dictionary.

use crate::rng::Rng;

/// Values at which lengths and counts go wrong.
const EDGES: [i64; 16] =
    [0, 1, -1, 2, 4, 127, 128, 255, 256, 32_767, -32_768, 65_535, i32::MAX as i64, i32::MIN as i64, 1 << 24, -2];

/// Inputs never become longer than this.
const LONGEST: usize = 16 * 1024;

/// An input out of the corpus, changed in one to eight places.
pub fn mutate(corpus: &[Vec<u8>], dictionary: &[&[u8]], random: &mut Rng) -> Vec<u8> {
    let mut input = random.pick(corpus).clone();
    for _ in 0..=random.below(8) {
        change(&mut input, corpus, dictionary, random);
        input.truncate(LONGEST);
    }
    input
}

fn change(input: &mut Vec<u8>, corpus: &[Vec<u8>], dictionary: &[&[u8]], random: &mut Rng) {
    let at = random.below(input.len() + 1);
    let end = (at + 1 + random.below(12)).min(input.len());
    match random.below(12) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 if at < input.len() => input[at] = random.below(256) as u8,
        2 => input.insert(at, random.below(256) as u8),
        3 => drop(input.drain(at..end)),
        4 => input.truncate(at),
        5 => {
            let copy = input[at..end].to_vec();
            let most = if random.below(50) == 0 { 400 } else { 3 };
            let times = 1 + random.below(most);
            input.splice(at..at, copy.repeat(times));
        }
        6 | 7 if !dictionary.is_empty() => {
            let end = if random.below(2) == 0 { at } else { end };
            input.splice(at..end, random.pick(dictionary).iter().copied());
        }
        8 => edge(input, at, random),
        // A part of another input, at any place or at a word's.
        9 => {
            let other = random.pick(corpus);
            let from = random.below(other.len() + 1);
            let to = from + random.below(other.len() - from + 1);
            input.splice(at..end, other[from..to].iter().copied());
        }
        10 => {
            let other = random.pick(corpus).clone();
            let (from, to) = words(&other, random);
            let (start, stop) = words(input, random);
            let stop = if random.below(2) == 0 { start } else { stop };
            input.splice(start..stop, other[from..to].iter().copied());
        }
        _ => {
            let (start, stop) = words(input, random);
            drop(input.drain(start..stop));
        }
    }
}

/// Some words that follow each other: from the beginning of one to the end of one.
fn words(input: &[u8], random: &mut Rng) -> (usize, usize) {
    let is_gap = |b: u8| b.is_ascii_whitespace() || b == 0;
    let mut starts: Vec<usize> =
        (0..input.len()).filter(|&n| !is_gap(input[n]) && (n == 0 || is_gap(input[n - 1]))).collect();
    starts.push(input.len());
    let first = random.below(starts.len());
    let last = (first + 1 + random.below(6)).min(starts.len() - 1);
    (starts[first], starts[last])
}

fn edge(input: &mut [u8], at: usize, random: &mut Rng) {
    let value = *random.pick(&EDGES);
    let width = *random.pick(&[1, 2, 4]);
    let bytes = value.to_be_bytes();
    for (place, byte) in input.iter_mut().skip(at).zip(&bytes[8 - width..]) {
        *place = *byte;
    }
}
