//! Random pipelines of the extended protocol, sent as raw frames to one PostgreSQL and to the proxy, and compared
//! message by message.
//!
//! A pipeline follows from its seed alone; one that differs is made smaller, message by message, before it is shown.

pub mod generator;
pub mod run;
pub mod tables;
