//! [`renew`]: renews a login with its refresh token.

use rmcp::transport::auth::{
    AuthError, AuthorizationManager, CredentialStore, InMemoryCredentialStore, StoredCredentials,
};
use url::Url;
use zero_runtime::web::{NetworkGuard, shorten_untrusted};

use super::login_http_client;
use crate::client::credentials::LoginRecord;

/// What the issuer answered to a renewal.
pub(crate) enum RenewalOutcome {
    /// There are new tokens.
    Renewed(Box<StoredCredentials>),
    /// The issuer refused, or the server uses another issuer now. The user must log in again.
    Refused,
}

/// Renews a login. An error is temporary.
pub(crate) async fn renew(
    endpoint: &Url,
    guard: &NetworkGuard,
    record: &LoginRecord,
) -> Result<RenewalOutcome, String> {
    if record.secret("refresh_token").is_none() {
        return Ok(RenewalOutcome::Refused);
    }
    let mut manager = login_http_client::new_manager(endpoint, guard).await?;
    let found = manager.resolve_metadata().await.map_err(|error| describe_error(&error))?;
    // A token is sent only to the issuer that it came from, whatever the server says now.
    if found.metadata.issuer != record.stored.issuer {
        return Ok(RenewalOutcome::Refused);
    }
    manager.set_metadata(found.metadata);
    match exchange_refresh_token(&mut manager, record).await {
        Ok(Some(stored)) => Ok(RenewalOutcome::Renewed(Box::new(stored))),
        Ok(None) => Ok(RenewalOutcome::Refused),
        Err(AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_)) => {
            Ok(RenewalOutcome::Refused)
        }
        Err(error) => Err(describe_error(&error)),
    }
}

async fn exchange_refresh_token(
    manager: &mut AuthorizationManager,
    record: &LoginRecord,
) -> Result<Option<StoredCredentials>, AuthError> {
    let store = InMemoryCredentialStore::new();
    store.save(record.stored.clone()).await?;
    manager.set_credential_store(store.clone());
    if !manager.initialize_from_store().await? {
        return Ok(None);
    }
    manager.configure_client(record.oauth_client())?;
    manager.refresh_token().await?;
    store.load().await
}

/// Describes an SDK error, parts of which are untrusted text.
pub(super) fn describe_error(error: &AuthError) -> String {
    shorten_untrusted(error.to_string().as_bytes()).unwrap_or_default()
}
