//! Deadlocks over several shards: no shard sees the whole cycle, so the shards' waits are put together.
//!
//! Only sessions that hold connections to several shards can close such a cycle. While there are at least two of them, the
//! shards are asked once a second who has been waiting for a lock for about as long (as `deadlock_timeout` is by default).
//! A cycle that is seen twice is one: the session in it that came last is cancelled, and told 40P01. Sessions of other
//! proxies are seen only as server processes, so that a cycle which needs one of theirs to be told apart stays.

use crate::exec::database::Database;
use crate::limits;
use crate::pool::CancelSlot;
use std::collections::HashMap;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

/// Who waits on a shard, and for whom: `pid:pid,pid;…`.
const WAITS: &str = "SELECT COALESCE(pg_catalog.string_agg(l.pid || ':' || \
    pg_catalog.array_to_string(pg_catalog.pg_blocking_pids(l.pid), ','), ';'), '') \
    FROM (SELECT DISTINCT pid FROM pg_catalog.pg_locks WHERE NOT granted \
          AND waitstart < pg_catalog.clock_timestamp() - '900 ms'::interval) AS l";

/// Between the two looks that must agree.
const SECOND_LOOK: Duration = Duration::from_millis(100);

/// The sessions that have connections to several shards, in the order in which they came to have them.
#[derive(Debug, Default)]
pub struct Deadlocks {
    watched: Mutex<Watched>,
}

#[derive(Debug, Default)]
struct Watched {
    slots: Vec<CancelSlot>,
    /// Somebody looks from time to time.
    is_running: bool,
}

/// A server process: shard and process number.
type Process = (usize, i32);

/// Waiting process → those it waits for.
type Waits = HashMap<Process, Vec<Process>>;

/// One that waits in a cycle, and all that it waits through.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Node {
    /// A session by its place in the list.
    Session(usize),
    Other(Process),
}

impl Deadlocks {
    /// A session has come to hold connections to several shards.
    pub fn watch(&self, database: &Arc<Database>, slot: &CancelSlot) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if watched.slots.iter().any(|known| known.is(slot)) {
            return;
        }
        watched.slots.push(slot.clone());
        if !watched.is_running {
            watched.is_running = true;
            tokio::spawn(look_on(Arc::clone(database)));
        }
    }

    /// Those that still hold several; with none left the looking ends.
    fn rest(&self) -> Option<Vec<CancelSlot>> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.slots.retain(|slot| slot.processes().len() > 1);
        watched.is_running = !watched.slots.is_empty();
        watched.is_running.then(|| watched.slots.clone())
    }
}

async fn look_on(database: Arc<Database>) {
    loop {
        tokio::time::sleep(limits::DEADLOCK_PAUSE).await;
        let Some(slots) = database.deadlocks.rest() else { return };
        if slots.len() < 2 {
            continue;
        }
        let Some(cycle) = look(&database, &slots).await else { continue };
        tokio::time::sleep(SECOND_LOOK).await;
        if look(&database, &slots).await.as_ref() != Some(&cycle) {
            continue;
        }
        let mut last = cycle.iter().filter_map(|node| match node {
            Node::Session(place) => slots.get(*place),
            Node::Other(_) => None,
        });
        if let Some(slot) = last.next_back() {
            tracing::info!(sessions = cycle.len(), "deadlock over several shards");
            slot.end_deadlock().await;
        }
    }
}

/// A cycle through several shards, its sessions in the order of their places.
async fn look(database: &Database, slots: &[CancelSlot]) -> Option<Vec<Node>> {
    let mut waits = Waits::new();
    for (shard, answer) in database.control().read_all(WAITS).await.into_iter().enumerate() {
        // A shard that does not answer cannot show its waits.
        waits.extend(parse(shard, &answer.unwrap_or_default()));
    }
    if waits.len() < 2 {
        return None;
    }
    let shard_of = |name: &str| database.config.shards.iter().position(|shard| shard.name == name);
    let mut owners = HashMap::new();
    for (place, slot) in slots.iter().enumerate() {
        for (shard, process) in slot.processes() {
            if let Some(shard) = shard_of(&shard) {
                owners.insert((shard, process), place);
            }
        }
    }
    cycle(&waits, &owners)
}

fn parse(shard: usize, text: &str) -> Waits {
    let mut waits = Waits::new();
    for part in text.split(';') {
        let Some((waiting, blocking)) = part.split_once(':') else { continue };
        let Ok(waiting) = waiting.parse::<i32>() else { continue };
        // 0 stands for a prepared transaction, which waits for nobody.
        let blocking = blocking.split(',').filter_map(|pid| pid.parse().ok()).filter(|pid| *pid != 0);
        waits.insert((shard, waiting), blocking.map(|pid| (shard, pid)).collect());
    }
    waits
}

fn cycle(waits: &Waits, owners: &HashMap<Process, usize>) -> Option<Vec<Node>> {
    let node = |process: &Process| owners.get(process).map_or(Node::Other(*process), |place| Node::Session(*place));
    let mut edges: HashMap<Node, HashSet<Node>> = HashMap::new();
    for (waiting, blocking) in waits {
        edges.entry(node(waiting)).or_default().extend(blocking.iter().map(node));
    }
    let mut starts: Vec<&Node> = edges.keys().filter(|node| matches!(node, Node::Session(_))).collect();
    starts.sort();
    starts.into_iter().find_map(|start| way_back(start, &edges)).map(|mut nodes| {
        nodes.sort_by_key(|node| match node {
            Node::Session(place) => (1, *place),
            Node::Other(_) => (0, 0),
        });
        nodes
    })
}

/// The nodes of a way from here to here.
fn way_back(start: &Node, edges: &HashMap<Node, HashSet<Node>>) -> Option<Vec<Node>> {
    let mut from: HashMap<&Node, &Node> = HashMap::new();
    let mut open = vec![start];
    while let Some(node) = open.pop() {
        let mut next: Vec<&Node> = edges.get(node).into_iter().flatten().collect();
        next.sort();
        for next in next {
            if next == start {
                let mut way = vec![node.clone()];
                let mut at = node;
                while at != start {
                    at = from.get(at)?;
                    way.push(at.clone());
                }
                return Some(way);
            }
            if !from.contains_key(next) {
                from.insert(next, node);
                open.push(next);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(list: &[(Process, usize)]) -> HashMap<Process, usize> {
        list.iter().copied().collect()
    }

    #[test]
    fn a_cycle_through_two_shards() {
        let mut waits = parse(0, "10:20");
        waits.extend(parse(1, "21:11"));
        let owners = owned(&[((0, 10), 0), ((1, 11), 0), ((0, 20), 1), ((1, 21), 1)]);
        assert_eq!(cycle(&waits, &owners), Some(vec![Node::Session(0), Node::Session(1)]));
    }

    #[test]
    fn a_cycle_through_one_that_is_on_one_shard() {
        let mut waits = parse(0, "10:30;30:20");
        waits.extend(parse(1, "21:11"));
        let owners = owned(&[((0, 10), 0), ((1, 11), 0), ((0, 20), 1), ((1, 21), 1)]);
        let nodes = vec![Node::Other((0, 30)), Node::Session(0), Node::Session(1)];
        assert_eq!(cycle(&waits, &owners), Some(nodes));
    }

    #[test]
    fn waiting_in_a_row_is_no_cycle() {
        let mut waits = parse(0, "10:20;40:10,0");
        waits.extend(parse(1, ""));
        let owners = owned(&[((0, 10), 0), ((1, 11), 0), ((0, 20), 1), ((1, 21), 1)]);
        assert_eq!(cycle(&waits, &owners), None);
    }
}
