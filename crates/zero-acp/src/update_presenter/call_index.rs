//! The calls that a client was told of. Of those that are over only their names are kept: a session may
//! have thousands.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::call_view::CallView;

/// Most calls of which something is known.
pub(super) const CALLS_MAX: usize = 4096;

/// The calls that a client was told of.
#[derive(Default)]
pub(super) struct CallIndex {
    open: HashMap<Arc<str>, CallView>,
    /// Those that are over, with how often their names were used before.
    over: HashMap<Arc<str>, u32>,
    /// All names, oldest first.
    order: VecDeque<Arc<str>>,
}

impl CallIndex {
    pub(super) fn contains(&self, name: &str) -> bool {
        self.open.contains_key(name) || self.over.contains_key(name)
    }

    /// How often the name of a call that is over was used before it.
    pub(super) fn prior_uses_of_ended(&self, name: &str) -> Option<u32> {
        self.over.get(name).copied()
    }

    /// A call that is not over.
    pub(super) fn get(&self, name: &str) -> Option<&CallView> {
        self.open.get(name)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut CallView> {
        self.open.get_mut(name)
    }

    /// Those that are not over.
    pub(super) fn open_calls(&self) -> impl Iterator<Item = &CallView> {
        self.open.values()
    }

    pub(super) fn open_calls_mut(&mut self) -> impl Iterator<Item = &mut CallView> {
        self.open.values_mut()
    }

    /// Those that are not over, oldest first, by name.
    pub(super) fn for_each_open(&mut self, mut each: impl FnMut(&str, &mut CallView)) {
        for name in &self.order {
            if let Some(call) = self.open.get_mut(name) {
                each(name, call);
            }
        }
    }

    /// Adds a call whose name no other has that is not over. One that has to go for it is given back
    /// if it is not over.
    pub(super) fn add(&mut self, name: &str, call: CallView) -> Option<CallView> {
        if let Some((name, _)) = self.over.remove_entry(name) {
            self.open.insert(name, call);
            return None;
        }
        let gone = self.evict_oldest();
        let name: Arc<str> = name.into();
        self.order.push_back(Arc::clone(&name));
        self.open.insert(name, call);
        gone
    }

    fn evict_oldest(&mut self) -> Option<CallView> {
        if self.order.len() < CALLS_MAX {
            return None;
        }
        let oldest = self.order.pop_front()?;
        self.over.remove(&oldest);
        self.open.remove(&oldest)
    }

    /// Lets go of those that are over by now.
    pub(super) fn drop_ended(&mut self) {
        let ended = self.open.extract_if(|_, call| call.is_over());
        self.over.extend(ended.map(|(name, call)| (name, call.uses)));
    }
}
