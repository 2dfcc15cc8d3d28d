//! Runs the merge files (`tests/merge/*.merge`) and checks merges of random rows against the whole.
//!
//! A file is a list of cases:
//!
//! ```text
//! == name of the case
//! columns: text *int8        types of the shards' columns; * = hidden, sent in binary format
//! output: 0 sum(1)           columns and aggregates that the client sees
//! group: 1                   `group:` alone is the one group of an aggregate without GROUP BY
//! distinct: 1
//! order: 1 desc nulls first, out 1
//! formats: text binary       of the client's columns; text where not said
//! types: text numeric        what the client was told; as computed where not said
//! limit: 1 / offset: 1 / max_bytes: 1000
//! shard                      rows follow, cells divided by |, NULL or 'quoted' where needed
//! a | 1
//! ----
//! a | 1                      rows of the answer (binary ones as \x…), or `error: SQLSTATE: message`
//! ```
//!
//! `UPDATE=1 cargo test --test merge` writes what is answered into the files: read the difference.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "merge/case.rs"]
mod case;
#[path = "merge/encode.rs"]
mod encode;
#[path = "merge/random.rs"]
mod random;

use std::fs;
use std::path::Path;

#[test]
fn merge_files() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/merge");
    let update = std::env::var_os("UPDATE").is_some();
    let mut cases = 0;
    let mut failures = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "merge") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let mut answered = String::new();
        for part in case::split(&text) {
            let Some((question, expected)) = part.split_once("----\n") else {
                answered.push_str(&part);
                continue;
            };
            cases += 1;
            let answer = case::run(question);
            if answer.trim_end() != expected.trim_end() {
                failures.push(format!("{}: {question}----\n{answer}expected:\n{expected}", path.display()));
            }
            answered.push_str(&format!("{question}----\n{answer}\n"));
        }
        if update {
            fs::write(&path, answered.trim_end().to_owned() + "\n").unwrap();
        }
    }
    assert!(update || failures.is_empty(), "{} of {cases} cases differ:\n\n{}", failures.len(), failures.join("\n\n"));
    assert!(cases >= 40, "only {cases} cases were found");
}
