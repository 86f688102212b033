//! What tells one provider's way of speaking from another's: how to ask, and how to read the answer.
//!
//! Both are pure. [`crate::model::http`] does the talking for all of them.

use serde_json::Value;
use url::Url;

use crate::model::model_config::ApiKey;
use crate::model::{ModelError, ModelEvent, ModelInfo, ModelReply, ModelRequest};

/// A provider's way of speaking.
pub(crate) trait ModelProtocol: Send + Sync {
    /// Where a request goes.
    fn url(&self, base: &Url, info: &ModelInfo) -> Result<Url, ModelError>;

    /// Its headers, but for those that every request has.
    fn headers(&self, key: Option<&ApiKey>) -> Vec<(&'static str, String)>;

    /// Its body as JSON, an object; but for the tools.
    fn encode_body(&self, info: &ModelInfo, request: &ModelRequest) -> String;

    /// The tools, as they stand under `tools` in the body, if that is there.
    fn encode_tools(&self, request: &ModelRequest) -> Option<Value>;

    /// Reads the answer.
    fn new_decoder(&self) -> Box<dyn ReplyDecoder>;
}

/// Reads one answer, event by event.
pub(crate) trait ReplyDecoder: Send {
    /// The next event of the stream: its name, where it has one, and its data.
    fn decode_event(&mut self, name: &str, data: &str) -> Result<Vec<ModelEvent>, ModelError>;

    /// Whether the provider said that it is done; nothing after that is read.
    fn is_done(&self) -> bool;

    /// The whole answer. An error when the stream ended before the provider was done.
    fn finish(&mut self) -> Result<ModelReply, ModelError>;
}
