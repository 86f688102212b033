//! A build without NATS.

use std::sync::Arc;

use super::{NatsOptions, NodeBusOpenError};
use crate::local_node_bus::LocalNodeBus;
use crate::node_bus::NodeBusStore;

/// Opens no bus: this build has none.
#[derive(Debug)]
pub enum NatsNodeBus {}

impl NatsNodeBus {
    /// Fails, and says how to build zero with it.
    #[expect(clippy::unused_async, reason = "the same signature as in a build with NATS")]
    pub async fn open(
        _options: &NatsOptions,
        _node: &str,
        _store: Arc<dyn NodeBusStore>,
    ) -> Result<LocalNodeBus, NodeBusOpenError> {
        let why = "this build has no NATS; build zero with `--features cluster`".to_owned();
        Err(NodeBusOpenError::Settings(why))
    }
}
