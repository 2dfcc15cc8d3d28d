//! Peers that mean harm or talk nonsense: clients before and after login, and servers. The proxy goes on, and so do all
//! others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::client::Address;
use integration_tests::client::Client;
use integration_tests::client::PROTOCOL_3_0;
use integration_tests::deployment::Deployment;
use integration_tests::direct;
use integration_tests::layout::Layout;
use integration_tests::message;
use integration_tests::message::Message;
use integration_tests::proxy::Proxy;
use std::io::ErrorKind;
use std::io::Read;
use std::io::Write;
use std::net::Shutdown;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;
use std::time::Instant;

fn layout() -> Layout {
    let user = "name = \"secret\"\npassword = \"a password\"\nserver_user = \"app\"\nserver_password = \"app\"";
    Layout::new(2).hash_map("keys", &["bigint"]).sharded("public.things", &["id"]).user(user)
}

fn deploy(layout: Layout) -> Option<Deployment> {
    if direct() {
        return None;
    }
    let deployment = Deployment::start(layout);
    deployment.connect().execute("CREATE TABLE things (id bigint PRIMARY KEY, value text)");
    Some(deployment)
}

/// Another client is served, and soon.
fn others_go_on(address: &Address) {
    let begun = Instant::now();
    assert_eq!(Client::connect(address).simple("SELECT 1").ok().value(), "1");
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

fn nested() -> Vec<String> {
    let mut statements = Vec::new();
    for depth in [1_000, 10_000, 100_000] {
        statements.push(format!("SELECT {}", "(".repeat(depth)));
        statements.push(format!("SELECT {}1{}", "(".repeat(depth), ")".repeat(depth)));
        statements.push(format!("SELECT {} true", "NOT ".repeat(depth)));
        statements.push(format!("SELECT {}1", "- ".repeat(depth)));
    }
    let depth = 50_000;
    statements.push(format!("SELECT {}1{}", "CASE WHEN true THEN ".repeat(depth), " END".repeat(depth)));
    statements.push(format!("SELECT ARRAY{}1{}", "[".repeat(depth), "]".repeat(depth)));
    statements.push(format!("SELECT {}1{}", "abs(".repeat(depth), ")".repeat(depth)));
    statements.push(format!("SELECT * FROM {}things{}", "(SELECT * FROM ".repeat(depth), ") t".repeat(depth)));
    statements.push(format!("SELECT * FROM things WHERE {} id = 1", "id = 1 AND (".repeat(depth)));
    statements.push(format!("SELECT 1{}", " + 1".repeat(depth)));
    statements.push(format!("SELECT * FROM {}", "(SELECT (".repeat(80)));
    statements.push(";".repeat(100_000));
    statements.push(format!("SELECT{}1", " ".repeat(1 << 20)));
    statements.push(format!("SELECT {}", "/*".repeat(depth)));
    statements
}

/// PostgreSQL says 54001 for what is too deep, 42601 for what does not end; whatever is within its depth it answers.
#[test]
fn nothing_is_too_deep() {
    let Some(deployment) = deploy(layout()) else { return };
    let address = deployment.address();
    let mut client = deployment.connect();
    for statement in nested() {
        let copied = format!("COPY ({statement}) TO STDOUT");
        for bytes in [
            message::query(&statement),
            message::query(&copied),
            [message::parse("", &statement, &[]), message::sync()].concat(),
        ] {
            let begun = Instant::now();
            client.send(&bytes);
            let answer = client.until(&["ReadyForQuery"]);
            let head: String = statement.chars().take(40).collect();
            assert_ne!(answer.last(), Some(&Message::Closed), "{head}");
            for message in &answer {
                if let Message::ErrorResponse(fields) = message {
                    assert!(["54001", "42601", "0A000"].contains(&fields.sqlstate()), "{head}: {fields:?}");
                }
            }
            assert!(begun.elapsed() < Duration::from_secs(5), "{head}: {:?}", begun.elapsed());
        }
        others_go_on(&address);
    }
    assert_eq!(client.simple("SELECT 2").ok().value(), "2");
}

fn sasl(mechanism: &[u8], length: i32, rest: &[u8]) -> Vec<u8> {
    message::frame(b'p', &[mechanism, &length.to_be_bytes(), rest].concat())
}

/// What must not be taken for the first message of an exchange.
fn first_messages() -> Vec<Vec<u8>> {
    let mechanism = b"SCRAM-SHA-256\0".as_slice();
    let length = |text: &[u8]| i32::try_from(text.len()).unwrap();
    let mut messages = vec![
        sasl(mechanism, -1, b""),
        sasl(mechanism, 0, b""),
        sasl(mechanism, 1000, b"n,,n=,r=abc"),
        sasl(mechanism, i32::MAX, b"n,,n=,r=abc"),
        sasl(mechanism, i32::MIN, b"n,,n=,r=abc"),
        sasl(mechanism, 3, b"n,,n=,r=abc"),
        sasl(b"SCRAM-SHA-256", 11, b"n,,n=,r=abc"),
        sasl(b"PLAIN\0", 11, b"n,,n=,r=abc"),
        sasl(b"\0", 11, b"n,,n=,r=abc"),
        message::frame(b'p', b""),
        message::frame(b'p', b"\0"),
        message::frame(b'Q', b"SELECT 1\0"),
        message::frame(b'X', b""),
        vec![b'p', 0, 0, 0, 0],
        vec![b'p', 0, 0, 0, 3],
        vec![b'p', 255, 255, 255, 255],
        vec![b'p', 127, 255, 255, 255],
    ];
    let texts: [&[u8]; 9] = [
        b"n,,n=",
        b"n,,r=abc,n=",
        b"n,,n=,r=",
        b"y,,n=\xff\xfe,r=abc",
        b"p=tls-server-end-point,,n=,r=abc",
        b"n,a=other,n=,r=abc",
        b"n,,m=x,n=,r=abc",
        b",,,,,,,",
        b"n,,n=,r=a\0bc",
    ];
    messages.extend(texts.iter().map(|text| sasl(mechanism, length(text), text)));
    let long = [b"n,,n=,r=".as_slice(), &vec![b'a'; 60_000]].concat();
    messages.push(sasl(mechanism, length(&long), &long));
    messages
}

fn greeted(port: u16) -> Client {
    let mut client = Client::open(port).unwrap();
    client.send(&message::startup(PROTOCOL_3_0, &[("user", "secret"), ("database", "shop")]));
    assert_eq!(client.receive().name(), "AuthenticationSASL");
    client
}

/// The exchange ends with an error and a closed connection, or is still waited for.
fn turned_away(client: &mut Client, what: &[u8]) {
    loop {
        match client.try_receive() {
            Some(Message::ErrorResponse(fields)) => {
                let code = fields.sqlstate();
                assert!(["08P01", "28000", "28P01", "0A000"].contains(&code), "{what:?}: {fields:?}");
            }
            Some(Message::Closed) | None => return,
            Some(Message::Authentication { method: 11, .. }) => return,
            Some(other) => panic!("{what:?}: {other:?}"),
        }
    }
}

#[test]
fn logins_that_are_none() {
    let Some(deployment) = deploy(layout().listen("login_timeout = \"3s\"")) else { return };
    let address = deployment.address();
    for first in first_messages() {
        let mut client = greeted(address.port);
        client.send(&first);
        turned_away(&mut client, &first[..first.len().min(80)]);
    }
    others_go_on(&address);
    // A right beginning, and an end that is not.
    for last in [
        "",
        "c=biws,r=other,p=AAAA",
        "c=biws,r={},p=",
        "c=biws,r={},p=!!!!",
        "c=biws,r={},p=AAAA",
        "p=AAAA",
        "c=eSws,r={}",
    ] {
        let mut client = greeted(address.port);
        client.send(&sasl(b"SCRAM-SHA-256\0", 11, b"n,,n=,r=abc"));
        let Message::Authentication { method: 11, rest } = client.receive() else { panic!("no answer to a beginning") };
        let challenge = String::from_utf8(rest).unwrap();
        let nonce = challenge.split(',').next().unwrap().trim_start_matches("r=");
        client.send(&message::frame(b'p', last.replace("{}", nonce).as_bytes()));
        let answer = client.until(&["Closed"]);
        assert!(
            matches!(&answer[0], Message::ErrorResponse(f) if ["08P01", "28P01"].contains(&f.sqlstate())),
            "{last}: {answer:?}"
        );
    }
    // Random changes to a valid beginning.
    let valid = sasl(b"SCRAM-SHA-256\0", 11, b"n,,n=,r=abc");
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    for _ in 0..300 {
        let mut bytes = valid.clone();
        for _ in 0..=random(3) {
            let at = random(bytes.len());
            bytes[at] = u8::try_from(random(256)).unwrap();
        }
        let mut client = greeted(address.port);
        client.set_limit(Duration::from_millis(20));
        client.send(&bytes);
        turned_away(&mut client, &bytes);
    }
    others_go_on(&address);
}

/// Sockets on which nobody logs in hold up nobody, and are closed in time.
#[test]
fn a_crowd_that_never_logs_in() {
    let Some(deployment) = deploy(layout().listen("login_timeout = \"2s\"\nmax_clients = 1000")) else { return };
    let address = deployment.address();
    let mut crowd: Vec<TcpStream> = Vec::new();
    for number in 0..600 {
        let mut stream = TcpStream::connect(("127.0.0.1", address.port)).unwrap();
        let bytes: &[u8] = match number % 3 {
            0 => b"",
            1 => b"\0",
            _ => &[0, 0, 0, 8, 4, 210, 22, 47],
        };
        stream.write_all(bytes).unwrap();
        crowd.push(stream);
    }
    others_go_on(&address);
    thread::sleep(Duration::from_secs(3));
    for stream in &mut crowd {
        stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let mut rest = Vec::new();
        let read = stream.read_to_end(&mut rest);
        // A socket with unread bytes of ours is reset.
        assert!(read.is_ok() || read.is_err_and(|e| e.kind() == ErrorKind::ConnectionReset));
    }
    others_go_on(&address);
}

/// A client that prepares and never closes is told where it ends; nothing of it stays behind.
#[test]
fn statements_that_are_never_closed() {
    let Some(deployment) = deploy(layout()) else { return };
    let mut client = deployment.connect();
    let filler = "x".repeat(300);
    let mut told = None;
    for batch in 0..120 {
        let mut bytes = Vec::new();
        for number in batch * 200..(batch + 1) * 200 {
            let text = format!("SELECT '{filler}', {number} FROM things WHERE id = {number}");
            bytes.extend(message::parse(&format!("s{number}"), &text, &[]));
        }
        bytes.extend(message::sync());
        client.send(&bytes);
        let answer = client.until(&["ReadyForQuery"]);
        told = answer.iter().find_map(|message| match message {
            Message::ErrorResponse(fields) => Some(fields.sqlstate().to_owned()),
            _ => None,
        });
        if told.is_some() {
            break;
        }
    }
    assert_eq!(told.as_deref(), Some("54000"));
    let resident = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", deployment.proxy().pid())).unwrap();
        let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap().to_owned();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
    };
    assert!(resident() < 400, "{} MiB", resident());
    client.execute("DISCARD ALL");
    assert_eq!(client.simple("SELECT 1").ok().value(), "1");
    others_go_on(&deployment.address());
}

