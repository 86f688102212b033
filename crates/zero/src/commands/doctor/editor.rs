//! Reports which gateway `zero acp` would use.

use zero_wire::client::GatewayUrl;

use super::findings::DoctorReport;
use zero_settings::WorkspaceSettings;

pub(super) fn check_editor(settings: &WorkspaceSettings, findings: &mut DoctorReport) {
    let gateway = match settings.gateway().remote.and_then(|remote| remote.url) {
        // An invalid URL is reported by another check. It may contain a secret, so it is not shown.
        Some(url) => match url.parse::<GatewayUrl>() {
            Ok(url) => format!("the gateway at {url}"),
            Err(_) => "the gateway in `gateway.remote.url`".to_owned(),
        },
        None => "a gateway in its own process".to_owned(),
    };
    findings.add_ok("editor", format!("`zero acp` uses {gateway}"));
}
