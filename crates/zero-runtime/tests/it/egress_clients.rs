//! Programs that people use, through the proxy.
