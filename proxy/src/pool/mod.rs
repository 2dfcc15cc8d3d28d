//! Server connections, pools of them, leases, and cancelling what runs on them.

mod cancel;
mod connect;
mod lease;
mod numbers;
mod server;

pub use cancel::CancelSlot;
pub use cancel::CancelTarget;
pub use connect::Connector;
pub use lease::Lease;
pub use lease::Pool;
pub use lease::PoolCounts;
pub use lease::Spare;
pub use numbers::CopiedNumbers;
pub use numbers::RowNumbers;
pub use numbers::SentNumbers;
pub use server::Answer;
pub use server::ServerConnection;
pub use server::own_portal;
