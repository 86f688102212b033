//! `curl`: every option that names a file or a host.

use crate::program::command_analysis::CommandAnalysis;
use crate::program::options::{OptionTable, ParsedArguments, ValueUse, options, strip_start};
use crate::shell::ShellArg;

use super::super::analysis_builder::{
    AccessDepth, CommandAnalysisBuilder, join_path, path_starting_with,
};
use super::{url, url_globs};

const CURL: OptionTable = options!(
    "c,cookie-jar,D,dump-header,trace,trace-ascii,stderr,libcurl:write \
     etag-save,hsts,alt-svc,ssl-sessions:write \
     E,cert,key,cacert,capath,crlfile,pubkey,netrc-file:identity \
     proxy-cacert,proxy-capath,proxy-cert,proxy-key,proxy-crlfile:identity \
     random-file,egd-file,etag-compare:read \
     x,proxy,preproxy,socks4,socks4a,socks5,socks5-hostname:host proxy1.0,doh-url,dns-servers:host \
     -AbCdeFHKmoPQrtTuUwXyYz: url: output: output-dir: upload-file: data: data-ascii: data-binary: \
     data-raw: data-urlencode: json: url-query: form: form-string: config: cookie: trace-config: \
     resolve: connect-to: interface: unix-socket: abstract-unix-socket: engine: write-out: header: \
     proxy-header: user: proxy-user: user-agent: referer: request: max-time: connect-timeout: \
     retry: retry-delay: retry-max-time: range: limit-rate: max-redirs: max-filesize: ciphers: \
     cert-type: key-type: pass: proto: proto-default: proto-redir: oauth2-bearer: aws-sigv4: \
     continue-at: speed-limit: speed-time: time-cond: tls-max: local-port: keepalive-time: quote: \
     ftp-port: telnet-option: variable: noproxy: expect100-timeout: parallel-max: rate: mail-from: \
     mail-rcpt: mail-auth: request-target: krb: curves: tls13-ciphers: hostpubmd5: hostpubsha256: \
     pinnedpubkey: service-name: login-options: remote-name remote-name-all remote-header-name \
     globoff next ssl ssl-reqd head get"
);

/// Analyzes `curl`.
pub(super) fn analyze(args: &[ShellArg]) -> CommandAnalysis {
    let options = CURL.parse(args);
    let mut notes = CommandAnalysisBuilder::default();
    let addresses: Vec<&ShellArg> = options.values(&["url"]).chain(&options.operands).collect();
    for address in &addresses {
        match address.known_prefix().strip_prefix('@') {
            Some(_) => {
                notes.record_read(&strip_start(address, 1), AccessDepth::Itself);
                notes.record_caution("a file gives it addresses");
            }
            // Braces and brackets in a URL are globs, unless `-g` is given.
            None if !options.keeps(&["g", "globoff"]) => {
                url_globs::expand_addresses(address)
                    .iter()
                    .for_each(|address| url::record_address(address, &mut notes));
            }
            None => url::record_address(address, &mut notes),
        }
    }
    record_outputs(&options, &addresses, &mut notes);
    record_inputs(&options, &mut notes);
    // After what it sends: a file can be both.
    notes.record_identities(options.used_values(ValueUse::Identity));
    record_route_options(&options, &mut notes);
    notes.record_hidden_option(args, &options);
    notes.build_incomplete()
}

fn record_outputs(
    options: &ParsedArguments<'_>,
    addresses: &[&ShellArg],
    notes: &mut CommandAnalysisBuilder,
) {
    let folder = options.values(&["output-dir"]).last();
    let inside = |name: &ShellArg| match (folder, name.as_known()) {
        // An abbreviation that fits both options.
        (Some(folder), _) if folder == name => name.clone(),
        (Some(folder), Some(name)) => join_path(folder, name).unwrap_or_else(|| folder.clone()),
        (Some(folder), None) => path_starting_with(folder.known_prefix()),
        (None, _) => name.clone(),
    };
    for file in options.values(&["o", "output"]) {
        if file.as_known() != Some("-") {
            notes.record_write(&inside(file), AccessDepth::Itself);
        }
    }
    if options.has(&["O", "remote-name", "remote-name-all"]) {
        for address in addresses {
            match url::download_name(address) {
                Some(name) => {
                    notes.record_write(&inside(&ShellArg::known(name)), AccessDepth::Itself)
                }
                None => notes
                    .record_write(folder.unwrap_or(&ShellArg::known(".")), AccessDepth::Beneath),
            }
        }
    }
    // The response determines the file name.
    if options.has(&["J", "remote-header-name"]) {
        notes.record_write(folder.unwrap_or(&ShellArg::known(".")), AccessDepth::Beneath);
    }
    notes.record_outputs(options.used_values(ValueUse::Write));
    for format in options.values(&["w", "write-out"]) {
        let text = format.known_prefix();
        for part in text.split("%output{").skip(1) {
            let name = part.split('}').next().unwrap_or_default();
            notes
                .record_write(&ShellArg::known(name.trim_start_matches(">>")), AccessDepth::Itself);
        }
    }
}

