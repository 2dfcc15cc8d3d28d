//! Cursors over several shards, step by step beside one PostgreSQL.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::client::Client;
use integration_tests::deployment::Deployment;
use integration_tests::deployment::SINGLE;
use integration_tests::outcome::Mode;
use integration_tests::outcome::Rows;
use integration_tests::outcome::difference;
use integration_tests::shop;

/// Statements of one session each; every answer must be PostgreSQL's.
const SESSIONS: [&[&str]; 8] = [
    &[
        "BEGIN",
        "DECLARE c CURSOR FOR SELECT tenant_id, order_id FROM orders ORDER BY tenant_id, order_id",
        "FETCH 3 FROM c",
        "FETCH NEXT FROM c",
        "MOVE FORWARD 5 IN c",
        "FETCH FORWARD 2 FROM c",
        "FETCH ALL FROM c",
        "FETCH NEXT FROM c",
        "CLOSE c",
        "FETCH NEXT FROM c",
        "COMMIT",
    ],
    &[
        "BEGIN",
        "DECLARE c SCROLL CURSOR FOR SELECT * FROM users ORDER BY tenant_id, user_id",
        "FETCH LAST FROM c",
        "FETCH BACKWARD 3 FROM c",
        "FETCH FIRST FROM c",
        "FETCH ABSOLUTE 4 FROM c",
        "FETCH RELATIVE -2 FROM c",
        "MOVE BACKWARD ALL IN c",
        "FETCH PRIOR FROM c",
        "FETCH 0 FROM c",
        "COMMIT",
    ],
    &[
        "BEGIN",
        "DECLARE c NO SCROLL CURSOR FOR SELECT tenant_id FROM orders ORDER BY tenant_id, order_id",
        "FETCH 2 FROM c",
        "FETCH BACKWARD 1 FROM c",
        "ROLLBACK",
    ],
    &[
        "DECLARE held CURSOR WITH HOLD FOR SELECT tenant_id, count(*), sum(amount) / 2 FROM orders GROUP BY tenant_id ORDER BY 1",
        "FETCH 2 FROM held",
        "FETCH 1 FROM held",
        "CLOSE held",
        "CLOSE held",
    ],
    &[
        "DECLARE c CURSOR FOR SELECT user_id FROM orders",
        "BEGIN",
        "DECLARE c CURSOR FOR SELECT order_id FROM orders ORDER BY tenant_id, order_id",
        "DECLARE c CURSOR FOR SELECT user_id FROM users ORDER BY tenant_id, user_id",
        "ROLLBACK",
    ],
    &["BEGIN", "DECLARE c CURSOR FOR SELECT nothing FROM orders", "FETCH 1 FROM c", "ROLLBACK"],
    &[
        "BEGIN",
        "SAVEPOINT s",
        "DECLARE c CURSOR FOR SELECT count(*) + 1 FROM orders WHERE false",
        "FETCH ALL FROM c",
        "ROLLBACK TO s",
        "FETCH ALL FROM c",
        "ROLLBACK",
    ],
    &[
        "BEGIN",
        "DECLARE empty CURSOR FOR SELECT order_id, amount FROM orders WHERE order_id < 0",
        "FETCH ALL FROM empty",
        "MOVE ALL IN empty",
        "CLOSE ALL",
        "COMMIT",
    ],
];

/// A statement and its values.
type Step = (&'static str, &'static [Option<&'static str>]);

/// The same with values, which only the extended protocol has.
const WITH_VALUES: [&[Step]; 4] = [
    &[
        ("BEGIN", &[]),
        (
            "DECLARE c CURSOR FOR SELECT order_id, $2::text FROM orders WHERE tenant_id = $1 ORDER BY order_id",
            &[Some("2"), Some("x")],
        ),
        ("FETCH 2 FROM c", &[]),
        ("FETCH ALL FROM c", &[]),
        ("COMMIT", &[]),
    ],
    &[
        ("BEGIN", &[]),
        (
            "DECLARE c SCROLL CURSOR FOR SELECT tenant_id, order_id FROM orders WHERE order_id > $1 ORDER BY 1, 2 LIMIT $2",
            &[Some("1"), Some("5")],
        ),
        ("FETCH LAST FROM c", &[]),
        ("FETCH FIRST FROM c", &[]),
        ("ROLLBACK", &[]),
    ],
    &[
        (
            "DECLARE held CURSOR WITH HOLD FOR SELECT tenant_id FROM orders WHERE tenant_id = ANY ($1) ORDER BY tenant_id, order_id",
            &[Some("{1,3}")],
        ),
        ("FETCH 3 FROM held", &[]),
        ("CLOSE held", &[]),
    ],
    &[
        ("BEGIN", &[]),
        ("DECLARE c CURSOR FOR SELECT nothing FROM orders WHERE order_id > $1", &[Some("1")]),
        ("ROLLBACK", &[]),
    ],
];

fn steps_over(shards: usize) {
    let deployment: Deployment = shop::deploy(shop::layout(shards));
    let mut wrong = Vec::new();
    for mode in [Mode::Simple, Mode::Text, Mode::Binary] {
        for session in SESSIONS {
            let mut single = Client::connect(&deployment.cluster(0).app(SINGLE));
            let mut proxy = deployment.connect();
            for sql in session {
                let (mut expected, mut actual) = (single.run(mode, sql, &[]), proxy.run(mode, sql, &[]));
                // The rows of a cursor over several shards are no table's any more.
                for column in [&mut expected, &mut actual].into_iter().flat_map(|o| o.columns.iter_mut().flatten()) {
                    (column.table, column.attribute) = (0, 0);
                }
                if let Some(difference) = difference(&expected, &actual, Rows::Ordered) {
                    wrong.push(format!("{mode:?} {sql}: {difference}"));
                }
            }
        }
    }
    for session in WITH_VALUES {
        let mut single = Client::connect(&deployment.cluster(0).app(SINGLE));
        let mut proxy = deployment.connect();
        for (sql, values) in session {
            let mut answers = [single.run(Mode::Text, sql, values), proxy.run(Mode::Text, sql, values)];
            for column in answers.iter_mut().flat_map(|o| o.columns.iter_mut().flatten()) {
                (column.table, column.attribute) = (0, 0);
            }
            if let Some(difference) = difference(&answers[0], &answers[1], Rows::Ordered) {
                wrong.push(format!("{sql} {values:?}: {difference}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn cursors_over_one_shard() {
    steps_over(1);
}

#[test]
fn cursors_over_three_shards() {
    steps_over(3);
}
