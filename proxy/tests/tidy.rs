//! The order of the modules, checked: what stands in `src/lib.rs` is the order of dependency.
//!
//! A module imports only modules above it, and what stands above the dividing line does no I/O and reads no clock.
//! Comments and strings do not count; tests inside the modules do.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::Path;
use std::path::PathBuf;

/// What no file above the line may mention.
const FORBIDDEN: [&str; 26] = [
    "tokio::net",
    "tokio::fs",
    "tokio::io",
    "tokio::time",
    "tokio::process",
    "tokio::signal",
    "tokio::runtime",
    "tokio::spawn",
    "tokio::task",
    "std::fs",
    "std::env",
    "std::process",
    "std::thread::sleep",
    "std::net::Tcp",
    "std::net::Udp",
    "std::net::ToSocketAddrs",
    "std::os::unix",
    "std::io::stdin",
    "std::io::stdout",
    "std::io::stderr",
    "std::time::Instant",
    "std::time::SystemTime",
    "Instant::now",
    "SystemTime::now",
    "socket2",
    "tokio_postgres",
];

/// The modules of `lib.rs` in order, and how many of them stand above the line.
struct Order {
    modules: Vec<String>,
    pure: usize,
}

struct SourceFile {
    path: PathBuf,
    /// The place of its module in the order.
    module: usize,
    /// How many modules deep it is: 1 for `src/x.rs` and `src/x/mod.rs`.
    depth: usize,
    /// Without comments, strings and characters; the lines are kept.
    code: String,
}

