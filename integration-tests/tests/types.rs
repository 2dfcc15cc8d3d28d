//! Values of every kind of type, through the final phase and cursors, beside one PostgreSQL.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::client::Client;
use integration_tests::deployment::Deployment;
use integration_tests::deployment::SINGLE;
use integration_tests::layout::Layout;
use integration_tests::outcome::MODES;
use integration_tests::outcome::Rows;
use integration_tests::outcome::difference;

/// A type and values of it, as constants.
const KINDS: [(&str, &[&str]); 55] = [
    ("smallint", &["-32768", "7"]),
    ("integer", &["2147483647", "-1"]),
    ("bigint", &["-9223372036854775808", "3"]),
    ("real", &["'NaN'", "'-0'", "1.1"]),
    ("double precision", &["'-Infinity'", "0.1", "'-0'"]),
    ("numeric", &["'NaN'", "1.10", "'Infinity'"]),
    ("numeric(12,4)", &["99999999.9999", "-0.0001"]),
    ("money", &["12.34"]),
    ("boolean", &["true", "false"]),
    ("\"char\"", &["'x'"]),
    ("character(5)", &["'ab'", "''"]),
    ("character varying(7)", &["'ab '", "''"]),
    ("text", &["'žluť'", "''"]),
    ("name", &["'somebody'"]),
    ("bytea", &["'\\x00ff'", "''"]),
    ("date", &["'infinity'", "'4000-01-01 BC'"]),
    ("time", &["'24:00:00'", "'01:02:03.000004'"]),
    ("time with time zone", &["'10:00:00+05:30'"]),
    ("timestamp", &["'-infinity'", "'2024-02-29 12:00:00.123456'"]),
    ("timestamp with time zone", &["'2024-02-29 12:00:00.5-08'"]),
    ("timestamp(2)", &["'2024-02-29 12:00:00.129'"]),
    ("interval", &["'1 mon -2 days 03:00:00.5'"]),
    ("uuid", &["'00000000-0000-0000-0000-00000000000a'"]),
    ("json", &["'{\"a\" :  1}'"]),
    ("jsonb", &["'{\"b\": [1, null]}'"]),
    ("jsonpath", &["'$.a[*] ? (@ > 1)'"]),
    ("xml", &["'<a>b</a>'"]),
    ("inet", &["'10.0.0.1/8'", "'::1'"]),
    ("cidr", &["'10.0.0.0/8'"]),
    ("macaddr", &["'08:00:2b:01:02:03'"]),
    ("macaddr8", &["'08:00:2b:01:02:03:04:05'"]),
    ("bit(3)", &["B'101'"]),
    ("bit varying", &["B'1'", "B''"]),
    ("point", &["'(1,2.5)'"]),
    ("line", &["'{1,2,3}'"]),
    ("lseg", &["'[(1,2),(3,4)]'"]),
    ("box", &["'(3,4),(1,2)'"]),
    ("path", &["'((1,2),(3,4))'"]),
    ("polygon", &["'((1,2),(3,4),(5,6))'"]),
    ("circle", &["'<(1,2),3>'"]),
    ("int4range", &["'[1,5)'", "'empty'"]),
    ("numrange", &["'(1.50,)'"]),
    ("tstzrange", &["'[2024-01-01 00:00+00,2024-01-02 00:00+00)'"]),
    ("int8multirange", &["'{[1,3),[5,9)}'"]),
    ("tsvector", &["'a:1A b:2'"]),
    ("tsquery", &["'a & !b'"]),
    ("pg_lsn", &["'16/B374D848'"]),
    ("integer[]", &["'{1,NULL,3}'", "'{}'", "'[2:3]={1,2}'"]),
    ("text[]", &["'{\"a,b\",NULL,\"NULL\",\"\"}'", "'{{a,b},{c,d}}'"]),
    ("double precision[]", &["'{0.1,NaN,-0}'"]),
    ("timestamp with time zone[]", &["'{2024-02-29 12:00:00.5-08}'"]),
    ("bytea[]", &["'{\"\\\\\\\\x00ff\"}'"]),
    ("numeric(5,1)[]", &["'{1.25}'"]),
    ("point[]", &["'{\"(1,2)\"}'"]),
    ("int4range[]", &["'{\"[1,3)\"}'"]),
];

/// One table for each type: a row without a value, and one for each of the values.
fn schema_and_data() -> (Vec<String>, Vec<String>) {
    let mut schema = Vec::new();
    let mut data = Vec::new();
    for (n, (kind, values)) in KINDS.iter().enumerate() {
        schema.push(format!("CREATE TABLE kind{n} (k bigint PRIMARY KEY, v {kind})"));
        let rows: Vec<String> =
            values.iter().enumerate().map(|(k, v)| format!("({}, {v}), ({}, NULL)", k * 10, k * 10 + 3)).collect();
        data.push(format!("INSERT INTO kind{n} VALUES {}", rows.join(", ")));
    }
    (schema, data)
}

#[test]
fn values_travel_unchanged() {
    let (schema, data) = schema_and_data();
    let layout = (0..KINDS.len()).fold(Layout::new(3).hash_map("keys", &["bigint"]), |layout, n| {
        layout.sharded(&format!("public.kind{n}"), &["k"])
    });
    let deployment = Deployment::start(layout);
    let cluster = deployment.cluster(0);
    cluster.create_database(SINGLE);
    let mut single = Client::connect(&cluster.app(SINGLE));
    let mut proxy = deployment.connect();
    for sql in &schema {
        single.execute(sql);
        proxy.execute(sql);
    }
    for sql in &data {
        single.execute(sql);
    }
    deployment.load(&data.join(";\n"));
    let mut wrong = Vec::new();
    for (n, (kind, _)) in KINDS.iter().enumerate() {
        let steps = [
            format!("SELECT v, k, row_number() OVER (ORDER BY k) FROM kind{n} ORDER BY k"),
            format!("SELECT DISTINCT ON (k) * FROM kind{n} ORDER BY k, k + 1"),
            "BEGIN".to_owned(),
            format!("DECLARE c CURSOR FOR SELECT v, k + 0 AS key FROM kind{n} ORDER BY k"),
            "FETCH ALL FROM c".to_owned(),
            "COMMIT".to_owned(),
        ];
        for mode in MODES {
            for sql in &steps {
                let (mut expected, mut actual) = (single.run(mode, sql, &[]), proxy.run(mode, sql, &[]));
                for column in [&mut expected, &mut actual].into_iter().flat_map(|o| o.columns.iter_mut().flatten()) {
                    (column.table, column.attribute) = (0, 0);
                }
                if let Some(difference) = difference(&expected, &actual, Rows::Ordered) {
                    wrong.push(format!("{kind}, {mode:?}, {sql}: {difference}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
