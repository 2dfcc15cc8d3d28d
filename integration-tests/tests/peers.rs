//! Cancel requests that reach another proxy than the session's: several proxies stand before the same shards.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::client;
use integration_tests::client::Address;
use integration_tests::client::Client;
use integration_tests::client::PROTOCOL_3_2;
use integration_tests::deployment::Deployment;
use integration_tests::direct;
use integration_tests::layout::Layout;
use integration_tests::message;
use integration_tests::postgres::APP;
use integration_tests::process;
use integration_tests::proxy::Proxy;
use std::net::TcpListener;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// A second proxy before a deployment's shards, which knows of the peers with these ports.
fn second(deployment: &Deployment, peers: &[u16]) -> Proxy {
    let shards = deployment.proxied();
    let layout = listing(deployment.layout.clone(), peers);
    Proxy::start(|port, http| layout.toml(&shards, port, http))
}

fn listing(layout: Layout, peers: &[u16]) -> Layout {
    let list: Vec<String> = peers.iter().map(|port| format!("\"127.0.0.1:{port}\"")).collect();
    layout.listen(&format!("peers = [{}]", list.join(", ")))
}

/// Sends a statement that takes seconds and gives its SQLSTATE after a cancel request at a port.
fn cancelled_at(client: &mut Client, port: u16) -> Option<String> {
    client.send(&message::query("SELECT pg_sleep(4)"));
    thread::sleep(Duration::from_millis(300));
    client::cancel(port, client.process, &client.secret);
    client.outcomes().pop().unwrap().sqlstate().map(str::to_owned)
}

#[test]
fn a_cancel_finds_its_session_on_another_proxy() {
    if direct() {
        return;
    }
    let deployment = Deployment::start(Layout::new(2));
    // One of them is away, one is the proxy itself.
    let away = process::free_port();
    let other = second(&deployment, &[deployment.address().port, away]);
    let alone = second(&deployment, &[]);
    let mut client = deployment.connect();
    assert_eq!(cancelled_at(&mut client, other.port).as_deref(), Some("57014"));
    let mut long = Client::open(deployment.address().port).unwrap();
    long.send(&message::startup(PROTOCOL_3_2, &[("user", APP), ("database", &deployment.layout.database)]));
    long.login(APP, APP).unwrap();
    assert_eq!(long.secret.len(), 32);
    assert_eq!(cancelled_at(&mut long, other.port).as_deref(), Some("57014"));
    assert_eq!(cancelled_at(&mut client, alone.port), None, "a proxy that knows of no other");
    // The session goes on, and nothing comes late.
    assert_eq!(client.simple("SELECT 1").ok().value(), "1");
}

#[test]
fn a_wrong_key_goes_one_step_and_cancels_nothing() {
    if direct() {
        return;
    }
    let deployment = Deployment::start(Layout::new(1));
    let shards = deployment.proxied();
    let mut proxies = [(); 2].map(|()| Proxy::prepare(|_, _| String::new()));
    let ports = proxies.each_ref().map(|proxy| proxy.port);
    // Each lists both: itself, and the one that lists it.
    for proxy in &mut proxies {
        let layout = listing(deployment.layout.clone(), &ports);
        proxy.write_config(&layout.toml(&shards, proxy.port, proxy.http_port));
        proxy.run().unwrap();
    }
    let address = Address::new(ports[0], APP, &deployment.layout.database);
    let mut client = Client::connect(&address);
    client.send(&message::query("SELECT pg_sleep(1)"));
    let begin = Instant::now();
    for round in 0..20u8 {
        let secret = client.secret.iter().map(|byte| byte ^ (round + 1)).collect::<Vec<_>>();
        client::cancel(ports[usize::from(round) % 2], client.process, &secret);
    }
    assert!(begin.elapsed() < Duration::from_secs(5), "they go round");
    assert_eq!(client.outcomes().pop().unwrap().ok().rows.len(), 1);
}

#[test]
fn a_flood_for_a_peer_that_does_not_answer_is_bounded() {
    if direct() {
        return;
    }
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut layout = listing(Layout::new(1), &[silent.local_addr().unwrap().port()]);
    layout = layout.listen("max_clients = 500");
    let deployment = Deployment::start(layout);
    let flood: Vec<Client> = (0..300)
        .map(|n: i32| {
            let mut connection = Client::open(deployment.address().port).unwrap();
            let packet = [16, 80_877_102, n, 7].map(i32::to_be_bytes).concat();
            connection.send(&packet);
            connection
        })
        .collect();
    // Those that are too many are dropped at once; the others end with the time for it.
    let begin = Instant::now();
    assert_eq!(deployment.connect().simple("SELECT 1").ok().value(), "1");
    for mut connection in flood {
        assert_eq!(connection.receive_byte(), None);
    }
    assert!(begin.elapsed() < Duration::from_secs(9), "{:?}", begin.elapsed());
    assert!(deployment.proxy().log().contains("too many cancel requests for other proxies"));
}
