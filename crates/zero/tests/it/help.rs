//! Help texts are read by people; a change to them is seen here.

use crate::test_program::TestProgram;

#[test]
fn bare_command_suggests_examples() {
    insta::assert_snapshot!(TestProgram::new().run(&[]), @r#"
    exit 0
    zero gives any coding agent hands, safely.

    Try:
      zero run "why does the build fail?"
          have an agent work here; `zero run /help` needs no model
      zero sessions list
          see what was talked about, to go on with it
      zero gateway
          let other programs and machines use the agents here
      zero tools list
          see the tools an agent gets
      zero tools call Read '{"file_path": "README.md"}'
          make a call, exactly as an agent would
      zero audit tail
          see what was called, and what became of it

    `zero --help` lists all commands; each explains itself with `--help`.
    "#);
}

#[test]
fn help_lists_commands() {
    insta::assert_snapshot!(TestProgram::new().run(&["--help"]), @"
    exit 0
    Gives any coding agent hands, safely.

    zero runs the tools of coding agents (read, write, edit, search) through one path that checks the
    input, judges what the call would touch, asks where it must, and writes down what happened.

    Usage: zero [COMMAND]

    Commands:
      run          Say something to an agent, and see what it does
      acp          Be the agent in an editor: the Agent Client Protocol on stdin and stdout
      sessions     Look after conversations
      gateway      Run the gateway: it keeps sessions and runs agents for clients
      tools        List, explain, call and check tools
      mcp          Serve the tools by MCP, or look after the MCP servers whose tools are used
      memory       See and change what is remembered from one session to the next
      undo         Take back a change that a tool made to a file
      stats        Show how often tools were called, how they ended and how long they took
      audit        Look at the log of all calls
      config       Show and change settings
      trust        Look at what a folder's settings ask for, and let it count
      policy       Ask what the rules say, without doing anything
      doctor       Look for what is wrong or risky here: settings, rules, trust, audit log, PATH
      completions  Print a completion script for a shell
      man          Print the manual page of zero or of one of its commands
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Exit codes: 0 done, 1 error, 2 wrong usage, 3 denied; of `zero policy` also 10 would ask, 20 would
    deny; of `zero run` also 4 stopped by a limit, 130 interrupted.

    Environment:
      XDG_STATE_HOME   where sessions, the audit log and the journal are kept (default: ~/.local/state)
      XDG_CONFIG_HOME  where your settings are: zero/settings.json in it (default: ~/.config)
      ZERO_MODEL       which model answers, such as `openai/gpt-5`; keys: `zero run --help`
      ZERO_LOG         what to log to stderr, such as `info` or `zero_runtime=debug`
      NO_COLOR         set to anything to turn colours off
    ");
}

#[test]
fn call_help_shows_examples() {
    insta::assert_snapshot!(TestProgram::new().run(&["tools", "call", "--help"]), @r#"
    exit 0
    Call a tool

    Usage: zero tools call [OPTIONS] <NAME> <JSON>

    Arguments:
      <NAME>  The tool, by its name in the dialect
      <JSON>  Its input as a JSON object, or `-` to read it from stdin

    Options:
          --workspace <DIR>     Folder to work in; may be given several times, relative paths start in
                                the first [default: the current folder]
          --dialect <DIALECT>   Names and shapes that the call is written in [default: canonical]
                                [possible values: canonical, acp, qwen, opencode]
          --yes                 Answer yes where you would be asked; what is denied stays denied
          --mode <MODE>         Mode: ask, accept-edits, plan or auto [default: that of the settings, or
                                ask]
          --json                Print one line of JSON instead of text
          --timeout <TIME>      Give up after this long, such as `500ms` or `10s`, if that is sooner
                                than the tool's own limit
          --limit <NAME=VALUE>  Set a limit, such as `file-timeout=5s` or `command-memory=2gb`; may be
                                given several times [names: file-timeout, search-timeout, model-output,
                                result, file-size, session-calls, host-calls, queue-calls,
                                command-memory, command-cpu, command-processes, command-open-files,
                                command-file]
          --settings <FILE>     Settings file to use instead of yours and the folder's; may be given
                                several times
      -h, --help                Print help

    Examples:
      zero tools call Read '{"file_path": "README.md", "limit": 20}'
      zero tools call Grep '{"pattern": "TODO", "output_mode": "content"}' --json
      zero tools call Write - --yes < input.json
      zero tools call read_file '{"path": "README.md"}' --dialect acp

    A call that changes something is asked about on a terminal; elsewhere it needs --yes.
    `zero undo` takes a change back.

    Exit codes: 0 the tool gave a result, 1 it gave an error, 2 wrong usage, 3 denied.
    "#);
}

#[test]
fn undo_help_names_refusals() {
    insta::assert_snapshot!(TestProgram::new().run(&["undo", "-h"]), @"
    exit 0
    Take back a change that a tool made to a file

    Usage: zero undo [OPTIONS] [ID]

    Arguments:
      [ID]  Number of the change [default: the newest]

    Options:
          --list                List the recorded changes, newest first
          --json                Print JSON
          --yes                 Restore the file even if it was changed again since
          --workspace <DIR>     Folder whose changes are meant [default: the current folder]
          --limit <NAME=VALUE>  Set a limit; `file-size=1gb` takes back a change that was made under
                                that limit
      -h, --help                Print help

    Examples:
      zero undo                take back the newest change
      zero undo --list         what can be taken back
      zero undo 12             take back change 12

    A file that was changed again since is left alone unless you say yes; what an undo overwrites is
    itself recorded.

    Exit codes: 0 restored, 1 nothing to undo or it failed, 2 wrong usage, 3 refused.
    ");
}

#[test]
fn help_works_as_subcommand() {
    let zero = TestProgram::new();
    for (help, flag) in [
        (&["help"][..], &["--help"][..]),
        (&["help", "tools", "call"], &["tools", "call", "--help"]),
        (&["help", "undo"], &["undo", "--help"]),
    ] {
        assert_eq!(zero.run(help), zero.run(flag), "{help:?}");
    }
}

#[test]
fn mistyped_command_suggests_correction() {
    insta::assert_snapshot!(TestProgram::new().run(&["tool", "list"]), @"
    exit 2
    --- stderr
    error: unrecognized subcommand 'tool'

      tip: a similar subcommand exists: 'tools'

    Usage: zero [COMMAND]

    For more information, try '--help'.
    ");
}
