//! Statements on one PostgreSQL and through the proxy over 1–4 shards, compared: columns, types, rows, tag, SQLSTATE.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../proxy/tests/plan/by_tenant.rs"]
mod by_tenant;

use by_tenant::BY_TENANT;
use integration_tests::client::Client;
use integration_tests::corpus;
use integration_tests::corpus::Differential;
use integration_tests::corpus::Report;
use integration_tests::deployment::Deployment;
use integration_tests::deployment::SINGLE;
use integration_tests::layout::Layout;
use integration_tests::proxy::root;
use integration_tests::shop;
use std::fs;

fn differential(deployment: &Deployment) -> Differential {
    let cluster = deployment.cluster(0);
    Differential {
        single: Client::connect(&cluster.app(SINGLE)),
        mirror: Client::connect(&cluster.app(shop::MIRRORED)),
        proxy: deployment.connect(),
    }
}

fn shop_over(shards: usize) {
    let deployment = shop::deploy(shop::layout(shards));
    let mut differential = differential(&deployment);
    let mut report = Report::default();
    for case in corpus::read_directory(&root().join("integration-tests/slt"), "sql") {
        differential.check(&case, &mut report);
    }
    report.finish(300);
}

#[test]
fn shop_over_one_shard() {
    shop_over(1);
}

#[test]
fn shop_over_two_shards() {
    shop_over(2);
}

#[test]
fn shop_over_three_shards() {
    shop_over(3);
}

#[test]
fn shop_over_four_shards() {
    shop_over(4);
}

/// The layout of the planner's cases, which proxy/tests/plan.rs has as a catalog, over any number of shards.
fn plan_layout(shards: usize) -> Layout {
    let layout = Layout::new(shards);
    let shards = layout.shards;
    // The second and third shard, or the last one where there are fewer.
    let (second, third) = (1.min(shards - 1), 2.min(shards - 1));
    let months = format!(
        "function = \"range\"\nranges = [{{ to = \"2024-01-01\", shard = \"s0\" }}, \
         {{ from = \"2024-01-01\", to = \"2024-07-01\", shard = \"s{second}\" }}, \
         {{ from = \"2024-07-01\", shard = \"s{third}\" }}]"
    );
    let zones = format!(
        "function = \"list\"\nlists = [{{ values = [\"a\", \"b\"], shard = \"s0\" }}, \
         {{ values = [\"c\"], shard = \"s{second}\" }}]"
    );
    let layout = BY_TENANT.iter().fold(layout.hash_map("tenants", &["bigint"]), |layout, table| {
        layout.sharded(&format!("public.{table}"), &["tenant_id"])
    });
    layout
        .hash_map("logins", &["text"])
        .sharded("public.accounts", &["login"])
        .hash_map("devices", &["uuid"])
        .sharded("public.devices", &["id"])
        .hash_map("readings", &["text", "bigint"])
        .sharded("public.readings", &["region", "device"])
        .map("months", &["date"], &months)
        .placed(&format!("CASE WHEN day < '2024-01-01' THEN 0 WHEN day < '2024-07-01' THEN {second} ELSE {third} END"))
        .sharded("public.events", &["day"])
        .map("zones", &["text"], &zones)
        .placed(&format!("CASE WHEN zone IN ('a', 'b') THEN 0 WHEN zone = 'c' THEN {second} ELSE -1 END"))
        .sharded("public.parcels", &["zone"])
        .reference("public.countries")
        .reference("public.plans")
        .single("public.settings", 0)
        .single("public.counters", 0)
        .single("public.far", 2)
}

/// Cases that rightly differ, by file and SQL, each with its reason.
const DIFFERENT: [(&str, &str); 7] = [
    // An opaque function runs where the key beside it says, and sees the rows of that shard: the statement chooses it.
    ("function.plan", "SELECT order_count() FROM orders WHERE tenant_id = 3 AND id = 1"),
    // The session's last nextval: on one PostgreSQL that of a case before it, which the proxy refuses.
    ("function.plan", "SELECT lastval()"),
    // Databases of one cluster, as here, do not agree on the identifiers of users' types.
    ("group.plan", "SELECT m, count(*) FROM moods GROUP BY m"),
    ("order_limit.plan", "SELECT tenant_id FROM moods ORDER BY m"),
    ("select.plan", "SELECT tenants FROM tenants WHERE tenant_id = 4"),
    // A key without a place has none on one PostgreSQL either, if its table is partitioned likewise; here it is not.
    ("insert.plan", "INSERT INTO parcels (zone, id) VALUES ('nowhere', 700)"),
    ("split.plan", "INSERT INTO parcels (zone, id) VALUES ('a', 700), ('nowhere', 700)"),
];

fn plan_cases_over(shards: usize) {
    let folder = root().join("proxy/tests/plan");
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    // Zones without a place cannot be on any shard.
    let (schema, data) = (read("schema.sql"), read("data.sql") + "DELETE FROM parcels WHERE zone = 'd';\n");
    let deployment = shop::deploy_with(plan_layout(shards), &schema, &data, "DROP SEQUENCE numbers");
    let mut differential = differential(&deployment);
    let mut report = Report::default();
    for mut case in corpus::read_directory(&folder, "plan") {
        // What the plan over several shards refuses, may be refused.
        case.refused =
            case.expected.as_ref().is_some_and(|plan| plan.contains("error 0A000")) && !integration_tests::direct();
        case.skip |= DIFFERENT.iter().any(|(file, sql)| case.place.starts_with(file) && case.sql == *sql);
        differential.give_values(&mut case);
        differential.check(&case, &mut report);
    }
    report.finish(1000);
}

#[test]
fn plan_cases_over_one_shard() {
    plan_cases_over(1);
}

#[test]
fn plan_cases_over_two_shards() {
    plan_cases_over(2);
}

#[test]
fn plan_cases_over_three_shards() {
    plan_cases_over(3);
}

#[test]
fn plan_cases_over_four_shards() {
    plan_cases_over(4);
}
