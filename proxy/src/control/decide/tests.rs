//! Configurations and what shards say → what must be proven.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use super::Decision;
use super::Problem;
use super::ShardFacts;
use super::Task;
use super::decide;
use super::refusal;
use crate::config::Database;
use crate::config::load;
use crate::config::placement::entries;
use crate::config::placement::placement_hash;
use crate::control::record::Record;
use crate::control::verify::TableFacts;
use std::io;

const MAP: &str = "[[database.d.shard_map]]\nname = \"m\"\nkey = [\"bigint\"]\nfunction = \"hash\"\nbuckets = 4\n";
const TABLES: &str = "[[database.d.table]]\nname = \"t\"\nshard_map = \"m\"\nkey = [\"k\"]\n\
    [[database.d.table]]\nname = \"r\"\nreference = true\n[[database.d.table]]\nname = \"s\"\nshard = \"s1\"\n";

fn database(shards: &[&str], rest: &str) -> Database {
    let mut text = "[listen]\naddress = \"127.0.0.1:1\"\n[[user]]\nname = \"u\"\nauth = \"trust\"\n".to_owned();
    for shard in shards {
        let line = format!("[[database.d.shard]]\nname = \"{shard}\"\nprimary = \"postgresql://u@{shard}/d\"\n");
        text.push_str(&line);
    }
    let read = |_: &std::path::Path| Err(io::ErrorKind::NotFound.into());
    let config = load(&format!("{text}{rest}"), "f", &|_| None, &read).unwrap_or_else(|told| panic!("{told:?}"));
    config.databases.into_iter().next().unwrap()
}

fn table(name: &str, columns: &[(&str, &str)], filled: bool) -> TableFacts {
    let columns = columns.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect();
    TableFacts { schema: "public".to_owned(), name: name.to_owned(), filled, child: false, columns }
}

fn tables(filled: bool) -> Vec<TableFacts> {
    let one = |name| table(name, &[("k", "integer")], filled);
    vec![one("t"), one("r"), one("s"), one("u")]
}

fn facts(recorded: Option<(&Database, usize)>, tables: Vec<TableFacts>) -> Option<ShardFacts> {
    let record = recorded.map(|(database, shard)| Record {
        installation: "i".to_owned(),
        shard: database.shards[shard].name.clone(),
        hash: placement_hash(database),
        entries: entries(database),
    });
    Some(ShardFacts { record, tables })
}

fn decided(database: &Database, facts: &[Option<ShardFacts>]) -> Decision {
    decide(database, &entries(database), &placement_hash(database), facts)
}

/// Tasks in short.
fn tasks(database: &Database, facts: &[Option<ShardFacts>]) -> Vec<String> {
    let Decision::Verify { tasks, .. } = decided(database, facts) else { panic!("{:?}", decided(database, facts)) };
    let short = |task: &Task| match task {
        Task::InPlace { table, shard, .. } => format!("{} in place on {shard}", table.name),
        Task::Empty { table, shard, .. } => format!("{} empty on {shard}", table.name),
        Task::Equal { table, shards } => format!("{} equal on {shards:?}", table.name),
        Task::Problem(problem) => format!("{} {}", problem.table, problem.what),
    };
    tasks.iter().map(short).collect()
}

