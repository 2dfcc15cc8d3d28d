# Thin: each target calls one script or one cargo command.
.PHONY: demo test suites bench

demo: ## four local shards with a shop in them, and the proxy before them
	cargo run --release --locked --package shardway -- demo

test: ## format, lints, documentation, all tests
	scripts/test

suites: ## the test suites of drivers and ORMs, through the proxy and directly; an hour or two
	scripts/suites

bench: ## direct, PgBouncer, a TCP forwarder and Shardway side by side
	scripts/setup
	cargo build --release --locked --package shardway
	cargo run --release --locked --package shardway-bench
