//! Any bytes as the first bytes of a tunnel: no panic, a decision comes within the bound, and a
//! greeting that is cut off is never accepted as one that was read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zero_exec::egress::check_tunnel_greeting;
use zero_policy::HostName;

/// More than any greeting that zero waits for.
const ENOUGH: usize = 1024 * 1024;

fuzz_target!(|data: &[u8]| {
    let host = HostName::from_host("example.com").expect("a name");
    let whole = check_tunnel_greeting(data, &host);
    assert!(whole.is_some() || data.len() < ENOUGH, "no decision after {} bytes", data.len());
    // What was rejected early stays rejected when more arrives.
    let half = check_tunnel_greeting(&data[..data.len() / 2], &host);
    if let Some(Err(why)) = half {
        assert!(matches!(whole, Some(Err(_))), "rejected ({why}), then not");
    }
});
