//! What kind of statement a text is, told from its first words.

use crate::sql::lexer::Token;

/// Tells a statement's kind.
pub fn classify(_text: &str, _tokens: &[Token]) -> Command {
    Command::Other
}

/// One statement's kind, with what the session needs to know of it. Names are folded as PostgreSQL folds them.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Nothing but white space and comments.
    Empty,
    /// SELECT, WITH … SELECT, VALUES, TABLE, and parenthesised ones. `SELECT INTO` is here too.
    Select,
    Insert,
    Update,
    Delete,
    Merge,
    /// `COPY …`; direction and what is copied are the planner's affair.
    Copy,
    /// `EXPLAIN [ANALYZE] …`
    Explain,
    Begin(TransactionModes),
    Commit {
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
    Savepoint(String),
    Release(String),
    RollbackTo(String),
    PrepareTransaction,
    CommitPrepared,
    RollbackPrepared,
    /// SET TRANSACTION …
    SetTransaction(TransactionModes),
    /// SET SESSION CHARACTERISTICS AS TRANSACTION …
    SetCharacteristics(TransactionModes),
    /// `SET [SESSION|LOCAL] name …`, with TIME ZONE, NAMES, ROLE, SESSION AUTHORIZATION, XML OPTION, SCHEMA and SEED
    /// as the variables they stand for (timezone, client_encoding, role, session_authorization, xmloption,
    /// search_path, seed). `value` is `None` for DEFAULT; else the text after TO or =, as written.
    Set {
        local: bool,
        name: String,
        value: Option<String>,
    },
    Reset(String),
    ResetAll,
    Show(String),
    /// `what` upper case: ALL, PLANS, SEQUENCES, TEMP
    Discard {
        what: String,
    },
    /// `PREPARE name [(types)] AS body`; `body` is the byte range of the inner statement in the text.
    Prepare {
        name: String,
        types: Vec<String>,
        body: std::ops::Range<usize>,
    },
    /// `EXECUTE name [(args)]`; byte ranges of the argument expressions.
    Execute {
        name: String,
        arguments: Vec<std::ops::Range<usize>>,
    },
    Deallocate(Option<String>),
    /// DECLARE name … CURSOR [WITH HOLD] FOR body
    Declare {
        name: String,
        hold: bool,
        binary: bool,
        scroll: Option<bool>,
        body: std::ops::Range<usize>,
    },
    /// FETCH and MOVE; the cursor's name
    Fetch {
        cursor: String,
    },
    Move {
        cursor: String,
    },
    /// CLOSE name, or all
    CloseCursor(Option<String>),
    Listen(String),
    Unlisten(Option<String>),
    Notify(String),
    Lock,
    Call,
    Do,
    Checkpoint,
    /// VACUUM, ANALYZE, REINDEX, CLUSTER, REFRESH MATERIALIZED VIEW
    Maintenance,
    Truncate,
    /// CREATE, ALTER, DROP, COMMENT, GRANT, REVOKE, REASSIGN, SECURITY LABEL, IMPORT FOREIGN SCHEMA
    Schema,
    SetConstraints,
    /// Anything else: PostgreSQL will say what it is.
    Other,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionModes {
    /// `read committed`, `repeatable read`, `serializable`, `read uncommitted`
    pub isolation: Option<String>,
    pub read_only: Option<bool>,
    pub deferrable: Option<bool>,
    /// SET TRANSACTION SNAPSHOT
    pub snapshot: Option<String>,
}
