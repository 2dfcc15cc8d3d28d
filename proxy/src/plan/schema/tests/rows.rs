//! COPY, and statements without a tree.

use super::fixture::catalog;
use super::fixture::expect;
use super::fixture::expect_on;
use super::fixture::one_shard;
use super::fixture::planned;
use crate::plan::Plan;

#[test]
fn tables_are_copied_where_they_are() {
    expect(&[
        ("COPY logs TO STDOUT", "rows s1 read copy out"),
        ("COPY logs (id, line) FROM STDIN WITH (FORMAT csv, HEADER MATCH) WHERE id > 5", "rows s1 write copy in"),
        ("COPY BINARY public.logs FROM STDIN", "rows s1 write copy in"),
        ("COPY countries TO STDOUT CSV HEADER", "rows any read copy out"),
        ("COPY countries FROM STDIN", "rows everywhere write copy in"),
        ("COPY orders FROM STDIN (FREEZE)", "rows keys true write copy in"),
        ("COPY orders TO STDOUT", "rows keys true read copy out"),
        ("COPY loud TO STDOUT", "rows keys true read copy out"),
        ("COPY scratch FROM STDIN", "rows home write copy in"),
        ("COPY pg_class TO STDOUT", "rows home read copy out"),
        ("COPY v_logs TO STDOUT", "rows home read copy out"),
        ("COPY nobody TO STDOUT", "unknown public.nobody"),
        ("COPY twice TO STDOUT", "refuse: several shards"),
        ("COPY logs TO '/tmp/x'", "refuse: file or program"),
        ("COPY logs FROM PROGRAM 'x'", "refuse: file or program"),
        ("COPY logs", "ask: COPY"),
    ]);
}

#[test]
fn queries_are_copied_where_they_run() {
    expect(&[
        ("COPY (SELECT 1) TO STDOUT", "rows home read copy out"),
        ("COPY (SELECT * FROM logs) TO STDOUT (FORMAT csv)", "rows s1 read copy out"),
        ("COPY (TABLE countries) TO STDOUT", "rows any read copy out"),
        ("COPY (INSERT INTO logs VALUES (1) RETURNING id) TO STDOUT", "rows s1 write copy out"),
        ("COPY (SELECT * FROM nobody) TO STDOUT", "unknown public.nobody"),
        ("COPY (SELECT * FROM logs) FROM STDIN", "ask: COPY"),
        ("COPY (COPY (SELECT 1) TO STDOUT) TO STDOUT", "ask: no query"),
    ]);
    let Plan::Rows(plan) = planned("COPY (SELECT * FROM orders WHERE tenant_id = 5) TO STDOUT", &catalog(), None)
    else {
        panic!("no rows");
    };
    assert!(plan.scatter.is_err());
    let target = format!("{:?}", plan.target);
    assert!(target.contains("Literal { ordinal: 0"), "{target}");
}

#[test]
fn one_shard_copies_all() {
    expect_on(
        &one_shard(),
        None,
        &[
            ("COPY orders FROM STDIN", "rows s0 write copy in"),
            ("COPY orders TO STDOUT", "rows s0 read copy out"),
            ("COPY orders TO '/tmp/x'", "rows s0 read pin Opaque"),
            ("COPY (SELECT * FROM orders) TO STDOUT", "rows s0 read copy out"),
            ("COPY loud FROM STDIN", "rows s0 write copy in pin Opaque"),
        ],
    );
    expect_on(&catalog(), Some(2), &[("COPY orders FROM STDIN", "rows s2 write copy in")]);
}

