//! Any bytes from a language server: no panic, and every message that is read can be sent again as it is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use zero_lsp::frame::{LspFrameReader, encode_frame};

fuzz_target!(|data: &[u8]| {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let mut reader = LspFrameReader::new(data);
        while let Ok(message) = reader.next().await {
            assert!(message.len() <= data.len());
            let frame = encode_frame(&message);
            let again = LspFrameReader::new(&frame[..]).next().await;
            assert_eq!(again.expect("what was read can be read again"), message);
        }
    });
});
