//! Reports the sandbox layers, the guarantees that hold, the limits and the network access of commands.

use std::time::Duration;

use zero_core::{CommandLimit, CommandLimits, HostLimits, ToolName};
use zero_runtime::SandboxProbeReport;
use zero_sandbox::layer_probe::KernelInfo;
use zero_sandbox::{
    ConfinementGap, LayerReport, SandboxLayers, SandboxProperty, machine_resources,
};
use zero_settings::WorkspaceSettings;
use zero_settings::sandbox::LOCALHOST;

use super::findings::DoctorReport;
use crate::AppContext;
use crate::error_chain::describe_error;

const SANDBOX: &str = "sandbox";
const LIMITS: &str = "limits";
const NETWORK: &str = "network";
/// Tool whose sandbox is checked.
const COMMAND_TOOL: &str = "Bash";
/// Fix text of a finding that has no fix.
const NO_KNOWN_FIX: &str = "there is no known fix";

/// Probes the layers, runs a command in the sandbox, and reports which guarantees hold. If the
/// settings are broken, it uses the defaults.
pub(super) fn check_sandbox(
    app: &AppContext,
    settings: Option<&WorkspaceSettings>,
    findings: &mut DoctorReport,
) {
    let usual = WorkspaceSettings::empty();
    let settings = settings.unwrap_or(&usual);
    report_layers(&KernelInfo::read().report(), &SandboxLayers::probe().report(), findings);
    let mut limits = HostLimits::for_machine(machine_resources::read());
    settings.apply_limits(&mut limits);
    match run_trial(app, settings, &limits) {
        Ok(trial) => {
            report_properties(
                &trial.confinement.missing,
                trial.duration,
                &settings.weaker_properties(),
                findings,
            );
            for row in trial.limits.report() {
                let message = format!("{}: {}", row.name, row.why);
                match row.fix {
                    None => findings.add_ok(LIMITS, message),
                    Some(fix) => findings.add_warning(LIMITS, message, fix),
                }
            }
        }
        Err(why) => findings.add_error(
            SANDBOX,
            format!("commands cannot run: {why}"),
            "fix this cause; until then, Bash fails",
        ),
    }
    if let Ok(tool) = ToolName::new(COMMAND_TOOL) {
        findings.add_ok(
            LIMITS,
            format!(
                "profile {}: {}",
                limits.profile.name(),
                format_limits(&limits.command_limits_for(&tool))
            ),
        );
    }
    report_network(&settings.network_hosts(), has_host_rules(app, settings), findings);
}

/// Whether a rule can allow commands to connect to a host.
fn has_host_rules(app: &AppContext, settings: &WorkspaceSettings) -> bool {
    let workspace = app.config.open_workspace(&[]).ok();
    let policy = workspace.and_then(|workspace| app.build_policy(&workspace, settings, None).ok());
    policy.is_some_and(|policy| policy.can_allow_any_host(&[]))
}

/// Runs `true` in the same sandbox as other commands.
fn run_trial(
    app: &AppContext,
    settings: &WorkspaceSettings,
    limits: &HostLimits,
) -> Result<SandboxProbeReport, String> {
    let to_text = |error: anyhow::Error| describe_error(&error);
    let workspace = app.config.open_workspace(&[]).map_err(|error| to_text(error.into()))?;
    let mut config = app.host_config(workspace, settings, None).map_err(to_text)?;
    config.limits = limits.clone();
    let host = app.build_host(config, settings).map_err(to_text)?;
    let tool = ToolName::new(COMMAND_TOOL).map_err(|error| error.to_string())?;
    host.probe_sandbox(&tool).map_err(|error| error.message)
}

/// Reports the layers. A missing layer is a warning; a missing guarantee is an error.
fn report_layers(kernel: &[LayerReport], layers: &[LayerReport], findings: &mut DoctorReport) {
    let bubblewrap_works = layers.iter().any(|layer| layer.name == "bubblewrap" && layer.holds);
    for row in kernel.iter().chain(layers) {
        let message = format!("{}: {}", row.name, row.why);
        match (&row.fix, row.holds) {
            (_, true) => findings.add_ok(SANDBOX, message),
            // bubblewrap may be setuid or have its own AppArmor profile.
            (_, false) if bubblewrap_works && row.name == "user namespaces" => {
                findings.add_ok(SANDBOX, format!("{message}; bubblewrap may create them"));
            }
            (Some(fix), false) => findings.add_warning(SANDBOX, message, fix.clone()),
            (None, false) => {
                findings.add_warning(SANDBOX, message, NO_KNOWN_FIX);
            }
        }
    }
}

