//! Writing messages to stdout.

use std::io::Write as _;

use serde_json::{Value, json};

pub(crate) fn reply(id: &Value, result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

pub(crate) fn error_reply(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

pub(crate) fn write_message(message: &Value) {
    write_raw(format!("{message}\n").as_bytes());
}

/// Writes raw bytes. If the client is gone, there is nothing left to do.
pub(crate) fn write_raw(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    if out.write_all(bytes).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}
