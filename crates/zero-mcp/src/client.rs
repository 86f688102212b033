//! Other people's servers, and their tools as tools of the host.

pub mod error;
pub mod process;
