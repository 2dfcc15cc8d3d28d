//! Runs statements on one PostgreSQL, on its mirror image and through the proxy, and compares.

use super::generator::Generator;
use super::generator::Statement;
use super::rng::Rng;
use super::shrink;
use crate::client::Client;
use crate::deployment::Deployment;
use crate::deployment::SINGLE;
use crate::message;
use crate::message::Column;
use crate::outcome::End;
use crate::outcome::Mode;
use crate::outcome::Outcome;
use crate::outcome::Row;
use crate::outcome::Rows;
use crate::outcome::difference;
use crate::shop;
use std::collections::BTreeMap;
use std::time::Duration;

/// Differences after which a run ends: the first ones are enough to work on.
const FAILURES: usize = 40;

pub enum Verdict {
    Same,
    /// PostgreSQL refuses it too, with the same SQLSTATE.
    SameError,
    Refused(String),
    /// What PostgreSQL itself does not promise.
    Undetermined,
    Different(String),
}

pub struct Runner<'d> {
    deployment: &'d Deployment,
    single: Client,
    mirror: Client,
    proxy: Client,
}

#[derive(Default)]
pub struct Tally {
    pub same: usize,
    pub errors: usize,
    pub refused: BTreeMap<String, usize>,
    pub undetermined: usize,
    pub failures: Vec<String>,
}

impl Tally {
    fn count(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Same => self.same += 1,
            Verdict::SameError => self.errors += 1,
            Verdict::Refused(reason) => *self.refused.entry(reason.clone()).or_default() += 1,
            Verdict::Undetermined => self.undetermined += 1,
            Verdict::Different(_) => {}
        }
    }

    /// Fails the test when anything differed.
    pub fn finish(self, least: usize) {
        let refused: usize = self.refused.values().sum();
        println!(
            "{} agree, {} errors agree, {refused} refused, {} undetermined, {} differ",
            self.same,
            self.errors,
            self.undetermined,
            self.failures.len()
        );
        let mut reasons: Vec<(&String, &usize)> = self.refused.iter().collect();
        reasons.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
        reasons.iter().take(30).for_each(|(reason, n)| println!("  {n:6} refused: {reason}"));
        assert!(self.failures.is_empty(), "{}", self.failures.join("\n\n"));
        assert!(self.same >= least, "only {} agree, at least {least} were expected", self.same);
    }
}

