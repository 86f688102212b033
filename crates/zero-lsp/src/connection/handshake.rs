//! The `initialize` handshake: its parameters, and the position encoding that the server chose.

use std::path::Path;

use serde_json::{Value, json};

use crate::position::PositionEncoding;
use crate::uri;

/// Returns the parameters of `initialize`. Only capabilities that zero uses are announced.
pub(super) fn initialize_params(root: &Path, folders: &Value, options: &Value) -> Value {
    json!({
        // The server runs in its own PID namespace, where our process id means nothing.
        "processId": null,
        "clientInfo": {"name": "zero", "version": env!("CARGO_PKG_VERSION")},
        "rootPath": root.display().to_string(),
        "rootUri": uri::from_path(root),
        "workspaceFolders": folders,
        "initializationOptions": options,
        "trace": "off",
        "capabilities": {
            "general": {"positionEncodings": PositionEncoding::SUPPORTED},
            // clangd's extension from before the protocol had `positionEncodings`.
            "offsetEncoding": PositionEncoding::SUPPORTED,
            "window": {"workDoneProgress": true, "showDocument": {"support": false}},
            "workspace": {
                "applyEdit": false,
                "configuration": true,
                "workspaceFolders": true,
                "symbol": {"dynamicRegistration": false},
                "didChangeConfiguration": {"dynamicRegistration": false},
                "didChangeWatchedFiles": {"dynamicRegistration": false},
            },
            "textDocument": {
                "synchronization": {"didSave": true},
                "publishDiagnostics": {"versionSupport": true, "relatedInformation": false},
                "hover": {"contentFormat": ["markdown", "plaintext"]},
                "definition": {"linkSupport": true},
                "implementation": {"linkSupport": true},
                "references": {},
                "documentSymbol": {"hierarchicalDocumentSymbolSupport": true},
                "callHierarchy": {"dynamicRegistration": false},
            },
        },
    })
}

/// Returns the position encoding that the server chose in its reply to `initialize`.
pub(super) fn negotiated_encoding(greeting: &Value) -> Result<PositionEncoding, String> {
    let named = greeting.pointer("/capabilities/positionEncoding");
    let named = named.or_else(|| greeting.get("offsetEncoding"));
    match named {
        None | Some(Value::Null) => Ok(PositionEncoding::default()),
        Some(name) => {
            let known = name.as_str().and_then(PositionEncoding::from_name);
            let shown = || zero_core::sanitize::to_quoted_line(&name.to_string());
            known.ok_or_else(|| {
                format!("it chose the position encoding {}, which was not offered", shown())
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_follows_server_choice() {
        for (greeting, expected) in [
            (json!({}), Some(PositionEncoding::Utf16)),
            (json!({"capabilities": {"positionEncoding": "utf-8"}}), Some(PositionEncoding::Utf8)),
            (json!({"capabilities": {}, "offsetEncoding": "utf-8"}), Some(PositionEncoding::Utf8)),
            (
                json!({"capabilities": {"positionEncoding": "utf-16"}}),
                Some(PositionEncoding::Utf16),
            ),
            (json!({"capabilities": {"positionEncoding": "ebcdic"}}), None),
            (json!({"capabilities": {"positionEncoding": 8}}), None),
        ] {
            assert_eq!(negotiated_encoding(&greeting).ok(), expected, "{greeting}");
        }
    }
}
