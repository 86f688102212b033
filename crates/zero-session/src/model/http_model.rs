//! HTTP client for all provider protocols.
//!
//! A [`ModelProtocol`] encodes requests and decodes replies. This module has the common part: keys
//! are sent to the configured host only, all input is limited in bytes and time, cancellation takes
//! effect immediately, and no key appears in any output.

mod provider_address;
mod response_reader;
mod shared_client;
mod tools_json_cache;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use url::Url;

use self::provider_address::{base_url, configured_headers, is_loopback};
use self::response_reader::ResponseReader;
pub(crate) use self::shared_client::SharedHttpClient;
use self::shared_client::describe_root_cause;
use self::tools_json_cache::ToolsJsonCache;
use zero_core::text_shortening::incomplete_char_len;

use crate::message::image_placeholder;
use crate::model::attempt_failure::{self, AttemptFailure, ModelDescriptor, provider_text};
use crate::model::model_config::{ApiKey, ModelConfig};
use crate::model::protocol::ModelProtocol;
use crate::model::request_secrets::{RequestSecrets, is_secret_header};
use crate::model::retry::{AttemptStream, cancelled_error, retry_stream};
use crate::model::{
    ModelClient, ModelError, ModelErrorKind, ModelEvent, ModelHttpLimits, ModelInfo, ModelRequest,
    ModelStream,
};

/// Maximum size of an error body that is read, in bytes.
const ERROR_BYTES_MAX: usize = 64 * 1024;
/// Time limit for reading it.
const ERROR_TIME: Duration = Duration::from_secs(10);
/// A model that is accessed over HTTP.
#[derive(Clone)]
pub(crate) struct HttpModel(Arc<HttpModelInner>);

struct HttpModelInner {
    info: ModelInfo,
    config: ModelConfig,
    base: Url,
    headers: HeaderMap,
    protocol: Arc<dyn ModelProtocol>,
    client: SharedHttpClient,
    limits: ModelHttpLimits,
    subject: ModelDescriptor,
    told_tools: ToolsJsonCache,
}

impl HttpModel {
    /// Creates the client; it sends nothing before the first request.
    pub(crate) fn new(
        info: ModelInfo,
        config: ModelConfig,
        protocol: Arc<dyn ModelProtocol>,
        client: SharedHttpClient,
        limits: ModelHttpLimits,
    ) -> Result<Self, ModelError> {
        let base = base_url(&config)?;
        let headers = configured_headers(&config)?;
        let subject = ModelDescriptor {
            name: info.name.clone(),
            id: info.id.clone(),
            origin: base.origin().ascii_serialization(),
            key_hint: config.key_hint(),
            model_hint: config.model_hint(),
            address_hint: config.address_hint(),
        };
        Ok(Self(Arc::new(HttpModelInner {
            info,
            config,
            base,
            headers,
            protocol,
            client,
            limits,
            subject,
            told_tools: ToolsJsonCache::default(),
        })))
    }
}

impl ModelClient for HttpModel {
    fn info(&self) -> &ModelInfo {
        &self.0.info
    }

    fn stream(&self, request: ModelRequest, cancel: CancellationToken) -> ModelStream {
        let inner = self.0.clone();
        let body = Bytes::from(inner.build_body(request));
        let limits = inner.limits.retry;
        retry_stream(limits, cancel.clone(), move || {
            HttpExchange::start(inner.clone(), body.clone(), cancel.clone())
        })
    }
}

impl HttpModelInner {
    fn build_body(&self, mut request: ModelRequest) -> String {
        let tokens_max = request.output_tokens_max.or(self.config.output_tokens_max);
        request.output_tokens_max = tokens_max.map(|max| max.min(self.info.output_tokens_max));
        if !self.info.takes_images {
            let words = |_: &str| "[image omitted: this model does not accept images]".to_owned();
            image_placeholder::replace_images(&mut request.messages, words);
        }
        self.told_tools.request_json(&*self.protocol, &self.info, &request)
    }

