//! Authentication of clients and the scopes they receive.
//!
//! Tokens and passwords are stored as SHA-256 digests. A presented secret is compared with all
//! digests every time, so neither memory contents nor timing reveals how much of a guess was right.
//! The configuration lists the scopes of each secret; a client can only request fewer.

use sha2::{Digest, Sha256};
use subtle::{ConditionallySelectable, ConstantTimeEq};
use zero_runtime::tool_backend::FolderAccess;
use zero_wire::handshake::ConnectAuth;
use zero_wire::method::TokenScope;

/// An authenticated client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal {
    /// Name of the client's token. It owns the sessions that the client opens.
    pub name: String,
    /// Permitted operations.
    pub scopes: Vec<TokenScope>,
    /// Folders of this machine in which the client's sessions may work.
    pub folder_access: FolderAccess,
    /// Owner whose sessions the client uses instead of its own, for example when the token is for a
    /// user's second device.
    pub owner: Option<String>,
}

impl Principal {
    /// A principal that owns its sessions and may use any folder of this machine.
    pub fn new(name: impl Into<String>, scopes: Vec<TokenScope>) -> Self {
        Self { name: name.into(), scopes, folder_access: FolderAccess::Anywhere, owner: None }
    }
}

/// Secrets that the gateway accepts.
#[derive(Clone, Default)]
pub struct AuthConfig {
    tokens: Vec<SecretDigest>,
    passwords: Vec<SecretDigest>,
    anybody: Option<Principal>,
}

/// Digest of a secret and the principal it identifies. Has no `Debug`, since even a digest helps an
/// attacker.
#[derive(Clone)]
struct SecretDigest {
    digest: [u8; 32],
    principal: Principal,
}

/// Error for a token or password that is too short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it has {length} characters and needs at least {min}; `openssl rand -hex 32` makes a good one"
)]
pub struct InvalidSecret {
    length: usize,
    min: usize,
}

impl AuthConfig {
    /// Minimum length of a token, in characters.
    pub const TOKEN_LEN_MIN: usize = 16;
    /// Minimum length of a password, in characters. It may be shorter than a token because failed
    /// attempts are rate-limited.
    pub const PASSWORD_LEN_MIN: usize = 8;

    /// Denies every client until a token or password is added.
    pub fn deny_all() -> Self {
        Self::default()
    }

    /// Allows every client that can connect, which includes every program on this machine. Such a
    /// gateway refuses to listen on addresses other than loopback.
    pub fn allow_all(as_whom: Principal) -> Self {
        Self { anybody: Some(as_whom), ..Self::default() }
    }

    /// Accepts this token and authenticates its holder as the given principal.
    pub fn with_token(mut self, token: &str, holder: Principal) -> Result<Self, InvalidSecret> {
        self.tokens.push(SecretDigest::new(token, Self::TOKEN_LEN_MIN, holder)?);
        Ok(self)
    }

    /// Accepts this password and authenticates its holder as the given principal.
    pub fn with_password(
        mut self,
        password: &str,
        holder: Principal,
    ) -> Result<Self, InvalidSecret> {
        self.passwords.push(SecretDigest::new(password, Self::PASSWORD_LEN_MIN, holder)?);
        Ok(self)
    }

    /// Whether clients have to authenticate.
    pub fn is_auth_required(&self) -> bool {
        self.anybody.is_none()
    }

    /// Folders of this machine that clients of a token with this name may use: none if there is no such
    /// token here.
    pub(crate) fn folder_access_of(&self, name: &str) -> FolderAccess {
        let found = self.principals().find(|(_, principal)| principal.name == name);
        found.map(|(_, principal)| principal.folder_access.clone()).unwrap_or_default()
    }

    /// Whom tokens and passwords stand for, with their kind.
    pub(crate) fn principals(&self) -> impl Iterator<Item = (&'static str, &Principal)> {
        let tokens = self.tokens.iter().map(|key| ("token", &key.principal));
        let passwords = self.passwords.iter().map(|key| ("password", &key.principal));
        tokens.chain(passwords).chain(self.anybody.iter().map(|anybody| ("none", anybody)))
    }

    /// Authenticates the token or password of a `connect` request. Devices and their codes are known
    /// to `DeviceRegistry`.
    pub(crate) fn authenticate(&self, shown: Option<&ConnectAuth>) -> Result<Principal, AuthError> {
        if let Some(principal) = &self.anybody {
            return Ok(principal.clone());
        }
        let credential = |field: fn(&ConnectAuth) -> &Option<String>| {
            shown.and_then(|auth| field(auth).as_deref()).filter(|text| !text.is_empty())
        };
        let (token, password) = (credential(|auth| &auth.token), credential(|auth| &auth.password));
        let by_token = token.and_then(|token| find_principal(&self.tokens, token));
        let by_password = password.and_then(|password| find_principal(&self.passwords, password));
        if let Some(principal) = by_token.or(by_password) {
            return Ok(principal.clone());
        }
        Err(if token.is_some() {
            AuthError::TokenMismatch
        } else if password.is_some() {
            AuthError::PasswordMismatch
        } else if credential(|auth| &auth.device_token).is_some() {
            AuthError::DeviceTokenMismatch
        } else if credential(|auth| &auth.bootstrap_token).is_some() {
            AuthError::BootstrapTokenInvalid
        } else if self.tokens.is_empty() && !self.passwords.is_empty() {
            AuthError::PasswordMissing
        } else {
            AuthError::TokenMissing
        })
    }

