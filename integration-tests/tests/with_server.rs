//! Unit tests of the proxy that need a PostgreSQL: they are marked as ignored there, and run here with a server.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::postgres::Cluster;
use std::process::Command;

#[test]
fn unit_tests_that_need_a_server_pass() {
    let hba = "host all by_scram 127.0.0.1/32 scram-sha-256\nhost all by_md5 127.0.0.1/32 md5\n\
               host all by_password 127.0.0.1/32 password\nhost all all 127.0.0.1/32 trust\n";
    let cluster = Cluster::builder().hba(hba).start();
    for sql in [
        "SET password_encryption = 'scram-sha-256'; CREATE ROLE by_scram LOGIN PASSWORD 'secret'",
        "CREATE ROLE by_password LOGIN PASSWORD 'secret'",
        "SET password_encryption = 'md5'; CREATE ROLE by_md5 LOGIN PASSWORD 'secret'",
        "CREATE ROLE by_trust LOGIN",
    ] {
        cluster.execute("postgres", sql);
    }
    let server = format!("127.0.0.1:{}", cluster.superuser("postgres").port);
    let status = Command::new(env!("CARGO"))
        .args(["test", "--locked", "--quiet", "--package", "shardway", "--lib", "--", "--ignored", "--test-threads=1"])
        .env("SHARDWAY_TEST_SERVER", format!("postgresql://postgres@{server}"))
        .env("SHARDWAY_TEST_LOGINS", &server)
        .status()
        .unwrap();
    assert!(status.success());
}
