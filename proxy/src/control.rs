//! The control plane over tokio-postgres: schema reading, probes, placement record.
