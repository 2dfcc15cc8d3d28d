//! Sends pipelines to both servers and compares what they answer, and what they hold afterwards.

use super::generator::Step;
use super::generator::pipeline;
use super::tables::FILL;
use super::tables::state;
use crate::client::Address;
use crate::client::Client;
use crate::deployment::Deployment;
use crate::deployment::SINGLE;
use crate::message;
use crate::message::Message;
use crate::script::show;
use std::fmt::Write;
use std::time::Duration;
use std::time::Instant;

/// PostgreSQL has nothing more to say when it was silent for so long.
const SILENCE: Duration = Duration::from_millis(60);

/// The proxy's answers come within this time, or not at all.
const LIMIT: Duration = Duration::from_secs(5);

/// What the last reply of every pipeline holds.
const END: &str = "the end of the pipeline";

/// Runs of a pipeline while it is made smaller.
const RUNS: usize = 300;
const PATIENCE: Duration = Duration::from_secs(25);

/// What was seen so far.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub pipelines: usize,
    pub messages: usize,
    /// Pipelines in which the proxy refused with 0A000 what PostgreSQL runs.
    pub refused: Vec<String>,
    pub failures: Vec<String>,
}

pub struct Runner {
    single: Address,
    proxy: Address,
}

/// How a pipeline went.
enum Verdict {
    Same(usize),
    Refused(String),
    Different(String),
}

impl Runner {
    pub fn new(deployment: &Deployment) -> Runner {
        Runner { single: deployment.cluster(0).app(SINGLE), proxy: deployment.address() }
    }

    /// Runs the pipelines of some seeds; stops after a few failures.
    pub fn seeds(&self, seeds: impl Iterator<Item = u64>) -> Tally {
        let mut tally = Tally::default();
        for seed in seeds {
            let steps = pipeline(seed);
            tally.pipelines += 1;
            match self.run(&steps) {
                Verdict::Same(messages) => tally.messages += messages,
                Verdict::Refused(why) => tally.refused.push(why),
                Verdict::Different(_) => tally.failures.push(self.explain(seed, steps)),
            }
            if tally.failures.len() >= 3 {
                break;
            }
        }
        tally
    }

    fn run(&self, steps: &[Step]) -> Verdict {
        let mut single = Client::connect(&self.single);
        let mut proxy = Client::connect(&self.proxy);
        proxy.set_limit(LIMIT);
        let verdict = exchange(&mut single, &mut proxy, steps);
        drop((single, proxy));
        // What was left behind is looked at by others: the connections of the pipeline may be in any state.
        let (mut single, mut proxy) = (Client::connect(&self.single), Client::connect(&self.proxy));
        let before = (state(&mut single), state(&mut proxy));
        for client in [&mut single, &mut proxy] {
            FILL.iter().for_each(|sql| client.execute(sql));
        }
        match verdict {
            Verdict::Same(_) if before.0 != before.1 => {
                Verdict::Different(format!("they hold\n{:?}\nand\n{:?}", before.0, before.1))
            }
            verdict => verdict,
        }
    }

    fn explain(&self, seed: u64, steps: Vec<Step>) -> String {
        let mut best = steps;
        let mut runs = 0;
        let end = Instant::now() + PATIENCE;
        let mut size = best.len() / 2;
        while size > 0 {
            let mut start = 0;
            while start + size <= best.len() && runs < RUNS && Instant::now() < end {
                let kept = best[..start].iter().chain(&best[start + size..]).cloned().collect::<Vec<Step>>();
                runs += 1;
                match self.run(&kept) {
                    Verdict::Different(_) => best = kept,
                    _ => start += 1,
                }
            }
            size /= 2;
        }
        let mut out = format!("seed {seed}:\n");
        best.iter().for_each(|s| _ = writeln!(out, "  {}{}", s.text, if s.flush { " (wait)" } else { "" }));
        match self.run(&best) {
            Verdict::Different(how) => out + &how,
            _ => out + "(it does not always differ)",
        }
    }
}

fn exchange(single: &mut Client, proxy: &mut Client, steps: &[Step]) -> Verdict {
    let mut total = 0;
    for part in steps.split_inclusive(|step| step.flush) {
        let bytes: Vec<u8> = part.iter().flat_map(|step| step.bytes.clone()).collect();
        single.send(&bytes);
        proxy.send(&bytes);
        if part.last().is_some_and(|step| step.flush) {
            single.set_limit(SILENCE);
            let mut expected = Vec::new();
            while let Some(message) = single.try_receive() {
                let closed = message == Message::Closed;
                expected.push(message);
                if closed {
                    break;
                }
            }
            single.set_limit(LIMIT);
            if let Some(verdict) = compare(&expected, proxy) {
                return verdict;
            }
            total += expected.len();
        }
    }
    // A copy that is still under way is ended by this, and nothing else is disturbed.
    let mut last = message::frame(b'f', &message::cstring("over"));
    last.extend(message::sync());
    last.extend(message::query("ROLLBACK"));
    last.extend(message::query(&format!("SELECT '{END}'")));
    single.send(&last);
    proxy.send(&last);
    let mut expected = Vec::new();
    loop {
        let Some(message) = single.try_receive() else {
            return Verdict::Different(format!("PostgreSQL stops answering after\n{}", shown(&expected)));
        };
        let end = message == Message::Closed || is_end(&message);
        expected.push(message);
        if end {
            break;
        }
    }
    total += expected.len();
    compare(&expected, proxy).unwrap_or(Verdict::Same(total))
}

fn is_end(message: &Message) -> bool {
    matches!(message, Message::DataRow(values) if matches!(values.as_slice(), [Some(v)] if v == END.as_bytes()))
}

/// Reads as many messages from the proxy, and compares them.
fn compare(expected: &[Message], proxy: &mut Client) -> Option<Verdict> {
    let wanted = expected.iter().filter(|m| is_compared(m)).count();
    let mut actual = Vec::new();
    while actual.iter().filter(|m| is_compared(m)).count() < wanted {
        match proxy.try_receive() {
            None => {
                let (expected, actual) = (shown(expected), shown(&actual));
                return Some(Verdict::Different(format!("PostgreSQL:\n{expected}the proxy, then nothing:\n{actual}")));
            }
            Some(message) => {
                let end = message == Message::Closed || is_end(&message);
                actual.push(message);
                if end {
                    break;
                }
            }
        }
    }
    let (wanted, got) = (shown(expected), shown(&actual));
    if wanted == got {
        return None;
    }
    // What is no copy message ends the connection in a copy: with two errors there, with one here.
    if [expected, &actual].iter().all(|messages| messages.last() == Some(&Message::Closed) && has(messages, "08P01")) {
        return Some(Verdict::Same(actual.len()));
    }
    if !has(expected, "0A000")
        && let Some(refusal) = actual.iter().find(|m| is_error(m, "0A000"))
    {
        return Some(Verdict::Refused(show(refusal)));
    }
    Some(Verdict::Different(format!("PostgreSQL:\n{wanted}the proxy:\n{got}")))
}

fn has(messages: &[Message], sqlstate: &str) -> bool {
    messages.iter().any(|m| is_error(m, sqlstate))
}

fn is_error(message: &Message, sqlstate: &str) -> bool {
    matches!(message, Message::ErrorResponse(fields) if fields.sqlstate() == sqlstate)
}

/// Parameters may be reported at other moments.
fn is_compared(message: &Message) -> bool {
    !matches!(message, Message::ParameterStatus { .. })
}

fn shown(messages: &[Message]) -> String {
    messages.iter().filter(|m| is_compared(m)).map(|m| format!("  {}\n", show(m))).collect()
}
