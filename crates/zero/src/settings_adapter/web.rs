//! WebSearch with the search engines of settings and environment, if zero is built with the feature
//! `web`.

#[cfg(not(feature = "web"))]
mod disabled;
#[cfg(feature = "web")]
mod enabled;

#[cfg(not(feature = "web"))]
pub(crate) use self::disabled::search_tool;
#[cfg(feature = "web")]
pub(crate) use self::enabled::search_tool;
