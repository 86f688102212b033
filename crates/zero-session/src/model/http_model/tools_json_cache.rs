//! Cache of the serialized tools of a request.
//!
//! Tools are the longest part of most requests and rarely change, so their JSON is cached between
//! requests. All protocols put them under the same field.

use std::sync::{Arc, Mutex, PoisonError};

use crate::model::protocol::ModelProtocol;
use crate::model::{ModelInfo, ModelRequest, ModelToolDefinition};

/// Field of the tools in a request.
const TOOLS_FIELD: &str = "tools";

/// The most recently serialized tools.
#[derive(Default)]
pub(super) struct ToolsJsonCache(Mutex<Option<CachedToolsJson>>);

struct CachedToolsJson {
    /// Kept alive, so that no other list can have the same address.
    tools: Arc<[ModelToolDefinition]>,
    text: Arc<str>,
}

impl ToolsJsonCache {
    /// The body of a request, in which the tools' part is encoded once only.
    pub(super) fn request_json(
        &self,
        protocol: &dyn ModelProtocol,
        info: &ModelInfo,
        request: &ModelRequest,
    ) -> String {
        let mut text = protocol.encode_body(info, request);
        if let Some(tools) = self.tools_json(protocol, request)
            && text.pop() == Some('}')
        {
            let comma = if text.ends_with('{') { "" } else { "," };
            text.extend([comma, "\"", TOOLS_FIELD, "\":", &tools, "}"]);
        }
        // The text grew by doubling and stays in memory until the model begins to reply.
        text.shrink_to_fit();
        text
    }

    fn tools_json(&self, protocol: &dyn ModelProtocol, request: &ModelRequest) -> Option<Arc<str>> {
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached) =
            cached.as_ref().filter(|cached| Arc::ptr_eq(&cached.tools, &request.tools))
        {
            return Some(Arc::clone(&cached.text));
        }
        let text: Arc<str> = protocol.encode_tools(request)?.to_string().into();
        // Without tools, the field depends on the conversation and cannot be cached.
        if !request.tools.is_empty() {
            *cached = Some(CachedToolsJson {
                tools: Arc::clone(&request.tools),
                text: Arc::clone(&text),
            });
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use url::Url;

    use super::*;
    use crate::message::ModelMessage;
    use crate::model::anthropic::AnthropicProtocol;
    use crate::model::gemini::GeminiProtocol;
    use crate::model::http_model::complete_body;
    use crate::model::openai_chat::OpenAiChatProtocol;
    use crate::model::openai_responses::OpenAiResponsesProtocol;

    fn tools(names: &[&str]) -> Arc<[ModelToolDefinition]> {
        let tool = |name: &&str| ModelToolDefinition {
            name: (*name).to_owned(),
            description: format!("does {name}, \"quoted\""),
            input_schema: json!({ "type": "object", "properties": { "path": {} } }),
        };
        names.iter().map(tool).collect()
    }

    #[track_caller]
    fn check(protocol: &dyn ModelProtocol) {
        let info = ModelInfo {
            name: "m".to_owned(),
            id: "m".to_owned(),
            family: "any".to_owned(),
            context_window: 100_000,
            output_tokens_max: 1_000,
            takes_images: true,
            prices: None,
        };
        let (some, others) = (tools(&["Read", "Edit"]), tools(&["Bash"]));
        let cache = ToolsJsonCache::default();
        // New, cached, different, none, and new again.
        let rounds = [&some, &some, &others, &others, &Arc::default(), &some, &some];
        for (round, tools) in rounds.into_iter().enumerate() {
            let messages = vec![ModelMessage::user(format!("round {round}")).into()];
            let request = ModelRequest { messages, tools: Arc::clone(tools), ..Default::default() };
            let whole = complete_body(protocol, &info, &request);
            let read: Value =
                serde_json::from_str(&cache.request_json(protocol, &info, &request)).unwrap();
            assert_eq!(read, whole, "round {round}");
            let names = tools.iter().filter(|tool| whole["tools"].to_string().contains(&tool.name));
            assert_eq!(names.count(), tools.len(), "round {round}");
        }
    }

    #[test]
    fn cached_tools_give_same_body_in_every_protocol() {
        check(&OpenAiChatProtocol::for_base_url(Url::parse("http://localhost/v1").ok().as_ref()));
        check(&OpenAiResponsesProtocol::for_base_url(None));
        check(&AnthropicProtocol);
        check(&GeminiProtocol);
    }
}
