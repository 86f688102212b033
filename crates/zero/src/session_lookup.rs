//! Finds a session by what the user calls it.

use zero_wire::ErrorCode;
use zero_wire::client::GatewayClientError;
use zero_wire::sessions::{SessionsResolve, SessionsResolveParams, SessionsResolveResult};

use crate::gateway_connection::CliGatewayConnection;

/// Key of the session with this key or name; `None` if there is none.
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
    Ok(resolved_key(gateway.client.request::<SessionsResolve>(by_label).await)?)
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
