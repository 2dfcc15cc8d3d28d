//! Accept and drain.
