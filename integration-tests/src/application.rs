//! Applications in Python with their own way of migrating a database: what they print on one PostgreSQL, they must print
//! through the proxy.

use crate::client::Address;
use crate::deployment::Deployment;
use crate::proxy::root;
use crate::tools;
use crate::tools::libpq_program;
use crate::tools::said;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

/// The database of the application on one PostgreSQL, on the first cluster.
const EXPECTED: &str = "expected";

/// Runs `drivers/<directory>/run.py` on one PostgreSQL and through the proxy.
pub fn same(deployment: &Deployment, directory: &str, environment: &[(&str, &str)]) {
    let cluster = deployment.cluster(0);
    cluster.execute("postgres", &format!("DROP DATABASE IF EXISTS {EXPECTED}"));
    cluster.create_database(EXPECTED);
    let expected = run(&cluster.app(EXPECTED), directory, environment).unwrap_or_else(|text| panic!("alone: {text}"));
    let actual = run(&deployment.address(), directory, environment).unwrap_or_else(|text| panic!("proxy: {text}"));
    assert!(expected.contains("is content"), "{expected}");
    assert_eq!(actual, expected);
}

fn run(address: &Address, directory: &str, environment: &[(&str, &str)]) -> Result<String, String> {
    let python = tools::local().join("venv/bin/python");
    let mut command = libpq_program(python.to_str().unwrap(), address);
    command.current_dir(root().join("integration-tests/drivers").join(directory)).arg("run.py");
    command.env("PYTHONDONTWRITEBYTECODE", "1").envs(environment.iter().copied());
    let output = tools::output_within(&mut command, LIMIT).map_err(|e| format!("{e} (scripts/setup installs it)"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(said(&output)),
    }
}
