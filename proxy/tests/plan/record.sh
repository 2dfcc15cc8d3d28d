#!/bin/sh
# Records schema.json and builtins.json from a PostgreSQL that has an empty database with default collation C.UTF-8:
#   proxy/tests/plan/record.sh 'postgresql://postgres@127.0.0.1:5432/plan'
set -eu
here=$(dirname "$0")
query() { sed -n "/^pub const $1: &str = r#\"/,/^\"#;/p" "$here/../../src/catalog/schema.rs" | sed '1d;$d'; }
psql -q -v ON_ERROR_STOP=1 -f "$here/schema.sql" "$1"
query QUERY | psql -qAt -v ON_ERROR_STOP=1 "$1" > "$here/schema.json"
query BUILTINS_QUERY | psql -qAt -v ON_ERROR_STOP=1 "$1" > "$here/builtins.json"
