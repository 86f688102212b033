//! [`LoginRecord`], a login with its issuer, its server and its tokens, and [`BearerToken`], the
//! access token for requests.

use std::fmt;

use rmcp::transport::auth::{OAuthClientConfig, StoredCredentials};
use serde::{Deserialize, Serialize};
use url::Url;

/// How long before its expiry a token is renewed, in seconds.
const RENEW_BEFORE: u64 = 30;
/// Maximum number of scopes that a server can request for the next login.
const SCOPES_WANTED_MAX: usize = 32;

/// A login at a server, with its secrets.
#[derive(Clone, Serialize, Deserialize)]
pub struct LoginRecord {
    /// URL of the server.
    pub(crate) resource: String,
    /// The authorization server that issued it.
    pub(crate) issuer: String,
    /// Secret of the OAuth client, if it has one.
    pub(crate) client_secret: Option<String>,
    /// Redirect URI; a client registration is valid for this one only.
    pub(crate) redirect_uri: String,
    /// Whether the client was registered for this login, rather than configured in settings.
    pub(crate) is_registered: bool,
    /// Scopes that the server has requested since.
    #[serde(default)]
    pub(crate) scopes_wanted: Vec<String>,
    /// The tokens, and the client that they were issued to.
    pub(crate) stored: StoredCredentials,
}

impl LoginRecord {
    /// Returns the URL of the server.
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Returns the authorization server that issued it.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Returns the granted scopes.
    pub fn scopes(&self) -> &[String] {
        &self.stored.granted_scopes
    }

    /// Returns the name of a server in the store: its URL without the fragment.
    pub(crate) fn resource_from_url(url: &Url) -> String {
        let mut url = url.clone();
        url.set_fragment(None);
        url.into()
    }

    /// Returns the access token.
    pub(crate) fn token(&self) -> Option<BearerToken> {
        // The SDK's type gives access to its fields only through serialization.
        let response = serde_json::to_value(self.stored.token_response.as_ref()?).ok()?;
        let token = response.get("access_token")?.as_str()?.to_owned();
        let lives = response.get("expires_in").and_then(serde_json::Value::as_u64);
        // Some servers send 0 for a token without expiry: it is used until it is refused.
        let lives = lives.filter(|lives| *lives > 0);
        let renew_at = match (lives, self.stored.token_received_at) {
            (Some(lives), Some(received)) => {
                // A short-lived token is used for half of its lifetime.
                let before = RENEW_BEFORE.min(lives / 2);
                Some(received.saturating_add(lives - before))
            }
            _ => None,
        };
        Some(BearerToken { token, renew_at })
    }

    /// Returns a secret of the login by its OAuth name, such as `refresh_token`.
    pub(crate) fn secret(&self, name: &str) -> Option<String> {
        let response = serde_json::to_value(self.stored.token_response.as_ref()?).ok()?;
        Some(response.get(name)?.as_str()?.to_owned())
    }

    /// Records scopes that the server wants, for the next login.
    pub(crate) fn request_scopes(&mut self, scopes: &str) {
        for scope in scopes.split_whitespace() {
            let is_known = self.scopes_wanted.iter().any(|known| known == scope);
            if !is_known && self.scopes_wanted.len() < SCOPES_WANTED_MAX {
                self.scopes_wanted.push(scope.to_owned());
            }
        }
    }

    /// Whether all of these scopes were granted.
    pub(crate) fn covers(&self, scopes: &str) -> bool {
        let mut scopes = scopes.split_whitespace();
        scopes.all(|scope| self.stored.granted_scopes.iter().any(|granted| granted == scope))
    }

    /// Returns the OAuth client that the login was issued to.
    pub(crate) fn oauth_client(&self) -> OAuthClientConfig {
        let client = OAuthClientConfig::new(&self.stored.client_id, &self.redirect_uri);
        match &self.client_secret {
            Some(secret) => client.with_client_secret(secret),
            None => client,
        }
    }
}

impl fmt::Debug for LoginRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoginRecord")
            .field("resource", &self.resource)
            .field("issuer", &self.issuer)
            .field("scopes", &self.stored.granted_scopes)
            .finish_non_exhaustive()
    }
}

/// The access token for requests to a server.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct BearerToken {
    token: String,
    /// When to renew it, in seconds since 1970; often unknown.
    renew_at: Option<u64>,
}

impl BearerToken {
    /// Returns the token itself.
    pub(crate) fn secret(&self) -> &str {
        &self.token
    }

    /// Whether it can be used without a renewal.
    pub(crate) fn is_fresh(&self, now: u64) -> bool {
        self.renew_at.is_none_or(|renew_at| now < renew_at)
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BearerToken").field("renew_at", &self.renew_at).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    /// A login with this response of the token endpoint, received at second 1000.
    pub(crate) fn sample_record(resource: &str, response: serde_json::Value) -> LoginRecord {
        let stored = json!({
            "client_id": "client",
            "token_response": response,
            "granted_scopes": ["read"],
            "token_received_at": 1000,
            "issuer": "https://as.example",
        });
        LoginRecord {
            resource: resource.to_owned(),
            issuer: "https://as.example".to_owned(),
            client_secret: Some("hush-client".to_owned()),
            redirect_uri: "http://127.0.0.1:1/callback".to_owned(),
            is_registered: true,
            scopes_wanted: Vec::new(),
            stored: serde_json::from_value(stored).unwrap(),
        }
    }

    #[track_caller]
    fn check(expires_in: Option<u64>, now: u64, fresh: bool) {
        let mut response = json!({"access_token": "hush", "token_type": "bearer"});
        if let Some(expires_in) = expires_in {
            response["expires_in"] = expires_in.into();
        }
        let token = sample_record("r", response).token().unwrap();
        assert_eq!(token.is_fresh(now), fresh, "{expires_in:?} at {now}");
    }

    #[test]
    fn token_is_renewed_before_expiry_and_used_if_expiry_unknown() {
        check(Some(3600), 1000, true);
        check(Some(3600), 4569, true);
        check(Some(3600), 4570, false);
        check(Some(10), 1004, true);
        check(Some(10), 1005, false);
        check(Some(0), 9_999_999, true);
        check(None, 9_999_999, true);
    }

    #[test]
    fn debug_output_hides_secrets() {
        let response =
            json!({"access_token": "hush", "token_type": "bearer", "refresh_token": "hush2"});
        let record = sample_record("https://mcp.example/", response);
        let shown = format!("{record:?} {:?}", record.token());
        assert!(!shown.contains("hush"), "{shown}");
        assert_eq!(record.secret("refresh_token").as_deref(), Some("hush2"));
    }
}
