//! One client's life.
