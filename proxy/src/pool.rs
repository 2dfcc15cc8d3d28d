//! Server connections, pools, leases, cancel.
