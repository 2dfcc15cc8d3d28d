//! pgbench's own TPC-B over three shards: initialised by pgbench itself, branches by bid, tellers by tid, accounts and
//! history by aid, so that most transactions write on several shards. The balances of all tables agree afterwards.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::client::Client;
use integration_tests::deployment::Deployment;
use integration_tests::direct;
use integration_tests::layout::Layout;
use integration_tests::postgres::Cluster;
use integration_tests::tools;
use integration_tests::tools::libpq_program;
use integration_tests::tools::psql_says;
use integration_tests::tools::said;

const SCALE: usize = 2;
const CLIENTS: usize = 6;
const TRANSACTIONS: usize = 40;

fn layout() -> Layout {
    Layout::new(3)
        .hash_map("branches", &["integer"])
        .sharded("public.pgbench_branches", &["bid"])
        .sharded("public.pgbench_tellers", &["tid"])
        .sharded("public.pgbench_accounts", &["aid"])
        .sharded("public.pgbench_history", &["aid"])
}

fn pgbench(deployment: &Deployment, arguments: &[&str]) -> String {
    let mut command = libpq_program("pgbench", &deployment.address());
    command.args(arguments);
    let output = tools::output_within(&mut command, tools::PROGRAM_LIMIT).expect("pgbench");
    assert!(output.status.success(), "pgbench {arguments:?}: {}", said(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn initialise(deployment: &Deployment, steps: &str) {
    pgbench(deployment, &["-i", "-q", "-I", steps, "-s", &SCALE.to_string()]);
    let mut client = deployment.connect();
    for (table, rows) in [("branches", SCALE), ("tellers", SCALE * 10), ("accounts", SCALE * 100_000), ("history", 0)] {
        let count = client.simple(&format!("SELECT count(*) FROM pgbench_{table}")).ok().value();
        assert_eq!(count, rows.to_string(), "{table} after {steps}");
    }
}

/// One value of each shard, added up.
fn on_shards(deployment: &Deployment, sql: &str) -> i64 {
    let one = |shard| Client::connect(shard).simple(sql).ok().value().parse::<i64>().unwrap();
    deployment.shards().iter().map(one).sum()
}

fn balances(deployment: &Deployment) -> [i64; 4] {
    [
        "abalance) FROM pgbench_accounts",
        "tbalance) FROM pgbench_tellers",
        "bbalance) FROM pgbench_branches",
        "delta) FROM pgbench_history",
    ]
    .map(|sum| {
        let direct = on_shards(deployment, &format!("SELECT coalesce(sum({sum}").replacen(')', "), 0)", 1));
        let through = deployment.connect().simple(&format!("SELECT sum({sum}")).ok().value();
        assert_eq!(through.replace("NULL", "0"), direct.to_string(), "{sum}");
        direct
    })
}

#[test]
fn tpc_b_is_consistent() {
    let deployment = Deployment::on(layout(), Cluster::builder());
    initialise(&deployment, "dtgvp");
    let mut done = 0;
    for mode in ["simple", "extended", "prepared"] {
        let (clients, transactions) = (CLIENTS.to_string(), TRANSACTIONS.to_string());
        let text = pgbench(&deployment, &["-n", "-M", mode, "-c", &clients, "-j", "2", "-t", &transactions]);
        let all = CLIENTS * TRANSACTIONS;
        assert!(text.contains(&format!("actually processed: {all}/{all}")), "{text}");
        assert!(text.contains("failed transactions: 0 "), "{text}");
        done += all;
        let [accounts, tellers, branches, history] = balances(&deployment);
        assert!(
            accounts == tellers && tellers == branches && branches == history,
            "{mode}: {:?}",
            balances(&deployment)
        );
        assert_eq!(on_shards(&deployment, "SELECT count(*) FROM pgbench_history"), done as i64, "{mode}");
    }
    if !direct() {
        // More than one shard has rows of every table that has enough of them.
        for table in ["accounts", "tellers", "history"] {
            for shard in deployment.shards() {
                let count = psql_says(&shard, &format!("SELECT count(*) > 0 AS there FROM pgbench_{table}"));
                assert!(count.contains(" t"), "{table} on {}: {count}", shard.database);
            }
        }
    }
    // With the vacuum and the truncation that pgbench does before a run, and once more from the beginning.
    pgbench(&deployment, &["-c", "2", "-t", "5"]);
    initialise(&deployment, "dtgvp");
    assert_eq!(balances(&deployment), [0; 4]);
}

/// Rows that the server makes, in the steps that pgbench has for it.
#[test]
fn rows_are_made_by_the_server() {
    let deployment = Deployment::on(layout(), Cluster::builder());
    initialise(&deployment, "dtGvp");
    assert_eq!(balances(&deployment), [0; 4]);
}
