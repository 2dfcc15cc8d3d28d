//! Applications that migrate their own database: Django and Alembic, forwards, in use, and backwards.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::application;
use integration_tests::deployment::Deployment;
use integration_tests::layout::Layout;
use integration_tests::postgres::Cluster;

fn django(environment: &[(&str, &str)]) {
    let layout = Layout::new(3)
        .hash_map("tenants", &["bigint"])
        .sharded("public.library_invoice", &["tenant_id"])
        .sharded("public.library_line", &["tenant_id"]);
    application::same(&Deployment::on(layout, Cluster::builder()), "django", environment);
}

#[test]
fn django_migrates() {
    django(&[]);
}

#[test]
fn django_migrates_with_parameters_on_the_server() {
    django(&[("SERVER_SIDE_BINDING", "1")]);
}

#[test]
fn alembic_migrates() {
    let layout = Layout::new(2)
        .hash_map("tenants", &["bigint"])
        .sharded("public.event", &["tenant_id"])
        .sharded("public.event_note", &["tenant_id"]);
    application::same(&Deployment::on(layout, Cluster::builder()), "alembic", &[]);
}
