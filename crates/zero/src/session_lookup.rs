//! Finds a session by what the user calls it.

use zero_wire::ErrorCode;
use zero_wire::client::GatewayClientError;
use zero_wire::sessions::{
    SessionsList, SessionsListParams, SessionsResolve, SessionsResolveParams, SessionsResolveResult,
};

use crate::exit::UsageError;
use crate::gateway_connection::CliGatewayConnection;
use crate::terminal::escape_line;

/// Most sessions that are looked through for other spellings.
const SEARCHED_MAX: u64 = 100;

/// What the ids of sessions begin with.
const ID_PREFIX: &str = "sess_";

/// Key of the session with this key, name or id; `None` if there is none. The commands that take a
/// session find it here.
pub(crate) async fn find_session_key(
    gateway: &CliGatewayConnection,
    named: &str,
) -> anyhow::Result<Option<String>> {
    let by_key = SessionsResolveParams {
        key: Some(named.to_owned()),
        allow_missing: Some(true),
        ..SessionsResolveParams::default()
    };
    let by_key = gateway.client.request::<SessionsResolve>(by_key).await;
    if let Some(key) = resolved_key(by_key)? {
        return Ok(Some(key));
    }
    let by_label =
        SessionsResolveParams { label: Some(named.to_owned()), ..SessionsResolveParams::default() };
    let by_label = gateway.client.request::<SessionsResolve>(by_label).await;
    if let Some(key) = resolved_key(by_label)? {
        return Ok(Some(key));
    }
    if !named.starts_with(ID_PREFIX) {
        return Ok(None);
    }
    let by_id = SessionsResolveParams {
        session_id: Some(named.to_owned()),
        ..SessionsResolveParams::default()
    };
    Ok(resolved_key(gateway.client.request::<SessionsResolve>(by_id).await)?)
}

/// Key of a session that has this key or name in other letters, upper or lower case. Names are used
/// as they are written, and an earlier zero wrote all of them in lower case.
pub(crate) async fn find_other_case(
    gateway: &CliGatewayConnection,
    named: &str,
) -> anyhow::Result<Option<String>> {
    let params = SessionsListParams {
        search: Some(named.to_owned()),
        limit: Some(SEARCHED_MAX),
        ..SessionsListParams::default()
    };
    let found = gateway.client.request::<SessionsList>(params).await?;
    Ok(found.sessions.into_iter().map(|row| row.key).find(|key| differs_in_case(key, named)))
}

/// Whether a key is a name in another case. The name itself may exist by now: another process can create the
/// session at any moment.
fn differs_in_case(key: &str, named: &str) -> bool {
    let is_same = |key: &str, named: &str| {
        key == named || key.strip_suffix(named).is_some_and(is_agent_prefix)
    };
    is_same(&key.to_lowercase(), &named.to_lowercase()) && !is_same(key, named)
}

/// Whether a text is `agent:AGENT:`.
fn is_agent_prefix(text: &str) -> bool {
    let agent = text.strip_prefix("agent:").and_then(|rest| rest.strip_suffix(':'));
    agent.is_some_and(|agent| !agent.is_empty() && !agent.contains(':'))
}

/// The error for a session that does not exist.
pub(crate) async fn missing_session_error(
    gateway: &CliGatewayConnection,
    named: &str,
) -> anyhow::Result<UsageError> {
    let hint = match find_other_case(gateway, named).await? {
        Some(key) => format!("there is `{key}`: upper and lower case letters differ"),
        None => "run `zero sessions list` to see all".to_owned(),
    };
    let what = format!("there is no session with the key, name or id `{named}`; {hint}");
    Ok(UsageError(escape_line(&what).into_owned()))
}

/// Key of the session that was found. An invalid name means that there is no such session; other
/// errors, such as a lost connection, are returned.
fn resolved_key(
    answer: Result<SessionsResolveResult, GatewayClientError>,
) -> Result<Option<String>, GatewayClientError> {
    match answer {
        Ok(found) => Ok(found.key),
        Err(GatewayClientError::Refused { error }) if error.code == ErrorCode::InvalidRequest => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_in_other_case_is_found_but_not_the_name_itself() {
        for (key, named, expected) in [
            ("agent:main:bug-42", "BUG-42", true),
            ("agent:main:Bug-42", "agent:main:bug-42", true),
            ("agent:main:bug-42", "bug-42", false),
            ("agent:main:bug-42", "agent:main:bug-42", false),
            ("agent:main:x:bug-42", "BUG-42", false),
        ] {
            assert_eq!(differs_in_case(key, named), expected, "{key} {named}");
        }
    }
}
