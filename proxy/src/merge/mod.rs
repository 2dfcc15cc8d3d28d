//! Rows of several shards → one answer. Pure: it is fed rows and says which input it wants next.