#[test]
fn words_decide_only_what_is_certain() {
    expect(&[
        ("SELECT (x).* FROM logs x", "rows s1 read"),
        ("SELECT xmlelement(name a)", "rows home read"),
        ("SELECT xmlelement(name a) FROM countries", "rows any read"),
        ("SELECT xmlelement(name a) FROM countries FOR NO KEY UPDATE", "rows s0 lock"),
        ("SELECT xmlelement(name a) FROM orders", "ask: cannot be analysed"),
        ("SELECT xmlelement(name a) FROM v_orders", "ask: cannot be analysed"),
        ("SELECT xmlelement(name a) FROM v_logs", "rows s1 read"),
        ("SELECT xmlelement(name a) FROM logs, settings", "ask: cannot be analysed"),
        ("SELECT xmlelement(name a), audit()", "ask: cannot be analysed"),
        ("SELECT xmlelement(name a) FROM nobody", "unknown public.nobody"),
        ("SELECT xmlelement(name a) FROM settings, nobody", "unknown public.nobody"),
        ("SELECT xmlelement(name a) FROM logs, nobody", "ask: cannot be analysed"),
        (
            "WITH d (x) AS MATERIALIZED (SELECT 1), c(y) AS (SELECT 1) SELECT xmlelement(name a) FROM c, d",
            "rows home read",
        ),
        ("WITH c AS (SELECT 1) SELECT xmlelement(name a) FROM c", "rows home read"),
        ("SELECT xmlelement(name a), extract(day FROM nothing) FROM countries", "rows any read"),
        ("SELECT xmlelement(name a) FROM scratch", "rows home read"),
        ("SELECT xmlelement(name a) FROM scratch, logs", "ask: cannot be analysed"),
        ("TABLE logs", "rows s1 read"),
        ("TABLE countries ORDER BY code LIMIT 5", "rows any read"),
        ("SELECT xmlelement(name a) FROM logs JOIN countries USING (x) JOIN plans ON true", "rows s1 read"),
        ("SELECT xmlelement(name a) FROM logs l JOIN nobody n ON true", "ask: cannot be analysed"),
        ("UPDATE logs SET line[1:2] = xmlelement(name a)", "rows s1 write"),
        ("UPDATE countries SET name = xmlelement(name a)", "ask: cannot be analysed"),
        ("INSERT INTO orders SELECT xmlelement(name a)", "ask: cannot be analysed"),
        ("LOAD 'x'", "rows home write pin Opaque"),
        ("FROBNICATE orders", "ask: cannot be analysed"),
        ("FROBNICATE", "rows home write pin Opaque"),
    ]);
    expect_on(&catalog(), Some(2), &[("SELECT xmlelement(name a) FROM orders", "rows s2 read")]);
    expect_on(&one_shard(), None, &[("SELECT xmlelement(name a) FROM orders", "rows s0 read")]);
}

mod any {
    use super::catalog;
    use super::one_shard;
    use super::planned;
    use proptest::collection::vec;
    use proptest::prelude::Strategy;
    use proptest::proptest;
    use proptest::sample::select;

    const WORDS: &str = "CREATE ALTER DROP TABLE INDEX VIEW MATERIALIZED SEQUENCE SCHEMA TEMP UNIQUE IF NOT EXISTS ONLY \
        AS SELECT FROM JOIN USING WITH TABLE COPY TO STDIN STDOUT ( ) ( ) ( ) , , . * orders logs countries scratch \
        nobody tenant_id id bigint PRIMARY KEY FOREIGN REFERENCES ON DELETE SET NULL ADD COLUMN CONSTRAINT RENAME \
        PARTITION OF ATTACH INHERITS LIKE INCLUDING ALL DEFAULT now 5 'x' \"q\" U&\"a\" ; TRUNCATE CASCADE GRANT COMMENT \
        IS VACUUM ANALYZE REINDEX CLUSTER REFRESH LOCK IN MODE EXECUTE OWNED BY EXCLUDE = CONCURRENTLY [ ] :: UPDATE FOR";

    fn text() -> impl Strategy<Value = String> {
        vec(select(WORDS.split_whitespace().collect::<Vec<_>>()), 0..24).prop_map(|words| words.join(" "))
    }

    proptest! {
        #[test]
        fn planning_never_panics(start in select(vec!["", "CREATE", "ALTER TABLE orders", "COPY", "TABLE", "DROP", "SELECT"]), text in text()) {
            let text = format!("{start} {text}");
            if crate::sql::Statement::new(text.as_str().into(), true).is_ok() {
                let _ = planned(&text, &catalog(), None);
                let _ = planned(&text, &one_shard(), None);
                let _ = planned(&text, &catalog(), Some(1));
            }
        }
    }
}
