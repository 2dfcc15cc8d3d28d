//! Bytes ↔ frames and the messages that we look into.
