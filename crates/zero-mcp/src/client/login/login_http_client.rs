//! [`LoginHttpClient`], the HTTP client for all requests of a login: they pass the network guard
//! and are limited.

use std::sync::Arc;
use std::time::Duration;

use rmcp::transport::auth::{
    AuthorizationManager, OAuthHttpClient, OAuthHttpClientFuture, OAuthHttpRedirectPolicy,
    OAuthHttpRequest,
};
use url::Url;
use zero_runtime::web::{
    self, BodyLimits, NetworkGuard, OutgoingRequest, RedirectPolicy, WebClient,
};

use crate::client::http::{McpHttpClientLimits, McpHttpError};

/// Maximum size of a response of an authorization server, in bytes.
const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// Time limit for a response.
const ANSWER_TIME: Duration = Duration::from_secs(30);

/// Creates the SDK's authorization manager for the server at `endpoint`.
pub(super) async fn new_manager(
    endpoint: &Url,
    guard: &NetworkGuard,
) -> Result<AuthorizationManager, String> {
    let web = LoginHttpClient::new(endpoint, guard).map_err(|error| error.to_string())?;
    AuthorizationManager::new_with_oauth_http_client(endpoint.as_str(), Arc::new(web))
        .await
        .map_err(|error| super::renewal::describe_error(&error))
}

/// The HTTP client of a login.
pub(super) struct LoginHttpClient(WebClient);

impl LoginHttpClient {
    pub(super) fn new(endpoint: &Url, guard: &NetworkGuard) -> Result<Self, McpHttpError> {
        Ok(Self(WebClient::new(
            guard.gate_for_endpoint(endpoint)?,
            McpHttpClientLimits::default().connect_time,
        )?))
    }

    /// Sends a request, and returns the head of the response.
    pub(super) async fn fetch_head(
        &self,
        request: http::Request<Vec<u8>>,
        redirects: RedirectPolicy,
    ) -> Result<http::response::Parts, McpHttpError> {
        let response = self.send(request, redirects).await?;
        let mut answer = http::Response::new(());
        *answer.status_mut() = response.status();
        *answer.headers_mut() = response.headers().clone();
        Ok(answer.into_parts().0)
    }

    /// Sends a request, and returns the whole response.
    async fn fetch(
        &self,
        request: http::Request<Vec<u8>>,
        redirects: RedirectPolicy,
    ) -> Result<http::Response<Vec<u8>>, McpHttpError> {
        let response = self.send(request, redirects).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let limits =
            BodyLimits { bytes_max: ANSWER_BYTES_MAX, idle: ANSWER_TIME, whole: ANSWER_TIME };
        let mut answer = http::Response::new(web::read(response, limits).await?);
        *answer.status_mut() = status;
        *answer.headers_mut() = headers;
        Ok(answer)
    }

    async fn send(
        &self,
        request: http::Request<Vec<u8>>,
        redirects: RedirectPolicy,
    ) -> Result<reqwest::Response, McpHttpError> {
        let (head, body) = request.into_parts();
        let wrong = |_| McpHttpError::unusable("it has no valid URL");
        let outgoing = OutgoingRequest {
            method: head.method,
            url: Url::parse(&head.uri.to_string()).map_err(wrong)?,
            headers: head.headers,
            body: body.into(),
            redirects,
            head_time: ANSWER_TIME,
        };
        Ok(self.0.send(outgoing).await?)
    }
}

impl OAuthHttpClient for LoginHttpClient {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        let redirects = match request.redirect_policy {
            OAuthHttpRedirectPolicy::Follow => RedirectPolicy::SameOrigin,
            _ => RedirectPolicy::Return,
        };
        Box::pin(async move {
            self.fetch(request.request, redirects).await.map_err(|error| Box::new(error).into())
        })
    }
}
