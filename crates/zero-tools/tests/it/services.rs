//! Programs that run beside calls: sandboxed, checked by the policy, logged, and ended when no
//! longer needed.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::time::Duration;

use zero_core::{CommandLimit, CommandLimitChange, ErrorReason};
use zero_policy::HostPattern;
use zero_runtime::audit::AuditRow;
use zero_runtime::{
    CommandSettings, LaunchAccess, ServiceHandle, ServiceRequest, ToolHost, ToolHostConfig,
};
use zero_sandbox::running_command::{CommandExit, ExitCause};
use zero_sandbox::{StateDir, Workspace};

use crate::fixture::ToolFixture;
use crate::network::{CountingServer, session_with_rules};

fn shell_service(script: &str) -> ServiceRequest {
    let words = ["bash", "-c", script].map(str::to_owned).to_vec();
    ServiceRequest { name: "test".to_owned(), words, ..ServiceRequest::default() }
}

fn start_service(f: &ToolFixture, request: &ServiceRequest) -> ServiceHandle {
    f.host.services().start(request).unwrap()
}

/// Runs a service to its end, and returns its output of both streams and how it ended.
async fn run_service(f: &ToolFixture, request: &ServiceRequest) -> (String, CommandExit) {
    let mut service = start_service(f, request);
    service.stdin = None;
    let mut text = String::new();
    for stream in [service.stdout.take(), service.stderr.take()] {
        File::from(stream.unwrap()).read_to_string(&mut text).unwrap();
    }
    (text, tokio::time::timeout(Duration::from_secs(60), service.wait()).await.unwrap())
}

#[tokio::test]
async fn read_only_service_sees_workspace_and_changes_nothing() {
    // Programs have a private `/tmp`. Of the host's, only what they may read is visible there.
    for base in ["/var/tmp", "/tmp"] {
        let temp = tempfile::tempdir_in(base).unwrap();
        let root = temp.path().canonicalize().unwrap();
        let (work, made) = (root.join("work"), root.join("made"));
        for folder in [&work, &made, &work.join("closed")] {
            std::fs::create_dir(folder).unwrap();
        }
        for (name, text) in [("plain", "open"), ("secret", "s3cret"), ("closed/in", "s3cret")] {
            std::fs::write(work.join(name), text).unwrap();
        }
        let workspace = Workspace::open(std::slice::from_ref(&work), None).unwrap();
        let mut config = ToolHostConfig::new(workspace, StateDir::new(root.join("state")));
        config.commands.masked = vec![work.join("secret"), work.join("closed")];
        config.commands.writable = vec![root.clone()];
        let host = ToolHost::new(config);
        let script = "cat plain secret closed/in; echo evil > ../other; for f in plain new .git/hooks/x; do \
            (mkdir -p $(dirname $f) && echo evil > $f) && echo wrote $f; done; \
            echo made > $MADE/a && cat $MADE/a; env | grep -ci proxy; ls /sys/class/net | wc -l";
        let request = ServiceRequest {
            access: LaunchAccess::ReadOnly,
            writable: vec![made.clone()],
            variables: vec![("MADE".to_owned(), made.to_str().unwrap().to_owned())],
            ..shell_service(script)
        };
        let mut service = host.services().start(&request).unwrap();
        service.stdin = None;
        let mut text = String::new();
        File::from(service.stdout.take().unwrap()).read_to_string(&mut text).unwrap();
        assert!(text.starts_with("openmade\n0\n"), "{base}: {text}");
        assert_eq!(std::fs::read_to_string(work.join("plain")).unwrap(), "open", "{base}");
        assert_eq!(std::fs::read_to_string(made.join("a")).unwrap(), "made\n", "{base}");
        assert!(!work.join("new").exists() && !work.join(".git").exists(), "{base}");
        assert!(!root.join("other").exists(), "{base}");
    }
}

#[track_caller]
fn start_error(f: &ToolFixture, request: &ServiceRequest, reason: ErrorReason) -> String {
    let error = f.host.services().start(request).unwrap_err();
    assert_eq!(error.reason(), Some(reason), "{error:?}");
    error.message
}

fn audit_rows(f: &ToolFixture) -> Vec<AuditRow> {
    let mut rows = Vec::new();
    for day in f.host.audit().days().unwrap() {
        f.host.audit().open_day(&day).unwrap().for_each_row(|row| rows.push(row)).unwrap();
    }
    rows.retain(|row| row.tool == "service");
    rows
}

