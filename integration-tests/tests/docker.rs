//! The container files: what they name is there, and fits together. (They are read, not run.)
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use integration_tests::proxy::root;
use integration_tests::tools;
use integration_tests::tools::said;
use serde_json::Value;
use std::fs;
use std::process::Command;

/// A YAML file as JSON, read by PyYAML.
fn yaml(path: &str) -> Value {
    let script = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))";
    let python = tools::local().join("venv/bin/python");
    let output = Command::new(python).args(["-c", script]).arg(root().join(path)).output();
    let output = output.expect(".local/venv (scripts/setup makes it)");
    assert!(output.status.success(), "{path}: {}", said(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn compose_fits_the_configuration() {
    let compose = yaml("docker/compose.yaml");
    let services = compose["services"].as_object().unwrap();
    assert_eq!(services.keys().collect::<Vec<_>>(), ["prometheus", "s0", "s1", "s2", "shardway"]);
    let config = fs::read_to_string(root().join("config/docker.toml")).unwrap();
    for shard in ["s0", "s1", "s2"] {
        assert!(config.contains(&format!("@{shard}:5432/shop")), "{shard} is not in config/docker.toml");
        let environment = &services[shard]["environment"];
        assert_eq!((&environment["POSTGRES_USER"], &environment["POSTGRES_DB"]), (&"app".into(), &"shop".into()));
    }
    // Every file that is mounted is there.
    for service in services.values() {
        for volume in service["volumes"].as_array().into_iter().flatten() {
            let source = volume.as_str().unwrap().split(':').next().unwrap();
            let named = compose["volumes"].as_object().unwrap().contains_key(source);
            assert!(named || root().join("docker").join(source).exists(), "{source}");
        }
    }
    let context = services["shardway"]["build"]["dockerfile"].as_str().unwrap();
    assert!(root().join(context).exists());
}

#[test]
fn prometheus_scrapes_the_proxy() {
    let prometheus = yaml("config/prometheus.yml");
    assert_eq!(prometheus["scrape_configs"][0]["static_configs"][0]["targets"][0], "127.0.0.1:9632");
    let compose = yaml("docker/compose.yaml");
    assert_eq!(compose["services"]["prometheus"]["network_mode"], "service:shardway");
    let output = Command::new("promtool").args(["check", "config"]).arg(root().join("config/prometheus.yml")).output();
    let output = output.expect("promtool (scripts/setup installs it)");
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn the_image_is_small_and_has_no_root() {
    let text = fs::read_to_string(root().join("docker/Dockerfile")).unwrap();
    let lines: Vec<&str> = text.lines().filter(|l| !l.starts_with('#')).collect();
    let all = |word: &str| -> Vec<&str> { lines.iter().filter_map(|l| l.strip_prefix(word)).map(str::trim).collect() };
    let images = all("FROM ");
    assert_eq!(images.len(), 2, "a stage to build in and one to run in");
    assert!(images[0].ends_with("AS build") && images[1].contains("slim"));
    assert!(lines.iter().any(|l| l.contains("cargo build --release --locked")));
    assert_eq!(all("USER "), ["shardway"]);
    assert_eq!(all("ENTRYPOINT "), ["[\"shardway\"]"]);
    // What is copied from the repository is there.
    for copy in all("COPY ").iter().filter(|c| !c.starts_with("--from")) {
        let source = copy.split_whitespace().next().unwrap();
        assert!(root().join(source).exists(), "{source}");
    }
}
