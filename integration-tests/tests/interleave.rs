//! Clients whose steps are interleaved at random on one server connection: no setting, role, temporary table, lock,
//! prepared statement, portal, cursor or notification reaches another client.
//!
//! Each client has a twin connected to a PostgreSQL itself, which takes the same steps and gets the same answers. One
//! client at a time may hold the connection; another one's step may wait meanwhile. `SEED=n` runs one seed, `SEEDS=n`
//! as many, `STEPS=n` makes each longer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::client::Address;
use integration_tests::client::Client;
use integration_tests::deployment::Deployment;
use integration_tests::deployment::SINGLE;
use integration_tests::habit::Random;
use integration_tests::habit::Step;
use integration_tests::habit::look;
use integration_tests::habit::look_around;
use integration_tests::habit::random_step;
use integration_tests::layout::Layout;
use integration_tests::message;
use integration_tests::message::Message;
use std::collections::VecDeque;
use std::thread;
use std::time::Duration;
use std::time::Instant;

const CLIENTS: usize = 3;
const SEQUENCE: &str = "CREATE SEQUENCE numbers; GRANT ALL ON SEQUENCE numbers TO helper, app";
const SCHEMA: &str =
    "CREATE SCHEMA other; GRANT ALL ON SCHEMA other TO helper, app; GRANT ALL ON SCHEMA public TO helper, app";

fn deploy(shards: usize) -> Deployment {
    let layout = Layout::new(shards).hash_map("keys", &["bigint"]).pool("size = 1\nwait_timeout = \"10s\"");
    let deployment = Deployment::start(layout);
    let cluster = deployment.cluster(0);
    cluster.create_database(SINGLE);
    cluster.execute("postgres", "CREATE ROLE helper; GRANT helper TO app; CREATE ROLE stranger");
    let shards = deployment.shards().into_iter().map(|shard| shard.database);
    for (number, database) in shards.chain([SINGLE.to_owned()]).enumerate() {
        cluster.execute(&database, SCHEMA);
        // A sequence that is on one shard.
        if number == 0 || database == SINGLE {
            cluster.execute(&database, SEQUENCE);
        }
    }
    deployment
}

/// A number from the environment.
fn given(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|s| s.parse().ok())
}

/// One connection, through the proxy or not, and what it was told beside answers.
struct Side {
    client: Client,
    heard: VecDeque<(i32, String)>,
}

impl Side {
    fn new(address: &Address) -> Side {
        Side { client: Client::connect(address), heard: VecDeque::new() }
    }

    /// The answer to a step, up to ReadyForQuery.
    fn answer(&mut self) -> Vec<String> {
        let mut out = Vec::new();
        loop {
            let Some(message) = self.client.try_receive() else {
                out.push("no answer in time".to_owned());
                return out;
            };
            let last = matches!(message, Message::ReadyForQuery { .. } | Message::Closed);
            out.extend(self.shown(message));
            if last {
                return out;
            }
        }
    }

    fn shown(&mut self, message: Message) -> Option<String> {
        Some(match message {
            Message::RowDescription(columns) => {
                let one = |c: &message::Column| format!("{}:{}:{}", c.name, c.type_oid, c.format);
                format!("RowDescription {}", columns.iter().map(one).collect::<Vec<_>>().join(" "))
            }
            Message::ErrorResponse(f) | Message::NoticeResponse(f) => {
                format!("{} {}: {}", f.get('S'), f.sqlstate(), f.message())
            }
            Message::NotificationResponse { process, channel, payload } => {
                self.heard.push_back((process, format!("{channel} {payload}")));
                return None;
            }
            Message::ParameterStatus { .. } => return None,
            other => format!("{other:?}"),
        })
    }

    /// Waits a little for notifications, until there are as many as wanted.
    fn listen(&mut self, wanted: usize, limit: Duration) {
        let start = Instant::now();
        self.client.set_limit(Duration::from_millis(2));
        while self.heard.len() < wanted && start.elapsed() < limit {
            if let Some(message) = self.client.try_receive() {
                let shown = self.shown(message);
                assert_eq!(shown, None, "said although nothing was asked");
            }
        }
        self.client.set_limit(Duration::from_secs(20));
    }
}

