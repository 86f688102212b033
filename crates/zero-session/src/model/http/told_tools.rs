//! The tools of a request, as text.
//!
//! They are the longest part of most requests and seldom change, so their text is kept from one
//! request to the next and put into the others. Whatever a provider's way of speaking, they stand
//! under one name, and nothing else in the request depends on which they are.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use crate::model::{ModelRequest, ToolDefinition};

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
    /// A request as text, as `body` would have it.
    pub(super) fn text(
        &self,
        mut request: ModelRequest,
        body: impl Fn(&ModelRequest) -> Value,
    ) -> String {
        if request.tools.is_empty() {
            return body(&request).to_string();
        }
        let (mut rest, tools) = match self.known(&request.tools) {
            Some(tools) => {
                request.tools = [stand_in()].into();
                (body(&request), Some(tools))
            }
            None => {
                let whole = body(&request);
                let tools = whole.get(FIELD).map(|tools| Arc::from(tools.to_string()));
                if let Some(text) = &tools {
                    let told = Told { tools: request.tools, text: Arc::clone(text) };
                    *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
                }
                (whole, tools)
            }
        };
        if let Some(fields) = rest.as_object_mut() {
            fields.shift_remove(FIELD);
        }
        let mut text = rest.to_string();
        if let Some(tools) = tools
            && text.pop() == Some('}')
        {
            let comma = if text.ends_with('{') { "" } else { "," };
            text.extend([comma, "\"", FIELD, "\":", &tools, "}"]);
        }
        text
    }

    fn known(&self, tools: &Arc<[ToolDefinition]>) -> Option<Arc<str>> {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let told = told.as_ref().filter(|told| Arc::ptr_eq(&told.tools, tools))?;
        Some(Arc::clone(&told.text))
    }
}

/// A tool in the place of all.
fn stand_in() -> ToolDefinition {
    ToolDefinition {
        name: "tools".to_owned(),
        description: String::new(),
        input_schema: json!({ "type": "object" }),
    }
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;
    use crate::message::Message;
    use crate::model::ModelInfo;
    use crate::model::anthropic::Anthropic;
    use crate::model::gemini::Gemini;
    use crate::model::openai_chat::OpenAiChat;
    use crate::model::openai_responses::OpenAiResponses;
    use crate::model::protocol::Protocol;

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
            let messages = vec![Message::user(format!("round {round}"))];
            let request = ModelRequest { messages, tools: Arc::clone(tools), ..Default::default() };
            let whole = protocol.body(&info, &request);
            let text = told.text(request, |request| protocol.body(&info, request));
            let read: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(read, whole, "round {round}");
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
