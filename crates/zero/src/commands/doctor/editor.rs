//! What `zero acp` would talk to when an editor starts it.

use super::findings::Findings;
use crate::settings::Settings;

pub(super) fn check(settings: &Settings, findings: &mut Findings) {
    let gateway = match settings.gateway().remote.and_then(|remote| remote.url) {
        Some(url) => format!("the gateway at {url}"),
        None => "a gateway in its own process".to_owned(),
    };
    findings.well("editor", format!("`zero acp`, which editors start, uses {gateway}"));
}
