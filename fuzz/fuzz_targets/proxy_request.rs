//! Any bytes as the head of a request to the egress proxy: no panic, and what is sent on says the same
//! host once and ends where the server stops reading.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zero_exec::egress::parse_proxy_request;

fuzz_target!(|data: &[u8]| {
    let Ok((target, onward)) = parse_proxy_request(data) else { return };
    assert!(!target.host.to_string().is_empty());
    let Some(head) = onward else { return };
    assert!(head.ends_with(b"\r\n\r\n"), "the head has no end");
    assert_eq!(
        head.windows(4).filter(|part| part == b"\r\n\r\n").count(),
        1,
        "there are two heads"
    );
    let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
    assert_eq!(text.matches("\r\nhost:").count(), 1, "{text}");
    assert!(
        text.matches("\r\ntransfer-encoding:").count()
            + text.matches("\r\ncontent-length:").count()
            <= 1,
        "{text}"
    );
});
