//! Statements in data files, each run on one PostgreSQL and through the proxy, and compared.
//!
//! A file holds cases with blank lines between them: comment lines that name the case, its SQL, and, in the planner's
//! files, a line `----` with the expected plan after it. Comments that begin so steer the comparison:
//!
//! ```sql
//! -- values: 7, open      parameters in text format; NULL is NULL
//! -- rows: unordered      or `ordered`, `counted`; found out by itself where not said
//! -- refused              the proxy may refuse it with 0A000; if it answers, the answer must be right
//! -- skip                 not run
//! ```

use crate::client::Client;
use crate::outcome::End;
use crate::outcome::MODES;
use crate::outcome::Mode;
use crate::outcome::Outcome;
use crate::outcome::Rows;
use crate::outcome::difference;
use std::fs;
use std::path::Path;

/// One statement of a data file.
#[derive(Clone, Debug)]
pub struct Case {
    /// `file:line` of the SQL.
    pub place: String,
    pub name: String,
    pub sql: String,
    pub values: Vec<Option<String>>,
    pub rows: Option<Rows>,
    pub refused: bool,
    pub skip: bool,
    /// What follows `----`: the printed plan, or an error.
    pub expected: Option<String>,
}

/// Reads the cases of one file.
pub fn read(path: &Path) -> Vec<Case> {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    let file = path.file_name().unwrap().to_string_lossy().into_owned();
    let mut cases = Vec::new();
    let mut block: Vec<(usize, &str)> = Vec::new();
    for (number, line) in text.lines().enumerate().chain([(usize::MAX, "")]) {
        if !line.trim().is_empty() {
            block.push((number + 1, line));
        } else if !block.is_empty() {
            cases.extend(case(&file, &block));
            block.clear();
        }
    }
    cases
}

/// Reads the cases of every file with this extension in a directory, in the order of their names.
pub fn read_directory(directory: &Path, extension: &str) -> Vec<Case> {
    let entries = fs::read_dir(directory).unwrap_or_else(|e| panic!("{directory:?}: {e}"));
    let mut paths: Vec<_> = entries.map(|e| e.unwrap().path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == extension));
    paths.sort();
    paths.iter().flat_map(|p| read(p)).collect()
}

fn case(file: &str, block: &[(usize, &str)]) -> Option<Case> {
    let comments = block.iter().take_while(|(_, l)| l.starts_with("--") && l.trim_end() != "----").count();
    let (head, rest) = block.split_at(comments);
    let sql_lines = rest.iter().take_while(|(_, l)| l.trim_end() != "----").count();
    let (sql, expected) = rest.split_at(sql_lines);
    let (line, _) = sql.first()?;
    let join = |lines: &[(usize, &str)]| lines.iter().map(|(_, l)| *l).collect::<Vec<_>>().join("\n");
    let mut case = Case {
        place: format!("{file}:{line}"),
        name: String::new(),
        sql: join(sql).trim_end().trim_end_matches(';').to_string(),
        values: Vec::new(),
        rows: None,
        refused: false,
        skip: false,
        expected: expected.split_first().map(|(_, lines)| join(lines)),
    };
    head.iter().for_each(|(_, l)| case.steer(l.trim_start_matches('-').trim()));
    Some(case)
}

impl Case {
    fn steer(&mut self, comment: &str) {
        match comment.split_once(':').map_or((comment, ""), |(a, b)| (a, b.trim())) {
            ("values", list) => {
                let value = |v: &str| (v.trim() != "NULL").then(|| v.trim().to_string());
                self.values = list.split(',').map(value).collect();
            }
            ("rows", "ordered") => self.rows = Some(Rows::Ordered),
            ("rows", "unordered") => self.rows = Some(Rows::Unordered),
            ("rows", "counted") => self.rows = Some(Rows::Counted),
            ("refused", _) => self.refused = true,
            ("skip", _) => self.skip = true,
            _ => self.name = format!("{} {comment}", self.name).trim().to_string(),
        }
    }

    /// What the statement does, judged by its words.
    pub fn kind(&self) -> Kind {
        let words: Vec<String> = top_words(&self.sql);
        let has = |w: &str| words.iter().any(|x| x == w);
        match words.first().map(String::as_str) {
            Some("select" | "values" | "table") if !has("into") => Kind::Read,
            Some("with") if !has("insert") && !has("update") && !has("delete") && !has("merge") => {
                let lower = self.sql.to_ascii_lowercase();
                let writes = ["insert into", "delete from", "update "].iter().any(|w| lower.contains(w));
                if writes { Kind::Write } else { Kind::Read }
            }
            Some("insert" | "update" | "delete" | "merge" | "with") => Kind::Write,
            _ => Kind::Other,
        }
    }

    fn needs_values(&self) -> bool {
        self.parameters() > 0
    }

