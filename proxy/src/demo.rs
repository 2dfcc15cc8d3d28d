//! Local shards with sample data.
