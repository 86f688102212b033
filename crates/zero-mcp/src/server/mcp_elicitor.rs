//! [`McpElicitor`], which forwards questions of other MCP servers to the client of the call that
//! they belong to.
//!
//! The message starts with who asks, which zero determines; the server's text is quoted. zero never
//! answers for the user.

use std::sync::Arc;

use rmcp::model::{ElicitRequestParams, ElicitationAction};
use serde_json::{Map, Value};
use zero_runtime::schema::InputSchema;
use zero_runtime::tool::BoxFuture;
use zero_runtime::{Elicitation, ElicitationAnswer, ElicitationMode, Elicitor};

use super::call_router::{ChoiceStyle, ElicitationSupport, McpCallRoute, McpCallRouter};
use super::legacy_form::LegacyForm;
use super::mcp_approver::{form_request, quote_lines, to_elicitation_schema};
use super::random_handle::new_handle;

/// Forwards questions to the client of their call.
pub struct McpElicitor {
    router: Arc<McpCallRouter>,
}

impl McpElicitor {
    /// Creates an elicitor that finds clients with this router.
    pub fn new(router: Arc<McpCallRouter>) -> Arc<Self> {
        Arc::new(Self { router })
    }

    /// Returns the client to ask. A question that names no call belongs to the only running call;
    /// if there are several, it is not asked, because it could reach the wrong user.
    fn find_route(&self, elicitation: &Elicitation) -> Option<Arc<McpCallRoute>> {
        match &elicitation.call {
            Some(call) => self.router.route(call),
            None => self.router.only_route(),
        }
    }
}

impl Elicitor for McpElicitor {
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> BoxFuture<'a, ElicitationAnswer> {
        Box::pin(async move {
            let Some(line) = self.find_route(elicitation) else { return ElicitationAnswer::Cancel };
            let Some((params, plain)) = build_request(elicitation, line.elicitation_support) else {
                return ElicitationAnswer::Cancel;
            };
            let result = line.ask(params).await;
            match result.action {
                ElicitationAction::Accept => {
                    let content = match plain {
                        Some(plain) => result.content.map(|content| plain.restore_values(content)),
                        None => result.content,
                    };
                    accept_content(&elicitation.mode, content)
                }
                ElicitationAction::Decline => ElicitationAnswer::Decline,
                _ => ElicitationAnswer::Cancel,
            }
        })
    }
}

/// Validates the values that the user entered. Invalid values cancel the question, because the
/// server relies on their form.
fn accept_content(mode: &ElicitationMode, content: Option<Value>) -> ElicitationAnswer {
    match mode {
        ElicitationMode::Url(_) => ElicitationAnswer::Accept(Map::new()),
        ElicitationMode::Form(schema) => {
            let values = content.unwrap_or_else(|| Value::Object(Map::new()));
            match InputSchema::new(schema.clone()).check(values) {
                Ok(Value::Object(values)) => ElicitationAnswer::Accept(values),
                Ok(_) | Err(_) => ElicitationAnswer::Cancel,
            }
        }
    }
}

/// Builds the question in a form that the client can show, and how to read the answer if the form
/// was converted; `None` if the client cannot show it.
fn build_request(
    elicitation: &Elicitation,
    elicitation_support: ElicitationSupport,
) -> Option<(ElicitRequestParams, Option<LegacyForm>)> {
    let elicitation = elicitation.to_visible();
    let message = format!("{} asks:\n{}", elicitation.asker(), quote_lines(&elicitation.message));
    match &elicitation.mode {
        ElicitationMode::Form(Value::Object(schema)) if elicitation_support.forms => {
            match elicitation_support.choices {
                ChoiceStyle::Titled => {
                    Some((form_request(&message, to_elicitation_schema(schema.clone())?), None))
                }
                ChoiceStyle::Named => {
                    let plain = LegacyForm::from_schema(schema)?;
                    let params =
                        form_request(&message, to_elicitation_schema(plain.schema.clone())?);
                    Some((params, Some(plain)))
                }
            }
        }
        ElicitationMode::Url(url) if elicitation_support.pages => {
            let params = ElicitRequestParams::UrlElicitationParams {
                meta: None,
                message,
                url: url.clone(),
                elicitation_id: new_handle()?,
            };
            Some((params, None))
        }
        ElicitationMode::Form(_) | ElicitationMode::Url(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(content: Option<Value>, expected: ElicitationAnswer) {
        let schema = json!({
            "type": "object", "required": ["name"],
            "properties": {"name": {"type": "string", "maxLength": 3}},
        });
        assert_eq!(
            accept_content(&ElicitationMode::Form(schema), content.clone()),
            expected,
            "{content:?}"
        );
    }

    #[test]
    fn only_valid_values_reach_the_requester() {
        let name = json!({"name": "abc"});
        check(Some(name.clone()), ElicitationAnswer::Accept(name.as_object().unwrap().clone()));
        check(Some(json!({"name": "abcd"})), ElicitationAnswer::Cancel);
        check(Some(json!({"name": 1})), ElicitationAnswer::Cancel);
        check(Some(json!("abc")), ElicitationAnswer::Cancel);
        check(None, ElicitationAnswer::Cancel);
        let visit = ElicitationMode::Url("https://x.example/".to_owned());
        assert_eq!(accept_content(&visit, Some(name)), ElicitationAnswer::Accept(Map::new()));
    }
}
