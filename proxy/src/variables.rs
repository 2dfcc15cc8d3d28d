//! A session's settings: values, savepoint stack, and what must be SET on a server connection that differs.
