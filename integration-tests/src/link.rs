//! The wire between the proxy and its shards, with places to stop at: a forwarder per shard in the test process, which
//! knows the frames of the protocol and holds the message that a test waits for, until the test has done its deed.

mod relay;

use crate::process;
use std::collections::HashMap;
use std::net::Shutdown;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// No message is held longer, whatever the test does.
const HOLD_LIMIT: Duration = Duration::from_secs(60);

/// Where in the life of a message the wire stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The shard has not seen it.
    Before,
    /// The shard has done it; the proxy has not seen the answer.
    Unanswered,
    /// The proxy has the whole answer.
    Answered,
}

pub const WHENS: [When; 3] = [When::Before, When::Unanswered, When::Answered];

/// What becomes of the wire after a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Go {
    /// As if nothing had been.
    On,
    /// Both sides find the connection closed; what was held is lost.
    Cut,
}

/// Which messages a rule means, by the statement's text.
pub type Pattern = Box<dyn Fn(&str) -> bool + Send>;

struct Rule {
    pattern: Pattern,
    /// How many messages that match go by first.
    skip: usize,
    when: When,
    user: String,
    gate: Gate,
}

/// The link's end of a stop.
struct Gate {
    reached: mpsc::Sender<usize>,
    go: mpsc::Receiver<Go>,
}

impl Gate {
    /// Tells the test and waits for it.
    fn hold(self, shard: usize) -> Go {
        let _ = self.reached.send(shard);
        self.go.recv_timeout(HOLD_LIMIT).unwrap_or(Go::On)
    }
}

/// The test's end of a stop. Dropping it lets the message go on.
pub struct Stop {
    reached: mpsc::Receiver<usize>,
    go: mpsc::Sender<Go>,
}

impl Stop {
    /// The shard whose wire holds the message; `None` when none came in time.
    pub fn reached(&self, limit: Duration) -> Option<usize> {
        self.reached.recv_timeout(limit).ok()
    }

    pub fn release(self, go: Go) {
        let _ = self.go.send(go);
    }
}

/// What all wires of one deployment share.
#[derive(Default)]
struct Shared {
    rules: Mutex<Vec<Rule>>,
    /// Texts of the statements seen since `record`, with their shard.
    record: Mutex<Option<Vec<(usize, String)>>>,
    ended: AtomicBool,
    next: AtomicU64,
}

/// One forwarder.
struct Link {
    port: u16,
    wires: Arc<Mutex<HashMap<u64, [TcpStream; 2]>>>,
    closed: Arc<AtomicBool>,
}

/// A forwarder for each shard, in the shards' order.
pub struct Links {
    shared: Arc<Shared>,
    links: Vec<Link>,
}

impl Links {
    /// Starts forwarders to PostgreSQL on these loopback ports.
    pub fn start(targets: &[u16]) -> Links {
        let shared = Arc::new(Shared::default());
        let links = targets.iter().enumerate().map(|(shard, target)| Link::start(shard, *target, &shared)).collect();
        Links { shared, links }
    }

    /// Where the proxy finds a shard.
    pub fn port(&self, shard: usize) -> u16 {
        self.links[shard].port
    }

    /// Stops once at the message that matches after `skip` others did, on whichever shard, if it comes from this user.
    pub fn stop_at(&self, user: &str, when: When, skip: usize, pattern: Pattern) -> Stop {
        let (reached, told) = mpsc::channel();
        let (go, waits) = mpsc::channel();
        let gate = Gate { reached, go: waits };
        lock(&self.shared.rules).push(Rule { pattern, skip, when, user: user.into(), gate });
        Stop { reached: told, go }
    }

    /// Forgets the stops that were not reached.
    pub fn forget(&self) {
        lock(&self.shared.rules).clear();
    }

    /// Closes a shard's connections, and refuses new ones until `open`.
    pub fn close(&self, shard: usize) {
        self.links[shard].closed.store(true, Ordering::SeqCst);
        self.cut(shard);
    }

    pub fn open(&self, shard: usize) {
        self.links[shard].closed.store(false, Ordering::SeqCst);
    }

    /// Closes a shard's connections.
    pub fn cut(&self, shard: usize) {
        for [client, server] in lock(&self.links[shard].wires).values() {
            sever(client, server);
        }
    }

    /// Notes every statement from now on.
    pub fn record(&self) {
        *lock(&self.shared.record) = Some(Vec::new());
    }

    /// What was noted: the shard and the statement.
    pub fn recorded(&self) -> Vec<(usize, String)> {
        lock(&self.shared.record).take().unwrap_or_default()
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.forget();
        for (shard, link) in self.links.iter().enumerate() {
            self.cut(shard);
            let _ = TcpStream::connect(("127.0.0.1", link.port)); // wakes the thread that accepts
        }
    }
}

impl Link {
    fn start(shard: usize, target: u16, shared: &Arc<Shared>) -> Link {
        let port = process::free_port();
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a free port");
        let link = Link { port, wires: Arc::default(), closed: Arc::default() };
        let (wires, closed, shared) = (Arc::clone(&link.wires), Arc::clone(&link.closed), Arc::clone(shared));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if shared.ended.load(Ordering::SeqCst) {
                    return;
                }
                if closed.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", target)) else { continue };
                let (wires, shared) = (Arc::clone(&wires), Arc::clone(&shared));
                thread::spawn(move || carry(shard, client, server, &wires, &shared));
            }
        });
        link
    }
}

/// One connection, from its first byte to its last.
fn carry(
    shard: usize,
    client: TcpStream,
    server: TcpStream,
    wires: &Mutex<HashMap<u64, [TcpStream; 2]>>,
    shared: &Arc<Shared>,
) {
    let number = shared.next.fetch_add(1, Ordering::SeqCst);
    let (Ok(c), Ok(s)) = (client.try_clone(), server.try_clone()) else { return };
    lock(wires).insert(number, [c, s]);
    let _ = relay::run(shard, &client, &server, shared);
    sever(&client, &server);
    lock(wires).remove(&number);
}

fn sever(client: &TcpStream, server: &TcpStream) {
    let _ = client.shutdown(Shutdown::Both);
    let _ = server.shutdown(Shutdown::Both);
}

/// A test that failed while it held the lock must not hide its reason.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
