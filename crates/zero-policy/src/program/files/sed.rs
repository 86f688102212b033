//! `sed`: its scripts can read and write files and run commands, so they are scanned here.

mod script;

use crate::program::command_analysis::CommandAnalysis;
use crate::shell::ShellArg;

use super::analysis_builder::{
    AccessDepth, CommandAnalysisBuilder, MAY_BE_OPTION, path_starting_with,
};

/// Analyzes `sed`.
pub(super) fn analyze(name: &str, args: &[ShellArg]) -> Option<CommandAnalysis> {
    if !matches!(name, "sed" | "gsed" | "ssed") {
        return None;
    }
    let line = SedCommandLine::parse(args);
    let mut notes = CommandAnalysisBuilder::default();
    if line.uncertain {
        notes.record_caution(MAY_BE_OPTION);
    }
    for file in &line.script_files {
        notes.record_read(file, AccessDepth::Itself);
        notes.record_caution("the script comes from a file");
    }
    let mut scripts = line.scripts;
    let mut files = line.operands.as_slice();
    if scripts.is_empty() && line.script_files.is_empty() {
        // On macOS, `-i` takes the suffix as the next argument: `sed -i '' s/a/b/ file`.
        if line.in_place == Some(BackupSuffix::PerhapsNext)
            && let [ShellArg::Known(suffix), rest @ ..] = files
            && (suffix.is_empty() || suffix.starts_with('.'))
        {
            files = rest;
        }
        if let Some((script, rest)) = files.split_first() {
            scripts.push(script.clone());
            files = rest;
        }
    }
    record_scripts(&scripts, &mut notes);
    for file in files {
        notes.record_read(file, AccessDepth::Itself);
        match &line.in_place {
            None => {}
            Some(BackupSuffix::None | BackupSuffix::PerhapsNext) => {
                notes.record_write(file, AccessDepth::Itself)
            }
            Some(BackupSuffix::Known(suffix)) => {
                notes.record_write(file, AccessDepth::Itself);
                notes.record_write(&backup_path(file, suffix), AccessDepth::Itself);
            }
        }
    }
    if line.in_place == Some(BackupSuffix::PerhapsNext)
        && let [ShellArg::Known(perhaps_script), _, ..] = files
    {
        script::record_script_effects(perhaps_script, &mut notes);
    }
    Some(notes.build_complete())
}

/// Several scripts are joined by line breaks.
fn record_scripts(scripts: &[ShellArg], notes: &mut CommandAnalysisBuilder) {
    let known: Option<Vec<&str>> = scripts.iter().map(ShellArg::as_known).collect();
    match known {
        Some(lines) => script::record_script(&lines.join("\n"), notes),
        None => notes.record_caution("the script is not known"),
    }
}

/// The backup path of a file: `*` in the suffix stands for its name.
fn backup_path(file: &ShellArg, suffix: &str) -> ShellArg {
    let Some(path) = file.as_known() else { return path_starting_with(file.known_prefix()) };
    if !suffix.contains('*') {
        return ShellArg::known(format!("{path}{suffix}"));
    }
    let (folder, name) = path.rsplit_once('/').map_or(("", path), |(folder, name)| (folder, name));
    let kept = suffix.replace('*', name);
    if folder.is_empty() || kept.contains('/') {
        ShellArg::known(kept)
    } else {
        ShellArg::known(format!("{folder}/{kept}"))
    }
}

/// The backup suffix that `-i` sets.
#[derive(Debug, PartialEq, Eq)]
enum BackupSuffix {
    None,
    /// None, or the next argument in BSD versions.
    PerhapsNext,
    Known(String),
}

/// A command line of `sed`. Parsed here because `-i` takes only an attached value.
#[derive(Debug, Default)]
struct SedCommandLine {
    scripts: Vec<ShellArg>,
    script_files: Vec<ShellArg>,
    in_place: Option<BackupSuffix>,
    operands: Vec<ShellArg>,
    uncertain: bool,
}

