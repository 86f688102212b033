//! A login is renewed with the token that came with it.

use rmcp::transport::auth::{
    AuthError, AuthorizationManager, CredentialStore, InMemoryCredentialStore, StoredCredentials,
};
use url::Url;
use zero_runtime::web::{NetworkGuard, shortened};

use super::login_http_client;
use crate::client::credentials::LoginRecord;

/// What became of a renewal.
pub(crate) enum RenewalOutcome {
    /// There are new tokens.
    Yes(Box<StoredCredentials>),
    /// Its issuer will not, or the server has another issuer now. A new login is needed.
    Refused,
}

/// Renews a login. The error is one that may pass.
pub(crate) async fn renew(
    endpoint: &Url,
    guard: &NetworkGuard,
    record: &LoginRecord,
) -> Result<RenewalOutcome, String> {
    if record.secret("refresh_token").is_none() {
        return Ok(RenewalOutcome::Refused);
    }
    let mut manager = login_http_client::manager(endpoint, guard).await?;
    let found = manager.resolve_metadata().await.map_err(|error| said(&error))?;
    // A token goes back to who issued it and to nobody else, whatever the server says by now.
    if found.metadata.issuer != record.stored.issuer {
        return Ok(RenewalOutcome::Refused);
    }
    manager.set_metadata(found.metadata);
    match exchange(&mut manager, record).await {
        Ok(Some(stored)) => Ok(RenewalOutcome::Yes(Box::new(stored))),
        Ok(None) => Ok(RenewalOutcome::Refused),
        Err(AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_)) => {
            Ok(RenewalOutcome::Refused)
        }
        Err(error) => Err(said(&error)),
    }
}

async fn exchange(
    manager: &mut AuthorizationManager,
    record: &LoginRecord,
) -> Result<Option<StoredCredentials>, AuthError> {
    let store = InMemoryCredentialStore::new();
    store.save(record.stored.clone()).await?;
    manager.set_credential_store(store.clone());
    if !manager.initialize_from_store().await? {
        return Ok(None);
    }
    manager.configure_client(record.client())?;
    manager.refresh_token().await?;
    store.load().await
}

/// What the SDK says of it; parts of that are a stranger's words.
pub(super) fn said(error: &AuthError) -> String {
    shortened(error.to_string().as_bytes()).unwrap_or_default()
}
