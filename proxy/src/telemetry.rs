//! Names of metrics and spans.
