//! Protocol scripts: what a client sends, byte for byte if need be, and what the server answers.
//!
//! A script is a list of blocks; a block is a command line, lines of input, `----`, and the expected answer up to a
//! blank line. `conn=NAME` after a command chooses a connection other than the one that is logged in at the start.
//!
//! ```text
//! send                                 messages, one a line, with their fields as JSON
//! Query {"query": "SELECT 1"}
//! ----
//!
//! until                                reads until each named message has come, in turn
//! ReadyForQuery
//! ----
//! RowDescription ?column?:23:0
//! DataRow 1
//! CommandComplete SELECT 1
//! ReadyForQuery I
//! ```
//!
//! `ignore=NAME,…` leaves messages out of the answer. Further commands: `open` connects without a word, `connect` logs in (startup parameters one a line, `name=value`),
//! `byte` reads a single byte, `closed` waits for the end of the stream, `cancel` cancels what the connection runs.

use crate::client::Address;
use crate::client::Client;
use crate::message;
use crate::message::Fields;
use crate::message::Message;
use crate::message::readable;
use serde_json::Value;
use std::collections::HashMap;
use std::fmt::Write;

#[derive(Debug)]
struct Block {
    /// Comment and blank lines before the command.
    before: String,
    command: String,
    input: Vec<String>,
    expected: String,
    line: usize,
}

/// Runs a script; returns the script with the answers as they came, and the first block that differs, in words.
pub fn run(text: &str, address: &Address) -> (String, Option<String>) {
    let mut connections = HashMap::from([(String::new(), Client::connect(address))]);
    let mut written = String::new();
    let mut difference = None;
    for block in blocks(text) {
        let answer = step(&block, address, &mut connections);
        if answer != block.expected && difference.is_none() {
            difference = Some(format!("line {}: expected\n{}\nbut got\n{answer}", block.line, block.expected));
        }
        let input: String = block.input.iter().map(|l| format!("{l}\n")).collect();
        let _ = writeln!(written, "{}{}\n{input}----\n{answer}", block.before, block.command);
    }
    (written, difference)
}

fn blocks(text: &str) -> Vec<Block> {
    let mut out = Vec::new();
    let mut lines = text.lines().enumerate().peekable();
    let mut before = String::new();
    while let Some((number, line)) = lines.next() {
        if line.trim().is_empty() || line.starts_with('#') {
            if !(line.is_empty() && before.is_empty() && !out.is_empty()) {
                let _ = writeln!(before, "{line}");
            }
            continue;
        }
        let input: Vec<String> = lines.by_ref().take_while(|(_, l)| *l != "----").map(|(_, l)| l.to_string()).collect();
        let mut expected = String::new();
        for (_, l) in lines.by_ref().take_while(|(_, l)| !l.is_empty()) {
            let _ = writeln!(expected, "{l}");
        }
        let before = std::mem::take(&mut before);
        out.push(Block { before, command: line.to_string(), input, expected, line: number + 1 });
    }
    out
}

fn step(block: &Block, address: &Address, connections: &mut HashMap<String, Client>) -> String {
    let mut words = block.command.split_whitespace();
    let command = words.next().unwrap_or_default();
    let options: HashMap<&str, &str> = words.filter_map(|w| w.split_once('=')).collect();
    let name = options.get("conn").copied().unwrap_or_default().to_string();
    match command {
        "open" => {
            connections.insert(name, Client::open(address.port).unwrap());
            return String::new();
        }
        "connect" => {
            let parameters = block.input.iter().filter_map(|l| l.split_once('='));
            let address = parameters.fold(address.clone(), |a, (n, v)| a.parameter(n, v));
            return match Client::try_connect(&address) {
                Ok(client) => {
                    connections.insert(name, client);
                    String::new()
                }
                Err(fields) => format!("ErrorResponse {}\n", error(&fields)),
            };
        }
        _ => {}
    }
    let place = || format!("line {}", block.line);
    let client = connections.get_mut(&name).unwrap_or_else(|| panic!("{}: no connection {name:?}", place()));
    match command {
        "send" => {
            let bytes: Vec<u8> = block.input.iter().flat_map(|l| encode(l, address)).collect();
            client.send(&bytes);
            String::new()
        }
        "until" | "closed" => {
            let ignored: Vec<&str> = options.get("ignore").map(|v| v.split(',').collect()).unwrap_or_default();
            let (read, all) = match command {
                "closed" => until(client, &["Closed"]),
                _ => until(client, &block.input.iter().map(String::as_str).collect::<Vec<_>>()),
            };
            let shown = read.iter().filter(|m| !ignored.contains(&m.name()));
            let nothing = if all { "" } else { "(nothing more)\n" };
            shown.map(|m| format!("{}\n", show(m))).chain([nothing.to_owned()]).collect()
        }
        "byte" => client.receive_byte().map_or("closed\n".into(), |b| format!("{}\n", char::from(b))),
        "cancel" => {
            client.cancel();
            String::new()
        }
        other => panic!("{}: no command {other:?}", place()),
    }
}

/// Reads until each of the named messages has come, in turn; false when the server falls silent before.
fn until(client: &mut Client, names: &[&str]) -> (Vec<Message>, bool) {
    let mut read = Vec::new();
    for name in names {
        loop {
            let Some(message) = client.try_receive() else { return (read, false) };
            let last = message == Message::Closed || message.name() == *name;
            read.push(message);
            if last {
                break;
            }
        }
    }
    (read, true)
}

