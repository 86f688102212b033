//! The tools of a request, as text.
//!
//! They are the longest part of most requests and seldom change, so their text is kept from one
//! request to the next. Whatever a provider's way of speaking, they stand under one name.

use std::sync::{Arc, Mutex, PoisonError};

use crate::model::protocol::Protocol;
use crate::model::{ModelInfo, ModelRequest, ToolDefinition};

/// Where tools stand in a request.
const FIELD: &str = "tools";

/// The tools that were told last.
#[derive(Default)]
pub(super) struct ToldTools(Mutex<Option<Told>>);

struct Told {
    /// Kept, so that nothing else can lie in the same place.
    tools: Arc<[ToolDefinition]>,
    text: Arc<str>,
}

impl ToldTools {
    /// A request as text.
    pub(super) fn text(
        &self,
        protocol: &dyn Protocol,
        info: &ModelInfo,
        request: &ModelRequest,
    ) -> String {
        let mut text = protocol.body(info, request);
        if let Some(tools) = self.known(protocol, request)
            && text.pop() == Some('}')
        {
            let comma = if text.ends_with('{') { "" } else { "," };
            text.extend([comma, "\"", FIELD, "\":", &tools, "}"]);
        }
        // It is kept until the model has begun to answer, and grew by doubling.
        text.shrink_to_fit();
        text
    }

    fn known(&self, protocol: &dyn Protocol, request: &ModelRequest) -> Option<Arc<str>> {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(told) = told.as_ref().filter(|told| Arc::ptr_eq(&told.tools, &request.tools)) {
            return Some(Arc::clone(&told.text));
        }
        let text: Arc<str> = protocol.tools(request)?.to_string().into();
        // Which are told where there are none depends on what was said.
        if !request.tools.is_empty() {
            *told = Some(Told { tools: Arc::clone(&request.tools), text: Arc::clone(&text) });
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use url::Url;

    use super::*;
    use crate::message::Message;
    use crate::model::anthropic::Anthropic;
    use crate::model::gemini::Gemini;
    use crate::model::http::whole_body;
    use crate::model::openai_chat::OpenAiChat;
    use crate::model::openai_responses::OpenAiResponses;

    fn tools(names: &[&str]) -> Arc<[ToolDefinition]> {
        let tool = |name: &&str| ToolDefinition {
            name: (*name).to_owned(),
            description: format!("does {name}, \"quoted\""),
            input_schema: json!({ "type": "object", "properties": { "path": {} } }),
        };
        names.iter().map(tool).collect()
    }

    #[track_caller]
    fn check(protocol: &dyn Protocol) {
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
        let told = ToldTools::default();
        // New, known, others, none, and new again.
        let rounds = [&some, &some, &others, &others, &Arc::default(), &some, &some];
        for (round, tools) in rounds.into_iter().enumerate() {
            let messages = vec![Message::user(format!("round {round}")).into()];
            let request = ModelRequest { messages, tools: Arc::clone(tools), ..Default::default() };
            let whole = whole_body(protocol, &info, &request);
            let read: Value = serde_json::from_str(&told.text(protocol, &info, &request)).unwrap();
            assert_eq!(read, whole, "round {round}");
            let names = tools.iter().filter(|tool| whole["tools"].to_string().contains(&tool.name));
            assert_eq!(names.count(), tools.len(), "round {round}");
        }
    }

    #[test]
    fn every_way_of_speaking_says_the_same_with_kept_tools() {
        check(&OpenAiChat::at(Url::parse("http://localhost/v1").ok().as_ref()));
        check(&OpenAiResponses::at(None));
        check(&Anthropic);
        check(&Gemini);
    }
}
