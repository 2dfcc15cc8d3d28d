//! Listener, TLS, framed connection.