/// A client and its twin.
struct Pair {
    proxied: Side,
    twin: Side,
    in_block: bool,
    pinned: bool,
    /// The parameters that it gave at login.
    options: Vec<(&'static str, &'static str)>,
}

struct Run<'a> {
    deployment: &'a Deployment,
    /// Looks at PostgreSQL itself.
    observer: Client,
    random: Random,
    pairs: Vec<Option<Pair>>,
    /// Numbers of all processes there were: through the proxy and of the twin.
    processes: Vec<(i32, i32)>,
    told: Vec<String>,
    seed: u64,
}

const OPTIONS: &[&[(&str, &str)]] = &[
    &[],
    &[("application_name", "named"), ("datestyle", "SQL, MDY")],
    &[("options", "-c work_mem=1MB -c my.own=z"), ("timezone", "Asia/Tokyo")],
];

impl Run<'_> {
    fn pair(&self, who: usize) -> &Pair {
        self.pairs[who].as_ref().unwrap()
    }

    fn enter(&mut self, who: usize) {
        let options = OPTIONS[self.random.below(OPTIONS.len())].to_vec();
        let with = |mut address: Address| {
            for (name, value) in &options {
                address = address.parameter(name, value);
            }
            Side::new(&address)
        };
        let proxied = with(self.deployment.address());
        let twin = with(self.deployment.cluster(0).app(SINGLE));
        self.processes.push((proxied.client.process, twin.client.process));
        self.told.push(format!("{who}: enters {options:?}"));
        self.pairs[who] = Some(Pair { proxied, twin, in_block: false, pinned: false, options });
    }

    /// Without a word, or with Terminate; in the midst of whatever it does.
    fn leave(&mut self, who: usize) {
        let how = self.random.below(3);
        self.told.push(format!("{who}: leaves, {how}"));
        let Pair { mut proxied, twin, .. } = self.pairs[who].take().unwrap();
        match how {
            0 => drop(proxied),
            1 => proxied.client.abandon(),
            _ => {
                proxied.client.send(&message::query("SET work_mem TO '8MB'; SELECT pg_sleep(0.01)"));
                proxied.client.abandon();
            }
        }
        // Its locks go with its process.
        let process = twin.client.process;
        drop(twin);
        let look = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {process}");
        while self.observer.simple(&look).ok().value() != "0" {
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn send(&mut self, who: usize, step: &Step) {
        self.told.push(format!("{who}: {}", step.shown));
        self.pairs[who].as_mut().unwrap().proxied.client.send(&step.bytes);
    }

    /// Reads the answer to a step and compares it with the twin's.
    fn compare(&mut self, who: usize, step: &Step) {
        let pair = self.pairs[who].as_mut().unwrap();
        pair.twin.client.send(&step.bytes);
        let expected = pair.twin.answer();
        let actual = pair.proxied.answer();
        pair.in_block = !actual.last().is_some_and(|m| m.contains("'I'"));
        pair.pinned |= step.pins;
        if actual.iter().any(|m| m.contains("tag: \"DISCARD ALL\"")) {
            pair.pinned = false;
        }
        if actual != expected {
            self.fail(&format!(
                "{who}, {}, {:?}\n through {actual:#?}\n direct {expected:#?}",
                step.shown,
                self.pair(who).options
            ));
        }
    }

    fn fail(&self, what: &str) -> ! {
        let last: Vec<_> = self.told.iter().rev().take(60).rev().collect();
        panic!("SEED={} after {last:#?}\n{what}", self.seed);
    }

    fn step(&mut self, who: usize, step: &Step) {
        self.send(who, step);
        self.compare(who, step);
    }

    /// Everybody has heard what the twin has heard, in the same order and from the same client.
    fn compare_notifications(&mut self) {
        for who in 0..self.pairs.len() {
            let pair = self.pairs[who].as_mut().unwrap();
            pair.twin.listen(usize::MAX, Duration::from_millis(4));
            let wanted = pair.twin.heard.len();
            pair.proxied.listen(wanted, Duration::from_secs(2));
            let translated =
                |process: i32| self.processes.iter().find(|(_, twin)| *twin == process).map(|(own, _)| *own);
            let expected: Vec<_> = pair.twin.heard.drain(..).map(|(p, what)| (translated(p), what)).collect();
            let actual: Vec<_> = pair.proxied.heard.drain(..).map(|(p, what)| (Some(p), what)).collect();
            if actual != expected {
                self.fail(&format!("{who} has heard {actual:?} instead of {expected:?}"));
            }
        }
    }

    /// One client holds the connection for a while; another one's step may wait for it.
    fn spell(&mut self, who: usize) {
        let mut waiting: Option<(usize, Step)> = None;
        let mut leavers = Vec::new();
        let length = 1 + self.random.below(12);
        for _ in 0..length {
            let step = self.next_step(who);
            if waiting.is_some() && (step.pins || step.shown.contains("CHAIN") || step.shown.contains("; ")) {
                continue; // it might not let go of the connection, or not in time
            }
            self.step(who, &step);
            if self.random.below(3) == 0 {
                self.step(who, &look());
                self.step(who, &look_around());
            }
            let pair = self.pair(who);
            if !pair.in_block {
                self.answer_waiting(waiting.take(), &mut leavers);
            } else if !pair.pinned && waiting.is_none() && self.random.below(6) == 0 {
                // Now it certainly has the connection.
                self.step(who, &look());
                let other = (who + 1 + self.random.below(CLIENTS - 1)) % CLIENTS;
                if self.pairs[other].is_some() {
                    let step = self.next_step(other);
                    self.send(other, &step);
                    waiting = Some((other, step));
                }
            }
        }
        self.release(who, &mut leavers);
        self.answer_waiting(waiting, &mut leavers);
        // A login may need the connection itself.
        for who in leavers {
            self.enter(who);
        }
    }

    fn answer_waiting(&mut self, waiting: Option<(usize, Step)>, leavers: &mut Vec<usize>) {
        if let Some((other, step)) = waiting {
            self.compare(other, &step);
            self.step(other, &look());
            self.step(other, &look_around());
            self.release(other, leavers);
        }
    }

    fn next_step(&mut self, who: usize) -> Step {
        loop {
            let serial = self.told.len() * 10;
            let step = random_step(&mut self.random, who, serial);
            // These are refused outside of the transaction that has drawn a number.
            let refused = step.shown.contains("lastval") || step.shown.contains("currval");
            if !refused {
                return step;
            }
        }
    }

    /// Gives up what holds a server connection.
    fn release(&mut self, who: usize, leavers: &mut Vec<usize>) {
        let pair = self.pair(who);
        if (pair.in_block || pair.pinned) && self.random.below(3) == 0 {
            leavers.push(who);
            return self.leave(who);
        }
        if self.pair(who).in_block {
            let end = self.random.pick(&["COMMIT", "ROLLBACK"]);
            self.step(who, &Step::query(end));
        }
        if self.pair(who).pinned {
            self.step(who, &Step::query("DISCARD ALL"));
        }
    }
}

fn interleave(deployment: &Deployment, seed: u64) {
    let steps = given("STEPS").unwrap_or(150) as usize;
    let random = Random::new(seed);
    let observer = Client::connect(&deployment.cluster(0).superuser("postgres"));
    let mut run = Run {
        deployment,
        observer,
        random,
        pairs: (0..CLIENTS).map(|_| None).collect(),
        processes: Vec::new(),
        told: Vec::new(),
        seed,
    };
    (0..CLIENTS).for_each(|who| run.enter(who));
    while run.told.len() < steps {
        let who = run.random.below(CLIENTS);
        run.spell(who);
        run.compare_notifications();
        for who in 0..CLIENTS {
            if run.random.below(3) == 0 {
                run.step(who, &look());
            }
        }
    }
}

fn seeds(deployment: &Deployment) {
    match given("SEED") {
        Some(seed) => interleave(deployment, seed),
        None => (1..=given("SEEDS").unwrap_or(3)).for_each(|seed| interleave(deployment, seed)),
    }
}

#[test]
fn one_shard() {
    seeds(&deploy(1));
}

#[test]
fn two_shards() {
    seeds(&deploy(2));
}
