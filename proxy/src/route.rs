//! [`Target`](crate::plan::Target) + values → shards.
