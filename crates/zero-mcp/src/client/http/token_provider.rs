//! [`TokenProvider`], which returns the access token for requests to a server and renews it when
//! needed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use zero_runtime::web::NetworkGuard;

use super::error::McpHttpError;
use crate::client::credentials::{BearerToken, CredentialError, LoginRecord, LoginStore};
use crate::client::login::renewal::{self, RenewalOutcome};
use crate::server_definition::HttpEndpoint;

/// How long a failed renewal is not tried again. Otherwise every request would try, and each
/// attempt sends several requests to the server and its issuer.
const RENEWAL_RETRY_PAUSE: Duration = Duration::from_secs(30);

/// Access token for one server.
pub(super) struct TokenProvider {
    account: Arc<LoginAccount>,
    /// The current token, so that not every request opens the keyring.
    bearer_token: Mutex<Option<BearerToken>>,
}

/// Whether a login has the scope that a server requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScopeCoverage {
    Yes,
    No,
}

struct LoginAccount {
    endpoint: HttpEndpoint,
    resource: String,
    guard: NetworkGuard,
    credentials: Arc<dyn LoginStore>,
    /// When the last renewal failed, and why.
    failed: std::sync::Mutex<Option<(Instant, String)>>,
    /// Whether the log already says that the login cannot be read.
    has_told: AtomicBool,
}

impl TokenProvider {
    pub(super) fn new(
        endpoint: &HttpEndpoint,
        guard: &NetworkGuard,
        credentials: Arc<dyn LoginStore>,
    ) -> Self {
        let account = LoginAccount {
            endpoint: endpoint.clone(),
            resource: LoginRecord::resource_from_url(&endpoint.url),
            guard: guard.clone(),
            credentials,
            failed: std::sync::Mutex::default(),
            has_told: AtomicBool::new(false),
        };
        Self { account: Arc::new(account), bearer_token: Mutex::new(None) }
    }

    /// Returns the token for the next request; `None` if there is no login.
    pub(super) async fn current_token(&self) -> Result<Option<BearerToken>, McpHttpError> {
        let mut bearer_token = self.bearer_token.lock().await;
        if let Some(token) = bearer_token.as_ref().filter(|token| token.is_fresh(unix_now())) {
            return Ok(Some(token.clone()));
        }
        let token = self.account.load_login().await?.and_then(|record| record.token());
        *bearer_token = match token {
            Some(token) if !token.is_fresh(unix_now()) => match self.renew(&token).await {
                Ok(renewed) => renewed,
                // The old token may still be valid; the server decides.
                Err(McpHttpError::Renewal { .. }) => return Ok(Some(token)),
                Err(error) => return Err(error),
            },
            token => token,
        };
        Ok(bearer_token.clone())
    }

    /// Returns the token to use after the server refused `refused`; `None` if the user must log in.
    pub(super) async fn renew_refused(
        &self,
        refused: &BearerToken,
    ) -> Result<Option<BearerToken>, McpHttpError> {
        let mut bearer_token = self.bearer_token.lock().await;
        if let Some(token) =
            bearer_token.as_ref().filter(|token| token.secret() != refused.secret())
        {
            return Ok(Some(token.clone()));
        }
        *bearer_token = self.renew(refused).await?;
        Ok(bearer_token.clone())
    }

    /// Records a scope for the next login, unless the current login has it.
    pub(super) async fn request_scope(&self, scope: &str) -> Result<ScopeCoverage, McpHttpError> {
        let LoginAccount { credentials, resource, .. } = &*self.account;
        let _lock = credentials.lock(resource).await?;
        let Some(mut record) = credentials.load(resource).await? else {
            return Ok(ScopeCoverage::No);
        };
        if !scope.trim().is_empty() && record.covers(scope) {
            return Ok(ScopeCoverage::Yes);
        }
        record.request_scopes(scope);
        credentials.save(record).await?;
        Ok(ScopeCoverage::No)
    }

    /// Renews the login in a separate task, so that it completes even if the request is dropped: an
    /// issued renewal that is not stored invalidates the login.
    async fn renew(&self, old: &BearerToken) -> Result<Option<BearerToken>, McpHttpError> {
        let (account, old) = (self.account.clone(), old.clone());
        let renewal = tokio::spawn(async move { account.renew(&old).await });
        renewal
            .await
            .unwrap_or_else(|_| Err(McpHttpError::Renewal { why: "it was cancelled".to_owned() }))
    }
}

impl LoginAccount {
    /// Loads the login. One that cannot be read counts as none: the server may require none, and if
    /// it does, a new login is what helps.
    async fn load_login(&self) -> Result<Option<LoginRecord>, McpHttpError> {
        match self.credentials.load(&self.resource).await {
            Err(error @ CredentialError::Damaged { .. }) => {
                if !self.has_told.swap(true, Ordering::Relaxed) {
                    tracing::warn!(%error, "requests are sent without a login");
                }
                Ok(None)
            }
            login => Ok(login?),
        }
    }

    async fn renew(&self, old: &BearerToken) -> Result<Option<BearerToken>, McpHttpError> {
        let _lock = self.credentials.lock(&self.resource).await?;
        let record = self.credentials.load(&self.resource).await?;
        let Some(mut record) = record else { return Ok(None) };
        match record.token() {
            None => return Ok(None),
            // Another process has renewed it.
            Some(token) if token.secret() != old.secret() => return Ok(Some(token)),
            Some(_) => {}
        }
        if let Some(why) = self.recent_failure() {
            return Err(McpHttpError::Renewal { why });
        }
        let renewed = renewal::renew(&self.endpoint.url, &self.guard, &record).await;
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) =
            renewed.as_ref().err().map(|why| (Instant::now(), why.clone()));
        match renewed {
            Ok(RenewalOutcome::Renewed(stored)) => {
                record.stored = *stored;
                let token = record.token();
                self.credentials.save(record).await?;
                Ok(token)
            }
            Ok(RenewalOutcome::Refused) => {
                // The tokens are removed, so that no request tries them again. The client
                // registration is kept.
                record.stored.token_response = None;
                self.credentials.save(record).await?;
                Ok(None)
            }
            Err(why) => Err(McpHttpError::Renewal { why }),
        }
    }

    /// Returns why the last renewal failed, if that was recent.
    fn recent_failure(&self) -> Option<String> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, why) = failed.as_ref()?;
        (at.elapsed() < RENEWAL_RETRY_PAUSE).then(|| why.clone())
    }
}

/// Current time, in seconds since 1970.
fn unix_now() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or_default()
}
