//! Compares the analysis with the real bash: the analysis must contain whatever bash runs.
//!
//! Bash runs scripts in a folder of their own with stub programs that log their name, arguments and
//! folder. The analysis must contain a command for each of them, or an uncertainty, which leads to
//! a question. Wrappers such as `env` and `find` are the real programs.
#![expect(clippy::disallowed_methods, reason = "the test asks the real bash")]

mod corpus;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use corpus::{STUBS, build_script};
use zero_policy::program::CommandClass;
use zero_policy::shell::ShellArg;
use zero_policy::shell::analyse;
use zero_policy::shell::analysis::{
    AnalysisNodeKind, CommandInvocation, ScriptAnalysis, WorkingFolders,
};

/// Number of scripts. Raise it for a long run; the generator has no limit.
const SCRIPTS: usize = 600;
/// Number of the first script.
const FIRST_SCRIPT: usize = 0;
/// Scripts per parent bash process.
const BATCH_SIZE: usize = 60;

/// Programs that are not stubs, so that their commands really run.
const REAL_PROGRAMS: &[&str] =
    &["bash", "sh", "env", "nice", "nohup", "setsid", "timeout", "stdbuf", "xargs", "find", "cat"];

/// Logs its name, the number of its arguments, its folder, and its arguments.
const STUB: &str = "#!/bin/sh\nn=${0##*/}\nprintf '%s\\0' \"$n\" $# \"$PWD\" \"$@\" >&9\n";

/// Runs each script of `$1` in a shell of its own that finds only the stubs. The nesting of calls
/// is limited, because a function that calls itself in a pipeline would fill the machine.
const DRIVER: &str = r#"cd "$1" || exit
ulimit -t 2 -f 2000 -c 0
for folder in "$1"/[0-9]*; do
    cd "$folder/w" || exit
    script=$(<../script)
    timeout -k 1 3 env -i PATH="$2" HOME="$folder/h" FUNCNEST=5 bash -c "$script" \
        8>&1 9>>../log </dev/null >/dev/null 2>&1
done
:
"#;

/// A program that ran.
#[derive(Debug)]
struct ExecutedProgram {
    program: String,
    args: Vec<String>,
    folder: PathBuf,
}

/// The results of the analysis.
#[derive(Debug, Default)]
struct AnalysisTally {
    ran: usize,
    /// Not found, but reported as uncertain.
    only_doubted: usize,
    /// Scripts without an uncertainty.
    certain: usize,
    /// Scripts in which something ran that the analysis does not contain.
    missed: Vec<String>,
    /// How often an uncertainty was the only result, by its reason.
    doubts: BTreeMap<String, usize>,
}

#[test]
fn analysis_predicts_every_program_bash_runs() {
    let middle = FIRST_SCRIPT + SCRIPTS / 2;
    let (mut tally, second) = std::thread::scope(|scope| {
        let second = scope.spawn(|| run_campaign(middle, FIRST_SCRIPT + SCRIPTS));
        (run_campaign(FIRST_SCRIPT, middle), second.join().unwrap())
    });
    tally.missed.extend(second.missed);
    tally.ran += second.ran;
    tally.certain += second.certain;
    tally.only_doubted += second.only_doubted;
    for (reason, count) in second.doubts {
        *tally.doubts.entry(reason).or_default() += count;
    }
    let AnalysisTally { ran, only_doubted, certain, missed, doubts } = &tally;
    println!("{ran} ran; {only_doubted} only doubted; {certain} of {SCRIPTS} scripts are certain");
    println!("{doubts:#?}");
    assert!(missed.is_empty(), "{} missed:\n\n{}", missed.len(), missed.join("\n\n"));
    // The scripts do run, and the analysis does find commands.
    assert!(*ran > SCRIPTS, "{ran} programs ran");
    assert!(only_doubted * 3 < *ran, "{only_doubted} of {ran} are only doubted");
    assert!(certain * 4 > SCRIPTS, "{certain} of {SCRIPTS} scripts are certain");
}

fn run_campaign(first: usize, end: usize) -> AnalysisTally {
    let mut tally = AnalysisTally::default();
    for start in (first..end).step_by(BATCH_SIZE) {
        let scripts: Vec<String> = (start..end.min(start + BATCH_SIZE)).map(build_script).collect();
        run_batch(&scripts, &mut tally);
    }
    tally
}

fn run_batch(scripts: &[String], tally: &mut AnalysisTally) {
    let temporary = tempfile::tempdir().unwrap();
    let root = temporary.path().canonicalize().unwrap();
    let run = root.join("run");
    fs::create_dir(&run).unwrap();
    let bin = run.join("bin");
    install_stubs(&bin);
    for (at, script) in scripts.iter().enumerate() {
        let folder = run.join(format!("{at:03}"));
        fs::create_dir_all(folder.join("w/sub/deep")).unwrap();
        fs::create_dir_all(folder.join("w/sub/sub")).unwrap();
        fs::create_dir_all(folder.join("h")).unwrap();
        symlink("sub/deep", folder.join("w/link")).unwrap();
        for file in ["w/f1", "w/f2", "w/rm", "w/ls", "w/.hidden", "log"] {
            fs::write(folder.join(file), "").unwrap();
        }
        symlink(&bin, folder.join("bin")).unwrap();
        fs::write(folder.join("script"), script).unwrap();
    }
    // Background processes of a script inherit the write end of this pipe, so it closes when they
    // end.
    let driver = Command::new("bash")
        .args(["-c", DRIVER, "driver"])
        .args([&run, &bin])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .output()
        .unwrap();
    assert!(driver.status.success(), "{driver:?}");
    for (at, script) in scripts.iter().enumerate() {
        let folder = run.join(format!("{at:03}"));
        let ran = parse_log(&fs::read(folder.join("log")).unwrap());
        compare(script, &ran, &folder, tally);
    }
}

