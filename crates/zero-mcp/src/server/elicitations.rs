//! Questions of other MCP servers, passed on to the client of the call they are about.
//!
//! Who asks stands first in the message and is ours to say; what they say is quoted. Nothing is
//! ever answered here.

use std::sync::Arc;

use rmcp::model::{ElicitRequestParams, ElicitationAction};
use serde_json::{Map, Value};
use zero_runtime::schema::InputSchema;
use zero_runtime::tool::BoxFuture;
use zero_runtime::{Elicitation, ElicitationAnswer, Elicitor, Wanted};

use super::approvals::{form, plain, quoted, schema_of};
use super::plain_form::PlainForm;
use super::random::handle;
use super::switchboard::{Choices, Line, Reach, Switchboard};

/// Passes questions on to the client of their call.
pub struct McpElicitor {
    board: Arc<Switchboard>,
}

impl McpElicitor {
    /// An elicitor that finds clients on this board.
    pub fn new(board: Arc<Switchboard>) -> Arc<Self> {
        Arc::new(Self { board })
    }

    /// The client to ask. A question that names no call is about the one that runs, if only one
    /// does: put to the wrong person it would be worse than not asked.
    fn line(&self, elicitation: &Elicitation) -> Option<Arc<Line>> {
        match &elicitation.call {
            Some(call) => self.board.line(call),
            None => self.board.only_line(),
        }
    }
}

impl Elicitor for McpElicitor {
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> BoxFuture<'a, ElicitationAnswer> {
        Box::pin(async move {
            let Some(line) = self.line(elicitation) else { return ElicitationAnswer::Cancel };
            let Some((params, plain)) = asked(elicitation, line.reach) else {
                return ElicitationAnswer::Cancel;
            };
            let result = line.ask(params).await;
            match result.action {
                ElicitationAction::Accept => {
                    let content = match plain {
                        Some(plain) => result.content.map(|content| plain.values(content)),
                        None => result.content,
                    };
                    accepted(&elicitation.wanted, content)
                }
                ElicitationAction::Decline => ElicitationAnswer::Decline,
                _ => ElicitationAnswer::Cancel,
            }
        })
    }
}

/// What was filled in. Values that do not fit are none: whoever asked relies on their shape.
fn accepted(wanted: &Wanted, content: Option<Value>) -> ElicitationAnswer {
    match wanted {
        Wanted::Visit(_) => ElicitationAnswer::Accept(Map::new()),
        Wanted::Form(schema) => {
            let values = content.unwrap_or_else(|| Value::Object(Map::new()));
            match InputSchema::new(schema.clone()).check(values) {
                Ok(Value::Object(values)) => ElicitationAnswer::Accept(values),
                Ok(_) | Err(_) => ElicitationAnswer::Cancel,
            }
        }
    }
}

/// The question as the client can show it, and how its answer is read where it had to be put in
/// plainer words; none when it cannot be shown.
fn asked(
    elicitation: &Elicitation,
    reach: Reach,
) -> Option<(ElicitRequestParams, Option<PlainForm>)> {
    let message =
        format!("{} asks:\n{}", plain(&elicitation.asker()), quoted(&elicitation.message));
    match &elicitation.wanted {
        Wanted::Form(Value::Object(schema)) if reach.forms => match reach.choices {
            Choices::Titled => Some((form(&message, schema_of(schema.clone())?), None)),
            Choices::Named => {
                let plain = PlainForm::of(schema)?;
                let params = form(&message, schema_of(plain.schema.clone())?);
                Some((params, Some(plain)))
            }
        },
        Wanted::Visit(url) if reach.pages => {
            let params = ElicitRequestParams::UrlElicitationParams {
                meta: None,
                message,
                url: url.clone(),
                elicitation_id: handle()?,
            };
            Some((params, None))
        }
        Wanted::Form(_) | Wanted::Visit(_) => None,
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
        assert_eq!(accepted(&Wanted::Form(schema), content.clone()), expected, "{content:?}");
    }

    #[test]
    fn only_values_that_fit_reach_who_asked() {
        let name = json!({"name": "abc"});
        check(Some(name.clone()), ElicitationAnswer::Accept(name.as_object().unwrap().clone()));
        check(Some(json!({"name": "abcd"})), ElicitationAnswer::Cancel);
        check(Some(json!({"name": 1})), ElicitationAnswer::Cancel);
        check(Some(json!("abc")), ElicitationAnswer::Cancel);
        check(None, ElicitationAnswer::Cancel);
        let visit = Wanted::Visit("https://x.example/".to_owned());
        assert_eq!(accepted(&visit, Some(name)), ElicitationAnswer::Accept(Map::new()));
    }
}
