//! What was set on a server connection, and the SQL that gives it a session's settings.

use crate::sql::literal;
use crate::variables::Settings;
use crate::variables::Variables;
use crate::variables::kinds;
use crate::variables::kinds::Kind;
use std::sync::Arc;

/// The settings of one server connection beyond those of its own startup.
///
/// Keep it in step: `adopt` after the text of a difference was executed outside a transaction, after a SET outside a
/// transaction, and after the COMMIT of a transaction in which this connection was given all changes. After a rollback
/// do nothing: the server has undone the same changes.
#[derive(Clone, Debug, Default)]
pub struct Applied {
    values: Arc<Settings>,
    generation: u64,
    unknown: bool,
}

impl Applied {
    /// The connection has what the session desires now.
    pub fn adopt(&mut self, variables: &Variables) {
        if !self.unknown && self.generation == variables.generation() {
            return;
        }
        self.values = Arc::clone(&variables.state.desired);
        self.generation = variables.generation();
        self.unknown = false;
    }

    /// Something ran on the connection after which its settings are not known.
    pub fn forget(&mut self) {
        self.unknown = true;
    }

    /// The connection was reset (DISCARD ALL).
    pub fn clear(&mut self) {
        *self = Applied::default();
    }

    pub fn is_unknown(&self) -> bool {
        self.unknown
    }
}

/// What must be set on a server connection; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Its settings are not known: reset all of them first.
    from_scratch: bool,
    /// In the order in which they are to be made; `None` is RESET.
    changes: Vec<(String, Option<String>)>,
}

/// Entries of one SELECT: PostgreSQL takes 1664.
const ENTRIES: usize = 1000;

impl Difference {
    /// The changes, in order; `None` is RESET.
    pub fn changes(&self) -> &[(String, Option<String>)] {
        &self.changes
    }

    /// Whether a custom variable (`a.b`) is reset. PostgreSQL cannot forget one: `current_setting('a.b', true)` will give
    /// an empty string where it gave NULL before. A connection that is to look untouched must be closed instead.
    pub fn resets_custom(&self) -> bool {
        self.changes.iter().any(|(name, value)| value.is_none() && name.contains('.'))
    }

    /// The text of a simple Query that makes the changes, all or none of them. It answers with rows, which are to be
    /// dropped. It is ASCII under any client_encoding, and outside a transaction only.
    pub fn to_sql(&self) -> String {
        self.statements().join("; ")
    }

    /// The same, statement by statement, for a connection that takes only one at a time.
    pub fn statements(&self) -> Vec<String> {
        let mut statements = Vec::new();
        if self.from_scratch {
            statements.extend(["SET SESSION AUTHORIZATION DEFAULT".to_owned(), "RESET ALL".to_owned()]);
        }
        for chunk in self.changes.chunks(ENTRIES) {
            let mut sql = String::new();
            push_set_config(chunk, false, &mut sql);
            statements.push(sql);
        }
        statements
    }
}

/// `SELECT pg_catalog.set_config(…), …`; a NULL value is RESET (set_config_by_name in guc_funcs.c).
fn push_set_config(changes: &[(String, Option<String>)], local: bool, sql: &mut String) {
    for chunk in changes.chunks(ENTRIES) {
        sql.push_str(if sql.is_empty() { "SELECT " } else { "; SELECT " });
        for (index, (name, value)) in chunk.iter().enumerate() {
            let value = value.as_deref().map_or_else(|| "NULL".to_owned(), literal::quote);
            let comma = if index == 0 { "" } else { ", " };
            sql.push_str(&format!("{comma}pg_catalog.set_config({}, {value}, {local})", literal::quote(name)));
        }
    }
}

/// They decide what else may be set, so they are put aside first and set last, in this order.
const USERS: [&str; 2] = ["session_authorization", "role"];

