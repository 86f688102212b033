//! Values that the tools of a host share between calls, such as its language servers.
//!
//! A tool is created once and serves every host. Its per-host state is stored here by type and
//! dropped with the host; the runtime knows nothing else about it.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// At most one value of each type.
#[derive(Default)]
pub(crate) struct HostExtensions(Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl HostExtensions {
    /// Stores a value, and replaces an earlier one of the same type.
    pub(crate) fn insert<T: Send + Sync + 'static>(&self, companion: Arc<T>) {
        let mut extensions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        extensions.insert(TypeId::of::<T>(), companion);
    }

    /// The value of this type.
    pub(crate) fn get<T: Send + Sync + 'static>(&self) -> Option<Arc<T>> {
        let extensions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(extensions.get(&TypeId::of::<T>())?).downcast().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_extension_is_stored_per_type() {
        let companions = HostExtensions::default();
        assert_eq!(companions.get::<String>(), None);
        companions.insert(Arc::new("first".to_owned()));
        companions.insert(Arc::new(7_u8));
        companions.insert(Arc::new("second".to_owned()));
        assert_eq!(companions.get::<String>().as_deref().map(String::as_str), Some("second"));
        assert_eq!(companions.get::<u8>().as_deref(), Some(&7));
    }
}