/// Counts processes with this argument.
pub(crate) fn count_processes_with_arg(mark: &str) -> usize {
    let lines = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = lines.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.split(|b| *b == 0).any(|arg| arg == mark.as_bytes())).count()
}

fn read_line(service: &mut ServiceHandle) -> String {
    let mut stream = File::from(service.stdout.take().unwrap());
    let (mut line, mut byte) = (Vec::new(), [0]);
    while stream.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
        line.extend(byte);
    }
    service.stdout = Some(stream.into());
    String::from_utf8(line).unwrap()
}

#[tokio::test]
async fn service_communicates_through_pipes() {
    let f = ToolFixture::one_shot();
    let mut service = start_service(&f, &shell_service("read line; echo \"got $line\"; exec cat"));
    let mut stdin = File::from(service.stdin.take().unwrap());
    stdin.write_all(b"hello\nmore\n").unwrap();
    assert_eq!(read_line(&mut service), "got hello");
    assert_eq!(read_line(&mut service), "more");
    drop(stdin);
    let (one, other) = tokio::join!(service.wait(), service.wait());
    assert_eq!((one.exit_code, &one), (Some(0), &other));
    assert_eq!(service.notes(), Vec::<String>::new());
}

#[test]
fn end_of_process_ends_services_and_checks_what_they_left() {
    let f = ToolFixture::one_shot();
    let mut service = start_service(&f, &shell_service("echo evil > .envrc; echo ready; exec cat"));
    assert_eq!(read_line(&mut service), "ready");
    let planted = f.path(".envrc");
    zero_exec::end_all_programs();
    assert!(!planted.exists());
    assert!(service.notes().iter().any(|note| note.contains(".envrc")), "{:?}", service.notes());
}

#[test]
fn settings_that_a_service_makes_are_taken_while_it_runs() {
    let f = ToolFixture::one_shot();
    let script = "echo evil > .envrc; echo ready; while test -e .envrc; do sleep 0.02; done; echo gone; exec cat";
    let mut service = start_service(&f, &shell_service(script));
    assert_eq!(read_line(&mut service), "ready");
    assert_eq!(read_line(&mut service), "gone");
    zero_exec::end_all_programs();
    assert!(service.notes().iter().any(|note| note.contains(".envrc")), "{:?}", service.notes());
}