    /// Authenticates a bearer token.
    pub(crate) fn authenticate_bearer(&self, token: Option<&str>) -> Result<Principal, AuthError> {
        let auth =
            token.map(|token| ConnectAuth { token: Some(token.to_owned()), ..Default::default() });
        self.authenticate(auth.as_ref())
    }
}

impl SecretDigest {
    fn new(secret: &str, min: usize, principal: Principal) -> Result<Self, InvalidSecret> {
        let length = secret.chars().count();
        if length < min {
            return Err(InvalidSecret { length, min });
        }
        Ok(Self { digest: digest(secret), principal })
    }
}

fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// Finds the principal of a secret. Compares all keys, even after a match, so that the time is
/// constant.
fn find_principal<'a>(keys: &'a [SecretDigest], shown: &str) -> Option<&'a Principal> {
    let shown = digest(shown);
    // Counted from 1: 0 means no match.
    let found = keys.iter().zip(1_u64..).fold(0, |found, (key, number)| {
        u64::conditional_select(&found, &number, key.digest.ct_eq(&shown))
    });
    let at = usize::try_from(found).ok()?.checked_sub(1)?;
    keys.get(at).map(|key| &key.principal)
}

/// The granted scopes: the requested ones that the token has, or all of them if the request names
/// none. A scope that another granted scope includes is not listed.
pub(crate) fn grant_scopes(has: &[TokenScope], requested: Option<&[String]>) -> Vec<TokenScope> {
    let requested = requested.unwrap_or_default();
    let known: Vec<TokenScope> =
        requested.iter().filter_map(|word| TokenScope::from_name(word)).collect();
    let required_scopes = if requested.is_empty() { has } else { known.as_slice() };
    let covered =
        |scopes: &[TokenScope], scope: TokenScope| scopes.iter().any(|one| one.covers(scope));
    let granted = || {
        TokenScope::ALL
            .into_iter()
            .filter(|scope| covered(has, *scope) && covered(required_scopes, *scope))
    };
    granted().filter(|scope| !granted().any(|one| one != *scope && one.covers(*scope))).collect()
}

/// Reason for a failed authentication. Never contains the presented credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthError {
    TokenMissing,
    TokenMismatch,
    PasswordMissing,
    PasswordMismatch,
    DeviceTokenMismatch,
    BootstrapTokenInvalid,
    DeviceProofMissing,
}

impl AuthError {
    /// Whether this counts as a guess for rate limiting.
    pub(crate) fn is_guess(self) -> bool {
        !matches!(self, Self::TokenMissing | Self::PasswordMissing)
    }

