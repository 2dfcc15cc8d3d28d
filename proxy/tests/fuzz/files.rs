//! Configuration, logins, and the records that are read from servers.

use crate::engine::Target;
use crate::engine::hold;
use crate::engine::kind_of;
use crate::fixture;
use shardway::auth::scram::ServerScram;
use shardway::auth::scram::Verifier;
use shardway::auth::server_auth::AuthStep;
use shardway::auth::server_auth::ServerAuth;
use shardway::catalog::oids::ShardOids;
use shardway::catalog::schema;
use shardway::config;
use shardway::control::record;
use shardway::control::verify;
use shardway::exec::gid;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

const VERIFIER: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

#[test]
fn configuration() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../config");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let toml = files.filter(|path| path.extension().is_some_and(|e| e == "toml"));
    let corpus: Vec<Vec<u8>> = toml.map(|path| std::fs::read(path).unwrap()).collect();
    let dictionary: &[&[u8]] = &[
        b"[[database.shop.shard]]\n",
        b"[database.shop]\n",
        b"[pool]\n",
        b"key = [\"bigint\"]\n",
        b"function = \"range\"\n",
        b"buckets = 4096\n",
        b"buckets = 1073741824\n",
        b"pins = ",
        b"\"\"",
        b"\"",
        b"'",
        b"=",
        b"[",
        b"]",
        b"{",
        b"}",
        b"\n",
        b"99999999999999999999",
        b"1e400",
        b"nan",
        b"true",
        b"env:SECRET",
        b"file:/secret",
        b"2024-01-01",
        b"5s",
        b"1GB",
        b"postgresql://a:b@h:1/d?sslmode=require",
        b"default = ",
    ];
    let env = |name: &str| (name == "SECRET").then(|| "secret".to_owned());
    let read = |_: &Path| -> io::Result<String> { Err(io::ErrorKind::NotFound.into()) };
    let run = |input: &[u8]| {
        let text = String::from_utf8_lossy(input);
        let lines = text.lines().count() + 1;
        match config::load(&text, "f", &env, &read) {
            Ok(config) => Ok(format!("{} databases", config.databases.len())),
            Err(mistakes) => {
                hold(!mistakes.is_empty(), || "no mistake is told".to_owned())?;
                for mistake in &mistakes {
                    let told = mistake.to_string();
                    let line = told.split(':').nth(1).and_then(|n| n.parse::<usize>().ok());
                    hold(line.is_some_and(|n| n <= lines), || format!("{told:?} of {lines} lines"))?;
                }
                Ok(kind_of(&mistakes[0].to_string()))
            }
        }
    };
    let time = Duration::from_secs(5);
    Target { name: "configuration", corpus, dictionary, memory: (64 << 20, 20_000), time, run: &run }.fuzz();
}

/// Messages of one login, each behind its length in two bytes.
fn messages(input: &[u8]) -> Vec<&[u8]> {
    let mut rest = input;
    let mut list = Vec::new();
    while let Some((length, tail)) = rest.split_first_chunk::<2>() {
        let (message, tail) = tail.split_at(usize::from(u16::from_be_bytes(*length)).min(tail.len()));
        list.push(message);
        rest = tail;
    }
    list
}

fn joined(messages: &[&[u8]]) -> Vec<u8> {
    messages.iter().flat_map(|m| [(m.len() as u16).to_be_bytes().to_vec(), m.to_vec()].concat()).collect()
}

