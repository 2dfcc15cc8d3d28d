//! A session's settings: values, savepoint stack, and what must be set on a server connection that differs.
//!
//! Values are the strings that `current_setting` gives, so that they can be put on any server connection with
//! `set_config`. Changes follow PostgreSQL's transactions (src/backend/utils/misc/guc.c): SET is undone by a rollback,
//! SET LOCAL lasts to the end of the transaction.

pub mod applied;
pub mod kinds;
pub mod startup;
pub mod text;

use crate::variables::kinds::Kind;
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

/// Values by name; names are lower case.
pub type Settings = BTreeMap<String, String>;

/// The numbers of states of all sessions, so that equal numbers mean equal settings. 0 is never given.
static GENERATION: AtomicU64 = AtomicU64::new(1);

fn next_generation() -> u64 {
    GENERATION.fetch_add(1, Ordering::Relaxed)
}

/// The startup settings that sessions came with last, and their numbers. Clients of one program come with the same
/// ones, and share connections that need not be changed between them.
static STARTUPS: Mutex<VecDeque<(Arc<Settings>, u64)>> = Mutex::new(VecDeque::new());

/// Startup settings remembered: a server is used by few programs at a time, and looking through them is cheap beside a
/// login.
const STARTUPS_KEPT: usize = 64;

/// The same settings have the same number, as long as they are remembered.
fn known_startup(startup: Settings) -> (Arc<Settings>, u64) {
    let mut startups = STARTUPS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((known, generation)) = startups.iter().find(|(known, _)| **known == startup) {
        return (Arc::clone(known), *generation);
    }
    let new = (Arc::new(startup), next_generation());
    startups.truncate(STARTUPS_KEPT - 1);
    startups.push_front(new.clone());
    new
}

/// The settings of one session.
#[derive(Clone, Debug)]
pub struct Variables {
    /// What RESET leads back to: the parameters of the startup packet.
    startup: Arc<Settings>,
    state: State,
    transaction: Option<Transaction>,
}

/// What a savepoint keeps.
#[derive(Clone, Debug)]
struct State {
    /// Startup parameters overlaid by SET.
    desired: Arc<Settings>,
    /// SET LOCAL; `None` is DEFAULT.
    local: Arc<BTreeMap<String, Option<String>>>,
    /// Of `desired`.
    generation: u64,
}

#[derive(Clone, Debug)]
struct Transaction {
    begin: State,
    savepoints: Vec<(String, State)>,
}

impl Default for Variables {
    fn default() -> Self {
        Variables::with_startup(Settings::new())
    }
}

impl Variables {
    /// A session that has just begun; `startup::settings` makes the values. Names must be lower case.
    pub fn with_startup(startup: Settings) -> Variables {
        let (startup, generation) = known_startup(startup);
        let state = State { desired: Arc::clone(&startup), local: Arc::new(BTreeMap::new()), generation };
        Variables { startup, state, transaction: None }
    }

    /// Startup parameters overlaid by what was SET: what a server connection must have. Names of the proxy's own
    /// variables are among them; they are never sent.
    pub fn desired(&self) -> &Settings {
        &self.state.desired
    }

    /// Equal numbers mean equal `desired` settings, even of different sessions; a rollback brings the number back.
    pub fn generation(&self) -> u64 {
        self.state.generation
    }

    /// The value in force, SET LOCAL first; `None` where the server's own default holds. `name` in any case.
    pub fn get(&self, name: &str) -> Option<&str> {
        let lower = name.bytes().any(|b| b.is_ascii_uppercase()).then(|| name.to_ascii_lowercase());
        self.value(lower.as_deref().unwrap_or(name))
    }

    /// As `get`, for a name in lower case.
    pub fn value(&self, name: &str) -> Option<&str> {
        match self.state.local.get(name) {
            Some(Some(value)) => Some(value),
            Some(None) => self.startup.get(name).map(String::as_str),
            None => self.state.desired.get(name).map(String::as_str),
        }
    }

    /// The search_path in force, as written; `text::search_path` reads it.
    pub fn search_path(&self) -> Option<&str> {
        self.value("search_path")
    }

    /// Whether backslashes are plain in strings; `None` where the server's own default holds (it reports it).
    pub fn standard_conforming_strings(&self) -> Option<bool> {
        text::boolean(self.value("standard_conforming_strings")?)
    }

    /// `SET [SESSION]`. What belongs to a transaction and what cannot be set is not kept (see `kinds`).
    pub fn set(&mut self, name: &str, value: &str) {
        self.change(name, Some(value));
    }

    /// RESET and SET … TO DEFAULT.
    pub fn reset(&mut self, name: &str) {
        self.change(name, None);
    }