/// What a server may say instead of an answer.
fn nonsense() -> Vec<(&'static str, Vec<u8>)> {
    let frame = message::frame;
    let ready = frame(b'Z', b"I");
    let with_ready = |bytes: Vec<u8>| [bytes, ready.clone()].concat();
    let columns = [b"\0\x03".as_slice(), &b"a\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0".repeat(3)].concat();
    vec![
        ("an error without a code", with_ready(frame(b'E', b"SERROR\0Mbad\0\0"))),
        ("an error without a text", with_ready(frame(b'E', b"SERROR\0C22012\0\0"))),
        ("an error without fields", with_ready(frame(b'E', b"\0"))),
        ("an empty error", with_ready(frame(b'E', b""))),
        ("an error with unknown fields", with_ready(frame(b'E', b"SERROR\0C22012\0Mbad\0\x01odd\0zodd\0\0"))),
        ("an error that does not end", with_ready(frame(b'E', b"SERROR\0C22012\0Mbad"))),
        ("a notice without fields", with_ready([frame(b'N', b"\0"), frame(b'C', b"SELECT 0\0")].concat())),
        ("an empty notice", with_ready([frame(b'N', b""), frame(b'C', b"SELECT 0\0")].concat())),
        ("a row that is cut", with_ready([frame(b'T', &columns), frame(b'D', b"\0\x03\0\0\0\x08ab")].concat())),
        ("a row of other columns", with_ready([frame(b'T', &columns), frame(b'D', b"\0\x01\0\0\0\x01a")].concat())),
        ("a tag without text", with_ready(frame(b'C', b""))),
        ("a description that is cut", with_ready(frame(b'T', b"\0\x03a\0"))),
        ("a demand to log in", with_ready(frame(b'R', b"\0\0\0\x03"))),
        ("an unknown status", frame(b'Z', b"X")),
        ("a status without one", frame(b'Z', b"")),
        ("an unknown message", with_ready(frame(b'?', b"abc"))),
        ("a length beyond all", vec![b'D', 0x40, 0, 0, 0]),
        ("a negative length", vec![b'D', 0xff, 0xff, 0xff, 0xff]),
        ("a length that is none", vec![b'D', 0, 0, 0, 3]),
        ("the end", Vec::new()),
    ]
}