/// Reports which guarantees held for the test command.
fn report_properties(
    missing: &[ConfinementGap],
    duration: Duration,
    weaker: &[SandboxProperty],
    findings: &mut DoctorReport,
) {
    let is_missing =
        |property: &SandboxProperty| missing.iter().any(|gap| gap.property == *property);
    let (lost, kept): (Vec<SandboxProperty>, Vec<SandboxProperty>) =
        SandboxProperty::ALL.into_iter().partition(is_missing);
    let words: Vec<&str> = kept.iter().map(|property| property.as_str()).collect();
    let took = duration.as_millis().max(1);
    let held = format!("`true` ran in the sandbox in {took} ms; enforced: {}", words.join(", "));
    findings.add_ok(SANDBOX, held);
    for property in lost {
        let mut gaps = missing.iter().filter(|gap| gap.property == property);
        let Some(ConfinementGap { why, fix, .. }) = gaps.next() else { continue };
        let fix = fix.clone().unwrap_or_else(|| NO_KNOWN_FIX.to_owned());
        if weaker.contains(&property) {
            findings.add_warning(
                SANDBOX,
                format!("`{property}` is not enforced; commands run without it because of `sandbox.weaker`: {why}"),
                format!("{fix}; then `zero config remove sandbox.weaker {property}`"),
            );
        } else {
            findings.add_error(
                SANDBOX,
                format!("`{property}` is not enforced, so zero refuses to run commands: {why}"),
                format!("{fix}; or, to run them without it at your own risk: `zero config add sandbox.weaker {property}`"),
            );
        }
    }
    for property in weaker.iter().filter(|property| !is_missing(property)) {
        findings.add_warning(
            SANDBOX,
            format!("`sandbox.weaker` lists `{property}`, which is enforced on this machine"),
            format!("remove it with `zero config remove sandbox.weaker {property}`"),
        );
    }
}

/// Configured command limits in one line.
fn format_limits(limits: &CommandLimits) -> String {
    let each = CommandLimit::ALL
        .map(|limit| format!("{} {}", limit.name(), limit.format_value(limits.get(limit))));
    format!("{}; rules can raise them", each.join(", "))
}

