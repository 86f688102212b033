//! Whatever a client sends to a gateway: no panic, a refusal is short and fit to be shown, and a
//! frame that is written down again is the same frame.
#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use serde_json::Value;
use zero_wire::frame::{self, GatewayFrame};
use zero_wire::{
    GatewayMethod, approvals, chat, handshake, parse_params, schema, sessions, tools, zero_sessions,
};

fuzz_target!(|text: &str| -> Corpus {
    let frame = match frame::parse(text) {
        Ok(frame) => frame,
        Err(bad) => {
            check_refusal(&bad.to_string());
            return if text.starts_with('{') { Corpus::Keep } else { Corpus::Reject };
        }
    };
    let written = serde_json::to_string(&frame).unwrap();
    assert_eq!(frame::parse(&written).as_ref(), Ok(&frame), "{written}");
    if let GatewayFrame::Request(request) = frame {
        for method in schema::methods() {
            if let Err(what) =
                (method.checker)().check(request.params.as_ref().unwrap_or(&Value::Null))
            {
                check_refusal(&what);
            }
        }
        check_methods(&request.params);
    }
    Corpus::Keep
});

fn check_refusal(what: &str) {
    assert!(!what.is_empty() && what.len() < 64 * 1024, "{} bytes", what.len());
    assert!(!what.contains(char::is_control), "{what:?}");
}

/// What one method takes, it takes again; what it refuses, it refuses in words.
fn check<M: GatewayMethod>(written: &Option<Value>) {
    match parse_params::<M>(written.clone()) {
        Ok(taken) => {
            let again = serde_json::to_value(taken).unwrap();
            assert!(parse_params::<M>(Some(again)).is_ok(), "{}", M::NAME);
        }
        Err(error) => {
            assert!(!error.message.ends_with("must be as the schema says"), "{}", M::NAME);
            check_refusal(&error.message);
        }
    }
}

fn check_methods(written: &Option<Value>) {
    check::<handshake::Connect>(written);
    check::<chat::ChatSend>(written);
    check::<chat::ChatAbort>(written);
    check::<chat::ChatHistory>(written);
    check::<chat::AgentWait>(written);
    check::<chat::Health>(written);
    check::<sessions::SessionsList>(written);
    check::<sessions::SessionsResolve>(written);
    check::<sessions::SessionsGet>(written);
    check::<sessions::SessionsReset>(written);
    check::<sessions::SessionsPatch>(written);
    check::<sessions::SessionsDelete>(written);
    check::<sessions::SessionsPreview>(written);
    check::<approvals::ExecApprovalGet>(written);
    check::<approvals::ExecApprovalResolve>(written);
    check::<zero_sessions::ZeroSessionsOpen>(written);
    check::<zero_sessions::ZeroSessionsShow>(written);
    check::<zero_sessions::ZeroSessionsSubscribe>(written);
    check::<zero_sessions::ZeroSessionsUnsubscribe>(written);
    check::<zero_sessions::ZeroSessionsEvents>(written);
    check::<zero_sessions::ZeroSessionsSet>(written);
    check::<zero_sessions::ZeroSessionsChoices>(written);
    check::<zero_sessions::ZeroApprovalsList>(written);
    check::<zero_sessions::ZeroApprovalsResolve>(written);
    check::<zero_sessions::ZeroQuestionsResolve>(written);
    check::<zero_sessions::ZeroGrantsList>(written);
    check::<tools::ToolsAttach>(written);
    check::<tools::ToolsOffer>(written);
    check::<tools::ToolsProgress>(written);
    check::<tools::ToolsResult>(written);
}