    fn change(&mut self, name: &str, value: Option<&str>) {
        let name = name.to_ascii_lowercase();
        if !kinds::kind(&name).is_kept() {
            return;
        }
        // A new session user has no role set (SetSessionAuthorization in miscinit.c).
        if name == "session_authorization" {
            self.put("role", None);
        }
        let value = value.map(str::to_owned).or_else(|| self.startup.get(&name).cloned());
        self.put(&name, value);
    }

    fn put(&mut self, name: &str, value: Option<String>) {
        if self.state.local.contains_key(name) {
            Arc::make_mut(&mut self.state.local).remove(name);
        }
        if self.state.desired.get(name) == value.as_ref() {
            return;
        }
        let desired = Arc::make_mut(&mut self.state.desired);
        match value {
            Some(value) => desired.insert(name.to_owned(), value),
            None => desired.remove(name),
        };
        self.state.generation = next_generation();
    }

    /// SET LOCAL; `None` is DEFAULT. Outside a transaction it has no effect, as in PostgreSQL (which warns).
    pub fn set_local(&mut self, name: &str, value: Option<&str>) {
        let name = name.to_ascii_lowercase();
        if self.transaction.is_none() || !kinds::kind(&name).is_kept() {
            return;
        }
        Arc::make_mut(&mut self.state.local).insert(name, value.map(str::to_owned));
    }

    /// RESET ALL, which leaves the role and the session user alone (GUC_NO_RESET_ALL).
    pub fn reset_all(&mut self) {
        let stay = |name: &String| kinds::is_not_reset_by_all(name);
        let names: Vec<String> = self.state.desired.keys().filter(|name| !stay(name)).cloned().collect();
        let missing: Vec<String> = self.startup.keys().filter(|name| !stay(name)).cloned().collect();
        for name in names.iter().chain(&missing) {
            let value = self.startup.get(name).cloned();
            self.put(name, value);
        }
        Arc::make_mut(&mut self.state.local).retain(|name, _| stay(name));
    }

    /// DISCARD ALL: SET SESSION AUTHORIZATION DEFAULT and RESET ALL.
    pub fn discard_all(&mut self) {
        self.reset("session_authorization");
        self.reset_all();
    }

    pub fn in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// A transaction begins; inside one it changes nothing.
    pub fn begin(&mut self) {
        if self.transaction.is_none() {
            self.transaction = Some(Transaction { begin: self.state.clone(), savepoints: Vec::new() });
        }
    }

    /// The transaction was committed.
    pub fn commit(&mut self) {
        self.transaction = None;
        self.forget_local();
    }

    /// The transaction was rolled back, whichever statement asked for it.
    pub fn rollback(&mut self) {
        if let Some(transaction) = self.transaction.take() {
            self.state = transaction.begin;
        }
        self.forget_local();
    }

    fn forget_local(&mut self) {
        if !self.state.local.is_empty() {
            self.state.local = Arc::new(BTreeMap::new());
        }
    }

    /// SAVEPOINT; the same name may be used again, and hides the older one.
    pub fn savepoint(&mut self, name: &str) {
        if let Some(transaction) = &mut self.transaction {
            transaction.savepoints.push((name.to_owned(), self.state.clone()));
        }
    }

    /// RELEASE: `false` if there is no such savepoint.
    pub fn release(&mut self, name: &str) -> bool {
        let Some(transaction) = &mut self.transaction else { return false };
        let Some(index) = transaction.savepoints.iter().rposition(|(savepoint, _)| savepoint == name) else {
            return false;
        };
        transaction.savepoints.truncate(index);
        true
    }

    /// ROLLBACK TO, after which the savepoint is still there: `false` if there is none of this name.
    pub fn rollback_to(&mut self, name: &str) -> bool {
        let Some(transaction) = &mut self.transaction else { return false };
        let Some(index) = transaction.savepoints.iter().rposition(|(savepoint, _)| savepoint == name) else {
            return false;
        };
        transaction.savepoints.truncate(index + 1);
        if let Some((_, state)) = transaction.savepoints.last() {
            self.state = state.clone();
        }
        true
    }