fn report_network(hosts: &[String], by_rules: bool, findings: &mut DoctorReport) {
    let (local, hosts): (Vec<String>, Vec<String>) =
        hosts.iter().cloned().partition(|host| host == LOCALHOST);
    if !local.is_empty() {
        findings.add_warning(
            NETWORK,
            "`sandbox.network` lists `localhost`, which has no effect: each session has its own loopback",
            "remove it with `zero config remove sandbox.network localhost`",
        );
    }
    match &hosts[..] {
        [] if by_rules => {
            findings.add_ok(NETWORK, "commands can connect to hosts that `WebFetch` rules allow");
        }
        [] => findings.add_ok(
            NETWORK,
            "commands reach no host without permission; each session has its own loopback",
        ),
        hosts if hosts.iter().any(|host| host == "*") => findings.add_warning(
            NETWORK,
            "commands can connect to every host, and so can send out any file that they can read",
            "list only the hosts they need in `sandbox.network`",
        ),
        hosts => {
            let rules = match by_rules {
                true => ", and to hosts that `WebFetch` rules allow",
                false => "",
            };
            let hosts = hosts.join(", ");
            findings.add_ok(NETWORK, format!("commands can connect to {hosts}{rules}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render_findings(findings: DoctorReport) -> Vec<String> {
        let shown = |finding: super::super::findings::DoctorFinding| {
            let fix = finding.fix.map_or_else(String::new, |fix| format!(" / {fix}"));
            format!("{:?} {}{fix}", finding.status, finding.message)
        };
        findings.0.into_iter().map(shown).collect()
    }

    fn make_layer_report(name: &'static str, holds: bool, fix: Option<&str>) -> LayerReport {
        LayerReport { name, holds, why: "so".to_owned(), fix: fix.map(str::to_owned) }
    }

    #[test]
    fn missing_namespaces_matter_only_if_bubblewrap_fails() {
        #[track_caller]
        fn check(bubblewrap: bool, expected: &[&str]) {
            let mut findings = DoctorReport::default();
            let users = make_layer_report("user namespaces", false, Some("sysctl -w x=0"));
            report_layers(
                &[users],
                &[make_layer_report("bubblewrap", bubblewrap, Some("mend it"))],
                &mut findings,
            );
            assert_eq!(render_findings(findings), expected);
        }
        check(
            true,
            &["Well user namespaces: so; bubblewrap may create them", "Well bubblewrap: so"],
        );
        check(
            false,
            &["Notable user namespaces: so / sysctl -w x=0", "Notable bubblewrap: so / mend it"],
        );
    }

    #[test]
    fn missing_property_is_error_unless_permitted() {
        #[track_caller]
        fn check(missing: &[SandboxProperty], weaker: &[SandboxProperty], expected: &[&str]) {
            let gap = |property: &SandboxProperty| ConfinementGap {
                property: *property,
                why: "no".to_owned(),
                fix: Some("install it".to_owned()),
            };
            let missing: Vec<ConfinementGap> = missing.iter().map(gap).collect();
            let mut findings = DoctorReport::default();
            report_properties(&missing, Duration::from_micros(12_345), weaker, &mut findings);
            assert_eq!(render_findings(findings), expected);
        }
        let all = "Well `true` ran in the sandbox in 12 ms; enforced: writes, attributes, protected, masked, network, host_sockets, processes, private_tmp, system_calls, privileges";
        check(&[], &[], &[all]);
        let without = all.replace(" private_tmp,", "");
        check(
            &[SandboxProperty::PrivateTmp],
            &[],
            &[
                &without,
                "Wrong `private_tmp` is not enforced, so zero refuses to run commands: no / install it; or, to run them without it at your own risk: `zero config add sandbox.weaker private_tmp`",
            ],
        );
        check(
            &[SandboxProperty::PrivateTmp],
            &[SandboxProperty::PrivateTmp, SandboxProperty::Network],
            &[
                &without,
                "Notable `private_tmp` is not enforced; commands run without it because of `sandbox.weaker`: no / install it; then `zero config remove sandbox.weaker private_tmp`",
                "Notable `sandbox.weaker` lists `network`, which is enforced on this machine / remove it with `zero config remove sandbox.weaker network`",
            ],
        );
    }

    #[test]
    fn reachable_hosts_are_reported() {
        #[track_caller]
        fn check(hosts: &[&str], by_rules: bool, expected: &str) {
            let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
            let mut findings = DoctorReport::default();
            report_network(&hosts, by_rules, &mut findings);
            assert_eq!(render_findings(findings).join("\n"), expected);
        }
        let nothing =
            "Well commands reach no host without permission; each session has its own loopback";
        check(&[], false, nothing);
        let local = "Notable `sandbox.network` lists `localhost`, which has no effect: each session has its own loopback / remove it with `zero config remove sandbox.network localhost`";
        check(&["localhost"], false, &format!("{local}\n{nothing}"));
        let ruled = "Well commands can connect to hosts that `WebFetch` rules allow";
        check(&[], true, ruled);
        let both = "Well commands can connect to a.b, and to hosts that `WebFetch` rules allow";
        check(&["a.b"], true, both);
        check(
            &["example.com", "localhost"],
            false,
            &format!("{local}\nWell commands can connect to example.com"),
        );
        check(
            &["a.b", "*"],
            true,
            "Notable commands can connect to every host, and so can send out any file that they can read / list only the hosts they need in `sandbox.network`",
        );
    }

    #[test]
    fn limits_are_rendered_on_one_line() {
        assert_eq!(
            format_limits(&CommandLimits::default()),
            "command-memory 500 MB, command-cpu 50%, command-processes 512, command-open-files 1024, command-file 100 MB, command-disk 20 GB, command-disk-rate off; rules can raise them"
        );
    }
}