    /// Sends a request and waits for the response head.
    async fn send_request(&self, body: Bytes) -> Result<ResponseReader, AttemptFailure> {
        let url = self.protocol.url(&self.base, &self.info)?;
        self.refuse_plaintext(&url)?;
        let key = self.read_key().await?;
        let secrets = RequestSecrets::new(key.as_ref(), &self.headers);
        let request = self.build_request(url, key.as_ref(), body)?;
        let client = self.client.get(&self.limits)?;
        let deadline = Instant::now() + self.limits.answer_time;
        let response = match timeout(self.limits.head_time, client.execute(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.unreachable_error(&error)),
            Err(_) => {
                return Err(self.timeout_error("began no answer", self.limits.head_time).into());
            }
        };
        let response = self.check_response(response, &secrets).await?;
        Ok(ResponseReader::new(response, self, secrets, deadline))
    }

    /// Refuses to send a key over an unencrypted connection.
    fn refuse_plaintext(&self, url: &Url) -> Result<(), ModelError> {
        let has_secret = self.config.key.is_some()
            || self.headers.keys().any(|name| is_secret_header(name.as_str()));
        if url.scheme() == "https" || !has_secret || is_loopback(url) {
            return Ok(());
        }
        let ModelDescriptor { name, origin, .. } = &self.subject;
        Err(ModelError::new(
            ModelErrorKind::InvalidRequest,
            format!(
                "`{name}`: {origin} is not encrypted, so the key is not sent there; use https, or \
                 configure the model without a key"
            ),
        ))
    }

    async fn read_key(&self) -> Result<Option<ApiKey>, ModelError> {
        let Some(source) = self.config.key.clone() else { return Ok(None) };
        // Reading a file or a keyring may block.
        let read = tokio::task::spawn_blocking(move || source()).await;
        let broken = |_| {
            ModelError::new(
                ModelErrorKind::Auth,
                format!(
                    "the key of `{}` could not be read; {}",
                    self.subject.name, self.subject.key_hint
                ),
            )
        };
        read.map_err(broken)?.map(Some)
    }

    fn build_request(
        &self,
        url: Url,
        key: Option<&ApiKey>,
        body: Bytes,
    ) -> Result<reqwest::Request, ModelError> {
        let mut request = reqwest::Request::new(http::Method::POST, url);
        let headers = request.headers_mut();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in self.protocol.headers(key) {
            // The value may contain the key and is therefore not repeated.
            let mut value = HeaderValue::from_str(&value).map_err(|_| {
                let ModelDescriptor { name, key_hint, .. } = &self.subject;
                ModelError::new(
                    ModelErrorKind::Auth,
                    format!("the key of `{name}` holds characters that no key has; {key_hint}"),
                )
            })?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(name), value);
        }
        headers.extend(self.headers.clone());
        *request.body_mut() = Some(body.into());
        Ok(request)
    }

    /// Accepts a response that is an event stream; anything else is an error.
    async fn check_response(
        &self,
        response: reqwest::Response,
        secrets: &RequestSecrets,
    ) -> Result<reqwest::Response, AttemptFailure> {
        let ModelDescriptor { name, origin, .. } = &self.subject;
        let status = response.status();
        if status.is_redirection() {
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            // Redacted before parsing, since a parsed address may be spelled differently.
            let to = to.and_then(|to| response.url().join(&secrets.redact(to)).ok());
            let to = to.map_or("elsewhere".to_owned(), |to| to.origin().ascii_serialization());
            let error = format!(
                "`{name}`: {origin} redirects to {to}, where no key is sent; if that is right, \
                 change the model's base URL"
            );
            return Err(ModelError::new(ModelErrorKind::InvalidRequest, error).into());
        }
        if !status.is_success() {
            let headers = response.headers().clone();
            let body = read_error(response).await;
            let mut failed = attempt_failure::failure_from_status(
                status,
                &headers,
                &secrets.redact(&body),
                &self.subject,
            );
            failed.error.message = secrets.redact(&failed.error.message).into_owned();
            return Err(failed);
        }
        let media_type = response.headers().get(CONTENT_TYPE);
        let media_type = media_type.map(|value| secrets.redact(value.to_str().unwrap_or("?")));
        let media_type = match media_type.as_deref().and_then(|value| value.split(';').next()) {
            Some(media_type) => media_type.trim().to_ascii_lowercase(),
            None => return Ok(response),
        };
        if media_type == "text/event-stream" {
            return Ok(response);
        }
        let body = read_error(response).await;
        if let Ok(value) = serde_json::from_str::<serde_json::Value>(&secrets.redact(&body))
            && (value.get("error").is_some_and(|error| !error.is_null()) || value.is_array())
        {
            return Err(attempt_failure::failure_from_object(&value, Some(&self.subject)));
        }
        let what = match media_type.as_str() {
            "text/html" => {
                "with a web page; look at its base URL, and at proxies in between".to_owned()
            }
            "application/json" => "all at once; it must be able to stream".to_owned(),
            other => format!(
                "with `{}` in place of a stream of events; look at its base URL",
                provider_text(other).unwrap_or_default()
            ),
        };
        let error = format!("`{name}`: {origin} answers {what}");
        Err(AttemptFailure::permanent(ModelError::new(ModelErrorKind::Server, error)))
    }

    fn unreachable_error(&self, error: &reqwest::Error) -> AttemptFailure {
        let ModelDescriptor { name, origin, .. } = &self.subject;
        if error.is_timeout() {
            return self
                .timeout_error("could not be connected to", self.limits.connect_time)
                .into();
        }
        let why = describe_root_cause(error);
        let what = match error.is_connect() {
            true => "could not be reached",
            false => "broke the connection before it answered",
        };
        let next = match is_loopback(&self.base) {
            true => "check that the server is running there",
            false => "look at the network and at the model's base URL",
        };
        ModelError::new(
            ModelErrorKind::Network,
            format!("`{name}`: {origin} {what}: {why}; {next}"),
        )
        .into()
    }

    fn timeout_error(&self, what: &str, time: Duration) -> ModelError {
        let ModelDescriptor { name, origin, .. } = &self.subject;
        let time = time.as_secs_f64();
        ModelError::new(
            ModelErrorKind::Timeout,
            format!("`{name}`: {origin} {what} within {time} s"),
        )
    }
}

