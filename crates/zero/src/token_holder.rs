//! Principals of gateway tokens, by the token's name in settings. The name owns sessions, so it must
//! not equal the name of another owner.

use std::collections::BTreeMap;

use zero_core::sanitize;
use zero_gateway::Principal;
use zero_wire::method::TokenScope;

use zero_settings::gateway::{GatewayTokenSetting, TokenScopeSetting};

/// Owner of sessions that local commands create.
pub(crate) const LOCAL_OWNER: &str = "this machine";
/// Owner of sessions of clients that use the password.
pub(crate) const PASSWORD_OWNER: &str = "password";
/// Name under which zero itself resolves questions.
const ZERO_OWNER: &str = "zero";
/// Longest token name, in characters.
const NAME_LEN_MAX: usize = 64;

/// Principal of the token `name`. The error is the second half of a message about that token.
pub(crate) fn token_principal(
    name: &str,
    tokens: &BTreeMap<String, GatewayTokenSetting>,
) -> Result<Principal, String> {
    check_name(name)?;
    let token = tokens.get(name).ok_or("it does not exist")?;
    if let Some(owner) = &token.owner {
        let is_own = |other: &GatewayTokenSetting| other.owner.is_none();
        let has_sessions = [LOCAL_OWNER, PASSWORD_OWNER].contains(&owner.as_str())
            || tokens.get(owner).is_some_and(is_own);
        if owner == name || !has_sessions {
            return Err(format!(
                "`owner` is {}, which cannot own sessions; use a token without an `owner`, \
                 `{LOCAL_OWNER}` or `{PASSWORD_OWNER}`",
                sanitize::to_quoted_line(owner)
            ));
        }
    }
    let scopes = token.scopes.iter().copied().map(to_scope).collect();
    Ok(Principal { owner: token.owner.clone(), ..Principal::new(name, scopes) })
}

/// Rejects names that are reserved, look like reserved ones, or have invisible characters.
fn check_name(name: &str) -> Result<(), String> {
    let length = name.chars().count();
    if length == 0 || length > NAME_LEN_MAX {
        return Err(format!("its name has {length} characters; use 1 to {NAME_LEN_MAX}"));
    }
    let is_space = |c: char| c.is_whitespace() && c != ' ';
    if let Some(c) = name.chars().find(|c| !sanitize::is_safe_char(*c) || is_space(*c)) {
        let number = u32::from(c);
        return Err(format!("its name has the invisible character U+{number:04X}; remove it"));
    }
    if name.trim() != name {
        return Err("its name begins or ends with a space; remove it".to_owned());
    }
    let plain = |text: &str| -> String {
        text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    match [LOCAL_OWNER, PASSWORD_OWNER, ZERO_OWNER]
        .into_iter()
        .find(|own| plain(own) == plain(name))
    {
        Some(own) => Err(format!(
            "the name `{own}` is reserved; choose another one, and set `owner` to give the token \
             access to sessions of `{own}`"
        )),
        None => Ok(()),
    }
}

fn to_scope(scope: TokenScopeSetting) -> TokenScope {
    match scope {
        TokenScopeSetting::Read => TokenScope::Read,
        TokenScopeSetting::Write => TokenScope::Write,
        TokenScopeSetting::Approvals => TokenScope::Approvals,
        TokenScopeSetting::Questions => TokenScope::Questions,
        TokenScopeSetting::Admin => TokenScope::Admin,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_tokens(text: &str) -> BTreeMap<String, GatewayTokenSetting> {
        serde_json::from_str(text).unwrap()
    }

    #[track_caller]
    fn check(name: &str, expected: Result<(), &str>) {
        let text = serde_json::json!({name: {"secret": {"env": "X"}, "scopes": ["read"]}});
        let found = token_principal(name, &parse_tokens(&text.to_string()));
        match (found, expected) {
            (Ok(holder), Ok(())) => assert_eq!((holder.name.as_str(), holder.owner), (name, None)),
            (Err(why), Err(expected)) => assert!(why.contains(expected), "{name:?}: {why}"),
            (found, _) => panic!("{name:?}: {found:?}"),
        }
    }

    #[test]
    fn token_name_must_not_be_reserved() {
        for name in ["phone", "Ann's phone", "ci-2", "password 2", "Jürgen", "zero-ci"] {
            check(name, Ok(()));
        }
        for name in ["this machine", "This Machine", "this  machine", "this_machine", "THISMACHINE"]
        {
            check(name, Err("the name `this machine` is reserved"));
        }
        for name in ["password", "Password", "pass-word"] {
            check(name, Err("the name `password` is reserved"));
        }
        check("zero", Err("the name `zero` is reserved"));
        for name in ["this\u{a0}machine", "this\u{200b}machine", "a\nb", "\u{1b}[2J", "a\u{202e}"] {
            check(name, Err("has the invisible character"));
        }
        for name in [" phone", "phone ", "password "] {
            check(name, Err("begins or ends with a space"));
        }
        check("", Err("has 0 characters"));
        check(&"x".repeat(65), Err("has 65 characters"));
    }

    #[test]
    fn token_owner_must_have_own_sessions() {
        let tokens = parse_tokens(
            r#"{"ann": {"secret": {"env": "A"}, "scopes": ["write"]},
                "phone": {"secret": {"env": "B"}, "scopes": ["approvals"], "owner": "ann"},
                "watch": {"secret": {"env": "C"}, "scopes": ["approvals"], "owner": "this machine"},
                "chain": {"secret": {"env": "D"}, "scopes": ["approvals"], "owner": "phone"},
                "self": {"secret": {"env": "E"}, "scopes": ["approvals"], "owner": "self"},
                "typo": {"secret": {"env": "F"}, "scopes": ["approvals"], "owner": "anne"}}"#,
        );
        let phone = token_principal("phone", &tokens).unwrap();
        assert_eq!(
            (phone.owner.as_deref(), phone.scopes),
            (Some("ann"), vec![TokenScope::Approvals])
        );
        assert_eq!(token_principal("watch", &tokens).unwrap().owner.as_deref(), Some(LOCAL_OWNER));
        for name in ["chain", "self", "typo"] {
            let why = token_principal(name, &tokens).unwrap_err();
            assert!(why.contains("which cannot own sessions"), "{name}: {why}");
        }
    }
}