fn refused(decision: Decision) -> String {
    match decision {
        Decision::Refused(error) => error.into_message().into_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_first_start_proves_every_table_that_may_hold_rows() {
    let two = database(&["s0", "s1"], &format!("{MAP}{TABLES}"));
    assert_eq!(tasks(&two, &[facts(None, tables(false)), facts(None, tables(false))]), Vec::<String>::new());
    let all = tasks(&two, &[facts(None, tables(true)), facts(None, tables(true))]);
    assert_eq!(all, ["r equal on [0, 1]", "s empty on 0", "t in place on 0", "t in place on 1"]);
    // a shard that is away does not stop a first start
    assert_eq!(tasks(&two, &[facts(None, tables(true)), None]), ["r equal on [0]", "s empty on 0", "t in place on 0"]);
    // partitions go with their parents, unless they are listed themselves
    let children = |name: &str| vec![TableFacts { child: true, ..table(name, &[("k", "bigint")], true) }];
    assert_eq!(tasks(&two, &[facts(None, children("u")), facts(None, children("t"))]), ["t in place on 1"]);
    // a key that cannot be
    let odd = vec![table("t", &[("k", "numeric")], true)];
    let told = tasks(&two, &[facts(None, odd), facts(None, Vec::new())]);
    assert_eq!(told, ["\"public\".\"t\" has the key column k of type numeric, but its shard map is of bigint"]);
    let odd = vec![table("t", &[("x", "bigint")], true)];
    let told = tasks(&two, &[facts(None, odd), facts(None, Vec::new())]);
    assert_eq!(told, ["\"public\".\"t\" has no column k, which is its shard key"]);
    let rule = "[[database.d.column_rule]]\ncolumn = \"k\"\nshard_map = \"m\"\n";
    let ruled = database(&["s0", "s1"], &format!("{MAP}{rule}"));
    assert_eq!(tasks(&ruled, &[facts(None, tables(true)), facts(None, Vec::new())]).len(), 4);
}

#[test]
fn what_is_on_record_is_not_proven_again() {
    let two = database(&["s0", "s1"], &format!("{MAP}{TABLES}"));
    let on = |shard| facts(Some((&two, shard)), tables(true));
    assert!(matches!(decided(&two, &[on(0), on(1)]), Decision::OnRecord { away } if away.is_empty()));
    assert!(matches!(decided(&two, &[on(0), None]), Decision::OnRecord { away } if away == [1]));
    assert!(matches!(decided(&two, &[None, None]), Decision::Undecided { .. }));
    // another placement: the tables that it concerns, and no others
    let pinned = MAP.replace("buckets = 4\n", "buckets = 4\npins = [{ key = 1, shard = \"s0\" }]\n");
    let other = database(&["s0", "s1"], &format!("{pinned}{TABLES}"));
    assert_eq!(tasks(&other, &[on(0), on(1)]), ["t in place on 0", "t in place on 1"]);
    assert!(matches!(decided(&other, &[on(0), None]), Decision::Undecided { away, .. } if away == [1]));
    // a write that was interrupted
    assert_eq!(tasks(&other, &[facts(Some((&other, 0)), tables(true)), on(1)]), ["t in place on 1"]);
    // not listed any more
    let less = database(&["s0", "s1"], &format!("{MAP}{}", TABLES.replace("\"r\"", "\"x\"")));
    assert_eq!(
        tasks(&less, &[on(0), on(1)]),
        ["\"public\".\"r\" is not listed any more, but may hold rows on several shards"]
    );
}

#[test]
fn shards_that_come_and_go() {
    let two = database(&["s0", "s1"], &format!("{MAP}{TABLES}"));
    let on = |shard| facts(Some((&two, shard)), tables(true));
    let kept = "placement = [{ buckets = \"0-1\", shard = \"s0\" }, { buckets = \"2-3\", shard = \"s1\" }]\n";
    let three = database(&["s0", "s1", "s2"], &format!("{MAP}{kept}{TABLES}"));
    let new = tasks(&three, &[on(0), on(1), facts(None, tables(true))]);
    assert_eq!(new, ["r equal on [0, 1, 2]", "s empty on 2", "t in place on 2"]);
    let new = tasks(&three, &[on(0), on(1), facts(None, Vec::new())]);
    assert_eq!(new, ["\"public\".\"r\" is a reference table and is not there on shard \"s2\""]);
    let one = database(&["s0"], MAP);
    assert!(refused(decided(&one, &[on(0)])).contains("it leaves out the shards s1"));
    assert!(matches!(decided(&one, &[facts(Some((&two, 0)), tables(false))]), Decision::Verify { .. }));
    assert_eq!(tasks(&one, &[facts(None, tables(true))]), Vec::<String>::new());
    let swapped = database(&["s1", "s0"], &format!("{MAP}{TABLES}"));
    assert!(refused(decided(&swapped, &[on(0), on(1)])).contains("calls a shard \"s1\" that is \"s0\" on record"));
    let mut stranger = on(1);
    stranger.iter_mut().for_each(|fact| fact.record.as_mut().unwrap().installation = "j".to_owned());
    assert!(refused(decided(&two, &[on(0), stranger])).contains("two installations"));
}

#[test]
fn a_refusal_says_what_changed_and_what_to_do() {
    let two = database(&["s0", "s1"], &format!("{MAP}{TABLES}"));
    let three = database(&["s0", "s1", "s2"], &format!("{MAP}{TABLES}"));
    let on = |shard| facts(Some((&two, shard)), tables(true));
    let shards = [on(0), on(1), facts(None, Vec::new())];
    let problem = Problem::new(&tables(true)[0], "has a row".to_owned());
    let error = refusal(&three, &shards, &entries(&three), &[problem]);
    let expected = "the configuration of database \"d\" would make rows of these tables unfindable: \"public\".\"t\"";
    assert_eq!(error.message, expected);
    let detail = "\"public\".\"t\" has a row. \"public\".\"t\" is on record as sharded (\"k\") (integer) hash 4: 0-1 s0, \
        2-3 s1, and now is sharded (\"k\") (integer) hash 4: 0-1 s0, 2-2 s1, 3-3 s2.";
    assert_eq!(error.detail.as_deref().unwrap(), detail);
    let hint = "To keep every bucket where it is, write into the shard map: buckets = 4 and placement = [ { buckets = \
        \"0-1\", shard = \"s0\" }, { buckets = \"2-3\", shard = \"s1\" } ]";
    assert_eq!(error.hint.as_deref().unwrap(), hint);
}