/// A client that logs in: `{r}` stands for the nonce of the server.
#[test]
fn scram_of_clients() {
    let first = b"SCRAM-SHA-256\0\0\0\0\x0bn,,n=,r=abc".as_slice();
    let bound = b"SCRAM-SHA-256-PLUS\0\0\0\0\x20p=tls-server-end-point,,n=,r=abcd".as_slice();
    let corpus = vec![
        joined(&[first, b"c=biws,r={r},p=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="]),
        joined(&[bound, b"c=cD10bHMtc2VydmVyLWVuZC1wb2ludCwsYQ==,r={r},p=AAAA"]),
        joined(&[VERIFIER.as_bytes()]),
    ];
    let dictionary: &[&[u8]] =
        &[b"n,,", b"y,,", b"p=", b"r=", b"{r}", b",p=", b"c=biws", b"m=x,", b"\0", b"$", b":", b"="];
    let verifier = Arc::new(Verifier::parse(VERIFIER).unwrap());
    let run = |input: &[u8]| {
        let list = messages(input);
        let read = list.first().map(|m| Verifier::parse(&String::from_utf8_lossy(m)).is_some());
        let mut outcome = format!("{read:?}");
        for end_point in [None, Some(b"a".to_vec())] {
            let mut scram = ServerScram::start("app", Arc::clone(&verifier), end_point);
            let Some((beginning, rest)) = list.split_first() else { continue };
            let challenge = match scram.first(beginning) {
                Ok(challenge) => String::from_utf8(challenge).map_err(|error| error.to_string())?,
                Err(error) => {
                    outcome.push_str(&kind_of(&error.to_string()));
                    continue;
                }
            };
            let nonce = challenge.split(',').next().unwrap_or_default().trim_start_matches("r=").to_owned();
            // After the first error it is over.
            for message in rest.iter().take(3) {
                let text = String::from_utf8_lossy(message).replace("{r}", &nonce);
                match scram.finish(text.as_bytes()) {
                    Ok(_) => return Err("a client without the password was let in".to_owned()),
                    Err(error) => outcome.push_str(&kind_of(&error.to_string())),
                }
            }
        }
        Ok(outcome)
    };
    Target { name: "scram", corpus, dictionary, memory: (64 * 1024, 1_000), time: SECOND, run: &run }.fuzz();
}

/// A server that we log in on: `{r}` stands for our nonce.
#[test]
fn authentication_of_servers() {
    let corpus = vec![
        joined(&[b"\0\0\0\0"]),
        joined(&[b"\0\0\0\x03", b"\0\0\0\0"]),
        joined(&[b"\0\0\0\x05abcd", b"\0\0\0\0"]),
        joined(&[
            b"\0\0\0\x0aSCRAM-SHA-256\0\0",
            b"\0\0\0\x0br={r}x,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=16",
            b"\0\0\0\x0cv=AAAA",
            b"\0\0\0\0",
        ]),
    ];
    let dictionary: &[&[u8]] =
        &[b"{r}", b",i=1", b",i=9", b",i=4000000000", b",s=", b"v=", b"e=other-error", b"SCRAM-SHA-256-PLUS\0", b"\0"];
    let run = |input: &[u8]| {
        let mut auth = ServerAuth::new("app", Some("secret"), None);
        let mut outcome = String::new();
        let mut nonce = String::new();
        let mut asked = false;
        for message in messages(input) {
            let with_nonce = String::from_utf8_lossy(message).replace("{r}", &nonce);
            let bytes = if with_nonce.contains(&nonce) && !nonce.is_empty() { with_nonce.as_bytes() } else { message };
            match auth.on_message(bytes) {
                Ok(AuthStep::Done) => {
                    hold(!asked || outcome.is_empty(), || "a server that proved nothing was believed".to_owned())?;
                    outcome.push_str("done ");
                }
                Ok(AuthStep::Send(answer)) => {
                    let text = String::from_utf8_lossy(&answer).into_owned();
                    if let Some((_, sent)) = text.rsplit_once("r=") {
                        nonce = sent.split(',').next().unwrap_or_default().to_owned();
                        asked = text.starts_with("SCRAM") || asked;
                        outcome.push_str("scram ");
                    } else {
                        outcome.push_str("password ");
                        outcome.truncate(200);
                    }
                }
                Ok(AuthStep::Continue) => return Err("a server without the password proved to know it".to_owned()),
                Err(error) => {
                    outcome.push_str(&kind_of(&error.to_string()));
                    break;
                }
            }
        }
        Ok(outcome)
    };
    // A million rounds of SCRAM, unoptimised.
    let time = Duration::from_secs(10);
    Target { name: "server_auth", corpus, dictionary, memory: (128 * 1024, 1_000), time, run: &run }.fuzz();
}

