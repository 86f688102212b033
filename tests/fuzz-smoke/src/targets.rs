//! The fuzz targets, each as a module.
#![allow(
    dead_code,
    unreachable_pub,
    unused_attributes,
    clippy::all,
    clippy::allow_attributes,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::string_slice,
    clippy::unwrap_used,
    reason = "each is a program of its own, in a workspace with its own lints"
)]

#[path = "../../../fuzz/fuzz_targets/declarations.rs"]
pub(super) mod declarations;
#[path = "../../../fuzz/fuzz_targets/dialect_mapping.rs"]
pub(super) mod dialect_mapping;
#[path = "../../../fuzz/fuzz_targets/edit.rs"]
pub(super) mod edit;
#[path = "../../../fuzz/fuzz_targets/event_stream.rs"]
pub(super) mod event_stream;
#[path = "../../../fuzz/fuzz_targets/html_page.rs"]
pub(super) mod html_page;
#[path = "../../../fuzz/fuzz_targets/lsp_frames.rs"]
pub(super) mod lsp_frames;
#[path = "../../../fuzz/fuzz_targets/mcp_intake.rs"]
pub(super) mod mcp_intake;
#[path = "../../../fuzz/fuzz_targets/path_handling.rs"]
pub(super) mod path_handling;
#[path = "../../../fuzz/fuzz_targets/pdf_text.rs"]
pub(super) mod pdf_text;
#[path = "../../../fuzz/fuzz_targets/policy_decide.rs"]
pub(super) mod policy_decide;
#[path = "../../../fuzz/fuzz_targets/proxy_request.rs"]
pub(super) mod proxy_request;
#[path = "../../../fuzz/fuzz_targets/schema_validation.rs"]
pub(super) mod schema_validation;
#[path = "../../../fuzz/fuzz_targets/shell_parse.rs"]
pub(super) mod shell_parse;
#[path = "../../../fuzz/fuzz_targets/tls_greeting.rs"]
pub(super) mod tls_greeting;
#[path = "../../../fuzz/fuzz_targets/wire_frames.rs"]
pub(super) mod wire_frames;
