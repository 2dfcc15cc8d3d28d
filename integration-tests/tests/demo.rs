//! The demo's shards: the same rows over any number of them, each where its bucket is placed; and the whole demo.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::client::Address;
use integration_tests::client::Client;
use integration_tests::direct;
use integration_tests::process;
use integration_tests::proxy;
use shardway::demo::Demo;
use shardway::demo::DemoOptions;
use shardway::demo::start;
use std::io::BufRead;
use std::io::BufReader;
use std::process::Command;
use std::process::Stdio;
use std::time::Duration;

const COUNTS: &str = "SELECT (SELECT count(*) FROM tenants), (SELECT count(*) FROM users), (SELECT count(*) FROM orders), \
                      (SELECT count(*) FROM order_items)";

fn shard_ports(demo: &Demo) -> Vec<u16> {
    let urls = demo.config_text.lines().filter_map(|l| l.strip_prefix("primary = \"postgresql://app:app@127.0.0.1:"));
    urls.map(|rest| rest.split('/').next().unwrap().parse().unwrap()).collect()
}

fn totals(ports: &[u16]) -> Vec<i64> {
    let mut totals = vec![0; 4];
    for port in ports {
        let outcome = Client::connect(&Address::new(*port, "app", "shop")).simple(COUNTS).ok();
        for (total, value) in totals.iter_mut().zip(&outcome.text()[0]) {
            let value: i64 = value.as_ref().unwrap().parse().unwrap();
            assert!(value > 0, "a shard without rows");
            *total += value;
        }
    }
    totals
}

fn options(shards: usize, dir: Option<std::path::PathBuf>) -> DemoOptions {
    DemoOptions { shards, port: process::free_port(), http_port: process::free_port(), dir }
}

#[tokio::test]
async fn the_rows_do_not_depend_on_the_number_of_shards() {
    let mut banners = Vec::new();
    for shards in [1, 3] {
        let demo = start(options(shards, None)).await.unwrap();
        let ports = shard_ports(&demo);
        assert_eq!(ports.len(), shards);
        assert_eq!(totals(&ports), [250, 5000, 30_000, 67_500]);
        let banner = demo.banner();
        banners.push(banner[banner.find("Worth trying").unwrap()..].to_string());
        demo.stop().await;
        assert!(ports.iter().all(|p| std::net::TcpStream::connect(("127.0.0.1", *p)).is_err()), "a shard still runs");
    }
    assert_eq!(banners[0], banners[1]);
}

#[tokio::test]
async fn a_kept_directory_keeps_its_rows() {
    let directory = process::temporary_directory("shardway-kept-", None);
    let kept = Some(directory.join("demo"));
    let demo = start(options(2, kept.clone())).await.unwrap();
    for port in shard_ports(&demo) {
        Client::connect(&Address::new(port, "app", "shop")).execute("CREATE TABLE mine ()");
    }
    demo.stop().await;
    let other = start(options(3, kept.clone())).await.err().expect("another number of shards is refused");
    assert!(other.contains("--shards 2"), "{other}");
    let demo = start(options(2, kept)).await.unwrap();
    for port in shard_ports(&demo) {
        Client::connect(&Address::new(port, "app", "shop")).execute("SELECT FROM mine");
    }
    assert_eq!(totals(&shard_ports(&demo))[0], 250);
    demo.stop().await;
    std::fs::remove_dir_all(directory).unwrap();
}

/// The program: it says how to connect, answers there, and ends with everything that it started.
#[test]
fn the_program_serves_and_stops() {
    if direct() {
        return;
    }
    let port = process::free_port();
    let mut command = Command::new(proxy::binary());
    command.args(["demo", "--shards", "2", "--port", &port.to_string()]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines.by_ref().map_while(Result::ok).find(|l| l.contains("Ctrl-C stops everything"));
    assert!(ready.is_some(), "the demo does not say that it is ready");
    let mut client = Client::connect(&Address::new(port, "app", "shop"));
    assert_eq!(client.simple("SELECT count(*) FROM orders").ok().value(), "30000");
    let running = client.simple("SELECT inet_server_port()").ok().value();
    process::signal(child.id(), "INT");
    let status = process::wait(&mut child, Duration::from_secs(30)).expect("it ends");
    assert!(status.success(), "{status}");
    assert!(std::net::TcpStream::connect(format!("127.0.0.1:{running}")).is_err(), "a shard still runs");
}

/// Ctrl-C while the shards are still being made: nothing stays.
#[test]
fn an_interrupted_start_leaves_nothing() {
    if direct() {
        return;
    }
    let directory = process::temporary_directory("shardway-interrupted-", None);
    // PostgreSQL's own account must be able to enter it.
    std::fs::set_permissions(&directory, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    for milliseconds in [100, 700, 1500] {
        let mut command = Command::new(proxy::binary());
        let port = process::free_port().to_string();
        command.args(["demo", "--shards", "2", "--port", &port]).env("TMPDIR", &directory);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(milliseconds));
        process::signal(child.id(), "INT");
        assert!(process::wait(&mut child, Duration::from_secs(30)).is_some(), "it does not end");
        // What a killed initdb has started ends by itself.
        let end = std::time::Instant::now() + Duration::from_secs(5);
        let names = ["-f", directory.to_str().unwrap()];
        while Command::new("pgrep").args(names).output().unwrap().status.success() {
            assert!(std::time::Instant::now() < end, "a process still runs after {milliseconds} ms");
            std::thread::sleep(Duration::from_millis(50));
        }
        let left: Vec<_> = std::fs::read_dir(&directory).unwrap().flatten().map(|e| e.path()).collect();
        assert!(left.is_empty(), "left behind after {milliseconds} ms: {left:?}");
    }
    std::fs::remove_dir_all(directory).unwrap();
}
