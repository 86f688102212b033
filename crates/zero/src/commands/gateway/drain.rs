//! `zero gateway drain`: lets a gateway hand its sessions over to the others and end.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep};
use zero_wire::client::GatewayClientError;
use zero_wire::nodes::{
    NodesDrainParams, NodesListParams, NodesListResult, ZeroNodesDrain, ZeroNodesList,
};

use crate::AppContext;
use crate::cli::GatewayDrainArgs;
use crate::commands::console::connect_to_own;
use crate::exit::ExitOutcome;
use crate::gateway_connection::CliGatewayConnection;
use crate::host_setup::small_runtime;
use crate::terminal::format_short_duration;

/// Pause between two looks whether the gateway is gone.
const PAUSE: Duration = Duration::from_millis(100);
/// How long one look may take.
const LOOK_TIME_MAX: Duration = Duration::from_secs(5);

pub(super) fn run(app: &AppContext, args: &GatewayDrainArgs) -> anyhow::Result<ExitOutcome> {
    let runtime = small_runtime()?;
    let done = runtime.block_on(async {
        let connection = connect_to_own(app, &args.remote).await?;
        let done = drain(app, args, &connection).await;
        connection.close().await;
        done
    });
    runtime.shutdown_background();
    done
}

async fn drain(
    app: &AppContext,
    args: &GatewayDrainArgs,
    connection: &CliGatewayConnection,
) -> anyhow::Result<ExitOutcome> {
    // Only the gateway that is asked itself closes the connection when it has ended.
    let asked = match &args.node {
        None => None,
        Some(_) => list(connection).await.ok().and_then(|listed| listed.node),
    };
    let params = NodesDrainParams { node: args.node.clone() };
    let begun = Instant::now();
    let node = connection.client.request::<ZeroNodesDrain>(params).await?.node;
    let is_asked = args.node.is_none() || asked.as_ref() == Some(&node);
    loop {
        let presence = NodePresence::of(&node, is_asked, list(connection).await);
        if presence == NodePresence::Gone {
            break;
        }
        if let NodePresence::Lost(error) = presence {
            anyhow::bail!(
                "`{node}` hands its sessions over, but zero cannot see whether it has ended: {error}"
            );
        }
        if begun.elapsed() >= args.wait {
            let waited = format_short_duration(args.wait);
            match presence {
                NodePresence::Unknown(error) => anyhow::bail!(
                    "`{node}` hands its sessions over, but zero could not see within {waited} whether it has ended: {error}"
                ),
                _ => anyhow::bail!(
                    "`{node}` has not ended within {waited}; it goes on handing its sessions over"
                ),
            }
        }
        sleep(PAUSE).await;
    }
    let took_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    match args.json {
        true => app.terminal.out.write_json_line(&json!({"node": node, "tookMs": took_ms}))?,
        false => app.terminal.print_note(&format!("`{node}` has handed its sessions over")),
    }
    Ok(ExitOutcome::Ok)
}

async fn list(connection: &CliGatewayConnection) -> Result<NodesListResult, GatewayClientError> {
    connection.client.request_within::<ZeroNodesList>(NodesListParams {}, LOOK_TIME_MAX).await
}

/// What a look says about a gateway that ends.
#[derive(Debug, PartialEq, Eq)]
enum NodePresence {
    /// It has a lease.
    Present,
    /// It has ended.
    Gone,
    /// This look failed; the next one may not.
    Unknown(String),
    /// No look can succeed any more.
    Lost(String),
}

impl NodePresence {
    /// Judges an answer of the gateway that is asked, which may be the one that ends.
    fn of(node: &str, is_asked: bool, listed: Result<NodesListResult, GatewayClientError>) -> Self {
        match listed {
            Ok(listed) if listed.nodes.iter().any(|known| known.name == node) => Self::Present,
            Ok(_) => Self::Gone,
            Err(GatewayClientError::Closed { .. }) if is_asked => Self::Gone,
            Err(error @ GatewayClientError::Closed { .. }) => Self::Lost(error.to_string()),
            Err(error) => Self::Unknown(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use zero_wire::nodes::NodeInfo;

    use super::*;

    #[test]
    fn only_a_list_or_the_end_of_the_asked_gateway_shows_that_one_is_gone() {
        let list = |names: &[&str]| {
            let nodes = names
                .iter()
                .map(|name| NodeInfo { name: (*name).to_owned(), ..NodeInfo::default() })
                .collect();
            Ok(NodesListResult { nodes, ..NodesListResult::default() })
        };
        assert_eq!(NodePresence::of("a/1", false, list(&["a/1", "b/1"])), NodePresence::Present);
        assert_eq!(NodePresence::of("a/1", false, list(&["b/1"])), NodePresence::Gone);
        let closed = || Err(GatewayClientError::Closed { code: 1001, reason: String::new() });
        assert_eq!(NodePresence::of("a/1", true, closed()), NodePresence::Gone);
        assert!(matches!(NodePresence::of("a/1", false, closed()), NodePresence::Lost(_)));
        let slow = || Err(GatewayClientError::Timeout { what: "nodes", after: LOOK_TIME_MAX });
        for is_asked in [true, false] {
            let seen = NodePresence::of("a/1", is_asked, slow());
            assert!(matches!(seen, NodePresence::Unknown(_)), "{seen:?}");
        }
    }
}