impl SedCommandLine {
    fn parse(args: &[ShellArg]) -> Self {
        let mut line = Self::default();
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            let Some(text) = arg.as_known() else {
                line.uncertain |= arg.may_split() || arg.may_be_option();
                line.operands.push(arg.clone());
                continue;
            };
            if text == "--" {
                line.operands.extend(rest.cloned());
                break;
            } else if let Some(long) = text.strip_prefix("--") {
                line.parse_long(long, &mut rest);
            } else if let Some(cluster) = text.strip_prefix('-').filter(|rest| !rest.is_empty()) {
                line.parse_cluster(cluster, &mut rest);
            } else {
                line.operands.push(arg.clone());
            }
        }
        line
    }

    fn parse_long<'a>(&mut self, long: &str, rest: &mut impl Iterator<Item = &'a ShellArg>) {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        let is = |full: &str, shortest: usize| name.len() >= shortest && full.starts_with(name);
        let attached = value.map(ShellArg::known);
        if is("expression", 1) {
            self.scripts.extend(attached.or_else(|| rest.next().cloned()));
        } else if is("file", 2) {
            self.script_files.extend(attached.or_else(|| rest.next().cloned()));
        } else if is("in-place", 1) {
            self.in_place =
                Some(value.map_or(BackupSuffix::None, |text| BackupSuffix::Known(text.to_owned())));
        } else if is("line-length", 1) && attached.is_none() {
            rest.next();
        }
    }

    fn parse_cluster<'a>(&mut self, cluster: &str, rest: &mut impl Iterator<Item = &'a ShellArg>) {
        for (at, letter) in cluster.char_indices() {
            let attached = &cluster[at + letter.len_utf8()..];
            let mut value = || match attached {
                "" => rest.next().cloned(),
                attached => Some(ShellArg::known(attached)),
            };
            match letter {
                'e' => self.scripts.extend(value()),
                'f' => self.script_files.extend(value()),
                'l' => drop(value()),
                'i' | 'I' => {
                    self.in_place = Some(match attached {
                        "" => BackupSuffix::PerhapsNext,
                        suffix => BackupSuffix::Known(suffix.to_owned()),
                    });
                }
                _ => continue,
            }
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::program::files::analysis_assert::check;

    #[test]
    fn sed_printing_script_is_read_only() {
        check("sed -n 1,5p f", "looks: read f");
        check("sed -n '/a/,/b/{p;=}' f", "looks: read f");
        check("sed s/a/b/g f g", "looks: read f, read g");
        check("sed -E 's|[^/]*$||; s,w,e,; y/abc/wer/' f", "looks: read f");
        check("sed -e 's/e/w x/' -e '$d' f", "looks: read f");
        check("sed '$!N;/^\\(.*\\)\\n\\1$/!P;D'", "looks");
        check("sed ':a;N;$!ba;s/\\n/ /g' f", "looks: read f");
        check("sed '1~2d;0,/x/Id;2,+3p;q5' f", "looks: read f");
        check("sed '1i\\\ne id' f", "looks: read f");
        check("sed '# e id\np' f", "looks: read f");
        check("sed --expression=p f", "looks: read f");
    }

    #[test]
    fn sed_script_commands_are_found() {
        check("sed '1e id' f", "looks: read f, script id");
        check("sed e f", "looks: read f, runs something");
        check("sed 's/x/id/e' f", "looks: read f, runs something");
        check("sed 's/x/id/ge' f", "looks: read f, runs something");
        check("sed 's,x,id,2e;p' f", "looks: read f, runs something");
        check("sed -n '/a/{s/x/y/;e id\n}' f", "looks: read f, script id");
        check("sed 's/[/]/e id/e' f", "looks: read f, runs something");
        check("sed '\\xaxe id' f", "looks: read f, script id");
        check("sed -e p -ne 'e id' f", "looks: read f, script id");
        check("sed --expr 'e id' f", "looks: read f, script id");
        check("sed 'a x\ne id' f", "looks: read f, script id");
        check("sed 'y/a/b/;e id' f", "looks: read f, script id");
        check("sed ':a;a\\\ne id' f", "looks: read f, runs something");
        check("sed 'b x e id' f", "looks: read f, script id");
        check("sed K f", "looks: read f, runs something");
        check("sed s/a f", "looks: read f, runs something");
    }

    #[test]
    fn sed_script_files_are_recorded() {
        check("sed 'w out' f", "files: write out, read f");
        check("sed -n 's/a/b/w out' f", "files: write out, read f");
        check("sed 's/a/b/gpw out;p' f", "files: write out;p, read f");
        check("sed 's/a/b/w /dev/stdout' f", "looks: read f");
        check("sed '$r .env' f", "looks: read .env, read f");
        check("sed 'R.env' f", "looks: read .env, read f");
        check("sed '1!{W out\n}' f", "files: write out, read f");
        check("sed -f s.sed f", "looks: read s.sed, read f, caution");
        check("sed --fi=s.sed f", "looks: read s.sed, read f, caution");
    }

    #[test]
    fn sed_in_place_writes_files() {
        check("sed -i s/a/b/ f g", "files: read f, write f, read g, write g");
        check("sed -ni.bak p d/f", "files: read d/f, write d/f, write d/f.bak");
        check("sed -i'old_*' p d/f", "files: read d/f, write d/f, write d/old_f");
        check("sed --in-pl=~ p f", "files: read f, write f, write f~");
        check("sed -i '' s/a/b/ f", "files: read f, write f");
        check("sed -i x 'w out' f", "files: read w out, write w out, read f, write f, write out");
    }

    #[test]
    fn sed_unknown_script_is_not_trusted() {
        check("sed $x f", "looks: read f, caution");
        check("sed -n -e $x f", "looks: read f, caution");
        check("sed -n 1p $x", "looks: read $x, caution");
        check("sed -n 1p *.txt", "looks: read *.txt, caution");
        check("sed -n -- 1p $x", "looks: read $x");
    }
}
