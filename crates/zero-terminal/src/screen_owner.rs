//! Who has the keyboard and the rows below the output, and makes room for a question.

use std::any::Any;
use std::pin::Pin;

/// Another part of the program has the screen until this is dropped.
pub type ScreenLease = Box<dyn Any + Send + Sync>;

/// A part of the program that reads keys and paints rows all the time.
pub trait ScreenOwner: Send + Sync {
    /// Removes its rows and stops to read keys, until the returned value is dropped. An owner that
    /// has ended returns at once. `call` is the id of the call that waits meanwhile, if one does.
    fn lease_screen<'a>(
        &'a self,
        call: Option<&'a str>,
    ) -> Pin<Box<dyn Future<Output = ScreenLease> + Send + 'a>>;
}