#[tokio::test]
async fn service_reads_no_secrets_and_writes_nothing_outside() {
    // Not in `/tmp`, because services have a private one.
    let temp = tempfile::tempdir_in("/var/tmp").unwrap();
    let secret = temp.path().join("secret");
    std::fs::write(temp.path().join("plain"), "readable").unwrap();
    let open = temp.path().join("open");
    std::fs::write(&secret, "treasure").unwrap();
    std::fs::create_dir(&open).unwrap();
    let settings = CommandSettings { masked: vec![secret.clone()], ..CommandSettings::default() };
    let f = ToolFixture::with_commands(settings);
    let (out, state) = (temp.path().display(), f.outside().join("state"));
    let script = format!(
        "cat {out}/plain {}; cat {}/audit/*; echo x > {out}/new; echo x > {out}/plain; echo x > {out}/open/new; echo x > here; \
         echo x > $TMPDIR/own && echo tmp",
        secret.display(),
        state.display()
    );
    let request = ServiceRequest { writable: vec![open.clone()], ..shell_service(&script) };
    let (output, _) = run_service(&f, &request).await;
    assert!(output.contains("readable") && output.contains("tmp\n"), "{output}");
    assert!(!output.contains("treasure") && !output.contains('{'), "{output}");
    assert_eq!(std::fs::read_to_string(temp.path().join("plain")).unwrap(), "readable");
    assert!(!temp.path().join("new").exists() && open.join("new").exists(), "{output}");
    assert!(f.path("here").exists());
    let left: Vec<_> = std::fs::read_dir(state.join("tmp")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");

    // The same path without the setting that opens it.
    std::fs::remove_file(open.join("new")).unwrap();
    run_service(&f, &shell_service(&script)).await;
    assert!(!open.join("new").exists());
}

#[tokio::test]
async fn writable_setting_cannot_expose_own_or_secret_folders() {
    let temp = tempfile::tempdir().unwrap();
    let home = temp.path().canonicalize().unwrap();
    for folder in [".ssh", "own", "fine"] {
        std::fs::create_dir(home.join(folder)).unwrap();
    }
    std::os::unix::fs::symlink(home.join("own"), home.join("link")).unwrap();
    let f = ToolFixture::with_commands(CommandSettings {
        home: Some(home.clone()),
        own: vec![home.join("own")],
        ..CommandSettings::default()
    });
    let ask = |folder| ServiceRequest { writable: vec![folder], ..shell_service("true") };
    let state = f.outside().canonicalize().unwrap().join("state");
    std::fs::create_dir_all(state.join("mcp")).unwrap();
    for folder in [home.join(".ssh"), home.join("own"), home.join("link"), state.join("mcp")] {
        let output = start_error(&f, &ask(folder.clone()), ErrorReason::AccessDenied);
        assert!(output.contains("must not be writable for `test`"), "{folder:?}: {output}");
    }
    let output = start_error(&f, &ask(home.join("missing")), ErrorReason::BadPath);
    assert!(output.contains("create it first"), "{output}");
    assert_eq!(run_service(&f, &ask(home.join("fine"))).await.1.exit_code, Some(0));
}

#[tokio::test]
async fn service_sees_only_listed_variables() {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let environment = vec![
        pair("PATH", "/usr/bin:/bin"),
        pair("GITHUB_TOKEN", "treasure"),
        pair("EDITOR", "treasure"),
    ];
    let f =
        ToolFixture::with_commands(CommandSettings { environment, ..CommandSettings::default() });
    let variables = vec![pair("API_KEY", "mine"), pair("BASH_ENV", "/dev/null")];
    let (output, _) =
        run_service(&f, &ServiceRequest { variables, ..shell_service("env; pwd") }).await;
    assert!(output.contains("API_KEY=mine") && output.contains("BASH_ENV=/dev/null"), "{output}");
    assert!(output.contains("PATH=/usr/bin:/bin") && !output.contains("treasure"), "{output}");
    let work = f.path("").canonicalize().unwrap();
    assert!(output.contains(&format!("\n{}\n", work.display())), "{output}");
    let row = serde_json::to_string(&audit_rows(&f)).unwrap();
    assert!(!row.contains("mine"), "{row}");
}

#[tokio::test]
async fn service_reaches_only_its_hosts() {
    let port = CountingServer::default().start();
    let f = session_with_rules(&["deny WebFetch(domain:c.test)"], &[&format!("b.test:{port}")]);
    let fetch = "for h in a b c d; do echo \"$h: $(curl -s -m 20 http://$h.test:$PORT/ | head -n1)\"; done; read";
    let request = ServiceRequest {
        network: ["a", "c"]
            .map(|h| HostPattern::parse(&format!("{h}.test:{port}")).unwrap())
            .into(),
        variables: vec![("PORT".to_owned(), port.to_string())],
        ..shell_service(fetch)
    };
    let mut service = start_service(&f, &request);
    let output = [(); 4].map(|()| read_line(&mut service));
    assert_eq!(output[..2], ["a: hello", "b: hello"]);
    assert!(output[2].contains("zero: no") && output[3].contains("zero: no"), "{output:?}");
    let notes = service.notes();
    assert!(
        notes.len() == 2 && notes[1].contains(&format!("d.test:{port} was refused")),
        "{notes:?}"
    );
    service.kill();
    service.wait().await;
    assert_eq!(service.notes(), notes);
    // The hosts of one service are not open to another.
    let (output, _) = run_service(&f, &ServiceRequest { network: Vec::new(), ..request }).await;
    assert!(!output.contains("a: hello") && output.contains("b: hello"), "{output}");
}

#[tokio::test]
async fn dropped_service_leaves_no_process() {
    let f = ToolFixture::one_shot();
    let mark = format!("zero-service-{}", std::process::id());
    let script = format!(
        "trap '' TERM; (setsid bash -c '(exec -a {mark} sleep 600) & (exec -a {mark} sleep 600) &' &); \
         until pgrep -f '^{mark}' >/dev/null; do :; done; echo up; sleep 600"
    );
    let mut service = start_service(&f, &shell_service(&script));
    assert_eq!(read_line(&mut service), "up");
    while count_processes_with_arg(&mark) < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(service);
    assert_eq!(count_processes_with_arg(&mark), 0);
    let row = &audit_rows(&f)[0];
    assert_eq!((&*row.status, row.is_call()), ("ok", false));
}

#[tokio::test]
async fn service_that_makes_git_run_code_is_killed() {
    let f = ToolFixture::one_shot();
    let script = "git init -q v; git -C v config core.fsmonitor 'touch x'; sleep 600";
    let (_, ended) = run_service(&f, &shell_service(script)).await;
    assert_ne!(ended.why, ExitCause::Finished, "{ended:?}");
    assert!(!f.path("v/.git/config").exists());
    assert!(f.path("v/.git/HEAD").exists());
}

#[tokio::test]
async fn service_can_exit_by_itself() {
    let f = ToolFixture::one_shot();
    let mut service = start_service(
        &f,
        &shell_service("trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done"),
    );
    assert_eq!(read_line(&mut service), "up");
    service.terminate();
    let ended = service.wait().await;
    assert_eq!((ended.exit_code, ended.why), (Some(3), ExitCause::Finished));
    assert_eq!(read_line(&mut service), "bye");
    let row = &audit_rows(&f)[0];
    assert_eq!((&*row.status, row.service.as_ref().unwrap().exit_code), ("ok", Some(3)));
}

#[tokio::test]
async fn command_rules_apply_to_service() {
    let f = session_with_rules(&["deny Bash(bash:*)", "ask Bash(true)"], &[]);
    let output = start_error(&f, &shell_service("true"), ErrorReason::Denied);
    assert!(output.starts_with("start `test`: denied by rule `Bash(bash:*)`"), "{output}");
    let words = vec!["true".to_owned()];
    run_service(&f, &ServiceRequest { words, ..shell_service("") }).await;
    let rows = audit_rows(&f);
    let seen: Vec<_> =
        rows.iter().map(|row| (&*row.status, &*row.decision.as_ref().unwrap().verdict)).collect();
    assert_eq!(seen, [("denied", "deny"), ("ok", "ask")]);
}

#[tokio::test]
async fn audit_row_records_service_end() {
    let f = ToolFixture::one_shot();
    let request = shell_service("exit 4 # --token s3cr3t-of-mine");
    let (_, ended) = run_service(&f, &request).await;
    assert_eq!(ended.exit_code, Some(4));
    let missing =
        ServiceRequest { words: vec!["zero-no-such-program".to_owned()], ..shell_service("") };
    start_error(&f, &missing, ErrorReason::Io);
    let rows = audit_rows(&f);
    let seen: Vec<_> = rows
        .iter()
        .map(|row| (row.title.as_deref(), &*row.status, row.message.as_deref().unwrap()))
        .collect();
    assert_eq!(seen[0], (Some("test"), "error", "it exited with code 4"));
    assert!(seen[1].1 == "error" && seen[1].2.contains("was not found"), "{seen:?}");
    assert!(rows.len() == 2 && rows.iter().all(|row| !row.is_call()));
    let input = rows[0].input.to_string();
    assert!(input.contains("exit 4") && !input.contains("s3cr3t"), "{input}");
}

#[tokio::test]
async fn service_limits_apply_and_invalid_ones_are_refused() {
    let f = ToolFixture::one_shot();
    let mut limits = CommandLimitChange::default();
    limits.set(CommandLimit::OpenFiles, "77").unwrap();
    let (output, _) =
        run_service(&f, &ServiceRequest { limits, ..shell_service("ulimit -n") }).await;
    assert_eq!(output, "77\n");
    for name in ["", "a/b", "..", &"x".repeat(65)] {
        let named = ServiceRequest { name: name.to_owned(), ..shell_service("true") };
        start_error(&f, &named, ErrorReason::SchemaViolation);
    }
    start_error(
        &f,
        &ServiceRequest { words: Vec::new(), ..shell_service("") },
        ErrorReason::SchemaViolation,
    );
    let bad = vec![("A=B".to_owned(), String::new())];
    start_error(
        &f,
        &ServiceRequest { variables: bad, ..shell_service("true") },
        ErrorReason::SchemaViolation,
    );
    let nowhere = ServiceRequest { folder: Some("nowhere".into()), ..shell_service("true") };
    start_error(&f, &nowhere, ErrorReason::BadPath);
    f.write_file("sub/file", "");
    let (output, _) =
        run_service(&f, &ServiceRequest { folder: Some("sub".into()), ..shell_service("ls") })
            .await;
    assert_eq!(output, "file\n");
}