/// One attempt: a request and its reply, as a stream.
struct HttpExchange {
    inner: Arc<HttpModelInner>,
    cancel: CancellationToken,
    step: ExchangeState,
}

enum ExchangeState {
    Sending(Bytes),
    Receiving(Box<ResponseReader>),
    Ended,
}

impl HttpExchange {
    fn start(inner: Arc<HttpModelInner>, body: Bytes, cancel: CancellationToken) -> AttemptStream {
        let exchange = Self { inner, cancel, step: ExchangeState::Sending(body) };
        Box::pin(stream::unfold(exchange, |mut exchange| async move {
            let next = exchange.next().await?;
            Some((next, exchange))
        }))
    }

    async fn next(&mut self) -> Option<Result<ModelEvent, AttemptFailure>> {
        if matches!(self.step, ExchangeState::Ended) {
            return None;
        }
        let cancel = self.cancel.clone();
        let next = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(AttemptFailure::from(cancelled_error())),
            next = self.advance() => next,
        };
        if matches!(next, Ok(ModelEvent::Done(_)) | Err(_)) {
            // This also drops the connection of an unfinished reply.
            self.step = ExchangeState::Ended;
        }
        Some(next)
    }

    async fn advance(&mut self) -> Result<ModelEvent, AttemptFailure> {
        if let ExchangeState::Sending(body) = &self.step {
            let answer = self.inner.send_request(body.clone()).await?;
            self.step = ExchangeState::Receiving(Box::new(answer));
        }
        match &mut self.step {
            ExchangeState::Receiving(answer) => answer.next(&self.inner).await,
            ExchangeState::Sending(_) | ExchangeState::Ended => {
                Err(AttemptFailure::from(cancelled_error()))
            }
        }
    }
}

async fn read_error(mut response: reqwest::Response) -> String {
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            body.extend_from_slice(
                chunk.get(..chunk.len().min(ERROR_BYTES_MAX)).unwrap_or_default(),
            );
            if body.len() >= ERROR_BYTES_MAX {
                break;
            }
        }
    };
    // A partial body is better than none.
    let _ = timeout(ERROR_TIME, read).await;
    body.truncate(body.len() - incomplete_char_len(&body));
    String::from_utf8_lossy(&body).into_owned()
}

/// The complete body of a request.
#[cfg(test)]
pub(crate) fn complete_body(
    protocol: &dyn ModelProtocol,
    info: &ModelInfo,
    request: &ModelRequest,
) -> serde_json::Value {
    let text = ToolsJsonCache::default().request_json(protocol, info, request);
    serde_json::from_str(&text).unwrap()
}
