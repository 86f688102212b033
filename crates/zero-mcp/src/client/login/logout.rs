//! [`logout`]: revokes a login if its issuer supports that, and deletes it in any case.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use tokio::time::timeout;
use url::{Url, form_urlencoded};
use zero_runtime::web::{NetworkGuard, RedirectPolicy};

use super::login_http_client::{self, LoginHttpClient};
use super::{LoginError, renewal};
use crate::client::credentials::{LoginRecord, LoginStore};
use crate::server_definition::HttpEndpoint;

/// Time limit for the revocation.
const REVOCATION_TIME: Duration = Duration::from_secs(15);

/// What a logout did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogoutOutcome {
    /// There was no login.
    NotLoggedIn,
    /// The login was deleted here.
    Forgotten(RevocationOutcome),
}

/// Whether the issuer revoked the login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RevocationOutcome {
    /// It was revoked.
    Revoked,
    /// The issuer does not support revocation; the tokens expire by themselves.
    NotOffered,
    /// The revocation failed, for this reason.
    Failed(String),
}

/// Logs out at a server.
pub async fn logout(
    endpoint: &HttpEndpoint,
    guard: &NetworkGuard,
    credentials: &dyn LoginStore,
) -> Result<LogoutOutcome, LoginError> {
    let resource = LoginRecord::resource_from_url(&endpoint.url);
    let _lock = credentials.lock(&resource).await?;
    // A login that cannot be read is deleted, too.
    let record = credentials.load(&resource).await.ok().flatten();
    let revoked = match record {
        None => RevocationOutcome::NotOffered,
        Some(record) => match timeout(REVOCATION_TIME, revoke(endpoint, guard, &record)).await {
            Ok(Ok(revoked)) => revoked,
            Ok(Err(why)) => RevocationOutcome::Failed(why),
            Err(_) => RevocationOutcome::Failed("it took too long".to_owned()),
        },
    };
    match credentials.remove(&resource).await? {
        true => Ok(LogoutOutcome::Forgotten(revoked)),
        false => Ok(LogoutOutcome::NotLoggedIn),
    }
}

async fn revoke(
    endpoint: &HttpEndpoint,
    guard: &NetworkGuard,
    record: &LoginRecord,
) -> Result<RevocationOutcome, String> {
    let manager = login_http_client::new_manager(&endpoint.url, guard).await?;
    let found =
        manager.resolve_metadata().await.map_err(|error| renewal::describe_error(&error))?;
    // A token is sent only to the issuer that it came from.
    if found.metadata.issuer != record.stored.issuer {
        return Ok(RevocationOutcome::NotOffered);
    }
    let revocation_url = found.metadata.additional_fields.get("revocation_endpoint");
    let Some(revocation_url) = revocation_url.and_then(|url| url.as_str()) else {
        return Ok(RevocationOutcome::NotOffered);
    };
    let revocation_url = Url::parse(revocation_url)
        .map_err(|_| "its revocation endpoint is not a URL".to_owned())?;
    let web = LoginHttpClient::new(&endpoint.url, guard).map_err(|error| error.to_string())?;
    for name in ["refresh_token", "access_token"] {
        let Some(token) = record.secret(name) else { continue };
        let request = revocation_request(&revocation_url, record, name, &token)
            .ok_or("its revocation endpoint is not a URL")?;
        let head = web
            .fetch_head(request, RedirectPolicy::Return)
            .await
            .map_err(|error| error.to_string())?;
        if !head.status.is_success() {
            return Err(format!("it answered HTTP {}", head.status.as_u16()));
        }
    }
    Ok(RevocationOutcome::Revoked)
}

fn revocation_request(
    endpoint: &Url,
    record: &LoginRecord,
    name: &str,
    token: &str,
) -> Option<http::Request<Vec<u8>>> {
    let id = &record.stored.client_id;
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("token", token).append_pair("token_type_hint", name);
    let mut request = http::Request::post(endpoint.as_str())
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    match &record.client_secret {
        Some(secret) => {
            let encoded =
                |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
            let both = STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret)));
            request = request.header(AUTHORIZATION, format!("Basic {both}"));
        }
        None => {
            form.append_pair("client_id", id);
        }
    }
    request.body(form.finish().into_bytes()).ok()
}
