//! What a schema change or maintenance statement does beside where it runs.

use super::cursor::Cursor;
use super::place;
use crate::plan::Context;
use crate::plan::Effect;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags {
    /// PreventInTransactionBlock (utility.c, vacuum.c, indexcmds.c, cluster.c).
    pub outside_transaction: bool,
    pub effect: Effect,
    pub changes_schema: bool,
    /// See [`EverywherePlan::of_server`](crate::plan::EverywherePlan::of_server).
    pub of_server: bool,
}

impl Flags {
    pub fn of(cursor: Cursor<'_>, context: &Context<'_>) -> Flags {
        let mut rest = cursor;
        let verb = rest.peek().map(|token| token.text(rest.text).to_ascii_lowercase()).unwrap_or_default();
        rest.skip(1);
        let (outside_transaction, effect, changes_schema) = match verb.as_str() {
            "create" | "alter" | "drop" => (is_outside(&verb, rest), Effect::Write, changes_schema(&verb, rest)),
            "reassign" => (false, Effect::Write, false),
            "import" => (false, Effect::Write, true),
            "vacuum" => (true, Effect::Read, false),
            "analyze" | "analyse" => (false, Effect::Read, false),
            "reindex" => (reindex_outside(rest, context), Effect::Write, false),
            "cluster" => (cluster_outside(rest, context), Effect::Write, false),
            "lock" => (false, Effect::Lock, false),
            _ => (false, Effect::Write, false),
        };
        Flags { outside_transaction, effect, changes_schema, of_server: is_about_roles(&verb, rest) }
    }
}

/// Membership, and what pg_shdescription and pg_shseclabel say of a role, belong to the server too.
fn is_about_roles(verb: &str, mut rest: Cursor<'_>) -> bool {
    match verb {
        "create" | "alter" | "drop" => rest.one_of(&["role", "user", "group"]).is_some() && !rest.word_at(0, "mapping"),
        "comment" => rest.words(&["on", "role"]),
        "security" => rest.find("on").is_some_and(|on| rest.word_at(on + 1, "role")),
        "grant" | "revoke" => !rest.has("on"),
        _ => false,
    }
}

fn is_outside(verb: &str, mut rest: Cursor<'_>) -> bool {
    rest.word("unique");
    match verb {
        "create" => {
            rest.words(&["index", "concurrently"])
                || rest.word("database")
                || rest.word("tablespace")
                || (rest.word("subscription") && !rest.tokens.is_empty())
        }
        "alter" if rest.word("table") => rest.ends_with(&["concurrently"]) && rest.has("detach"),
        "alter" if rest.word("database") => rest.has("tablespace"),
        "alter" => rest.word("system"),
        _ => {
            rest.words(&["index", "concurrently"])
                || rest.word("database")
                || rest.word("tablespace")
                || rest.word("subscription")
        }
    }
}

/// What the catalog holds may be different afterwards; roles and settings are not in it.
fn changes_schema(verb: &str, mut rest: Cursor<'_>) -> bool {
    const APART: [&str; 10] = [
        "role",
        "user",
        "group",
        "database",
        "system",
        "tablespace",
        "default",
        "publication",
        "subscription",
        "event",
    ];
    if rest.word_at(0, "owned") && verb == "drop" {
        return true;
    }
    if verb == "alter" && rest.word("sequence") {
        return rest.has("rename") || rest.has("owned") || rest.has("schema");
    }
    !APART.iter().any(|kind| rest.word_at(0, kind))
}

/// REINDEX of several tables, of a partitioned one, or concurrently.
fn reindex_outside(mut rest: Cursor<'_>, context: &Context<'_>) -> bool {
    if rest.parens().is_some_and(|options| options.has("concurrently")) {
        return true;
    }
    let one = rest.one_of(&["index", "table"]).is_some();
    if !one || rest.word("concurrently") {
        return true;
    }
    rest.qualified().is_some_and(|name| place::is_partitioned(&name, context))
}

fn cluster_outside(mut rest: Cursor<'_>, context: &Context<'_>) -> bool {
    rest.parens();
    rest.word("verbose");
    match rest.qualified() {
        None => true,
        Some(name) => place::is_partitioned(&name, context),
    }
}
