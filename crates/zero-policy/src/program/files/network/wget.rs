//! `wget`: every option that names a file, a host or a command.

use crate::program::command_analysis::CommandAnalysis;
use crate::program::options::{OptionChange, OptionTable, ParsedArguments, ValueUse, options};
use crate::shell::ShellArg;

use super::super::analysis_builder::{AccessDepth, CommandAnalysisBuilder, join_path};
use super::url;

const WGET: OptionTable = options!(
    "=warc-dedup::read O,output-document,o,output-file,a,append-output,save-cookies:write \
     rejected-log,hsts-file,warc-file:write \
     post-file,body-file,load-cookies:read ca-certificate,ca-directory:identity \
     certificate,private-key,crl-file:identity -PietTwQBUADRIXl: directory-prefix: input-file: \
     input-metalink: metalink-file: execute: tries: timeout: wait: quota: base: user-agent: \
     accept: domains: reject: level: post-data: body-data: method: use-askpass: config: warc-cdx: \
     header: user: password: http-user: http-password: referer: limit-rate: bind-address: \
     default-page: cut-dirs: max-redirect: recursive mirror page-requisites content-disposition \
     spider plugin,local-plugin:!plugin \
     stats-dns,stats-ocsp,stats-server,stats-site,stats-tls:!more warc-tempdir:write"
);

/// Analyzes `wget`.
pub(super) fn analyze(args: &[ShellArg]) -> CommandAnalysis {
    let options = WGET.parse(args);
    let mut notes = CommandAnalysisBuilder::default();
    options.operands.iter().for_each(|address| url::record_address(address, &mut notes));
    options.values(&["use-askpass"]).for_each(|program| notes.record_command(program));
    if options.has(&["e", "execute"]) {
        notes.record_unknown_run("a setting can name a command");
    }
    for option in &options.parsed {
        option.entries().for_each(|entry| notes.record_change(entry.change));
    }
    if options.has_change(OptionChange::More) {
        notes.record_caution("it writes statistics to a file");
    }
    notes.record_reads(options.used_values(ValueUse::Read));
    notes.record_identities(options.used_values(ValueUse::Identity));
    for file in options.values(&["i", "input-file", "input-metalink", "metalink-file", "config"]) {
        notes.record_read(file, AccessDepth::Itself);
        notes.record_caution("a file gives it addresses or options");
    }
    notes.record_outputs(options.used_values(ValueUse::Write));
    record_downloads(&options, &mut notes);
    notes.record_hidden_option(args, &options);
    notes.build_incomplete()
}

/// Without `-O` a file is named after the end of the URL.
fn record_downloads(options: &ParsedArguments<'_>, notes: &mut CommandAnalysisBuilder) {
    if options.has(&["O", "output-document"]) || options.keeps(&["spider"]) {
        return;
    }
    let folder_arg = ShellArg::known(".");
    let folder = options.values(&["P", "directory-prefix"]).last().unwrap_or(&folder_arg);
    let many =
        ["r", "recursive", "m", "mirror", "p", "page-requisites", "content-disposition", "x"];
    for address in &options.operands {
        let name = url::download_name(address).unwrap_or_else(|| "index.html".to_owned());
        match join_path(folder, &name) {
            Some(file) if !options.has(&many) && address.as_known().is_some() => {
                notes.record_write(&file, AccessDepth::Itself);
            }
            _ => notes.record_write(folder, AccessDepth::Beneath),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::program::files::analysis_assert::check;

    #[test]
    fn wget_downloads_are_recorded_as_writes() {
        check("wget https://h/a.txt", "program: write ./a.txt, host https://h/a.txt");
        check("wget -O out h", "program: write out, host h");
        check("wget -qO- h", "program: host h");
        check("wget --output-doc=out h", "program: write out, host h");
        check("wget -P d https://h/a", "program: write d/a, host https://h/a");
        check("wget -r https://h/a", "program: write ./**, host https://h/a");
        check("wget --spider h", "program: host h");
        check("wget --spider --no-spi h", "program: write ./index.html, host h");
        check("wget --spider=off h", "program: write ./index.html, host h");
        check("wget -o log h", "program: write log, write ./index.html, host h");
    }

    #[test]
    fn wget_options_that_read_or_run_are_found() {
        check("wget --spider --post-file .env h", "program: read .env, host h");
        check("wget --spider --use-ask=./x h", "program: host h, runs ./x");
        check("wget --spider -e use_askpass=./x h", "program: host h, runs something");
        check("wget --exec=x=y --spider h", "program: host h, runs something");
        check("wget2 --spider --local-pl=./x h", "program: host h, runs something");
        check("wget2 --spider --stats-site=csv:f h", "program: host h, caution");
        check("wget --input-metalink=x", "program: read x, caution");
        check("wget -i urls", "program: read urls, caution");
        check("wget --spider $x", "program: host $x, caution");
    }
}
