//! The web tools, if zero is built with the feature `web`.

#[cfg(not(feature = "web"))]
mod disabled;
#[cfg(feature = "web")]
mod enabled;

#[cfg(not(feature = "web"))]
use self::disabled as support;
#[cfg(feature = "web")]
use self::enabled as support;
pub(crate) use self::support::{MISSING, tools};
