//! What kind of statement a text is, told from its tokens.
//!
//! What only PostgreSQL executes is told from its first words. What the session itself acts on (transactions, settings,
//! cursors, prepared statements) is recognised only if the whole text fits PostgreSQL's grammar (gram.y): anything else
//! is `Other`, so that PostgreSQL gives its syntax error.

use crate::sql::clauses;
use crate::sql::lexer;
use crate::sql::lexer::Token;
use crate::sql::lexer::TokenKind;
use crate::sql::reader::Reader;
use crate::sql::settings;
use std::ops::Range;

/// One statement's kind, with what the session needs to know of it. Names are folded as PostgreSQL folds them.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Nothing but white space and comments.
    Empty,
    /// SELECT, WITH … SELECT, VALUES, TABLE, and parenthesised ones. `SELECT INTO` is here too, and so is a SELECT
    /// whose WITH clause writes.
    Select,
    Insert,
    Update,
    Delete,
    Merge,
    /// `COPY …`; direction and what is copied are the planner's affair.
    Copy,
    /// `EXPLAIN [ANALYZE] …`
    Explain,
    Begin(TransactionModes),
    Commit {
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
    Savepoint(String),
    Release(String),
    RollbackTo(String),
    PrepareTransaction,
    CommitPrepared,
    RollbackPrepared,
    /// SET TRANSACTION …
    SetTransaction(TransactionModes),
    /// SET SESSION CHARACTERISTICS AS TRANSACTION …
    SetCharacteristics(TransactionModes),
    /// `SET [SESSION|LOCAL] name …`, with TIME ZONE, NAMES, ROLE, SESSION AUTHORIZATION, XML OPTION and SCHEMA as the
    /// variables they stand for (timezone, client_encoding, role, session_authorization, xmloption, search_path).
    /// `name` is lower case even where it was quoted, as names of variables are. `value` is `None` for DEFAULT; else
    /// the text after TO or =, as written (`variables::text::setting_value` reads it).
    Set {
        local: bool,
        name: String,
        value: Option<String>,
    },
    Reset(String),
    ResetAll,
    /// The variable's name, or `all`.
    Show(String),
    /// `what` upper case: ALL, PLANS, SEQUENCES, TEMP
    Discard {
        what: String,
    },
    /// `PREPARE name [(types)] AS body`; `body` is the byte range of the inner statement in the text.
    Prepare {
        name: String,
        types: Vec<String>,
        body: Range<usize>,
    },
    /// `EXECUTE name [(args)]`; byte ranges of the argument expressions.
    Execute {
        name: String,
        arguments: Vec<Range<usize>>,
    },
    /// `None` is ALL.
    Deallocate(Option<String>),
    /// DECLARE name … CURSOR [WITH HOLD] FOR body
    Declare {
        name: String,
        hold: bool,
        binary: bool,
        scroll: Option<bool>,
        body: Range<usize>,
    },
    /// FETCH and MOVE; the cursor's name
    Fetch {
        cursor: String,
    },
    Move {
        cursor: String,
    },
    /// CLOSE name, or all
    CloseCursor(Option<String>),
    Listen(String),
    Unlisten(Option<String>),
    Notify(String),
    Lock,
    Call,
    Do,
    Checkpoint,
    /// VACUUM, ANALYZE, REINDEX, CLUSTER, REFRESH MATERIALIZED VIEW
    Maintenance,
    Truncate,
    /// CREATE, ALTER, DROP, COMMENT, GRANT, REVOKE, REASSIGN, SECURITY LABEL, IMPORT FOREIGN SCHEMA
    Schema,
    SetConstraints,
    /// Anything else: PostgreSQL will say what it is.
    Other,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionModes {
    /// `read committed`, `repeatable read`, `serializable`, `read uncommitted`
    pub isolation: Option<String>,
    pub read_only: Option<bool>,
    pub deferrable: Option<bool>,
    /// SET TRANSACTION SNAPSHOT
    pub snapshot: Option<String>,
}

/// Tells a statement's kind; `tokens` are those of `text`. Several statements are `Other`: `lexer::split` them first.
pub fn classify(text: &str, tokens: &[Token]) -> Command {
    let reader = Reader::new(text, tokens);
    let Some(first) = reader.peek() else { return Command::Empty };
    if !lexer::is_one_statement(text, reader.tokens) {
        return Command::Other;
    }
    if first.is_symbol(text, "(") {
        return Command::Select;
    }
    if first.kind != TokenKind::Word {
        return Command::Other;
    }
    let word = first.text(text).to_ascii_lowercase();
    rows(&word).or_else(|| schema(&word)).or_else(|| utility(&word, reader)).unwrap_or(Command::Other)
}

/// What reads and writes rows: told from the first word.
fn rows(word: &str) -> Option<Command> {
    Some(match word {
        "select" | "values" | "table" => Command::Select,
        "insert" => Command::Insert,
        "update" => Command::Update,
        "delete" => Command::Delete,
        "merge" => Command::Merge,
        "copy" => Command::Copy,
        "explain" => Command::Explain,
        "truncate" => Command::Truncate,
        "lock" => Command::Lock,
        "call" => Command::Call,
        "do" => Command::Do,
        _ => return None,
    })
}

fn schema(word: &str) -> Option<Command> {
    Some(match word {
        "create" | "alter" | "drop" | "comment" | "grant" | "revoke" | "reassign" | "security" | "import" => {
            Command::Schema
        }
        "vacuum" | "analyze" | "analyse" | "reindex" | "cluster" | "refresh" => Command::Maintenance,
        _ => return None,
    })
}

/// What the session acts on: `None` if the text does not fit.
fn utility(word: &str, mut reader: Reader<'_>) -> Option<Command> {
    if word == "with" {
        return with(reader);
    }
    reader.skip(1);
    let command = match word {
        "begin" => begin(&mut reader),
        "start" => reader.word("transaction").then(|| modes(&mut reader).map(Command::Begin))?,
        "commit" | "end" => commit(word, &mut reader),
        "rollback" | "abort" => rollback(word, &mut reader),
        "savepoint" => reader.name().map(Command::Savepoint),
        "release" => savepoint_name(&mut reader).map(Command::Release),
        "set" => settings::set(&mut reader),
        "reset" => settings::reset(&mut reader),
        "show" => settings::show(&mut reader),
        "discard" => discard(&mut reader),
        "prepare" => prepare(&mut reader),
        "execute" => execute(&mut reader),
        "deallocate" => deallocate(&mut reader),
        "declare" => declare(&mut reader),
        "fetch" => cursor(&mut reader).map(|cursor| Command::Fetch { cursor }),
        "move" => cursor(&mut reader).map(|cursor| Command::Move { cursor }),
        "close" => name_or_all(&mut reader).map(Command::CloseCursor),
        "listen" => reader.name().map(Command::Listen),
        "unlisten" => unlisten(&mut reader),
        "notify" => notify(&mut reader),
        "checkpoint" => Some(Command::Checkpoint),
        _ => None,
    };
    command.filter(|_| reader.is_done())
}

/// The verb behind the WITH clause.
fn with(reader: Reader<'_>) -> Option<Command> {
    let main = reader.tokens.get(clauses::after_with(reader.tokens, reader.text, 0)?)?;
    if main.is_symbol(reader.text, "(") {
        return Some(Command::Select);
    }
    let word = main.text(reader.text).to_ascii_lowercase();
    rows(&word).filter(|command| {
        matches!(command, Command::Select | Command::Insert | Command::Update | Command::Delete | Command::Merge)
    })
}

fn opt_transaction(reader: &mut Reader<'_>) {
    let _ = reader.word("work") || reader.word("transaction");
}

fn begin(reader: &mut Reader<'_>) -> Option<Command> {
    opt_transaction(reader);
    modes(reader).map(Command::Begin)
}

/// transaction_mode_list_or_empty: in any order, with or without commas; the last of a kind counts.
pub(crate) fn modes(reader: &mut Reader<'_>) -> Option<TransactionModes> {
    let mut modes = TransactionModes::default();
    let mut first = true;
    while !reader.is_done() {
        if !first {
            reader.symbol(",");
        }
        first = false;
        mode(reader, &mut modes)?;
    }
    Some(modes)
}

fn mode(reader: &mut Reader<'_>, modes: &mut TransactionModes) -> Option<()> {
    if reader.words(&["isolation", "level"]) {
        let levels = [
            (["read", "uncommitted"].as_slice(), "read uncommitted"),
            (["read", "committed"].as_slice(), "read committed"),
            (["repeatable", "read"].as_slice(), "repeatable read"),
            (["serializable"].as_slice(), "serializable"),
        ];
        let (_, level) = levels.into_iter().find(|(words, _)| reader.words(words))?;
        modes.isolation = Some(level.to_owned());
    } else if reader.words(&["read", "only"]) {
        modes.read_only = Some(true);
    } else if reader.words(&["read", "write"]) {
        modes.read_only = Some(false);
    } else if reader.word("deferrable") {
        modes.deferrable = Some(true);
    } else if reader.words(&["not", "deferrable"]) {
        modes.deferrable = Some(false);
    } else {
        return None;
    }
    Some(())
}

/// opt_transaction_chain
fn chain(reader: &mut Reader<'_>) -> bool {
    reader.words(&["and", "chain"]) || {
        reader.words(&["and", "no", "chain"]);
        false
    }
}

/// Steps over the name of a prepared transaction.
fn gid(reader: &mut Reader<'_>, command: Command) -> Option<Command> {
    reader.token(TokenKind::String).map(|_| command)
}

fn commit(word: &str, reader: &mut Reader<'_>) -> Option<Command> {
    if word == "commit" && reader.word("prepared") {
        return gid(reader, Command::CommitPrepared);
    }
    opt_transaction(reader);
    Some(Command::Commit { chain: chain(reader) })
}

fn rollback(word: &str, reader: &mut Reader<'_>) -> Option<Command> {
    if word == "rollback" && reader.word("prepared") {
        return gid(reader, Command::RollbackPrepared);
    }
    opt_transaction(reader);
    if word == "rollback" && reader.word("to") {
        return savepoint_name(reader).map(Command::RollbackTo);
    }
    Some(Command::Rollback { chain: chain(reader) })
}

/// `[SAVEPOINT] name`; SAVEPOINT may be the name itself.
fn savepoint_name(reader: &mut Reader<'_>) -> Option<String> {
    if reader.tokens.len() > 1 {
        reader.word("savepoint");
    }
    reader.name()
}

fn name_or_all(reader: &mut Reader<'_>) -> Option<Option<String>> {
    if reader.word("all") { Some(None) } else { reader.name().map(Some) }
}

fn discard(reader: &mut Reader<'_>) -> Option<Command> {
    let kinds =
        [("all", "ALL"), ("plans", "PLANS"), ("sequences", "SEQUENCES"), ("temp", "TEMP"), ("temporary", "TEMP")];
    let (_, what) = kinds.into_iter().find(|(word, _)| reader.word(word))?;
    Some(Command::Discard { what: what.to_owned() })
}

fn prepare(reader: &mut Reader<'_>) -> Option<Command> {
    if reader.word_at(0, "transaction") && reader.tokens.get(1).is_some_and(|token| token.kind == TokenKind::String) {
        reader.skip(1);
        return gid(reader, Command::PrepareTransaction);
    }
    let name = reader.name()?;
    let types = parenthesised(reader)?.into_iter().map(|range| reader.text.get(range).unwrap_or("").to_owned());
    let types = types.collect();
    if !reader.word("as") {
        return None;
    }
    let body = reader.rest()?;
    reader.skip(reader.tokens.len());
    Some(Command::Prepare { name, types, body })
}

fn execute(reader: &mut Reader<'_>) -> Option<Command> {
    let name = reader.name()?;
    let arguments = parenthesised(reader)?;
    Some(Command::Execute { name, arguments })
}

/// The items of a list in parentheses; none if there is no list. `None` for an empty list, which is a syntax error.
fn parenthesised(reader: &mut Reader<'_>) -> Option<Vec<Range<usize>>> {
    if !reader.symbol_at(0, "(") {
        return Some(Vec::new());
    }
    let close = clauses::closing(reader.tokens, reader.text, 0)?;
    let inner = reader.tokens.get(1..close)?;
    let range = inner.first()?.range().start..inner.last()?.range().end;
    let items = clauses::split_items(inner, reader.text, range);
    reader.skip(close + 1);
    (!items.iter().any(Range::is_empty)).then_some(items)
}

fn deallocate(reader: &mut Reader<'_>) -> Option<Command> {
    if reader.tokens.len() > 1 {
        reader.word("prepare");
    }
    name_or_all(reader).map(Command::Deallocate)
}

fn declare(reader: &mut Reader<'_>) -> Option<Command> {
    let name = reader.name()?;
    let mut binary = false;
    let mut scroll = None;
    loop {
        if reader.words(&["no", "scroll"]) {
            scroll = Some(false);
        } else if reader.word("scroll") {
            scroll = Some(true);
        } else if reader.word("binary") {
            binary = true;
        } else if !(reader.word("insensitive") || reader.word("asensitive")) {
            break;
        }
    }
    if !reader.word("cursor") {
        return None;
    }
    let hold = reader.words(&["with", "hold"]);
    if !hold {
        reader.words(&["without", "hold"]);
    }
    if !reader.word("for") {
        return None;
    }
    let body = reader.rest()?;
    reader.skip(reader.tokens.len());
    Some(Command::Declare { name, hold, binary, scroll, body })
}

/// fetch_args: a direction, FROM or IN, and the cursor's name, which may stand alone.
fn cursor(reader: &mut Reader<'_>) -> Option<String> {
    if reader.tokens.len() > 1 {
        direction(reader)?;
        let _ = reader.word("from") || reader.word("in");
    }
    reader.name()
}

/// Steps over a direction, which may be missing.
fn direction(reader: &mut Reader<'_>) -> Option<()> {
    if ["next", "prior", "first", "last", "all"].iter().any(|word| reader.word(word)) {
        return Some(());
    }
    if reader.word("absolute") || reader.word("relative") {
        return signed_integer(reader).then_some(());
    }
    let counted = reader.word("forward") || reader.word("backward");
    if !(counted && reader.word("all")) {
        signed_integer(reader);
    }
    Some(())
}

fn signed_integer(reader: &mut Reader<'_>) -> bool {
    let sign = usize::from(reader.symbol_at(0, "-") || reader.symbol_at(0, "+"));
    let found = reader.tokens.get(sign).is_some_and(|token| token.kind == TokenKind::Integer);
    reader.skip(if found { sign + 1 } else { 0 });
    found
}

fn unlisten(reader: &mut Reader<'_>) -> Option<Command> {
    if reader.symbol("*") {
        return Some(Command::Unlisten(None));
    }
    reader.name().map(|name| Command::Unlisten(Some(name)))
}

fn notify(reader: &mut Reader<'_>) -> Option<Command> {
    let name = reader.name()?;
    if reader.symbol(",") {
        reader.token(TokenKind::String)?;
    }
    Some(Command::Notify(name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::Command;
    use super::TransactionModes;
    use super::classify;
    use crate::sql::lexer::tokenize;
    use proptest::proptest;

    fn told(text: &str) -> Command {
        classify(text, &tokenize(text, true).unwrap())
    }

    fn modes(isolation: Option<&str>, read_only: Option<bool>, deferrable: Option<bool>) -> TransactionModes {
        TransactionModes { isolation: isolation.map(str::to_owned), read_only, deferrable, snapshot: None }
    }

    #[test]
    fn rows_and_schema() {
        for (text, command) in [
            ("", Command::Empty),
            (" -- x\n;", Command::Empty),
            ("select 1", Command::Select),
            ("((SELECT 1))", Command::Select),
            ("TABLE t", Command::Select),
            ("VALUES (1)", Command::Select),
            ("WITH a AS (INSERT INTO t VALUES (1) RETURNING 1) SELECT 1", Command::Select),
            ("WITH a AS (SELECT 1), b (x) AS MATERIALIZED (SELECT 2) INSERT INTO t SELECT 1", Command::Insert),
            ("WITH RECURSIVE a AS (SELECT 1) UPDATE t SET x = 1", Command::Update),
            ("WITH a AS (SELECT 1) DELETE FROM t", Command::Delete),
            ("WITH a AS (SELECT 1) MERGE INTO t USING a ON true WHEN MATCHED THEN DELETE", Command::Merge),
            ("WITH a AS (SELECT 1) (SELECT 2)", Command::Select),
            ("WITH a AS (SELECT 1) EXPLAIN SELECT 2", Command::Other),
            ("COPY t FROM STDIN", Command::Copy),
            ("EXPLAIN ANALYZE DELETE FROM t", Command::Explain),
            ("CREATE ROLE x", Command::Schema),
            ("ALTER DATABASE x SET a = 1", Command::Schema),
            ("DROP TABLESPACE x", Command::Schema),
            ("SECURITY LABEL ON TABLE t IS 'x'", Command::Schema),
            ("VACUUM (ANALYZE) t", Command::Maintenance),
            ("TRUNCATE t", Command::Truncate),
            ("LOCK TABLE t", Command::Lock),
            ("CALL p()", Command::Call),
            ("DO $$ BEGIN END $$", Command::Do),
            ("CHECKPOINT", Command::Checkpoint),
            ("SELECT 1; DROP TABLE t", Command::Other),
            ("CREATE TABLE t (); DROP TABLE t", Command::Other),
            ("CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END;", Command::Schema),
            ("LOAD 'x'", Command::Other),
            ("\"select\" 1", Command::Other),
            ("selec 1", Command::Other),
        ] {
            assert_eq!(told(text), command, "{text}");
        }
    }

    #[test]
    fn transactions() {
        for text in ["BEGIN", "begin work;", "BEGIN TRANSACTION", "START TRANSACTION"] {
            assert_eq!(told(text), Command::Begin(TransactionModes::default()), "{text}");
        }
        for (text, expected) in [
            (
                "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY, DEFERRABLE",
                modes(Some("serializable"), Some(true), Some(true)),
            ),
            (
                "START TRANSACTION READ WRITE ISOLATION LEVEL REPEATABLE READ",
                modes(Some("repeatable read"), Some(false), None),
            ),
            (
                "BEGIN NOT DEFERRABLE, ISOLATION LEVEL READ UNCOMMITTED",
                modes(Some("read uncommitted"), None, Some(false)),
            ),
            ("BEGIN TRANSACTION ISOLATION LEVEL READ COMMITTED", modes(Some("read committed"), None, None)),
            ("BEGIN READ ONLY READ WRITE", modes(None, Some(false), None)),
        ] {
            assert_eq!(told(text), Command::Begin(expected), "{text}");
        }
        for (text, command) in [
            ("COMMIT", Command::Commit { chain: false }),
            ("END WORK", Command::Commit { chain: false }),
            ("END", Command::Commit { chain: false }),
            ("COMMIT TRANSACTION AND CHAIN", Command::Commit { chain: true }),
            ("COMMIT AND NO CHAIN", Command::Commit { chain: false }),
            ("ROLLBACK", Command::Rollback { chain: false }),
            ("ABORT AND CHAIN", Command::Rollback { chain: true }),
            ("SAVEPOINT \"S1\"", Command::Savepoint("S1".into())),
            ("ROLLBACK TO Sp", Command::RollbackTo("sp".into())),
            ("ROLLBACK WORK TO SAVEPOINT sp", Command::RollbackTo("sp".into())),
            ("ROLLBACK TO SAVEPOINT", Command::RollbackTo("savepoint".into())),
            ("RELEASE sp", Command::Release("sp".into())),
            ("RELEASE SAVEPOINT sp", Command::Release("sp".into())),
            ("PREPARE TRANSACTION 'g'", Command::PrepareTransaction),
            ("COMMIT PREPARED 'g'", Command::CommitPrepared),
            ("ROLLBACK PREPARED 'g'", Command::RollbackPrepared),
            ("SET TRANSACTION READ ONLY", Command::SetTransaction(modes(None, Some(true), None))),
            ("SET LOCAL TRANSACTION READ ONLY", Command::SetTransaction(modes(None, Some(true), None))),
            (
                "SET TRANSACTION SNAPSHOT '00000003-1'",
                Command::SetTransaction(TransactionModes {
                    snapshot: Some("00000003-1".into()),
                    ..TransactionModes::default()
                }),
            ),
            (
                "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE",
                Command::SetCharacteristics(modes(Some("serializable"), None, None)),
            ),
        ] {
            assert_eq!(told(text), command, "{text}");
        }
    }

    #[test]
    fn settings() {
        let set = |local: bool, name: &str, value: Option<&str>| Command::Set {
            local,
            name: name.to_owned(),
            value: value.map(str::to_owned),
        };
        for (text, command) in [
            ("SET search_path TO a, \"B\", 'c'", set(false, "search_path", Some("a, \"B\", 'c'"))),
            ("SET SESSION DateStyle = ISO, DMY;", set(false, "datestyle", Some("ISO, DMY"))),
            ("SET LOCAL work_mem = '4MB'", set(true, "work_mem", Some("'4MB'"))),
            ("SET \"TimeZone\" TO DEFAULT", set(false, "timezone", None)),
            ("SET my.Var = on", set(false, "my.var", Some("on"))),
            ("SET shardway.shard = 's1'", set(false, "shardway.shard", Some("'s1'"))),
            ("SET x = -1.5", set(false, "x", Some("-1.5"))),
            ("SET x = true", set(false, "x", Some("true"))),
            ("SET TIME ZONE 'UTC'", set(false, "timezone", Some("'UTC'"))),
            ("SET TIME ZONE -8", set(false, "timezone", Some("-8"))),
            ("SET LOCAL TIME ZONE LOCAL", set(true, "timezone", None)),
            (
                "SET TIME ZONE INTERVAL '+00:00' HOUR TO MINUTE",
                set(false, "timezone", Some("INTERVAL '+00:00' HOUR TO MINUTE")),
            ),
            ("SET NAMES 'utf8'", set(false, "client_encoding", Some("'utf8'"))),
            ("SET NAMES", set(false, "client_encoding", None)),
            ("SET SCHEMA 'x'", set(false, "search_path", Some("'x'"))),
            ("SET ROLE NONE", set(false, "role", Some("NONE"))),
            ("SET role = 'x'", set(false, "role", Some("'x'"))),
            ("SET SESSION AUTHORIZATION DEFAULT", set(false, "session_authorization", None)),
            ("SET LOCAL SESSION AUTHORIZATION \"X\"", set(true, "session_authorization", Some("\"X\""))),
            ("SET XML OPTION DOCUMENT", set(false, "xmloption", Some("DOCUMENT"))),
            ("SET CONSTRAINTS ALL DEFERRED", Command::SetConstraints),
            ("SET CONSTRAINTS a.b, c IMMEDIATE", Command::SetConstraints),
            ("RESET All", Command::ResetAll),
            ("RESET SESSION AUTHORIZATION", Command::Reset("session_authorization".into())),
            ("RESET TIME ZONE", Command::Reset("timezone".into())),
            ("RESET Search_Path", Command::Reset("search_path".into())),
            ("SHOW TIME ZONE", Command::Show("timezone".into())),
            ("SHOW TRANSACTION ISOLATION LEVEL", Command::Show("transaction_isolation".into())),
            ("SHOW ALL", Command::Show("all".into())),
            ("SHOW a.b", Command::Show("a.b".into())),
            ("DISCARD TEMPORARY", Command::Discard { what: "TEMP".into() }),
            ("DISCARD all", Command::Discard { what: "ALL".into() }),
        ] {
            assert_eq!(told(text), command, "{text}");
        }
    }

    #[test]
    fn prepared_statements_and_cursors() {
        let text = "PREPARE p (int, numeric(10, 2)) AS SELECT $1;";
        let Command::Prepare { name, types, body } = told(text) else { panic!() };
        assert_eq!((name.as_str(), &text[body]), ("p", "SELECT $1"));
        assert_eq!(types, ["int", "numeric(10, 2)"]);
        let text = "EXECUTE P (1, 'a,b', f(x, y))";
        let Command::Execute { name, arguments } = told(text) else { panic!() };
        assert_eq!(name, "p");
        assert_eq!(arguments.into_iter().map(|range| &text[range]).collect::<Vec<_>>(), ["1", "'a,b'", "f(x, y)"]);
        let text = "DECLARE c BINARY NO SCROLL CURSOR WITH HOLD FOR SELECT 1";
        let Command::Declare { name, hold, binary, scroll, body } = told(text) else { panic!() };
        assert_eq!((name.as_str(), hold, binary, scroll, &text[body]), ("c", true, true, Some(false), "SELECT 1"));
        for (text, command) in [
            ("EXECUTE p", Command::Execute { name: "p".into(), arguments: Vec::new() }),
            ("DEALLOCATE ALL", Command::Deallocate(None)),
            ("DEALLOCATE PREPARE p", Command::Deallocate(Some("p".into()))),
            ("DEALLOCATE prepare", Command::Deallocate(Some("prepare".into()))),
            ("CLOSE ALL", Command::CloseCursor(None)),
            ("CLOSE c", Command::CloseCursor(Some("c".into()))),
            ("MOVE FORWARD ALL IN c", Command::Move { cursor: "c".into() }),
            ("LISTEN x", Command::Listen("x".into())),
            ("UNLISTEN *", Command::Unlisten(None)),
            ("UNLISTEN x", Command::Unlisten(Some("x".into()))),
            ("NOTIFY x, 'payload'", Command::Notify("x".into())),
        ] {
            assert_eq!(told(text), command, "{text}");
        }
        for text in [
            "FETCH c",
            "FETCH FROM c",
            "FETCH NEXT c",
            "FETCH PRIOR IN c",
            "FETCH 5 c",
            "FETCH -5 FROM c",
            "FETCH ALL c",
            "FETCH ABSOLUTE -1 FROM c",
            "FETCH FORWARD c",
            "FETCH FORWARD 5 FROM c",
            "FETCH BACKWARD ALL c",
        ] {
            assert_eq!(told(text), Command::Fetch { cursor: "c".into() }, "{text}");
        }
        assert_eq!(told("FETCH next"), Command::Fetch { cursor: "next".into() });
    }

    #[test]
    fn what_does_not_fit_is_left_to_postgresql() {
        for text in [
            "BEGIN x",
            "BEGIN READ ONLY,",
            "BEGIN , READ ONLY",
            "COMMIT AND",
            "COMMIT x",
            "END PREPARED 'g'",
            "ABORT TO x",
            "ROLLBACK TO",
            "SAVEPOINT select",
            "SAVEPOINT",
            "RELEASE a b",
            "SET",
            "SET x",
            "SET x TO",
            "SET x = 1 2",
            "SET x = 1,",
            "SET x TO select",
            "SET TIME ZONE TO 'x'",
            "SET ROLE",
            "SET x FROM CURRENT",
            "SET LOCAL",
            "SET TRANSACTION",
            "SET CONSTRAINTS ALL",
            "SHOW",
            "SHOW a b",
            "RESET",
            "DISCARD",
            "DISCARD x",
            "PREPARE p SELECT 1",
            "PREPARE p () AS SELECT 1",
            "EXECUTE p ()",
            "EXECUTE p (1) x",
            "EXECUTE p (1,)",
            "DEALLOCATE",
            "DECLARE c FOR SELECT 1",
            "FETCH",
            "FETCH ABSOLUTE c",
            "FETCH RELATIVE FROM c",
            "FETCH ALL",
            "FETCH a b",
            "CLOSE",
            "LISTEN",
            "UNLISTEN",
            "NOTIFY x, y",
            "CHECKPOINT x",
            "START",
            "WITH a",
            "WITH a AS (SELECT 1)",
            "SET x = $1",
            "SET x = (1)",
        ] {
            assert_eq!(told(text), Command::Other, "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(
            words in proptest::collection::vec(
                "set|local|session|to|=|reset|show|begin|transaction|fetch|prepare|execute|declare|with|as|\\(|\\)|,|a|1|-|'x'|for|all|;|time|zone|\\.",
                0..16,
            ),
        ) {
            let _ = told(&words.join(" "));
        }
    }
}
