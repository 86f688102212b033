//! The calls that a client was shown. Only the ids of ended calls are kept, since a session may
//! have thousands.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::call_view::CallView;

/// Most calls that are remembered.
pub(super) const CALLS_MAX: usize = 4096;

/// The calls that a client was shown.
#[derive(Default)]
pub(super) struct CallIndex {
    open: HashMap<Arc<str>, CallView>,
    /// The ended calls, with the number of earlier uses of each id.
    over: HashMap<Arc<str>, u32>,
    /// All ids, oldest first.
    order: VecDeque<Arc<str>>,
}

impl CallIndex {
    pub(super) fn contains(&self, name: &str) -> bool {
        self.open.contains_key(name) || self.over.contains_key(name)
    }

    /// How often the id of an ended call was used before it; `None` if there is no such call.
    pub(super) fn prior_uses_of_ended(&self, name: &str) -> Option<u32> {
        self.over.get(name).copied()
    }

    /// An open call.
    pub(super) fn get(&self, name: &str) -> Option<&CallView> {
        self.open.get(name)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut CallView> {
        self.open.get_mut(name)
    }

    pub(super) fn open_calls(&self) -> impl Iterator<Item = &CallView> {
        self.open.values()
    }

    pub(super) fn open_calls_mut(&mut self) -> impl Iterator<Item = &mut CallView> {
        self.open.values_mut()
    }

    /// Calls `each` for the open calls, oldest first, with their ids.
    pub(super) fn for_each_open(&mut self, mut each: impl FnMut(&str, &mut CallView)) {
        for name in &self.order {
            if let Some(call) = self.open.get_mut(name) {
                each(name, call);
            }
        }
    }

    /// Adds a call whose id no open call has. If an open call is evicted for it, that call is
    /// returned.
    pub(super) fn add(&mut self, name: &str, call: CallView) -> Option<CallView> {
        if let Some((name, _)) = self.over.remove_entry(name) {
            self.open.insert(name, call);
            return None;
        }
        let removed_call = self.evict_oldest();
        let name: Arc<str> = name.into();
        self.order.push_back(Arc::clone(&name));
        self.open.insert(name, call);
        removed_call
    }

    fn evict_oldest(&mut self) -> Option<CallView> {
        if self.order.len() < CALLS_MAX {
            return None;
        }
        let oldest = self.order.pop_front()?;
        self.over.remove(&oldest);
        self.open.remove(&oldest)
    }

    /// Drops the details of the calls that have ended.
    pub(super) fn drop_ended(&mut self) {
        let ended = self.open.extract_if(|_, call| call.is_over());
        self.over.extend(ended.map(|(name, call)| (name, call.uses)));
    }
}