fn source_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn read_order(lib: &str) -> Order {
    let mut modules = Vec::new();
    let mut pure = None;
    for line in lib.lines() {
        let line = line.trim();
        let declaration = line.strip_prefix("pub mod ").or_else(|| line.strip_prefix("mod "));
        if let Some(name) = declaration.and_then(|rest| rest.strip_suffix(';')) {
            modules.push(name.to_owned());
        } else if line.starts_with("// ----") {
            assert!(pure.replace(modules.len()).is_none(), "lib.rs has more than one dividing line");
        }
    }
    Order { modules, pure: pure.expect("lib.rs has no dividing line") }
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// All files of the modules of `lib.rs`.
fn read_sources(order: &Order) -> Vec<SourceFile> {
    let root = source_root();
    let mut paths = Vec::new();
    rust_files(&root, &mut paths);
    paths.sort();
    let mut sources = Vec::new();
    for path in paths {
        let parts: Vec<String> = path
            .strip_prefix(&root)
            .unwrap()
            .with_extension("")
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        let Some(module) = order.modules.iter().position(|module| *module == parts[0]) else { continue };
        let depth = parts.len() - usize::from(parts.last().is_some_and(|last| last == "mod"));
        let code = strip(&fs::read_to_string(&path).unwrap());
        sources.push(SourceFile { path, module, depth, code });
    }
    sources
}

/// Blanks out comments, strings and characters.
fn strip(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = skipped(&chars, at);
        if end == at {
            out.push(chars[at]);
            at += 1;
        } else {
            out.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    out
}

/// Behind the comment, string or character that starts here; here if none does.
fn skipped(chars: &[char], at: usize) -> usize {
    let get = |index: usize| chars.get(index).copied().unwrap_or('\0');
    let in_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
    match (get(at), get(at + 1)) {
        ('/', '/') => (at..chars.len()).find(|index| chars[*index] == '\n').unwrap_or(chars.len()),
        ('/', '*') => block_comment_end(chars, at),
        ('"', _) => quoted_end(chars, at + 1, '"'),
        ('r', '"' | '#') if !in_word => raw_string_end(chars, at + 1).unwrap_or(at),
        ('b', 'r') if !in_word => raw_string_end(chars, at + 2).unwrap_or(at),
        // A lifetime has no closing quote behind its first character.
        ('\'', '\\') => quoted_end(chars, at + 1, '\''),
        ('\'', _) if get(at + 2) == '\'' => at + 3,
        _ => at,
    }
}

fn block_comment_end(chars: &[char], start: usize) -> usize {
    let mut depth = 0;
    let mut at = start;
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => {
                depth += 1;
                at += 2;
            }
            ('*', '/') => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    chars.len()
}

fn quoted_end(chars: &[char], mut at: usize, quote: char) -> usize {
    while at < chars.len() && chars[at] != quote {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

/// `at` is at the first `#` or the quote.
fn raw_string_end(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at..].iter().take_while(|c| **c == '#').count();
    if chars.get(at + hashes) != Some(&'"') {
        return None;
    }
    let closing: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let body = at + hashes + 1;
    let found = chars[body..].windows(closing.len()).position(|window| window == closing);
    Some(found.map_or(chars.len(), |offset| body + offset + closing.len()))
}

/// The places of a path in a line, not as part of a longer word.
fn mentions(line: &str, path: &str) -> Vec<usize> {
    let word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let found = line.match_indices(path).map(|(at, _)| at);
    found.filter(|at| !word(line[..*at].chars().next_back())).collect()
}

/// The identifier at the start of a text.
fn identifier(text: &str) -> &str {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or("")
}

/// The top-level modules that a line names by `crate::` or by enough `super::`.
fn named_modules<'a>(line: &'a str, depth: usize) -> Vec<&'a str> {
    let mut names: Vec<&'a str> = mentions(line, "crate::").into_iter().map(|at| identifier(&line[at + 7..])).collect();
    for at in mentions(line, "super::") {
        let rest = line[at..].trim_start_matches("super::");
        if (line[at..].len() - rest.len()) / "super::".len() >= depth && !line[..at].ends_with("super::") {
            names.push(identifier(rest));
        }
    }
    names
}

fn wrong_imports(order: &Order, source: &SourceFile) -> Vec<String> {
    let mut wrong = Vec::new();
    for (number, line) in source.code.lines().enumerate() {
        for name in named_modules(line, source.depth) {
            let below = order.modules.iter().position(|module| module == name).is_some_and(|at| at > source.module);
            if below {
                let module = &order.modules[source.module];
                wrong.push(format!("{}:{}: `{module}` stands above `{name}`", source.path.display(), number + 1));
            }
        }
        if !mentions(line, "crate::{").is_empty() {
            wrong.push(format!("{}:{}: one import a line", source.path.display(), number + 1));
        }
    }
    wrong
}

fn impure(source: &SourceFile) -> Vec<String> {
    let mut wrong = Vec::new();
    for (number, line) in source.code.lines().enumerate() {
        for path in FORBIDDEN.iter().filter(|path| !mentions(line, path).is_empty()) {
            wrong.push(format!("{}:{}: `{path}` above the line", source.path.display(), number + 1));
        }
    }
    wrong
}

fn report(wrong: &[String]) {
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn modules_import_only_modules_above_them() {
    let order = read_order(&fs::read_to_string(source_root().join("lib.rs")).unwrap());
    let sources = read_sources(&order);
    report(&sources.iter().flat_map(|source| wrong_imports(&order, source)).collect::<Vec<_>>());
}

#[test]
fn nothing_above_the_line_does_io_or_reads_a_clock() {
    let order = read_order(&fs::read_to_string(source_root().join("lib.rs")).unwrap());
    let sources = read_sources(&order);
    let pure = sources.iter().filter(|source| source.module < order.pure);
    report(&pure.flat_map(impure).collect::<Vec<_>>());
}

#[test]
fn every_module_of_the_list_has_a_file() {
    let order = read_order(&fs::read_to_string(source_root().join("lib.rs")).unwrap());
    let sources = read_sources(&order);
    for (index, module) in order.modules.iter().enumerate() {
        assert!(sources.iter().any(|source| source.module == index), "no file of `{module}`");
    }
}

#[test]
fn the_checks_find_what_they_look_for() {
    let order = read_order("pub mod error;\npub mod sql;\n// ---- no I/O above ----\nmod net;\n");
    assert_eq!((order.modules.len(), order.pure), (3, 2));
    let source = |code: &str| SourceFile { path: PathBuf::from("x.rs"), module: 1, depth: 1, code: strip(code) };
    let imports = |code: &str| wrong_imports(&order, &source(code)).len();
    assert_eq!(imports("use crate::net::Listener;"), 1);
    assert_eq!(imports("fn f() { crate::net::f(); super::net::f() }"), 2);
    assert_eq!(imports("use crate::{error, sql};"), 1);
    assert_eq!(imports("use crate::error::Error; use crate::sql::x; // crate::net\n/* crate::net */"), 0);
    assert_eq!(
        imports("let s = \"crate::net\"; let r = r#\"crate::net \" \"#; let c = '\"'; x::<'a>(\"crate::net\")"),
        0
    );
    assert_eq!(imports("let q = '\\''; use crate::net;"), 1);
    let clocks = |code: &str| impure(&source(code)).len();
    assert_eq!(clocks("use std::time::Duration; use std::net::SocketAddr;"), 0);
    assert_eq!(clocks("use std::time::Instant;\nuse tokio::net::TcpStream;"), 2);
}
