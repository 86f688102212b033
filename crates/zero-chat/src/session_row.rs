//! One line about a session, for who picks one.

use std::time::Duration;

use zero_client::wire::SessionInfo;
use zero_terminal::{escape_line, format_age};

/// What the keys of sessions begin with if no agent was chosen.
const USUAL_AGENT_PREFIX: &str = "agent:main:";

/// Age, name or key, and title of a session. `now_ms` is the present time, in milliseconds since 1970.
pub fn describe_session(session: &SessionInfo, now_ms: i64) -> String {
    let age = now_ms.saturating_sub(session.updated_ms).max(0).unsigned_abs();
    let age = format_age(Duration::from_millis(age));
    let key = session.session_key.as_str();
    let name = session.label.as_deref();
    let name = name.unwrap_or_else(|| key.strip_prefix(USUAL_AGENT_PREFIX).unwrap_or(key));
    let title = session.title.as_deref().unwrap_or_default();
    escape_line(&format!("{age:>6} ago  {name:<20}  {title}")).trim_end().to_owned()
}
