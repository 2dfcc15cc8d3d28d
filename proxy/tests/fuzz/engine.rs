//! Runs a target on mutated inputs, and reduces what fails.
//!
//! Targets run one after the other: the counters of the allocator are those of the whole process. An input that gives
//! an outcome which was not seen before joins the corpus, so that the search goes on from there.

use crate::MEMORY;
use crate::mutate::mutate;
use crate::rng::Rng;
use stats_alloc::Region;
use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::fmt::Write;
use std::fs::File;
use std::hash::Hash;
use std::hash::Hasher;
use std::os::unix::fs::FileExt;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

pub struct Target<'a> {
    pub name: &'a str,
    pub corpus: Vec<Vec<u8>>,
    pub dictionary: &'a [&'a [u8]],
    /// What one input may allocate in all: so many bytes, and so many for each of its own.
    pub memory: (usize, usize),
    pub time: Duration,
    /// What came of an input, in words that stand for its kind; or what does not hold.
    pub run: &'a dyn Fn(&[u8]) -> Result<String, String>,
}

/// Inputs of new outcomes that are kept beside the first corpus.
const KEPT: usize = 5_000;

static TURN: Mutex<()> = Mutex::new(());

impl Target<'_> {
    /// Runs the corpus as it is, then mutated inputs until the time is over.
    ///
    /// # Panics
    /// With the reduced input, when something does not hold.
    pub fn fuzz(mut self) {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = number("FUZZ_SECONDS").unwrap_or(1.0);
        let seed = number("SEED").map_or_else(
            || std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(1, |e| e.as_nanos() as u64),
            |seed| seed as u64,
        );
        let mut random = Rng::new(seed);
        let mut seen = HashSet::new();
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fuzz-{}", self.name));
        let last = File::create(path).ok();
        for input in self.corpus.clone() {
            self.check(&input, seed, &mut seen, last.as_ref());
        }
        let given = self.corpus.len();
        let begun = Instant::now();
        let mut runs = 0_u64;
        while begun.elapsed().as_secs_f64() < seconds {
            let input = mutate(&self.corpus, self.dictionary, &mut random);
            runs += 1;
            if self.check(&input, seed, &mut seen, last.as_ref()) && self.corpus.len() < given + KEPT {
                self.corpus.push(input);
            }
        }
        println!("{}: {runs} inputs in {:.0?}, {} outcomes, seed {seed}", self.name, begun.elapsed(), seen.len());
    }

    /// True for an outcome that is new.
    fn check(&self, input: &[u8], seed: u64, seen: &mut HashSet<u64>, last: Option<&File>) -> bool {
        // An overflow of the stack ends the process: then the input is here, behind its length.
        if let Some(file) = last {
            let _ = file.write_all_at(&[(input.len() as u32).to_be_bytes().as_slice(), input].concat(), 0);
        }
        match self.outcome(input) {
            Ok(outcome) => {
                let mut hasher = DefaultHasher::new();
                outcome.hash(&mut hasher);
                seen.insert(hasher.finish())
            }
            Err(failure) => {
                let small = self.reduce(input.to_vec(), failure.kind);
                let told = self.outcome(&small).err().unwrap_or(failure);
                panic!(
                    "{}: {}: {}\nseed {seed}, {} bytes reduced to {}\n{}\n{}",
                    self.name,
                    told.kind,
                    told.told,
                    input.len(),
                    small.len(),
                    hex(&small),
                    String::from_utf8_lossy(&small)
                );
            }
        }
    }

    fn outcome(&self, input: &[u8]) -> Result<String, Failure> {
        let (result, taken, took) = self.measured(input);
        let outcome = match result {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(told)) => return Err(Failure { kind: "does not hold", told }),
            Err(cause) => {
                let text = cause.downcast_ref::<String>().cloned();
                let text = text.or_else(|| cause.downcast_ref::<&str>().map(|t| (*t).to_owned()));
                return Err(Failure { kind: "panic", told: text.unwrap_or_default() });
            }
        };
        // The machine may have been busy, and another target may have been made ready: only what is so twice is so.
        let bound = self.memory.0 + self.memory.1 * input.len();
        if taken > bound || took > self.time {
            let (_, taken, took) = self.measured(input);
            if taken > bound {
                return Err(Failure { kind: "memory", told: format!("{taken} bytes") });
            }
            if took > self.time {
                return Err(Failure { kind: "time", told: format!("{took:.1?}") });
            }
        }
        Ok(outcome)
    }

    /// What came of an input, the bytes that were allocated in all, and the time that it took.
    fn measured(&self, input: &[u8]) -> (std::thread::Result<Result<String, String>>, usize, Duration) {
        let region = Region::new(MEMORY);
        let begun = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(|| (self.run)(input)));
        let took = begun.elapsed();
        let stats = region.change();
        (result, stats.bytes_allocated + usize::try_from(stats.bytes_reallocated).unwrap_or(0), took)
    }

    /// Takes out parts for as long as the failure stays of its kind.
    fn reduce(&self, mut input: Vec<u8>, kind: &str) -> Vec<u8> {
        let begun = Instant::now();
        let mut size = input.len().div_ceil(2).max(1);
        while begun.elapsed() < Duration::from_secs(60) {
            let mut at = 0;
            let mut smaller = false;
            while at < input.len() && begun.elapsed() < Duration::from_secs(60) {
                let mut less = input.clone();
                less.drain(at..(at + size).min(input.len()));
                if self.outcome(&less).is_err_and(|f| f.kind == kind) {
                    input = less;
                    smaller = true;
                } else {
                    at += size;
                }
            }
            if size == 1 && !smaller {
                break;
            }
            size = size.div_ceil(2).max(1);
        }
        input
    }
}

struct Failure {
    kind: &'static str,
    told: String,
}

fn number(name: &str) -> Option<f64> {
    std::env::var(name).ok()?.parse().ok()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Words in which numbers, names and quoted parts do not count: errors of one kind look alike.
pub fn kind_of(text: &str) -> String {
    let mut quoted = false;
    let mut out = String::new();
    for c in text.chars().take(300) {
        quoted ^= c == '"';
        if !quoted && !c.is_ascii_digit() {
            out.push(c);
        }
    }
    out
}

/// `Err` with words when a condition does not hold.
pub fn hold(condition: bool, told: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(told()) }
}