/// Stands before a shard; answers statements that hold `evil N` with the N-th nonsense; with none it closes.
struct Liar {
    port: u16,
    answers: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Liar {
    fn before(server: u16) -> Liar {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let answers: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
        let known = Arc::clone(&answers);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                let known = Arc::clone(&known);
                thread::spawn(move || carry(client, server, &known));
            }
        });
        Liar { port, answers }
    }
}

fn carry(mut client: TcpStream, mut server: TcpStream, answers: &Mutex<Vec<Vec<u8>>>) {
    let (mut from_server, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
    let back = thread::spawn(move || {
        let mut chunk = [0; 16 * 1024];
        while let Ok(count @ 1..) = from_server.read(&mut chunk) {
            if to_client.write_all(&chunk[..count]).is_err() {
                break;
            }
        }
        let _ = to_client.shutdown(Shutdown::Both);
    });
    let mut chunk = [0; 16 * 1024];
    while let Ok(count @ 1..) = client.read(&mut chunk) {
        let text = String::from_utf8_lossy(&chunk[..count]).into_owned();
        if let Some((_, rest)) = text.split_once("evil ") {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            let answer = answers.lock().unwrap()[digits.parse::<usize>().unwrap()].clone();
            if answer.is_empty() || client.write_all(&answer).is_err() {
                break;
            }
            // What the proxy takes for an answer it may go on from: the server has seen nothing of it.
            continue;
        }
        if server.write_all(&chunk[..count]).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
    let _ = client.shutdown(Shutdown::Both);
    let _ = back.join();
}

#[test]
fn servers_that_talk_nonsense() {
    if direct() {
        return;
    }
    let mut deployment = Deployment::clusters(layout(), integration_tests::postgres::Cluster::builder());
    let mut shards = deployment.proxied();
    let mut liars = Vec::new();
    for shard in &mut shards {
        let liar = Liar::before(shard.port);
        shard.port = liar.port;
        liars.push(liar);
    }
    let (_, answers): (Vec<&str>, Vec<Vec<u8>>) = nonsense().into_iter().unzip();
    for liar in &liars {
        liar.answers.lock().unwrap().clone_from(&answers);
    }
    deployment.proxy = Some(Proxy::start(|port, http| deployment.layout.toml(&shards, port, http)));
    let address = deployment.address();
    let mut witness = deployment.connect();
    witness.execute("CREATE TABLE things (id bigint PRIMARY KEY, value text)");
    for (number, (what, _)) in nonsense().iter().enumerate() {
        for statement in
            ["SELECT id AS a FROM things WHERE id = 1", "SELECT id AS a FROM things ORDER BY id", "DELETE FROM things"]
        {
            // A row that one shard gives goes to the client as it came: only merges look into rows.
            if what.starts_with("a row") && !statement.contains("ORDER") {
                continue;
            }
            let text = format!("{statement} /* evil {number} */");
            for bytes in [
                message::query(&text),
                [
                    message::parse("", &text, &[]),
                    message::bind("", "", &[], &[], &[]),
                    message::execute("", 0),
                    message::sync(),
                ]
                .concat(),
            ] {
                let begun = Instant::now();
                let mut client = Client::connect(&address);
                client.send(&bytes);
                let answer = client.until(&["ReadyForQuery", "Closed"]);
                // Told, one way or the other; never a hang (the limit of the client), never the next one's answer.
                assert!(!answer.is_empty(), "{what}");
                if answer.last() != Some(&Message::Closed) {
                    assert_eq!(client.simple("SELECT 'next'").ok().value(), "next", "{what}: {statement}");
                }
                assert_eq!(witness.simple("SELECT 'witness'").ok().value(), "witness", "{what}: {statement}");
                assert!(begun.elapsed() < Duration::from_secs(20), "{what}: {statement}: {:?}", begun.elapsed());
            }
        }
    }
    assert_eq!(witness.simple("SELECT count(*) FROM things").ok().value(), "0");
}