    /// The highest number of a `$n`; one inside a string or behind another dollar counts too.
    fn parameters(&self) -> usize {
        let parts = self.sql.split('$').skip(1);
        let number = |part: &str| part.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok();
        parts.filter_map(number).max().unwrap_or(0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    Other,
}

/// The lower-case words of a statement outside parentheses, quotes and comments.
pub fn top_words(sql: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut depth = 0;
    let mut characters = sql.chars().peekable();
    while let Some(c) = characters.next() {
        if depth == 0 && (c.is_alphanumeric() || c == '_') {
            word.extend(c.to_lowercase());
            continue;
        }
        if !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            '\'' | '"' => while characters.next().is_some_and(|x| x != c) {},
            '-' if characters.peek() == Some(&'-') => while characters.next().is_some_and(|x| x != '\n') {},
            _ => {}
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

fn is_ordered(sql: &str) -> bool {
    top_words(sql).windows(2).any(|w| w[0] == "order" && w[1] == "by")
}

/// One PostgreSQL, the same rows in another physical order, and the proxy.
pub struct Differential {
    pub single: Client,
    pub mirror: Client,
    pub proxy: Client,
}

/// How many runs agreed, were refused, and what differed.
#[derive(Debug, Default)]
pub struct Report {
    pub same: usize,
    /// Of the runs that agree: rows in order, in any order, only their number.
    pub by_rows: [usize; 3],
    /// Cases that are not run: those marked so, and what is neither a query nor a change of rows.
    pub passed_over: usize,
    /// One entry for each case.
    pub refused: Vec<String>,
    pub failures: Vec<String>,
}

impl Report {
    /// Fails the test when anything differed.
    pub fn finish(self, least: usize) {
        let Report { same, by_rows, passed_over, refused, failures } = self;
        let (away, bad) = (refused.len(), failures.len());
        println!("{same} runs agree {by_rows:?}, {away} cases are refused, {passed_over} are not run, {bad} differ");
        refused.iter().for_each(|r| println!("  refused: {r}"));
        assert!(failures.is_empty(), "{} differences\n{}", failures.len(), failures.join("\n"));
        assert!(same >= least, "only {same} runs, at least {least} were expected");
    }
}

impl Differential {
    /// Runs one case in every mode, outside and inside a transaction.
    pub fn check(&mut self, case: &Case, report: &mut Report) {
        let kind = case.kind();
        if case.skip || kind == Kind::Other || (case.needs_values() && case.values.is_empty()) {
            report.passed_over += 1;
            return;
        }
        for mode in MODES {
            if mode == Mode::Simple && !case.values.is_empty() {
                continue;
            }
            if kind == Kind::Read {
                self.compare(case, mode, false, report);
            }
            self.compare(case, mode, true, report);
        }
        if case.sql.contains("set_config") {
            // The next cases must not run under what this one has set.
            for client in [&mut self.single, &mut self.mirror, &mut self.proxy] {
                client.execute("RESET ALL");
            }
        }
    }

    /// Values for the parameters of a case that gives none: the first of some for all of them that PostgreSQL can read as
    /// the types that it infers.
    pub fn give_values(&mut self, case: &mut Case) {
        const VALUES: [&str; 6] = ["3", "2024-03-05", "{1,2,7}", "de", "true", "12345678-1234-1234-1234-123456789abc"];
        let count = case.parameters();
        if count == 0 || !case.values.is_empty() || case.kind() == Kind::Other {
            return;
        }
        for value in VALUES {
            let values = vec![Some(value); count];
            let outcome = run(&mut self.single, Mode::Text, &case.sql, &values, true);
            if !outcome.sqlstate().is_some_and(|s| s.starts_with("22")) {
                case.values = vec![Some(value.to_string()); count];
                return;
            }
        }
    }

    fn compare(&mut self, case: &Case, mode: Mode, in_transaction: bool, report: &mut Report) {
        let values: Vec<Option<&str>> = case.values.iter().map(Option::as_deref).collect();
        let run = |client: &mut Client| run(client, mode, &case.sql, &values, in_transaction);
        let expected = run(&mut self.single);
        let actual = run(&mut self.proxy);
        let rows = case.rows.unwrap_or_else(|| determined(&case.sql, &expected, &run(&mut self.mirror)));
        let within = if in_transaction { "in a transaction" } else { "alone" };
        let title = format!("{} {}", case.place, case.name);
        let how = format!("({mode:?}, {within})");
        let refused = actual.sqlstate().is_some_and(|s| s.starts_with("0A"));
        if refused && expected.sqlstate() != actual.sqlstate() {
            let End::Error(fields) = &actual.end else { return };
            let line = format!("{how} {}", fields.message());
            let list = if case.refused { &mut report.refused } else { &mut report.failures };
            note(list, &title, line);
            return;
        }
        match difference(&expected, &actual, rows) {
            None => {
                report.same += 1;
                report.by_rows[rows as usize] += 1;
            }
            Some(text) => {
                note(&mut report.failures, &title, format!("{how} {text}\n    {}", case.sql.replace('\n', "\n    ")));
            }
        }
    }
}

/// One entry for each case: the first way of running it that differs stands for all of them.
fn note(list: &mut Vec<String>, title: &str, text: String) {
    if !list.iter().any(|entry| entry.starts_with(title)) {
        list.push(format!("{title} {text}"));
    }
}

fn run(client: &mut Client, mode: Mode, sql: &str, values: &[Option<&str>], in_transaction: bool) -> Outcome {
    if !in_transaction {
        return client.run(mode, sql, values);
    }
    client.execute("BEGIN");
    let outcome = client.run(mode, sql, values);
    client.execute("ROLLBACK");
    outcome
}

/// What the statement promises about its rows: what two databases agree on that differ only in what is not promised.
fn determined(sql: &str, one: &Outcome, other: &Outcome) -> Rows {
    if is_ordered(sql) && difference(one, other, Rows::Ordered).is_none() {
        Rows::Ordered
    } else if difference(one, other, Rows::Unordered).is_none() {
        Rows::Unordered
    } else {
        Rows::Counted
    }
}
