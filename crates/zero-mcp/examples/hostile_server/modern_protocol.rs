//! Its side of the newer protocol.

use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use serde_json::{Value, json};

use crate::HostileMcpServer;
use crate::output::{error_reply, reply, write_message};

impl HostileMcpServer {
    pub(crate) fn discover(&mut self, id: &Value) -> Option<ExitCode> {
        let versions = match self.mode.as_str() {
            "discovers-nonsense" => {
                write_message(&reply(id, json!({"banana": [1, 2, 3]})));
                return None;
            }
            "discovers-another-kind" => {
                write_message(&reply(
                    id,
                    json!({"resultType": "hologram", "supportedVersions": []}),
                ));
                return None;
            }
            "discovers-the-future" => json!(["2999-01-01", "\u{1b}[2Jyes"]),
            "refuses-every-version" => {
                let data = json!({"supported": ["2026-07-28"], "requested": "x"});
                write_message(
                    &json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32022, "message": "no", "data": data}}),
                );
                return None;
            }
            mode if mode.starts_with("modern-") => json!(["2026-07-28"]),
            _ => {
                write_message(&error_reply(id, -32601, "there is no such method"));
                return None;
            }
        };
        write_message(&reply(
            id,
            json!({
                "resultType": "complete", "supportedVersions": versions, "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "hostile", "version": "1"}, "ttlMs": 0, "cacheScope": "private",
            }),
        ));
        None
    }

    pub(crate) fn listen(&mut self, id: &Value) -> Option<ExitCode> {
        self.listens += 1;
        let tagged = json!({"io.modelcontextprotocol/subscriptionId": id});
        if !self.mode.starts_with("modern-listen") {
            write_message(&error_reply(id, -32601, "there is no such method"));
            return None;
        }
        write_message(
            &json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
            "_meta": tagged, "notifications": {"toolsListChanged": true}}}),
        );
        match self.mode.as_str() {
            "modern-listen-ends-at-once" => {
                write_message(&reply(id, json!({"resultType": "complete", "_meta": tagged})));
            }
            "modern-listen-floods" => {
                let tagged = tagged.clone();
                std::thread::spawn(move || {
                    for _ in 0..20_000 {
                        write_message(
                            &json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": tagged}}),
                        );
                    }
                });
            }
            _ => {}
        }
        None
    }

    pub(crate) fn call_without_handshake(
        &mut self,
        id: &Value,
        params: &Value,
    ) -> Option<ExitCode> {
        self.calls += 1;
        let asked = |questions: Value, state: &str| json!({"resultType": "input_required", "inputRequests": questions, "requestState": state});
        let form = json!({"method": "elicitation/create", "params": {"message": "your name?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}});
        let answer = match self.mode.as_str() {
            "modern-unknown-kind" => json!({"resultType": "hologram", "content": []}),
            "modern-task" => {
                json!({"resultType": "task", "taskId": "1", "status": "working", "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": null, "ttl": null})
            }
            "modern-asks-for-ever" => asked(json!({"name": form}), "again"),
            "modern-puts-off-for-ever" => {
                json!({"resultType": "input_required", "requestState": "later"})
            }
            "modern-asks-a-hundred-things" => {
                let questions = (0..100).map(|n| (format!("q{n}"), form.clone())).collect();
                asked(Value::Object(questions), "all")
            }
            "modern-asks-nonsense" => {
                asked(json!({"q": {"method": "launch/missiles", "params": {}}}), "x")
            }
            "modern-wants-a-model" => asked(
                json!({"q": {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}}),
                "x",
            ),
            "modern-giant-state" => {
                json!({"resultType": "input_required", "requestState": "s".repeat(6 << 20)})
            }
            "modern-listen-ends-at-once" => {
                sleep(Duration::from_millis(params["arguments"]["ms"].as_u64().unwrap_or(0)));
                let text = format!("listened {} times, listed {} times", self.listens, self.lists);
                json!({"resultType": "complete", "content": [{"type": "text", "text": text}]})
            }
            _ => {
                let text = format!("worked, listed {} times", self.lists);
                json!({"resultType": "complete", "content": [{"type": "text", "text": text}]})
            }
        };
        write_message(&reply(id, answer));
        None
    }
}
