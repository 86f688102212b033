//! What `zero acp` would talk to when an editor starts it.

use zero_wire::client::GatewayUrl;

use super::findings::DoctorReport;
use zero_settings::WorkspaceSettings;

pub(super) fn check_editor(settings: &WorkspaceSettings, findings: &mut DoctorReport) {
    let gateway = match settings.gateway().remote.and_then(|remote| remote.url) {
        // What is no address is told elsewhere, and not shown: it may hold a secret.
        Some(url) => match url.parse::<GatewayUrl>() {
            Ok(url) => format!("the gateway at {url}"),
            Err(_) => "the gateway of `gateway.remote.url`".to_owned(),
        },
        None => "a gateway in its own process".to_owned(),
    };
    findings.add_ok("editor", format!("`zero acp`, which editors start, uses {gateway}"));
}
