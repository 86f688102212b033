//! Snapshots of the help texts, so that every change to them shows up in a review.

use crate::test_program::TestProgram;

#[test]
fn bare_command_suggests_examples() {
    insta::assert_snapshot!(TestProgram::new().run(&[]), @r#"
    exit 0
    zero is a coding agent and a sandboxed tool runtime.

    Try:
      zero login
          set up a model: provider, key and default
      zero "why does the build fail?"
          send a prompt to the agent; `zero /help` needs no model
      zero sessions list
          list the sessions that you can continue
      zero gateway
          serve agents and sessions to other programs and machines
      zero tools list
          list the tools that agents can use
      zero tools call Read '{"file_path": "README.md"}'
          call a tool as an agent does
      zero audit tail
          show the latest tool calls and their results

    `zero --help` lists all commands. `zero COMMAND --help` describes one.
    "#);
}

#[test]
fn help_lists_commands() {
    insta::assert_snapshot!(TestProgram::new().run(&["--help"]), @"
    exit 0
    A coding agent and a sandboxed tool runtime

    zero checks every tool call against your rules before it runs and records it in an audit log.
    Commands run in a sandbox. What tools and commands change in the workspace can be undone.

    Usage: zero [RUN OPTIONS] [PROMPT]
           zero <COMMAND>

    Commands:
      login        Set up a model: provider, key and default
      logout       Remove a model and its key
      models       List the models, and the model servers on this machine
      chat         Talk with the agent on the terminal; the same as `zero` alone
      run          Send a prompt to the agent
      acp          Run as an agent for editors (Agent Client Protocol over stdio)
      sessions     List, show, export, fork, rewind, reset and delete sessions and their grants
      questions    List and answer the questions of runs that wait
      jobs         List, show and kill background jobs
      ports        List the ports of servers in sandboxes, and forward one to this machine
      prune        Remove old sessions and other data, and free disk space
      gateway      Run the gateway, which stores sessions and runs agents for clients
      console      Open the web console: show its address and a code that pairs a browser
      tools        List, describe, call, serve and check tools
      mcp          Serve zero's tools over MCP, or manage the MCP servers that zero uses
      memory       List, add, edit and remove the notes that sessions start with
      skills       List the skills that sessions in a folder can use
      undo         Undo what tools and commands changed in a folder
      stats        Show call counts, results and durations per tool
      usage        Show what runs used: tokens, requests, calls, time and cost
      audit        Show and verify the audit log of tool calls
      init         Propose settings and instructions for a project
      import       Take over the settings of Claude Code, Codex, opencode or Gemini CLI
      config       Show and change settings
      trust        Review a folder's settings and trust it
      policy       Show what the rules decide, without running anything
      doctor       Find problems and risks: settings, rules, trust, sandbox, audit log, PATH
      update       Update zero, or print the command that updates it
      completions  Print a shell completion script
      man          Print the manual page of zero or of one of its commands
      help         Print a page of the documentation, or the help of a command

    Options:
      -h, --help
              Print help (see a summary with '-h')

      -V, --version
              Print version

    Exit codes:
      0    success
      1    error
      2    wrong usage
      3    denied
      4    `zero run`: stopped by a token or turn limit or a budget
      5    `zero run --output-schema`: the answer does not fit the schema
      6    `zero run --park`, `zero questions answer`: the run waits for an answer
      10   `zero policy`: zero would ask
      20   `zero policy`: the call would be denied
      130  `zero run`: interrupted

    Environment:
      XDG_STATE_HOME   folder for sessions, audit log and undo journal (default: ~/.local/state)
      XDG_CONFIG_HOME  folder for your settings, zero/settings.json (default: ~/.config)
      ZERO_MODEL       model to use, such as `openai/gpt-5`; for keys, see `zero run --help`
      ZERO_LOG         log filter for stderr, such as `info` or `zero_runtime=debug`
      NO_COLOR         disables colors if set
    ");
}

#[test]
fn call_help_shows_examples() {
    insta::assert_snapshot!(TestProgram::new().run(&["tools", "call", "--help"]), @r#"
    exit 0
    Call a tool

    Usage: zero tools call [OPTIONS] <NAME> <JSON>

    Arguments:
      <NAME>  Name of the tool in the dialect
      <JSON>  Input of the tool as a JSON object, or `-` to read it from stdin

    Options:
          --workspace <DIR>     Folder to work in; can be repeated, relative paths start in the first
                                [default: current folder]
          --dialect <DIALECT>   Dialect of the name and the input [default: canonical] [possible values:
                                canonical, acp, qwen, opencode]
          --yes                 Approve what zero would ask about. Does not approve denied calls, hosts
                                that only a project's file names, or hosts that a command first contacts
                                while it runs
          --mode <MODE>         Permission mode: ask, accept-edits, plan or auto [default: from
                                settings, or ask]
          --dry-run             Show what the call changed in the workspace, then ask whether to keep
                                it; without a terminal, discard it. What it did elsewhere remains
          --json                Print the result as one line of JSON
          --timeout <TIME>      Stop after this time, such as `500ms` or `10s`; the tool's own limit
                                still applies
          --limit <NAME=VALUE>  Set a limit, such as `file-timeout=5s` or `command-memory=2gb`; can be
                                repeated [names: file-timeout, search-timeout, command-timeout,
                                mcp-timeout, connection-question-timeout, model-output, result,
                                file-size, session-calls, host-calls, queue-calls, profile,
                                command-memory, command-cpu, command-processes, command-open-files,
                                command-file, command-disk, command-disk-rate]
          --settings <FILE>     Settings file to use instead of yours and the folder's; can be repeated
      -h, --help                Print help

    Examples:
      zero tools call Read '{"file_path": "README.md", "limit": 20}'
      zero tools call Grep '{"pattern": "TODO", "output_mode": "content"}' --json
      zero tools call Write - --yes < input.json
      zero tools call read_file '{"path": "README.md"}' --dialect acp

    On a terminal, zero asks before a call that needs permission. Without a terminal, it denies such a
    call unless a rule allows it or you pass --yes. `zero undo` reverts what the call changed in the
    workspace.

    Exit codes: 0 the tool returned a result, 1 it returned an error or its command failed (`exit_code`
    in the JSON is the command's own), 2 wrong usage, 3 denied.
    "#);
}

#[test]
fn undo_help_names_refusals() {
    insta::assert_snapshot!(TestProgram::new().run(&["undo", "-h"]), @"
    exit 0
    Undo what tools and commands changed in a folder

    Usage: zero undo [OPTIONS] [ID]

    Arguments:
      [ID]  Number of the change to undo [default: the newest]

    Options:
          --list                List the recorded changes, newest first
          --all                 List all of them, not only the newest 50
          --json                Print JSON
          --yes                 Restore files even if they were changed again since [alias: --force]
          --workspace <DIR>     Folder whose changes to use [default: current folder]
          --limit <NAME=VALUE>  Set a limit; `file-size=1gb` undoes a change that was made under that
                                limit
      -h, --help                Print help

    Examples:
      zero undo                undo the newest change
      zero undo --list         list the changes that can be undone
      zero undo 12             undo change 12

    A change is one file that a tool changed, or everything that one command changed. If a file was
    changed again since, zero asks before it restores it. An undo is itself recorded and can be undone.

    Exit codes: 0 restored, 1 nothing to undo or an error, 2 wrong usage, 3 refused.
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
        assert_eq!(zero.stdout(help), zero.stdout(flag), "{help:?}");
    }
    let note = "note: the page about it: zero help how-to/undo";
    assert!(zero.run(&["help", "undo"]).contains(note));
}

#[test]
fn help_prints_how_to_pages() {
    let zero = TestProgram::new();
    let page = zero.stdout(&["help", "how-to/undo"]);
    assert!(page.starts_with("# Undo file changes\n"), "{page}");
    assert!(page.lines().all(|line| !line.contains('\x1b')), "escape codes in a pipe");
    assert_eq!(
        zero.stdout(&["help", "package", "managers"]),
        zero.stdout(&["help", "package-managers"])
    );
    let topics = zero.stdout(&["help", "topics"]);
    for topic in
        ["how-to/undo", "hooks", "install", "reference/acp", "tools-serve", "troubleshooting"]
    {
        assert!(topics.lines().any(|line| line.starts_with(topic)), "{topic}: {topics}");
    }
    for (name, title) in [("install", "# Install\n"), ("tools-serve", "# `zero tools serve`\n")] {
        assert!(zero.stdout(&["help", name]).starts_with(title), "{name}");
    }
    insta::assert_snapshot!(zero.run(&["help", "hoks"]), @"
    exit 2
    --- stderr
    error: there is no page or command `hoks`; did you mean `zero help hooks`? `zero help topics` lists the pages
    ");
}

#[test]
fn mistyped_command_suggests_correction() {
    insta::assert_snapshot!(TestProgram::new().run(&["tool", "list"]), @"
    exit 2
    --- stderr
    error: unrecognized subcommand 'tool'

      tip: did you mean 'zero tools'?
      tip: to send it as a prompt: zero run 'tool list'

    Usage: zero [RUN OPTIONS] [PROMPT]
           zero <COMMAND>

    For more information, try '--help'.
    ");
}
