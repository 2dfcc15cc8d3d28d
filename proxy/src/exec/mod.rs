//! Leases, sends, merges, answers.