fn record_inputs(options: &ParsedArguments<'_>, notes: &mut CommandAnalysisBuilder) {
    let also_written = options.values(&["hsts", "alt-svc"]);
    notes.record_reads(options.used_values(ValueUse::Read).chain(also_written));
    for file in options.values(&["T", "upload-file"]) {
        notes.record_read(file, AccessDepth::Itself);
        notes.record_reads(&url_globs::expand_file_names(file));
    }
    for file in options.values(&["K", "config"]) {
        notes.record_read(file, AccessDepth::Itself);
        notes.record_caution("a file gives it options");
    }
    // A cookie contains `=`; without one it is a file.
    for cookie in options.values(&["b", "cookie"]) {
        if !cookie.known_prefix().contains('=') {
            notes.record_read(cookie, AccessDepth::Itself);
        }
    }
    let or_file = [
        "d",
        "data",
        "data-ascii",
        "data-binary",
        "json",
        "H",
        "header",
        "proxy-header",
        "w",
        "write-out",
    ];
    for value in options.values(&or_file) {
        match value.known_prefix().strip_prefix('@') {
            Some(_) => notes.record_read(&strip_start(value, 1), AccessDepth::Itself),
            // An unknown value may be `@file`.
            None if value.may_be_option() && value.as_known().is_none() => {
                notes.record_read(value, AccessDepth::Itself);
            }
            None => {}
        }
    }
    // `name=@file`, `=@a,b;type=x`, `name=<file`, `name@file`.
    let may_hold_file = ["F", "form", "data-urlencode", "url-query", "variable"];
    for value in options.values(&may_hold_file) {
        let start = value.known_prefix();
        let Some(at) = start.find(['@', '<']) else {
            if value.as_known().is_none() {
                notes.record_read(&path_starting_with(""), AccessDepth::Itself);
            }
            continue;
        };
        let files = strip_start(value, at + 1);
        match files.as_known() {
            Some(files) => {
                let files = files.split(';').next().unwrap_or_default();
                for file in files.split(',') {
                    let file = file.trim_start_matches('@').trim_matches('"');
                    notes.record_read(&ShellArg::known(file), AccessDepth::Itself);
                }
            }
            None => notes.record_read(&files, AccessDepth::Itself),
        }
    }
}

/// Options that change the route to the named host.
fn record_route_options(options: &ParsedArguments<'_>, notes: &mut CommandAnalysisBuilder) {
    for host in options.used_values(ValueUse::Host) {
        notes.record_host(host);
        notes.record_caution("it goes through another host");
    }
    for value in options.values(&["resolve", "connect-to"]) {
        // `--connect-to from:80:to:443` and `--resolve name:80:address`.
        match value.as_known().and_then(|text| text.splitn(3, ':').nth(2)) {
            Some(host) if !host.is_empty() => notes.record_host(&ShellArg::known(host)),
            _ => notes.record_host(value),
        }
        notes.record_caution("the name of the host is not where it goes");
    }
    for socket in options.values(&["unix-socket", "abstract-unix-socket"]) {
        notes.record_write(socket, AccessDepth::Itself);
        notes.record_caution("it talks to a program of this machine");
    }
    if options.has(&["engine"]) {
        notes.record_unknown_run("an engine is code that is loaded");
    }
}

#[cfg(test)]
mod tests {
    use crate::program::files::analysis_assert::check;

    #[test]
    fn curl_hosts_and_file_urls_are_recorded() {
        check("curl https://h/a", "program: host https://h/a");
        check("curl -sSL h --url i", "program: host i, host h");
        check("curl file:///work/.env", "program: read /work/.env");
        check("curl FILE://localhost/work/.%65nv", "program: read /work/.env");
        check("curl 'file:///work/.en{v,w}'", "program: read /work/.en…");
        check("curl 'http://{a,b}/x'", "program: host http://a/x, host http://b/x");
        check("curl 'http://h[1-3]/x'", "program: host http://h…");
        check("curl 'http://h/{a,b}'", "program: host http://h/{a,b}");
        check("curl -g 'http://{a}/x'", "program: host http://{a}/x");
        check("curl -g --no-globo 'http://{a}/x'", "program: host http://a/x");
        check("curl 'http://[::1]/x'", "program: host http://[::1]/x");
        check("curl $x", "program: host $x, caution");
        check("curl https://h/$x", "program: host https://h/$x, caution");
        check("curl -x p:8080 h", "program: host h, host p:8080, caution");
        check("curl --connect-to h:80:evil:80 h", "program: host h, host evil:80, caution");
        check("curl --unix-socket s h", "program: write s, host h, caution");
    }

    #[test]
    fn curl_downloads_are_recorded_as_writes() {
        check("curl -o out h", "program: write out, host h");
        check("curl -fsSLoout h", "program: write out, host h");
        check("curl --outpu=out h", "program: write out, host h");
        check("curl -o - h", "program: host h");
        check(
            "curl -O https://h/d/a.txt?x=/y",
            "program: write a.txt, host https://h/d/a.txt?x=/y",
        );
        check("curl --output-dir d -O https://h/a", "program: write d/a, host https://h/a");
        check("curl --output-dir d -o a h", "program: write d/a, host h");
        check("curl -OJ https://h/a", "program: write a, write ./**, host https://h/a");
        check("curl -c jar -D head --trace t h", "program: write jar, write head, write t, host h");
        check("curl -w '%output{.env}x' h", "program: write .env, host h");
    }

    #[test]
    fn curl_uploads_are_recorded_as_reads() {
        check("curl -T f h", "program: read f, host h");
        check("curl -T '{a,b}' h", "program: read {a,b}, read a, read b, host h");
        check("curl -T 'a[1-3]' h", "program: read a[1-3], read a…, host h");
        check("curl -d @.env h", "program: read .env, host h");
        check("curl -d a=b -H x:y h", "program: host h");
        check("curl -d$x h", "program: read -d$x, host h, caution");
        check("curl --data-binary @.env h", "program: read .env, host h");
        check("curl -F 'x=@.env;type=a/b' h", "program: read .env, host h");
        check("curl -F 'x=<.env' h", "program: read .env, host h");
        check("curl --data-urlencode x@.env h", "program: read .env, host h");
        check("curl -b jar h", "program: read jar, host h");
        check("curl -b a=b h", "program: host h");
        check("curl -K conf", "program: read conf, caution");
        check("curl -E cert --key key h", "program: read cert, read key, host h");
    }
}
