//! One connection through a link: frames upwards are looked at, answers downwards are counted by ReadyForQuery.

use super::Gate;
use super::Go;
use super::Rule;
use super::Shared;
use super::When;
use super::lock;
use super::sever;
use std::collections::HashMap;
use std::io;
use std::io::BufReader;
use std::io::Read;
use std::io::Write;
use std::net::TcpStream;
use std::sync::Mutex;
use std::thread;

const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;
const CANCEL_REQUEST: u32 = 80_877_102;

/// Answers that are owed, and the one that a stop waits for.
struct Owed {
    /// ReadyForQuery messages that the frontend's messages will bring, the first of them after the login.
    asked: u64,
    watch: Option<(u64, When, Gate)>,
}

/// The statements and portals of a connection, by name, so that an Execute has a text.
#[derive(Default)]
struct Names {
    statements: HashMap<Vec<u8>, String>,
    portals: HashMap<Vec<u8>, String>,
}

/// Carries everything until either side closes.
pub fn run(shard: usize, client: &TcpStream, server: &TcpStream, shared: &Shared) -> io::Result<()> {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let mut from_client = BufReader::new(client);
    let Some(user) = start(&mut from_client, client, server)? else { return Ok(()) };
    let owed = Mutex::new(Owed { asked: 1, watch: None });
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = down(shard, client, server, &owed);
            sever(client, server);
        });
        let _ = up(shard, &user, &mut from_client, server, &owed, shared);
        sever(client, server);
    });
    Ok(())
}

/// The packets before the protocol proper. The user who logs in; `None` when the connection was for something else.
fn start(from: &mut impl Read, mut client: &TcpStream, mut server: &TcpStream) -> io::Result<Option<String>> {
    loop {
        let mut head = [0u8; 8];
        from.read_exact(&mut head)?;
        let (length, code) = (word(&head[..4]), word(&head[4..]));
        if matches!(code, SSL_REQUEST | GSS_REQUEST) {
            client.write_all(b"N")?;
            continue;
        }
        let mut body = vec![0u8; (length as usize).saturating_sub(8)];
        from.read_exact(&mut body)?;
        server.write_all(&[&head[..], &body[..]].concat())?;
        if code == CANCEL_REQUEST {
            io::copy(&mut server, &mut client)?;
            return Ok(None);
        }
        let parts: Vec<&[u8]> = body.split(|b| *b == 0).collect();
        let user = parts.chunks(2).find(|pair| pair[0] == b"user").and_then(|pair| pair.get(1));
        return Ok(Some(user.map(|u| String::from_utf8_lossy(u).into_owned()).unwrap_or_default()));
    }
}

fn word(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |n, b| n << 8 | u32::from(*b))
}

/// The next whole frame, header included.
fn frame(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut frame = vec![0u8; 5];
    from.read_exact(&mut frame)?;
    let length = word(&frame[1..]) as usize;
    frame.resize(length + 1, 0);
    from.read_exact(&mut frame[5..])?;
    Ok(frame)
}

fn up(
    shard: usize,
    user: &str,
    from: &mut impl Read,
    mut server: &TcpStream,
    owed: &Mutex<Owed>,
    shared: &Shared,
) -> io::Result<()> {
    let mut names = Names::default();
    loop {
        let frame = frame(from)?;
        let rule = names.text(&frame).and_then(|text| noted(shared, shard, user, text));
        let ends = matches!(frame.first(), Some(b'Q' | b'S' | b'F'));
        let mut held = None;
        {
            let mut owed = lock(owed);
            let answer = owed.asked + 1;
            owed.asked += u64::from(ends);
            match rule {
                Some(rule) if rule.when == When::Before => held = Some(rule.gate),
                Some(rule) => owed.watch = Some((answer, rule.when, rule.gate)),
                None => {}
            }
        }
        if held.is_some_and(|gate| gate.hold(shard) == Go::Cut) {
            return Ok(());
        }
        server.write_all(&frame)?;
    }
}

/// Notes a statement, and takes the rule that means it.
fn noted(shared: &Shared, shard: usize, user: &str, text: &str) -> Option<Rule> {
    if let Some(record) = lock(&shared.record).as_mut() {
        record.push((shard, format!("{user}: {text}")));
    }
    let mut rules = lock(&shared.rules);
    let matches = |rule: &Rule| rule.user == user && (rule.pattern)(text);
    for rule in rules.iter_mut().filter(|rule| matches(rule)) {
        if rule.skip == 0 {
            let position = rules.iter().position(|rule| rule.skip == 0 && matches(rule))?;
            return Some(rules.remove(position));
        }
        rule.skip -= 1;
    }
    None
}

fn down(shard: usize, mut client: &TcpStream, server: &TcpStream, owed: &Mutex<Owed>) -> io::Result<()> {
    let mut from = BufReader::new(server);
    let mut done = 0;
    let mut kept = Vec::new();
    loop {
        let frame = frame(&mut from)?;
        let ready = frame.first() == Some(&b'Z');
        done += u64::from(ready);
        let keeps =
            |owed: &Owed| matches!(&owed.watch, Some((n, When::Unanswered, _)) if *n == done + u64::from(!ready));
        if keeps(&lock(owed)) {
            kept.extend_from_slice(&frame);
        } else {
            client.write_all(&frame)?;
        }
        if !ready {
            continue;
        }
        let watch = lock(owed).watch.take_if(|(answer, ..)| *answer == done);
        if watch.is_some_and(|(_, _, gate)| gate.hold(shard) == Go::Cut) {
            return Ok(());
        }
        client.write_all(&std::mem::take(&mut kept))?;
    }
}

impl Names {
    /// The text that a frame makes the server execute.
    fn text(&mut self, frame: &[u8]) -> Option<&str> {
        let body = frame.get(5..)?;
        let mut parts = body.split(|b| *b == 0);
        let first = parts.next()?.to_vec();
        let string = |part: Option<&[u8]>| part.map(|p| String::from_utf8_lossy(p).into_owned()).unwrap_or_default();
        match frame.first()? {
            b'Q' => {
                self.portals.insert(Vec::new(), string(Some(&first)));
                self.portals.get(&Vec::new()).map(String::as_str)
            }
            b'P' => {
                self.statements.insert(first, string(parts.next()));
                None
            }
            b'B' => {
                let text = self.statements.get(parts.next()?)?.clone();
                self.portals.insert(first, text);
                None
            }
            b'E' => self.portals.get(&first).map(String::as_str),
            _ => None,
        }
    }
}
