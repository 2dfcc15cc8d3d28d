//! What operators read over HTTP: /metrics as Prometheus wants it, /healthz, /readyz.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::deployment::Deployment;
use integration_tests::direct;
use integration_tests::shop;
use integration_tests::tools::get;
use integration_tests::tools::said;
use std::collections::HashMap;
use std::io::Write;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// The samples of an exposition: name with labels → value. Panics on a line that is none.
fn samples(text: &str) -> HashMap<String, f64> {
    let lines = text.lines().filter(|l| !l.is_empty() && !l.starts_with('#'));
    lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no sample: {line}"));
            (name.to_string(), value.parse().unwrap_or_else(|_| panic!("no number: {line}")))
        })
        .collect()
}

/// The sum of all samples whose name, before its labels, is given.
fn sum(samples: &HashMap<String, f64>, name: &str) -> f64 {
    let of_name = |key: &str| key == name || key.strip_prefix(name).is_some_and(|rest| rest.starts_with('{'));
    samples.iter().filter(|(key, _)| of_name(key)).map(|(_, value)| value).sum()
}

fn used_shop() -> Deployment {
    let deployment = shop::deploy(shop::layout(2));
    let mut client = deployment.connect();
    for tenant in 1..=24 {
        client.execute(&format!("SELECT * FROM orders WHERE tenant_id = {tenant}"));
    }
    client.execute("SELECT count(*) FROM orders");
    client.simple("SELECT * FROM nowhere");
    client.simple("SELECT 1/0 FROM orders WHERE tenant_id = 1");
    client.extended("SELECT name FROM tenants WHERE tenant_id = $1", &[Some("3")], true).ok();
    deployment
}

#[test]
fn metrics_are_what_prometheus_wants() {
    if direct() {
        return;
    }
    let deployment = used_shop();
    let (status, text) = get(deployment.proxy().http_port, "/metrics");
    assert_eq!(status, 200);
    let samples = samples(&text);
    assert!(samples.len() > 20, "{text}");
    // Everything that is measured is described, and is ours.
    for name in samples.keys() {
        let bare = name.split('{').next().unwrap();
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|s| bare.strip_suffix(s)).unwrap_or(bare);
        assert!(text.contains(&format!("# HELP {base} ")) || text.contains(&format!("# HELP {bare} ")), "{name}");
        assert!(bare.starts_with("shardway_") || bare.starts_with("process_"), "{name}");
    }
    assert!(!text.contains("tenant_id") && !text.contains("nowhere"), "text of statements in labels");
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool (scripts/setup installs it)");
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn metrics_count_what_happens() {
    if direct() {
        return;
    }
    let deployment = used_shop();
    let port = deployment.proxy().http_port;
    let read = || samples(&get(port, "/metrics").1);
    let before = read();
    let statements = |s: &HashMap<String, f64>| sum(s, "shardway_statements_total");
    let mut client = deployment.connect();
    for _ in 0..10 {
        client.execute("SELECT count(*) FROM orders");
    }
    let end = Instant::now() + Duration::from_secs(5);
    while statements(&read()) < statements(&before) + 10.0 {
        assert!(Instant::now() < end, "statements are not counted: {:?}", read());
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn health_and_readiness() {
    if direct() {
        return;
    }
    let mut deployment = shop::deploy(shop::layout(2).own_clusters());
    let port = deployment.proxy().http_port;
    assert_eq!(get(port, "/healthz").0, 200);
    assert_eq!(get(port, "/readyz").0, 200);
    assert_eq!(get(port, "/nothing").0, 404);
    // A shard that is away does not make the proxy unhealthy: a restart would help nobody.
    deployment.clusters[1].stop("INT");
    assert_eq!(get(port, "/healthz").0, 200);
    deployment.clusters[1].start();
    // While it drains it is not ready: balancers send new clients elsewhere.
    let mut busy = deployment.connect();
    busy.execute("BEGIN");
    busy.execute("SELECT * FROM tenants WHERE tenant_id = 1");
    deployment.proxy().signal("TERM");
    thread::sleep(Duration::from_millis(300));
    assert_eq!(get(port, "/readyz").0, 503);
    busy.execute("COMMIT");
}