impl Variables {
    /// What a server connection lacks, or has and should not; `None` if nothing. Constant time if the connection had
    /// these very settings last.
    pub fn difference(&self, applied: &Applied) -> Option<Difference> {
        if !applied.unknown && applied.generation == self.generation() {
            return None;
        }
        let nothing = Settings::new();
        let old = if applied.unknown { &nothing } else { applied.values.as_ref() };
        let new = self.desired();
        if !applied.unknown && old == new {
            return None;
        }
        let changed = |name: &&String| kinds::kind(name) != Kind::Own && old.get(*name) != new.get(*name);
        let names: Vec<&String> = new
            .keys()
            .filter(changed)
            .chain(old.keys().filter(|name| !new.contains_key(*name) && changed(name)))
            .collect();
        let difference = Difference { from_scratch: applied.unknown, changes: in_order(&names, old, new) };
        (difference.from_scratch || !difference.changes.is_empty()).then_some(difference)
    }

    /// Whether this transaction has SET LOCAL variables of the client's own: a server never forgets that they were made.
    pub fn has_local_custom(&self) -> bool {
        self.state.local.keys().any(|name| name.contains('.') && kinds::kind(name) != Kind::Own)
    }

    /// The SQL that gives a server connection the SET LOCAL settings of this transaction, inside its own; `None` if
    /// there are none.
    pub fn local_sql(&self) -> Option<String> {
        let changes: Vec<(String, Option<String>)> = self
            .state
            .local
            .iter()
            .filter(|(name, _)| kinds::kind(name) != Kind::Own)
            .map(|(name, value)| (name.clone(), value.clone().or_else(|| self.startup.get(name).cloned())))
            .collect();
        let mut sql = String::new();
        push_set_config(&changes, true, &mut sql);
        (!sql.is_empty()).then_some(sql)
    }
}

