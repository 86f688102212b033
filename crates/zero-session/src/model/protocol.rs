//! The differences between provider protocols: encoding requests and decoding replies.
//!
//! Both are pure. [`crate::model::http_model`] performs the requests for all protocols.

use serde_json::Value;
use url::Url;

use crate::model::model_config::ApiKey;
use crate::model::{ModelError, ModelEvent, ModelInfo, ModelReply, ModelRequest};

/// A provider's protocol.
pub(crate) trait ModelProtocol: Send + Sync {
    /// The address of a request.
    fn url(&self, base: &Url, info: &ModelInfo) -> Result<Url, ModelError>;

    /// The headers of a request, except for those of every request.
    fn headers(&self, key: Option<&ApiKey>) -> Vec<(&'static str, String)>;

    /// The body as a JSON object, without the tools.
    fn encode_body(&self, info: &ModelInfo, request: &ModelRequest) -> String;

    /// The tools, as the value of `tools` in the body; `None` to omit the field.
    fn encode_tools(&self, request: &ModelRequest) -> Option<Value>;

    /// Creates a decoder for one reply.
    fn new_decoder(&self) -> Box<dyn ReplyDecoder>;
}

/// Decodes one reply, event by event.
pub(crate) trait ReplyDecoder: Send {
    /// Decodes the next event of the stream, given its name, which may be empty, and its data.
    fn decode_event(&mut self, name: &str, data: &str) -> Result<Vec<ModelEvent>, ModelError>;

    /// Whether the provider reported the end of the reply; nothing after it is read.
    fn is_done(&self) -> bool;

    /// The complete reply. Fails if the stream ended before the reply was complete.
    fn finish(&mut self) -> Result<ModelReply, ModelError>;
}
