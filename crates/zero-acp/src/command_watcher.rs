//! Tells the client when the slash commands of an open session change: a file is added to a command
//! folder, or a server offers another prompt.
//!
//! Looks at intervals: folders of commands are few and small, may not exist yet, and can be on file
//! systems that report no changes.

use std::sync::{Arc, Weak};
use std::time::Duration;

use agent_client_protocol::v1::schema::{AvailableCommandsUpdate, SessionUpdate};
use tokio::time::sleep;
use zero_client::GatewayLinkError;

use crate::session::ActiveSession;
use crate::session_message::SessionMessage;

/// How often to look.
const INTERVAL: Duration = Duration::from_secs(3);

/// Watches the commands of a session until it is closed.
pub(crate) async fn watch(session: Weak<ActiveSession>) {
    let mut known = None;
    loop {
        sleep(INTERVAL).await;
        let Some(active) = session.upgrade().filter(|active| active.sender.is_open()) else {
            return;
        };
        let commands = match active.backend.list_commands().await {
            Ok(commands) => Some(commands),
            Err(error) => {
                tracing::debug!(%error, "the commands cannot be listed");
                continue;
            }
        };
        if commands == known {
            continue;
        }
        match refresh(&active).await {
            // Updates that could not be sent are sent again; refused ones would be refused again.
            Err(error) if error.is_transient() => {
                tracing::debug!(%error, "the commands cannot be read again yet");
            }
            Err(error) => {
                tracing::debug!(%error, "the commands cannot be read again");
                known = commands;
            }
            Ok(()) => known = commands,
        }
    }
}

/// Offers the commands to the gateway, and sends its list to the client if that has changed.
async fn refresh(active: &Arc<ActiveSession>) -> Result<(), GatewayLinkError> {
    active.handle.refresh_tool_offer().await?;
    let offered = active.handle.choices().await?;
    let update = {
        let mut choices = active.options();
        if choices.offered.commands == offered.commands {
            return Ok(());
        }
        choices.offered.commands = offered.commands;
        AvailableCommandsUpdate::new(choices.commands())
    };
    let update = SessionUpdate::AvailableCommandsUpdate(update);
    active.sender.send(SessionMessage::SendUpdates(vec![update])).await;
    Ok(())
}
