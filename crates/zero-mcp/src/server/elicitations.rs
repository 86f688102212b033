//! Questions of other MCP servers, passed on to the client of the call they are about.
//!
//! Who asks stands first in the message and is ours to say; what they say is quoted. Nothing is
//! ever answered here.

use std::sync::Arc;

use rmcp::model::{ElicitRequestParams, ElicitationAction};
use serde_json::Value;
use zero_runtime::tool::BoxFuture;
use zero_runtime::{Elicitation, ElicitationAnswer, Elicitor, Wanted};

use super::approvals::{form, plain, quoted, schema_of};
use super::random::handle;
use super::switchboard::{Line, Switchboard};

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
            let Some(params) = params(elicitation, &line) else { return ElicitationAnswer::Cancel };
            let result = line.ask(params).await;
            match (result.action, result.content) {
                (ElicitationAction::Accept, Some(Value::Object(values))) => {
                    ElicitationAnswer::Accept(values)
                }
                (ElicitationAction::Accept, None) => ElicitationAnswer::Accept(Default::default()),
                (ElicitationAction::Decline, _) => ElicitationAnswer::Decline,
                _ => ElicitationAnswer::Cancel,
            }
        })
    }
}

/// The question as the client can show it; none when it cannot.
fn params(elicitation: &Elicitation, line: &Line) -> Option<ElicitRequestParams> {
    let message = format!("{} asks:\n{}", plain(&elicitation.origin), quoted(&elicitation.message));
    match &elicitation.wanted {
        Wanted::Form(Value::Object(schema)) if line.reach.forms => {
            Some(form(&message, schema_of(schema.clone())?))
        }
        Wanted::Visit(url) if line.reach.pages => Some(ElicitRequestParams::UrlElicitationParams {
            meta: None,
            message,
            url: url.clone(),
            elicitation_id: handle()?,
        }),
        Wanted::Form(_) | Wanted::Visit(_) => None,
    }
}