fn in_order(names: &[&String], old: &Settings, new: &Settings) -> Vec<(String, Option<String>)> {
    let mut changes = Vec::with_capacity(names.len() + 2);
    if names.is_empty() {
        return changes;
    }
    // What the other user may not set or reset is done as the connection's own user.
    let as_other = USERS.iter().any(|name| old.contains_key(*name));
    if as_other {
        changes.extend(USERS.iter().map(|name| ((*name).to_owned(), None)));
    }
    for name in names.iter().filter(|name| !USERS.contains(&name.as_str())) {
        changes.push(((*name).clone(), new.get(*name).cloned()));
    }
    changes.extend(USERS.iter().filter_map(|name| Some(((*name).to_owned(), Some(new.get(*name)?.clone())))));
    changes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::Applied;
    use crate::variables::Settings;
    use crate::variables::Variables;
    use proptest::proptest;

    fn sql(variables: &Variables, applied: &Applied) -> Option<String> {
        variables.difference(applied).map(|difference| difference.to_sql())
    }

    #[test]
    fn only_differences_are_sent() {
        let mut variables = Variables::default();
        let mut applied = Applied::default();
        assert_eq!(sql(&variables, &applied), None);
        variables.set("search_path", "a, \"b'\"");
        variables.set("shardway.shard", "s1");
        variables.set("X.y", "é\\");
        let expected = "SELECT pg_catalog.set_config('search_path', 'a, \"b''\"', false), \
                        pg_catalog.set_config('x.y', E'\\u00e9\\\\', false)";
        assert_eq!(sql(&variables, &applied).as_deref(), Some(expected));
        applied.adopt(&variables);
        assert_eq!(sql(&variables, &applied), None);
        variables.reset("x.y");
        let difference = variables.difference(&applied).unwrap();
        assert!(difference.resets_custom());
        assert_eq!(difference.to_sql(), "SELECT pg_catalog.set_config('x.y', NULL, false)");
        variables.reset("shardway.shard");
        applied.adopt(&variables);
        variables.set("shardway.run_on", "all");
        assert_eq!(sql(&variables, &applied), None);
    }

    #[test]
    fn equal_settings_of_two_sessions_do_not_differ() {
        let startup = Settings::from([("timezone".to_owned(), "UTC".to_owned())]);
        let mut first = Variables::with_startup(startup.clone());
        let mut second = Variables::with_startup(startup);
        let mut applied = Applied::default();
        first.set("work_mem", "1MB");
        applied.adopt(&first);
        assert!(sql(&second, &applied).is_some());
        second.set("WORK_MEM", "1MB");
        assert_ne!(first.generation(), second.generation());
        assert_eq!(sql(&second, &applied), None);
        let expected =
            "SELECT pg_catalog.set_config('timezone', NULL, false), pg_catalog.set_config('work_mem', NULL, false)";
        let other = sql(&Variables::default(), &applied).unwrap();
        assert!(other == expected, "{other}");
    }

    #[test]
    fn what_is_not_known_is_reset_first() {
        let mut variables = Variables::default();
        let mut applied = Applied::default();
        applied.forget();
        assert!(applied.is_unknown());
        assert_eq!(sql(&variables, &applied).as_deref(), Some("SET SESSION AUTHORIZATION DEFAULT; RESET ALL"));
        variables.set("geqo", "off");
        let expected =
            "SET SESSION AUTHORIZATION DEFAULT; RESET ALL; SELECT pg_catalog.set_config('geqo', 'off', false)";
        assert_eq!(sql(&variables, &applied).as_deref(), Some(expected));
        applied.adopt(&variables);
        assert_eq!(sql(&variables, &applied), None);
    }

    #[test]
    fn users_are_put_aside_first_and_set_last() {
        let mut variables = Variables::default();
        let mut applied = Applied::default();
        variables.set("session_authorization", "u");
        variables.set("role", "r");
        variables.set("zero_damaged_pages", "on");
        let set = "pg_catalog.set_config('zero_damaged_pages', 'on', false), \
                   pg_catalog.set_config('session_authorization', 'u', false), pg_catalog.set_config('role', 'r', false)";
        assert_eq!(sql(&variables, &applied), Some(format!("SELECT {set}")));
        applied.adopt(&variables);
        variables.set("geqo", "off");
        let again = "SELECT pg_catalog.set_config('session_authorization', NULL, false), \
                     pg_catalog.set_config('role', NULL, false), pg_catalog.set_config('geqo', 'off', false), \
                     pg_catalog.set_config('session_authorization', 'u', false), pg_catalog.set_config('role', 'r', false)";
        assert_eq!(sql(&variables, &applied).as_deref(), Some(again));
    }

    #[test]
    fn local_settings_are_replayed_apart() {
        let mut variables = Variables::default();
        assert_eq!(variables.local_sql(), None);
        variables.begin();
        variables.set_local("work_mem", Some("1MB"));
        variables.set_local("geqo", None);
        variables.set_local("shardway.shard", Some("s1"));
        let expected =
            "SELECT pg_catalog.set_config('geqo', NULL, true), pg_catalog.set_config('work_mem', '1MB', true)";
        assert_eq!(variables.local_sql().as_deref(), Some(expected));
        assert_eq!(sql(&variables, &Applied::default()), None);
        variables.commit();
        assert_eq!(variables.local_sql(), None);
    }

    proptest! {
        /// The changes lead from any state to any other.
        #[test]
        fn a_difference_makes_equal(
            before in proptest::collection::btree_map("a|b|c|role|session_authorization", "[xy]", 0..5),
            after in proptest::collection::btree_map("a|b|c|role|session_authorization", "[xy]", 0..5),
        ) {
            let mut applied = Applied::default();
            applied.adopt(&Variables::with_startup(before.clone()));
            let variables = Variables::with_startup(after.clone());
            let mut server = before;
            if let Some(difference) = variables.difference(&applied) {
                for (name, value) in difference.changes() {
                    if name == "session_authorization" {
                        server.remove("role");
                    }
                    match value {
                        Some(value) => server.insert(name.clone(), value.clone()),
                        None => server.remove(name),
                    };
                }
            }
            assert_eq!(server, after);
        }
    }
}