    /// `details.code`.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::TokenMissing => "AUTH_TOKEN_MISSING",
            Self::TokenMismatch => "AUTH_TOKEN_MISMATCH",
            Self::PasswordMissing => "AUTH_PASSWORD_MISSING",
            Self::PasswordMismatch => "AUTH_PASSWORD_MISMATCH",
            Self::DeviceTokenMismatch => "AUTH_DEVICE_TOKEN_MISMATCH",
            Self::BootstrapTokenInvalid => "AUTH_BOOTSTRAP_TOKEN_INVALID",
            Self::DeviceProofMissing => "AUTH_DEVICE_PROOF_MISSING",
        }
    }

    /// `details.authReason`.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::TokenMissing => "token_missing",
            Self::TokenMismatch => "token_mismatch",
            Self::PasswordMissing => "password_missing",
            Self::PasswordMismatch => "password_mismatch",
            Self::DeviceTokenMismatch => "device_token_mismatch",
            Self::BootstrapTokenInvalid => "bootstrap_token_invalid",
            Self::DeviceProofMissing => "device_proof_missing",
        }
    }

    /// `details.recommendedNextStep`.
    pub(crate) fn next_step(self) -> &'static str {
        match self {
            Self::TokenMissing | Self::PasswordMissing => "update_auth_configuration",
            _ => "update_auth_credentials",
        }
    }

    /// Message for the user: the problem and how to fix it.
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::TokenMissing => {
                "unauthorized: this gateway requires a token; send it as `auth.token`"
            }
            Self::TokenMismatch => {
                "unauthorized: this is not a token of this gateway; use the one it was started with"
            }
            Self::PasswordMissing => {
                "unauthorized: this gateway requires a password; send it as `auth.password`"
            }
            Self::PasswordMismatch => "unauthorized: this is not the password of this gateway",
            Self::DeviceTokenMismatch => {
                "unauthorized: this device is not paired, or was revoked; pair it again"
            }
            Self::BootstrapTokenInvalid => {
                "unauthorized: this code is wrong, was used or has expired; \
                 `zero console` shows a new one"
            }
            Self::DeviceProofMissing => {
                "unauthorized: device tokens and codes need a `device` that signs the challenge"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READER: &str = "reader-token-0123456789";
    const ADMIN: &str = "admin-token-0123456789";
    const PASSWORD: &str = "correct horse";

    fn principal(name: &str, scopes: &[TokenScope]) -> Principal {
        Principal::new(name, scopes.to_vec())
    }

    fn auth() -> AuthConfig {
        AuthConfig::deny_all()
            .with_token(READER, principal("reader", &[TokenScope::Read]))
            .and_then(|auth| auth.with_token(ADMIN, principal("admin", &[TokenScope::Admin])))
            .and_then(|auth| {
                auth.with_password(PASSWORD, principal("person", &[TokenScope::Write]))
            })
            .unwrap()
    }

    #[track_caller]
    fn check(shown: &str, expected: Result<&str, AuthError>) {
        let shown: Option<ConnectAuth> = serde_json::from_str(shown).unwrap();
        let found = auth().authenticate(shown.as_ref()).map(|principal| principal.name);
        assert_eq!(found, expected.map(str::to_owned));
    }

    #[test]
    fn token_or_password_identifies_principal() {
        check(&format!(r#"{{"token":"{READER}"}}"#), Ok("reader"));
        check(&format!(r#"{{"token":"{ADMIN}"}}"#), Ok("admin"));
        check(&format!(r#"{{"password":"{PASSWORD}"}}"#), Ok("person"));
        check(&format!(r#"{{"token":"old","password":"{PASSWORD}"}}"#), Ok("person"));
        check(&format!(r#"{{"token":"{ADMIN}","deviceToken":"x"}}"#), Ok("admin"));
    }

    #[test]
    fn other_credentials_are_refused() {
        check("null", Err(AuthError::TokenMissing));
        check("{}", Err(AuthError::TokenMissing));
        check(r#"{"token":""}"#, Err(AuthError::TokenMissing));
        check(r#"{"token":"reader-token-012345678"}"#, Err(AuthError::TokenMismatch));
        check(r#"{"token":"reader-token-01234567899"}"#, Err(AuthError::TokenMismatch));
        check(&format!(r#"{{"token":"{PASSWORD}"}}"#), Err(AuthError::TokenMismatch));
        check(&format!(r#"{{"password":"{ADMIN}"}}"#), Err(AuthError::PasswordMismatch));
        check(&format!(r#"{{"deviceToken":"{ADMIN}"}}"#), Err(AuthError::DeviceTokenMismatch));
        check(&format!(r#"{{"bootstrapToken":"{ADMIN}"}}"#), Err(AuthError::BootstrapTokenInvalid));
    }

    #[test]
    fn deny_all_refuses_everyone() {
        let shown = ConnectAuth { token: Some(String::new()), ..Default::default() };
        assert_eq!(AuthConfig::deny_all().authenticate(Some(&shown)), Err(AuthError::TokenMissing));
        assert!(AuthConfig::deny_all().is_auth_required());
        assert!(
            !AuthConfig::allow_all(principal("local", &[TokenScope::Admin])).is_auth_required()
        );
    }

    #[test]
    fn short_secret_is_refused_and_not_quoted() {
        let refused = AuthConfig::deny_all().with_token("hunter2", principal("x", &[]));
        let why = refused.err().unwrap().to_string();
        assert!(why.contains("7 characters") && !why.contains("hunter2"), "{why}");
        assert!(AuthConfig::deny_all().with_password("hunter2", principal("x", &[])).is_err());
    }

    #[test]
    fn requested_scopes_never_exceed_granted() {
        #[track_caller]
        fn check(has: &[TokenScope], requested: &[&str], expected: &[TokenScope]) {
            let requested: Vec<String> = requested.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(
                grant_scopes(has, Some(&requested)),
                expected,
                "{has:?} asking {requested:?}"
            );
        }
        use TokenScope::{Admin, Approvals, Questions, Read, Write};
        check(&[Read], &["operator.admin"], &[Read]);
        check(&[Read], &["operator.write"], &[Read]);
        check(&[Write, Approvals], &["operator.admin"], &[Write, Approvals]);
        check(&[Write], &["operator.read"], &[Read]);
        check(&[Write], &["operator.approvals"], &[]);
        check(&[Admin], &["operator.admin"], &[Admin]);
        check(&[Admin], &["operator.read", "operator.questions"], &[Read, Questions]);
        check(&[Admin], &["operator.everything"], &[]);
        check(&[], &["operator.admin"], &[]);
        check(&[Read, Write], &[], &[Write]);
        check(&[Admin, Read], &[], &[Admin]);
        assert_eq!(grant_scopes(&[Approvals], None), [Approvals]);
    }
}