/// What is read from shards: placement records, tables, names of prepared transactions.
#[test]
fn records() {
    let record = r#"{"installation": "a1", "shard": "s0", "hash": "ff", "entries": [["map", "tenants", "0-9:s0"], ["table", "public.t", "{}"]]}"#;
    let tables = r#"[{"schema": "public", "name": "t", "filled": true, "child": false, "columns": [["id", "bigint"], ["k", "character varying(5)"]]}]"#;
    let name = "shardway:a1:s0:0123456789abcdef:1:0123456789abcdef";
    let corpus = vec![record.into(), tables.into(), name.into()];
    let dictionary: &[&[u8]] =
        &[b"[", b"]", b"{", b"}", b",", b"\"", b":", b"null", b"1e999", b"\\u0000", b"\\ud800", b"true"];
    let run = |input: &[u8]| {
        let text = String::from_utf8_lossy(input);
        let mut outcome = String::new();
        if let Some(name) = gid::parse(&text) {
            hold(name.key.len() < text.len(), || name.key.clone())?;
            outcome.push_str("gid ");
        }
        match record::parse(&text) {
            Ok(read) => {
                let objects = record::Objects::of(&[Some("t".to_owned()), None, None]);
                let sql = record::write_statements(objects, "shop", &read);
                let statements = shardway::sql::lexer::split(&sql, true).map_err(|error| error.to_string())?;
                // Two tables that are missing, two DELETEs, the installation, and a row for each entry.
                let expected = 5 + read.entries.len();
                hold(statements.len() == expected || text.contains("\\u0000"), || sql.clone())?;
                outcome.push_str("record ");
            }
            Err(error) => outcome.push_str(&kind_of(&error.to_string())),
        }
        match verify::parse_tables(&text) {
            Ok(tables) => outcome.push_str(&format!("{} tables", tables.len().min(3))),
            Err(error) => outcome.push_str(&kind_of(&error.to_string())),
        }
        Ok(outcome)
    };
    Target { name: "records", corpus, dictionary, memory: (64 * 1024, 1_000), time: SECOND, run: &run }.fuzz();
}

/// A shard's schema, as its own query tells it.
#[test]
fn schemas() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plan");
    let recorded = std::fs::read_to_string(folder.join("schema.json")).unwrap();
    let home = schema::parse(&recorded).unwrap();
    let dictionary: &[&[u8]] =
        &[b"null", b"-1", b"99999999999", b"\"\"", b"[]", b"{}", b"true", b"\"p\"", b"\"v\"", b"\"S\""];
    // The whole is longer than inputs may be: relations one by one.
    let value: serde_json::Value = serde_json::from_str(&recorded).unwrap();
    let relations = value["relations"].as_array().unwrap();
    let one = |relation: &serde_json::Value| {
        let mut small = value.clone();
        small["relations"] = serde_json::json!([relation]);
        for list in ["functions", "system", "collations"] {
            if small[list].is_array() {
                small[list] = serde_json::json!([]);
            }
        }
        small.to_string().into_bytes()
    };
    let corpus = relations.iter().step_by(5).map(one).collect();
    let run = |input: &[u8]| {
        let text = String::from_utf8_lossy(input);
        match schema::parse(&text) {
            Ok(read) => {
                let _ = ShardOids::compare(&home, &read);
                let _ = ShardOids::compare(&read, &home);
                let builtins = Arc::default();
                let shards = [Some(read), None, None];
                let catalog = shardway::catalog::Catalog::build(&fixture::database(), &shards, builtins, 1);
                Ok(format!("read {}", catalog.is_ok()))
            }
            Err(error) => Ok(kind_of(&error)),
        }
    };
    let time = Duration::from_secs(2);
    Target { name: "schemas", corpus, dictionary, memory: (8 << 20, 2_000), time, run: &run }.fuzz();
}