impl<'d> Runner<'d> {
    pub fn new(deployment: &'d Deployment) -> Runner<'d> {
        let cluster = deployment.cluster(0);
        let mut single = Client::connect(&cluster.app(SINGLE));
        single.execute("SET statement_timeout = '1s'");
        let mut mirror = Client::connect(&cluster.app(shop::MIRRORED));
        mirror.execute("SET statement_timeout = '3s'");
        let proxy = Runner::connect(deployment);
        Runner { deployment, single, mirror, proxy }
    }

    fn connect(deployment: &Deployment) -> Client {
        let mut proxy = deployment.connect();
        proxy.set_limit(Duration::from_secs(15));
        proxy
    }

    /// Runs the statements of these seeds.
    pub fn seeds(&mut self, seeds: impl Iterator<Item = u64>) -> Tally {
        let mut tally = Tally::default();
        for seed in seeds {
            let statement = Generator::new(seed).statement();
            let mut rng = Rng::new(seed ^ 0x5eed);
            let mode = match (rng.below(4), statement.parameters.is_empty()) {
                (0 | 1, true) => Mode::Simple,
                (0 | 2, _) => Mode::Text,
                _ => Mode::Binary,
            };
            if std::env::var_os("TRACE").is_some() {
                eprintln!("{seed} {mode:?} {}", statement.sql);
            }
            let verdict = self.check(&statement, mode);
            tally.count(&verdict);
            self.judge(seed, &statement, mode, verdict, &mut tally);
            // the same form with other values: it is answered by the plan made for the first
            if rng.chance(25) {
                let sql = shrink::twin(&statement.sql, &mut rng);
                // ordinals may have changed too
                let limited = ["limit", "offset", "fetch"].iter().any(|w| sql.to_ascii_lowercase().contains(w));
                let twin = Statement { sql, sorted: Vec::new(), limited, ..statement };
                let verdict = self.check(&twin, mode);
                tally.count(&verdict);
                self.judge(seed, &twin, mode, verdict, &mut tally);
            }
            if tally.failures.len() >= FAILURES {
                break;
            }
        }
        tally
    }

    fn judge(&mut self, seed: u64, statement: &Statement, mode: Mode, verdict: Verdict, tally: &mut Tally) {
        let Verdict::Different(text) = verdict else { return };
        let small = shrink::shrink(statement, |s| match self.check(s, mode) {
            Verdict::Different(other) => kind(&other) == kind(&text),
            _ => false,
        });
        let last = match self.check(&small, mode) {
            Verdict::Different(text) => text,
            _ => "not again".into(),
        };
        let values: Vec<String> = small.parameters.iter().map(|p| format!("{:?}/{}", p.text, p.oid)).collect();
        let failure = format!(
            "SEED={seed} shards {} {mode:?}: {text}\n  {}\n  small: {}\n  {last}\n  {}",
            self.deployment.layout.shards,
            statement.sql,
            small.sql,
            values.join(", ")
        );
        if std::env::var_os("STATEMENTS").is_some() {
            eprintln!("{failure}\n");
        }
        tally.failures.push(failure);
    }

    /// One statement on all three; writes are undone.
    pub fn check(&mut self, statement: &Statement, mode: Mode) -> Verdict {
        let expected = perform(&mut self.single, statement, mode);
        let end = |o: &[Outcome]| o.first().and_then(|o| o.sqlstate().map(str::to_owned));
        if matches!(end(&expected).as_deref(), Some("57014" | "53200" | "54001")) {
            return Verdict::Undetermined;
        }
        let actual = perform(&mut self.proxy, statement, mode);
        if let Some(End::Closed) = actual.last().map(|o| &o.end) {
            self.proxy = Runner::connect(self.deployment);
            return Verdict::Different("the connection was closed".into());
        }
        if let Some(End::Error(fields)) = actual.first().map(|o| &o.end)
            && fields.sqlstate() == "0A000"
            && end(&expected).as_deref() != Some("0A000")
        {
            return Verdict::Refused(reason(fields.message()));
        }
        if let (Some(End::Error(fields)), true) = (actual.get(1).map(|o| &o.end), expected.len() > 1)
            && fields.sqlstate() == "0A000"
        {
            return Verdict::Refused(format!("(check) {}", reason(fields.message())));
        }
        let other = perform(&mut self.mirror, statement, mode);
        if end(&other) != end(&expected) {
            return Verdict::Undetermined;
        }
        let mut verdict = Verdict::Same;
        for ((one, two), ours) in expected.iter().zip(&other).zip(&actual) {
            let rows = determined(statement.limited, one, two);
            if is_no_place(one, ours) {
                return Verdict::SameError;
            }
            if let Some(text) = difference(one, ours, rows)
                && difference(&loose(&statement.sql, one), &loose(&statement.sql, ours), rows).is_some()
            {
                return Verdict::Different(text);
            }
            if !statement.writes
                && let Some(text) = order_difference(one, two, ours, &statement.sorted)
            {
                return Verdict::Different(text);
            }
            if one.sqlstate().is_some() {
                verdict = Verdict::SameError;
            }
        }
        if expected.len() != actual.len() {
            return Verdict::Different(format!("{} answers instead of {}", actual.len(), expected.len()));
        }
        verdict
    }
}

/// A statement, and for a write, inside a transaction, what it has left.
fn perform(client: &mut Client, statement: &Statement, mode: Mode) -> Vec<Outcome> {
    if !statement.writes {
        return vec![run(client, statement, mode)];
    }
    client.simple("BEGIN");
    let mut outcomes = vec![run(client, statement, mode)];
    if let (Some(check), None) = (&statement.check, outcomes.first().and_then(Outcome::sqlstate)) {
        outcomes.push(client.simple(check));
    }
    client.simple("ROLLBACK");
    outcomes
}

fn run(client: &mut Client, statement: &Statement, mode: Mode) -> Outcome {
    if mode == Mode::Simple {
        return client.simple(&statement.sql);
    }
    let types: Vec<u32> = statement.parameters.iter().map(|p| p.oid).collect();
    let formats: Vec<i16> = statement.parameters.iter().map(|p| i16::from(p.binary.is_some())).collect();
    let value = |p: &super::generator::Parameter| p.binary.clone().or_else(|| p.text.clone().map(String::into_bytes));
    let values: Vec<Option<Vec<u8>>> = statement.parameters.iter().map(value).collect();
    let mut bytes = message::parse("", &statement.sql, &types);
    bytes.extend(message::bind("", "", &formats, &values, &[i16::from(mode == Mode::Binary)]));
    bytes.extend(message::describe(b'P', ""));
    bytes.extend(message::execute("", 0));
    bytes.extend(message::sync());
    client.send(&bytes);
    client.outcomes().pop().unwrap_or_else(|| panic!("no answer to {}", statement.sql))
}

/// What two databases agree on that differ only in what is not promised.
fn determined(limited: bool, one: &Outcome, other: &Outcome) -> Rows {
    match limited || difference(one, other, Rows::Unordered).is_some() {
        true => Rows::Counted,
        false => Rows::Unordered,
    }
}

/// Rows come in the order of the columns that they are sorted by, whatever else is not determined.
fn order_difference(one: &Outcome, two: &Outcome, ours: &Outcome, sorted: &[usize]) -> Option<String> {
    let types: Vec<(u32, i16)> = one.columns.iter().flatten().map(|c| (c.type_oid, c.format)).collect();
    // equal values that look different: intervals, numerics in binary
    let plain = |n: &&usize| !matches!(types.get(**n), None | Some((1186, _) | (1700, 1)));
    let sorted: Vec<usize> = sorted.iter().take_while(plain).copied().collect();
    let project = |o: &Outcome| -> Outcome {
        let row = |row: &Row| sorted.iter().filter_map(|n| row.get(*n).cloned()).collect();
        let columns = o.columns.as_ref().map(|columns| {
            let column = |n: &usize| columns.get(*n).cloned().map(as_float);
            sorted.iter().filter_map(column).collect()
        });
        Outcome { rows: o.rows.iter().map(row).collect(), columns, ..o.clone() }
    };
    if sorted.is_empty() || difference(&project(one), &project(two), Rows::Ordered).is_some() {
        return None;
    }
    difference(&project(one), &project(ours), Rows::Ordered).map(|text| format!("by the sorted columns: {text}"))
}

/// Numerics are compared as numbers: 1.0 and 1.00 are equal in an order.
fn as_float(column: Column) -> Column {
    match column.type_oid {
        1700 => Column { type_oid: 701, ..column },
        _ => column,
    }
}

/// A refusal without its names.
fn reason(message: &str) -> String {
    let words = message.split(' ').map(|w| if w.contains('"') { "…" } else { w });
    words.collect::<Vec<_>>().join(" ")
}

/// What kind of difference it is: the numbers left out.
fn kind(difference: &str) -> String {
    let words: Vec<&str> = difference.split_whitespace().take(12).collect();
    match difference.find("('C', \"") {
        Some(code) => difference.get(code..code + 14).unwrap_or("").to_owned(),
        None if difference.starts_with("error") => words.iter().take(2).copied().collect(),
        None => words.first().copied().unwrap_or("").to_owned(),
    }
}

/// A key without a place, and a negative LIMIT, are refused before the server can complain of something else.
fn is_no_place(expected: &Outcome, actual: &Outcome) -> bool {
    let no_place = matches!(&actual.end, End::Error(f) if f.message().starts_with("no shard for shard key"));
    let negative = matches!(actual.sqlstate(), Some("2201W" | "2201X"));
    (no_place && expected.sqlstate() == Some("23502")) || (negative && expected.sqlstate().is_some())
}

/// Where equal values that look different stand for each other (1.0 and 1.00, 30 days and 1 mon), any of them will do.
fn loose(sql: &str, outcome: &Outcome) -> Outcome {
    const REPRESENTED: [&str; 10] =
        ["group", "distinct", "union", "intersect", "except", "min", "max", "greatest", "limit", "over"];
    let lower = sql.to_ascii_lowercase();
    let mut outcome = outcome.clone();
    // folding constants changes what the simple protocol tells of lengths, not what Describe tells
    outcome.columns.iter_mut().flatten().filter(|c| c.type_oid == 1042).for_each(|c| c.type_modifier = -1);
    if !REPRESENTED.iter().any(|w| lower.contains(w)) {
        return outcome;
    }
    for (n, column) in outcome.columns.iter().flatten().enumerate() {
        for value in outcome.rows.iter_mut().filter_map(|r| r.get_mut(n)?.as_mut()) {
            match (column.type_oid, column.format) {
                (1186, _) | (1700, 1) => value.clear(),
                (1700, _) if value.contains(&b'.') => {
                    while value.last() == Some(&b'0') {
                        value.pop();
                    }
                    value.pop_if(|last| *last == b'.');
                }
                _ => {}
            }
        }
    }
    outcome
}