/// A line of a `send` block as bytes.
fn encode(line: &str, address: &Address) -> Vec<u8> {
    let (name, json) = line.split_once(' ').unwrap_or((line, "{}"));
    let value: Value = serde_json::from_str(json).unwrap_or_else(|e| panic!("{line}: {e}"));
    let text = |key: &str| value[key].as_str().unwrap_or_default().to_string();
    let numbers =
        |key: &str| -> Vec<i64> { value[key].as_array().into_iter().flatten().filter_map(Value::as_i64).collect() };
    let variant = text("variant").bytes().next().unwrap_or(b'S');
    match name {
        "Query" => message::query(&text("query")),
        "Parse" => {
            let types: Vec<u32> = numbers("types").into_iter().map(|n| n as u32).collect();
            message::parse(&text("name"), &text("query"), &types)
        }
        "Bind" => {
            let formats = |key: &str| numbers(key).into_iter().map(|n| n as i16).collect::<Vec<i16>>();
            let values: Vec<Option<Vec<u8>>> =
                value["values"].as_array().into_iter().flatten().map(|v| v.as_str().map(unescape)).collect();
            let (parameters, results) = (formats("formats"), formats("result_formats"));
            message::bind(&text("portal"), &text("statement"), &parameters, &values, &results)
        }
        "Describe" => message::describe(variant, &text("name")),
        "Execute" => message::execute(&text("portal"), value["max_rows"].as_i64().unwrap_or(0) as i32),
        "Close" => message::close(variant, &text("name")),
        "Sync" => message::sync(),
        "Flush" => message::flush(),
        "Terminate" => message::terminate(),
        "CopyData" => message::frame(b'd', &unescape(&text("data"))),
        "CopyDone" => message::frame(b'c', b""),
        "CopyFail" => message::frame(b'f', &message::cstring(&text("message"))),
        "FunctionCall" => {
            let arguments: Vec<Vec<u8>> =
                value["arguments"].as_array().into_iter().flatten().filter_map(Value::as_str).map(unescape).collect();
            message::function_call(value["function"].as_u64().unwrap_or(0) as u32, &arguments)
        }
        "SSLRequest" => [8i32.to_be_bytes(), 80_877_103i32.to_be_bytes()].concat(),
        "GSSENCRequest" => [8i32.to_be_bytes(), 80_877_104i32.to_be_bytes()].concat(),
        "Startup" => {
            let version = (value["major"].as_i64().unwrap_or(3) << 16) + value["minor"].as_i64().unwrap_or(0);
            let mut parameters = vec![("user", address.user.as_str()), ("database", address.database.as_str())];
            let more = value["parameters"].as_object();
            parameters.extend(more.into_iter().flatten().map(|(k, v)| (k.as_str(), v.as_str().unwrap_or_default())));
            // In this order, the same name twice if need be.
            let pairs = value["pairs"].as_array().into_iter().flatten();
            parameters.extend(pairs.map(|p| (p[0].as_str().unwrap_or_default(), p[1].as_str().unwrap_or_default())));
            message::startup(version as i32, &parameters)
        }
        "Bytes" => unescape(&text("bytes")).repeat(value["times"].as_u64().unwrap_or(1) as usize),
        other => panic!("no message {other:?}"),
    }
}

/// Text as it stands, or bytes in hexadecimal after `\x`.
fn unescape(text: &str) -> Vec<u8> {
    let Some(digits) = text.strip_prefix("\\x") else { return text.as_bytes().to_vec() };
    let pairs = digits.as_bytes().chunks(2);
    pairs.map(|p| u8::from_str_radix(std::str::from_utf8(p).unwrap(), 16).expect("hexadecimal")).collect()
}

/// A message as one line. What differs from server to server (process ids, secrets, OIDs of tables) is left out.
pub fn show(message: &Message) -> String {
    let name = message.name();
    let rest = match message {
        Message::ParameterStatus { name, value } => format!("{name}={value}"),
        Message::BackendKeyData { secret, .. } => format!("({} bytes of secret)", secret.len()),
        Message::ReadyForQuery { status } => status.to_string(),
        Message::RowDescription(columns) => {
            let one = |c: &message::Column| format!("{}:{}:{}", c.name, c.type_oid, c.format);
            columns.iter().map(one).collect::<Vec<_>>().join(" ")
        }
        Message::DataRow(values) => {
            let one = |v: &Option<Vec<u8>>| v.as_deref().map_or("NULL".into(), readable);
            values.iter().map(one).collect::<Vec<_>>().join(" | ")
        }
        Message::CommandComplete { tag } => tag.clone(),
        Message::ParameterDescription(types) => format!("{types:?}"),
        Message::ErrorResponse(fields) | Message::NoticeResponse(fields) => error(fields),
        Message::CopyInResponse { format, columns } | Message::CopyOutResponse { format, columns } => {
            format!("{format} {columns:?}")
        }
        Message::FunctionCallResponse(value) => value.as_deref().map_or("NULL".into(), readable),
        Message::CopyData(bytes) => readable(bytes).replace('\n', "\\n"),
        Message::NegotiateProtocolVersion { version, options } => format!("{version:#x} {options:?}"),
        Message::NotificationResponse { channel, payload, .. } => format!("{channel} {payload}"),
        Message::Authentication { .. } | Message::Closed => String::new(),
        other => format!("{other:?}").split_once('(').map_or(String::new(), |(_, rest)| rest.to_string()),
    };
    format!("{name} {rest}").trim_end().to_string()
}

fn error(fields: &Fields) -> String {
    let position = fields.get('P');
    let at = if position.is_empty() { String::new() } else { format!(" at {position}") };
    format!("{} {}: {}{at}", fields.get('S'), fields.sqlstate(), fields.message())
}
