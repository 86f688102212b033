//! The token that requests to a server carry, renewed when its time comes.

use std::sync::Arc;

use tokio::sync::Mutex;

use super::failure::HttpError;
use super::guard::NetworkGuard;
use crate::client::credentials::{Credentials, LoginRecord, Token};
use crate::client::login::renewal::{self, Renewed};
use crate::definition::Endpoint;

/// The login at one server.
pub(super) struct Tokens {
    account: Arc<Account>,
    /// The token in use, so that not every request asks the keyring.
    held: Mutex<Option<Token>>,
}

/// Whether a login covers what a server wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Covers {
    Yes,
    No,
}

struct Account {
    endpoint: Endpoint,
    resource: String,
    guard: NetworkGuard,
    credentials: Arc<dyn Credentials>,
}

impl Tokens {
    pub(super) fn new(
        endpoint: &Endpoint,
        guard: &NetworkGuard,
        credentials: Arc<dyn Credentials>,
    ) -> Self {
        let account = Account {
            endpoint: endpoint.clone(),
            resource: LoginRecord::resource_of(&endpoint.url),
            guard: guard.clone(),
            credentials,
        };
        Self { account: Arc::new(account), held: Mutex::new(None) }
    }

    /// The token for the next request; nothing where nobody has logged in.
    pub(super) async fn current(&self) -> Result<Option<Token>, HttpError> {
        let mut held = self.held.lock().await;
        if let Some(token) = held.as_ref().filter(|token| token.is_fresh(now())) {
            return Ok(Some(token.clone()));
        }
        let Account { credentials, resource, .. } = &*self.account;
        let token = credentials.load(resource).await?.and_then(|record| record.token());
        *held = match token {
            Some(token) if !token.is_fresh(now()) => match self.renew(&token).await {
                Ok(renewed) => renewed,
                // The old one may do still; whether it does is for the server to say.
                Err(HttpError::Renewal { .. }) => return Ok(Some(token)),
                Err(error) => return Err(error),
            },
            token => token,
        };
        Ok(held.clone())
    }

    /// The token to use after the server refused `refused`; nothing where that needs a login.
    pub(super) async fn renewed(&self, refused: &Token) -> Result<Option<Token>, HttpError> {
        let mut held = self.held.lock().await;
        if let Some(token) = held.as_ref().filter(|token| token.secret() != refused.secret()) {
            return Ok(Some(token.clone()));
        }
        *held = self.renew(refused).await?;
        Ok(held.clone())
    }

    /// Notes a scope for the next login, unless the present one covers it.
    pub(super) async fn want(&self, scope: &str) -> Result<Covers, HttpError> {
        let Account { credentials, resource, .. } = &*self.account;
        let _lock = credentials.lock(resource).await?;
        let Some(mut record) = credentials.load(resource).await? else { return Ok(Covers::No) };
        if !scope.trim().is_empty() && record.covers(scope) {
            return Ok(Covers::Yes);
        }
        record.want(scope);
        credentials.save(record).await?;
        Ok(Covers::No)
    }

    /// Renews a login to the end even when nobody waits any more: a renewal that is made and not
    /// kept ends the login.
    async fn renew(&self, old: &Token) -> Result<Option<Token>, HttpError> {
        let (account, old) = (self.account.clone(), old.clone());
        let renewal = tokio::spawn(async move { account.renew(&old).await });
        renewal
            .await
            .unwrap_or_else(|_| Err(HttpError::Renewal { why: "it was called off".to_owned() }))
    }
}

impl Account {
    async fn renew(&self, old: &Token) -> Result<Option<Token>, HttpError> {
        let _lock = self.credentials.lock(&self.resource).await?;
        let record = self.credentials.load(&self.resource).await?;
        let Some(mut record) = record else { return Ok(None) };
        match record.token() {
            None => return Ok(None),
            // Another process was faster.
            Some(token) if token.secret() != old.secret() => return Ok(Some(token)),
            Some(_) => {}
        }
        match renewal::renew(&self.endpoint.url, &self.guard, &record).await {
            Ok(Renewed::Yes(stored)) => {
                record.stored = *stored;
                let token = record.token();
                self.credentials.save(record).await?;
                Ok(token)
            }
            Ok(Renewed::Refused) => {
                // Nobody tries that again; the client stays registered.
                record.stored.token_response = None;
                self.credentials.save(record).await?;
                Ok(None)
            }
            Err(why) => Err(HttpError::Renewal { why }),
        }
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_second()).unwrap_or_default()
}