    /// The proxy's own variables (`shardway.shard`, `shardway.run_on`): a value that is set and not empty.
    pub fn own(&self, name: &str) -> Option<&str> {
        let own = kinds::kind(name) == Kind::Own;
        self.get(name).filter(|value| own && !value.is_empty())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use super::Settings;
    use super::Variables;

    fn started(name: &str, value: &str) -> Variables {
        Variables::with_startup(Settings::from([(name.to_owned(), value.to_owned())]))
    }

    #[test]
    fn reset_leads_back_to_the_startup_packet() {
        let mut variables = started("timezone", "UTC");
        variables.set("TimeZone", "Europe/Berlin");
        assert_eq!(variables.get("TIMEZONE"), Some("Europe/Berlin"));
        variables.reset("timezone");
        assert_eq!(variables.get("timezone"), Some("UTC"));
        variables.set("geqo", "off");
        variables.set("role", "r");
        variables.set("timezone", "X");
        variables.reset_all();
        assert_eq!(
            (variables.get("geqo"), variables.get("role"), variables.get("timezone")),
            (None, Some("r"), Some("UTC"))
        );
        variables.discard_all();
        assert_eq!(variables.get("role"), None);
    }

    #[test]
    fn a_rollback_undoes_set_and_brings_the_generation_back() {
        let mut variables = Variables::default();
        variables.set("a", "1");
        let generation = variables.generation();
        variables.begin();
        variables.set("a", "2");
        variables.reset("b");
        assert_ne!(variables.generation(), generation);
        variables.rollback();
        assert_eq!((variables.get("a"), variables.generation()), (Some("1"), generation));
        variables.begin();
        variables.set("a", "3");
        variables.commit();
        assert_eq!(variables.get("a"), Some("3"));
        assert!(!variables.in_transaction());
        variables.rollback();
        assert_eq!(variables.get("a"), Some("3"));
    }

    #[test]
    fn setting_the_same_again_changes_nothing() {
        let mut variables = Variables::default();
        variables.set("a", "1");
        let generation = variables.generation();
        variables.set("A", "1");
        variables.reset("b");
        variables.set("transaction_isolation", "serializable");
        variables.set("seed", "0.5");
        variables.set("is_superuser", "on");
        assert_eq!(variables.generation(), generation);
        assert_eq!(variables.desired().len(), 1);
    }

    #[test]
    fn local_settings_end_with_the_transaction() {
        let mut variables = started("a", "0");
        variables.set_local("a", Some("1"));
        assert_eq!(variables.get("a"), Some("0"));
        variables.begin();
        variables.set_local("a", Some("1"));
        assert_eq!(variables.get("a"), Some("1"));
        variables.set("a", "2");
        assert_eq!(variables.get("a"), Some("2"));
        variables.set_local("a", Some("3"));
        assert_eq!(variables.get("a"), Some("3"));
        variables.commit();
        assert_eq!(variables.get("a"), Some("2"));
        variables.begin();
        variables.set_local("a", None);
        assert_eq!(variables.get("a"), Some("0"));
        variables.commit();
        assert_eq!(variables.get("a"), Some("2"));
    }

    #[test]
    fn savepoints_nest() {
        let mut variables = Variables::default();
        assert!(!variables.release("s") && !variables.rollback_to("s"));
        variables.begin();
        variables.set("a", "1");
        variables.savepoint("s");
        variables.set("a", "2");
        variables.savepoint("s");
        variables.set_local("a", Some("3"));
        variables.savepoint("t");
        variables.set("a", "4");
        assert!(variables.rollback_to("s"));
        assert_eq!(variables.get("a"), Some("2"));
        assert!(!variables.release("t"));
        assert!(variables.release("s"));
        assert_eq!(variables.get("a"), Some("2"));
        assert!(variables.rollback_to("s"));
        assert_eq!(variables.get("a"), Some("1"));
        variables.set_local("b", Some("x"));
        variables.savepoint("u");
        variables.set_local("b", Some("y"));
        assert!(variables.release("u"));
        assert_eq!(variables.get("b"), Some("y"));
        variables.commit();
        assert_eq!((variables.get("a"), variables.get("b")), (Some("1"), None));
    }

    #[test]
    fn a_new_session_user_has_no_role() {
        let mut variables = Variables::default();
        variables.set("role", "r");
        variables.set("session_authorization", "u");
        assert_eq!((variables.get("role"), variables.get("session_authorization")), (None, Some("u")));
    }

    #[test]
    fn own_variables_are_kept_like_others() {
        let mut variables = Variables::default();
        variables.set("shardway.shard", "s1");
        assert_eq!(variables.own("shardway.shard"), Some("s1"));
        variables.begin();
        variables.set_local("shardway.shard", Some(""));
        assert_eq!(variables.own("shardway.shard"), None);
        variables.rollback();
        assert_eq!(variables.own("shardway.shard"), Some("s1"));
        variables.set("search_path", "x");
        assert_eq!(variables.own("search_path"), None);
        assert_eq!(variables.search_path(), Some("x"));
        variables.set("standard_conforming_strings", "off");
        assert_eq!(variables.standard_conforming_strings(), Some(false));
    }
}
