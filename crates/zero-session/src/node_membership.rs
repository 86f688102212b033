//! The processes that share a store, and which of them are alive.
//!
//! A run belongs to the process that works on it. When that one is gone, whoever comes next settles
//! the run: it is never taken up again, because nobody knows what its last call did.

/// The processes that share a store.
pub trait NodeMembership: Send + Sync {
    /// This one. No process ever has the name of another.
    fn local_name(&self) -> &str;

    /// Whether the process of that name is still there.
    fn is_alive(&self, node: &str) -> bool;
}

/// A process that shares its store with nobody, so that whatever is unsettled there was left behind.
#[derive(Clone, Debug)]
pub struct SingleNode(String);

impl SingleNode {
    /// The only process there is.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }
}

impl NodeMembership for SingleNode {
    fn local_name(&self) -> &str {
        &self.0
    }

    fn is_alive(&self, _node: &str) -> bool {
        false
    }
}