/// Installs the programs in a folder.
fn install_stubs(bin: &Path) {
    fs::create_dir(bin).unwrap();
    for stub in STUBS {
        let path = bin.join(stub);
        // Some programs fail, so that both branches of `&&` are taken.
        let fails = matches!(*stub, "cp" | "npm");
        fs::write(&path, format!("{STUB}exit {}\n", u8::from(fails))).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for name in REAL_PROGRAMS {
        let found = ["/usr/bin", "/bin"].iter().map(|folder| Path::new(folder).join(name));
        let found = found.into_iter().find(|path| path.exists());
        symlink(found.unwrap_or_else(|| panic!("no `{name}`")), bin.join(name)).unwrap();
    }
}

/// Parses the log of the stubs.
fn parse_log(log: &[u8]) -> Vec<ExecutedProgram> {
    let log = String::from_utf8_lossy(log);
    let mut fields = log.split('\0').map(str::to_owned);
    let mut all = Vec::new();
    while let (Some(program), Some(count), Some(folder)) =
        (fields.next(), fields.next(), fields.next())
    {
        let args = fields.by_ref().take(count.parse().unwrap()).collect();
        all.push(ExecutedProgram { program, args, folder: PathBuf::from(folder) });
    }
    all
}

fn compare(script: &str, ran: &[ExecutedProgram], folder: &Path, tally: &mut AnalysisTally) {
    let analysis = analyse(script, &folder.join("w"), Some(&folder.join("h")));
    let doubt = analysis.nodes.iter().find_map(|node| match &node.kind {
        AnalysisNodeKind::Uncertainty(doubt) => Some(doubt.reason.clone()),
        // A shell that runs a file: asked about, unless a rule allows exactly that.
        AnalysisNodeKind::Command(invocation)
            if invocation.analysis.class == CommandClass::Opaque
                && REAL_PROGRAMS
                    .iter()
                    .chain(&["source", "."])
                    .any(|it| is_called(invocation, it)) =>
        {
            Some("a file is run".to_owned())
        }
        _ => None,
    });
    tally.certain += usize::from(doubt.is_none());
    for ran in ran {
        tally.ran += 1;
        let Err(why) = find_command(&analysis, ran) else { continue };
        match &doubt {
            Some(reason) => {
                tally.only_doubted += 1;
                *tally.doubts.entry(reason.clone()).or_default() += 1;
            }
            None => {
                let said: Vec<String> = find_invocations(&analysis)
                    .map(|invocation| format!("{:?} in {:?}", invocation.argv, invocation.folders))
                    .collect();
                tally.missed.push(format!(
                    "--- {why}\n{script}\n--- ran: {} {:?} in {}\n--- said: {said:#?}",
                    ran.program,
                    ran.args,
                    ran.folder.display()
                ));
                return;
            }
        }
    }
}

fn find_invocations(analysis: &ScriptAnalysis) -> impl Iterator<Item = &CommandInvocation> {
    analysis.nodes.iter().filter_map(|node| match &node.kind {
        AnalysisNodeKind::Command(invocation) => Some(&**invocation),
        _ => None,
    })
}

/// Whether the analysis has a command for a program that ran, with its arguments and folder.
fn find_command(analysis: &ScriptAnalysis, ran: &ExecutedProgram) -> Result<(), &'static str> {
    let named: Vec<&CommandInvocation> = find_invocations(analysis)
        .filter(|invocation| is_called(invocation, &ran.program))
        .collect();
    if named.is_empty() {
        return Err("a program that nobody said");
    }
    let fitting: Vec<&CommandInvocation> = named
        .into_iter()
        .filter(|invocation| matches_arguments(&invocation.argv[1..], &ran.args))
        .collect();
    if fitting.is_empty() {
        return Err("other arguments");
    }
    if !fitting.iter().any(|invocation| may_be_in(&invocation.folders, &ran.folder)) {
        return Err("another folder");
    }
    Ok(())
}

fn is_called(invocation: &CommandInvocation, program: &str) -> bool {
    let known = invocation.argv.first().and_then(ShellArg::as_known);
    known.is_some_and(|known| known.rsplit('/').next() == Some(program))
}

fn may_be_in(folders: &WorkingFolders, folder: &Path) -> bool {
    match folders {
        WorkingFolders::OneOf(folders) => folders.iter().any(|said| {
            said == folder
                || said.canonicalize().is_ok_and(|said| Some(said) == folder.canonicalize().ok())
        }),
        WorkingFolders::Unknown => true,
    }
}

/// Whether the analyzed arguments match the actual ones. An unknown argument matches any number of
/// words, of which only the first must have its known prefix.
fn matches_arguments(said: &[ShellArg], args: &[String]) -> bool {
    let Some((first, rest)) = said.split_first() else { return args.is_empty() };
    match first {
        ShellArg::Known(text) => args.first() == Some(text) && matches_arguments(rest, &args[1..]),
        ShellArg::Pattern(_) => {
            let start = first.known_prefix();
            let like = args.iter().take_while(|arg| arg.starts_with(start)).count();
            (0..=like).any(|taken| matches_arguments(rest, &args[taken..]))
        }
        ShellArg::Unknown { starts_with, .. } if starts_with.is_empty() => {
            (0..=args.len()).any(|taken| matches_arguments(rest, &args[taken..]))
        }
        ShellArg::Unknown { starts_with, .. } => {
            args.first().is_some_and(|arg| arg.starts_with(starts_with))
                && matches_arguments(rest, &args[1..])
        }
    }
}
