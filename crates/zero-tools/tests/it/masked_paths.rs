//! Files hidden from commands, and zero's own folders: attacked where nothing of it exists yet,
//! where variables move it elsewhere, and by users who may change the modes of their own folders.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use zero_core::{SessionId, ToolCall, ToolError};
use zero_policy::rule::{PolicyRule, RuleOwner, RuleSource};
use zero_policy::{PermissionMode, PolicyEngine, PolicyEngineConfig, Verdict};
use zero_runtime::tool_host::new_call_id;
use zero_runtime::{
    CallOutcome, CommandPolicy, CommandSettings, DeniedFiles, Dialect, DialectName, Policy,
    PolicyDecision, PolicyRequest, RiskPolicy, RulePolicy, ToolHost, ToolHostConfig,
    ToolHostSession,
};
use zero_sandbox::spawner::Spawner;
use zero_sandbox::{StateDir, Workspace};

use crate::fixture::AlwaysApprove;

/// Environment variable for a test that root runs again as another user: the folder to work in.
const AS_NOBODY_VARIABLE: &str = "ZERO_TEST_AS_NOBODY";

/// Allows every command, so that only the sandbox enforces the deny rules.
struct AllowAllPolicy(RulePolicy);

impl Policy for AllowAllPolicy {
    fn decide(&self, request: PolicyRequest<'_>) -> PolicyDecision {
        RiskPolicy.decide(request)
    }
}

impl CommandPolicy for AllowAllPolicy {
    fn denied_files(&self, workspace: &Workspace, most: usize) -> DeniedFiles {
        self.0.denied_files(workspace, most)
    }
}

/// A host with rules, whose folders are where a test wants them.
pub(crate) struct MaskFixture {
    pub(crate) base: PathBuf,
    host: ToolHost,
    session: ToolHostSession,
}

/// The setup of a fixture. All paths are relative to the base.
pub(crate) struct MaskSetup<'a> {
    pub(crate) root: &'a str,
    pub(crate) home: Option<&'a str>,
    pub(crate) state: &'a str,
    pub(crate) own: &'a [&'a str],
    pub(crate) writable: &'a [&'a str],
    pub(crate) readable: &'a [&'a str],
    pub(crate) variables: &'a [(&'a str, &'a str)],
    pub(crate) deny: &'a [&'a str],
}

impl Default for MaskSetup<'_> {
    fn default() -> Self {
        Self {
            root: "work",
            home: None,
            state: "state",
            own: &[],
            writable: &[],
            readable: &[],
            variables: &[],
            deny: &[],
        }
    }
}

impl MaskSetup<'_> {
    pub(crate) fn open(self, base: &Path) -> MaskFixture {
        let base = base.canonicalize().unwrap();
        let at = |name: &&str| base.join(name);
        let root = base.join(self.root);
        let workspace = Workspace::open(std::slice::from_ref(&root), None).unwrap();
        let home = self.home.map(|home| base.join(home));
        let rules = self.deny.iter().map(|text| {
            let source = RuleSource { name: "test".to_owned(), line: None, owner: RuleOwner::User };
            PolicyRule::parse(text, Verdict::Deny, source).unwrap()
        });
        let engine = PolicyEngine::new(PolicyEngineConfig {
            rules: rules.collect(),
            mode: PermissionMode::Ask,
            roots: vec![root],
            home: home.clone(),
            ..PolicyEngineConfig::default()
        });
        let path = std::env::var("PATH").unwrap();
        let variables = self.variables.iter().map(|(name, value)| {
            ((*name).to_owned(), base.join(value).to_str().unwrap().to_owned())
        });
        let commands = CommandSettings {
            home,
            own: self.own.iter().map(at).collect(),
            writable: self.writable.iter().map(at).collect(),
            readable: self.readable.iter().map(at).collect(),
            environment: variables.chain([("PATH".to_owned(), path)]).collect(),
            ..CommandSettings::default()
        };
        let host = ToolHost::new(ToolHostConfig {
            approver: Some(Arc::new(AlwaysApprove)),
            policy: Arc::new(AllowAllPolicy(RulePolicy::new(engine, Vec::new()))),
            commands,
            ..ToolHostConfig::new(workspace, StateDir::new(base.join(self.state)))
        });
        host.registry().add("builtin", zero_tools::builtin_tools()).unwrap();
        let session = host.open_session(SessionId::new("test").unwrap()).unwrap();
        MaskFixture { base, host, session }
    }
}

impl MaskFixture {
    async fn call_bash(&self, command: &str) -> Result<CallOutcome, ToolError> {
        let (id, tool, input) = (new_call_id(), "Bash".to_owned(), json!({"command": command}));
        let call = ToolCall { id, session: None, tool, input, timeout: None };
        let dialect = Dialect::new(DialectName::Canonical);
        self.host.call(&self.session, &dialect, call, &CancellationToken::new()).await.outcome
    }

    pub(crate) async fn run_structured(&self, command: &str) -> Value {
        let outcome = self.call_bash(command).await;
        let outcome = outcome.unwrap_or_else(|error| panic!("{command}: {error}"));
        crate::fixture::command_facts(outcome)
    }

    pub(crate) async fn expect_failure(&self, command: &str) {
        let facts = self.run_structured(command).await;
        assert_ne!(facts["exit_code"], 0, "{command}: {facts}");
    }

    pub(crate) async fn expect_success(&self, command: &str) -> String {
        let facts = self.run_structured(command).await;
        assert_eq!(facts["exit_code"], 0, "{command}: {facts}");
        facts["stdout"].as_str().unwrap().to_owned()
    }
}

pub(crate) fn temp_dir() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("zero-it-").tempdir_in("/var/tmp").unwrap()
}

pub(crate) fn write_secret(path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, "secret").unwrap();
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Returns the folder to work in as a user to whom file modes apply. Root runs the test again as
/// `nobody` instead.
fn rerun_as_ordinary_user(test: &str) -> Option<(Option<tempfile::TempDir>, PathBuf)> {
    if let Some(folder) = std::env::var_os(AS_NOBODY_VARIABLE) {
        return Some((None, folder.into()));
    }
    let temp = temp_dir();
    let base = temp.path().to_owned();
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        return Some((Some(temp), base));
    }
    let exe = base.join("test-program");
    std::fs::copy(std::env::current_exe().unwrap(), &exe).unwrap();
    let work = base.join("theirs");
    std::fs::create_dir(&work).unwrap();
    for path in [&base, &exe, &work] {
        set_mode(path, 0o755);
    }
    std::os::unix::fs::chown(&work, Some(65534), Some(65534)).unwrap();
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&exe)
        .args(["--exact", test])
        .env(AS_NOBODY_VARIABLE, &work)
        .current_dir(&work)
        .output()
        .expect("`setpriv` is needed; install the package util-linux");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && stdout.contains("1 passed"), "{stdout}");
    None
}

#[tokio::test]
async fn own_folders_cannot_be_created_by_commands() {
    // The workspace, the home folder, the settings folder and folders that settings open.
    let cases: [(&str, &str, &[&str]); 5] = [
        ("home", ".config/zero", &[]),
        ("home/.config", ".config/zero", &[]),
        ("", ".config/zero", &[]),
        ("home", "conf/zero", &[]),
        ("work", ".config/zero", &["home"]),
    ];
    for (root, own, writable) in cases {
        let temp = temp_dir();
        let base = temp.path();
        for folder in ["home", "work", root] {
            std::fs::create_dir_all(base.join(folder)).unwrap();
        }
        let own = format!("home/{own}");
        let setup =
            MaskSetup { root, home: Some("home"), own: &[&own], writable, ..MaskSetup::default() };
        let place = setup.open(base);
        let own = place.base.join(&own);
        let home = place.base.join("home");
        let (folder, parent, home) =
            (own.display(), own.parent().unwrap().display(), home.display());
        let attacks = [
            format!("mkdir -p {folder}; echo '{{}}' > {folder}/settings.json"),
            format!("mkdir -p x/zero; echo '{{}}' > x/zero/settings.json; mv x {parent}"),
            format!("ln -s /var/tmp {folder}"),
            format!("rmdir {folder} {parent}; mkdir -p {folder}"),
            format!("mkdir -p {home}/.local/state/zero/x"),
        ];
        for attack in attacks {
            place.run_structured(&attack).await;
            // Placeholders stay a moment longer, for the next command.
            Spawner::release_shared_prewarmed();
            assert!(!own.exists(), "{root}, {writable:?}: {attack}");
            assert!(!place.base.join("home/.local").exists() || root == "home/.config", "{attack}");
        }
    }
}

#[tokio::test]
async fn existing_settings_stay_and_are_unreadable() {
    let temp = temp_dir();
    let own = temp.path().join("home/.config/zero/settings.json");
    write_secret(&own);
    let place =
        MaskSetup { root: "home", home: Some("home"), ..MaskSetup::default() }.open(temp.path());
    for attack in [
        "cat .config/zero/settings.json",
        "echo x > .config/zero/settings.json",
        "mv .config x",
        "mv .config/zero x",
        "rm -rf .config/zero",
    ] {
        place.expect_failure(attack).await;
    }
    place.expect_success("mkdir .config/app && echo x > .config/app/file").await;
    assert_eq!(std::fs::read_to_string(own).unwrap(), "secret");
}

#[tokio::test]
async fn workspace_inside_own_folder_is_refused() {
    let temp = temp_dir();
    std::fs::create_dir_all(temp.path().join("conf/zero/x")).unwrap();
    let place = MaskSetup { root: "conf/zero/x", own: &["conf/zero"], ..MaskSetup::default() }
        .open(temp.path());
    let error = place.call_bash("true").await.unwrap_err();
    assert!(error.message.contains("is in zero's own folder"), "{error}");
}

#[tokio::test]
async fn secrets_created_by_commands_are_quarantined() {
    for (root, prefix) in [("home", ""), ("", "home/"), ("home/.config", "../")] {
        let temp = temp_dir();
        std::fs::create_dir_all(temp.path().join("home/.config")).unwrap();
        let place =
            MaskSetup { root, home: Some("home"), ..MaskSetup::default() }.open(temp.path());
        for name in [".aws", ".gnupg", ".kube", ".ssh", ".config/gh"] {
            let facts = place
                .run_structured(&format!("mkdir {prefix}{name} && echo x > {prefix}{name}/config"))
                .await;
            let made = facts["exit_code"] == 0;
            assert_eq!(made, facts["quarantined"][0]["path"].is_string(), "{root} {name}: {facts}");
            assert!(!place.base.join("home").join(name).exists(), "{root}: {name}");
        }
    }
}

#[tokio::test]
async fn secrets_relocated_by_variables_are_masked() {
    let temp = temp_dir();
    let cases = [
        ("CARGO_HOME", "cargo", "cargo/credentials.toml"),
        ("XDG_CONFIG_HOME", "conf", "conf/gh/hosts.yml"),
        ("GNUPGHOME", "pgp", "pgp/key"),
        ("AWS_SHARED_CREDENTIALS_FILE", "aws", "aws"),
        ("KUBECONFIG", "kube", "kube"),
        ("DOCKER_CONFIG", "docker", "docker/config.json"),
        ("NPM_CONFIG_USERCONFIG", "work/npm", "work/npm"),
        ("NETRC", "netrc", "netrc"),
        ("PGPASSFILE", "pg", "pg"),
        ("CLOUDSDK_CONFIG", "cloud", "cloud/db"),
    ];
    for (_, _, file) in cases {
        write_secret(&temp.path().join(file));
    }
    write_secret(&temp.path().join("cargo/plain"));
    std::fs::create_dir_all(temp.path().join("work")).unwrap();
    let variables: Vec<(&str, &str)> = cases.iter().map(|(n, v, _)| (*n, *v)).collect();
    let place = MaskSetup { variables: &variables, ..MaskSetup::default() }.open(temp.path());
    for (_, _, file) in cases {
        place.expect_failure(&format!("cat {}", place.base.join(file).display())).await;
    }
    assert_eq!(place.expect_success("cat ../cargo/plain").await, "secret");
}

#[tokio::test]
async fn unreadable_folder_does_not_hide_files_from_rules() {
    let test = "masked_paths::unreadable_folder_does_not_hide_files_from_rules";
    let Some((_temp, base)) = rerun_as_ordinary_user(test) else { return };
    let setup = || MaskSetup { deny: &["Read(.env)"], home: Some("work"), ..MaskSetup::default() };
    for name in ["work/sub/deep/.env", "work/.config/gh/hosts.yml", "work/plain/file"] {
        write_secret(&base.join(name));
    }
    let place = setup().open(&base);
    let cases = [
        ("sub/deep", "sub/deep/.env"),
        ("sub", "sub/deep/.env"),
        (".config", ".config/gh/hosts.yml"),
    ];
    for (folder, file) in cases {
        for mode in ["000", "100", "300", "400", "600"] {
            let real = place.base.join("work").join(folder);
            place.expect_success(&format!("chmod {mode} {folder}")).await;
            assert_eq!(
                real.metadata().unwrap().permissions().mode() & 0o777,
                u32::from_str_radix(mode, 8).unwrap()
            );
            let facts = place
                .run_structured(&format!("chmod 755 {folder}; chmod 755 {folder}; cat {file}"))
                .await;
            assert!(
                !facts["stdout"].as_str().unwrap().contains("secret"),
                "{mode} {file}: {facts}"
            );
            place.expect_failure(&format!("mv {folder} moved && chmod 755 moved")).await;
            assert_eq!(place.expect_success("cat plain/file").await, "secret", "the rest is there");
            set_mode(&real, 0o755);
        }
    }
    // The whole workspace cannot be hidden.
    set_mode(&base.join("work"), 0o300);
    let error = place.call_bash("true").await.unwrap_err();
    set_mode(&base.join("work"), 0o755);
    assert!(error.message.contains("cannot be listed"), "{error}");
}

#[tokio::test]
async fn read_only_workspace_is_usable() {
    let test = "masked_paths::read_only_workspace_is_usable";
    let Some((_temp, base)) = rerun_as_ordinary_user(test) else { return };
    write_secret(&base.join("work/file"));
    set_mode(&base.join("work"), 0o555);
    let place = MaskSetup::default().open(&base);
    assert_eq!(place.expect_success("ls -A; cat file").await, "file\nsecret");
    place.expect_failure("chmod 755 . && mkdir .zero").await;
    set_mode(&base.join("work"), 0o755);
    place.expect_success("echo x > new").await;
}

#[tokio::test]
async fn read_only_mode_does_not_prevent_quarantine() {
    let test = "masked_paths::read_only_mode_does_not_prevent_quarantine";
    let Some((_temp, base)) = rerun_as_ordinary_user(test) else { return };
    write_secret(&base.join("work/file"));
    let place = MaskSetup::default().open(&base);
    for attack in [
        "mkdir .vscode && echo x > .vscode/tasks.json && chmod 555 .vscode",
        "echo x > .envrc && chmod 555 .",
        "mkdir .idea && echo x > .idea/x && chmod 555 .idea .",
    ] {
        place.expect_success(attack).await;
        for name in [".vscode", ".envrc", ".idea"] {
            assert!(!base.join("work").join(name).exists(), "{attack}");
        }
        set_mode(&base.join("work"), 0o755);
    }
}

#[tokio::test]
async fn unreadable_repository_stays_unchanged() {
    let test = "masked_paths::unreadable_repository_stays_unchanged";
    let Some((_temp, base)) = rerun_as_ordinary_user(test) else { return };
    write_secret(&base.join("work/file"));
    let git = base.join("work/.git");
    for folder in ["objects", "refs", "info"] {
        std::fs::create_dir_all(git.join(folder)).unwrap();
    }
    std::fs::write(git.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    let place = MaskSetup::default().open(&base);
    for (closed, modes) in
        [(&git, [0o000, 0o555, 0o400]), (&git.join("info"), [0o000, 0o555, 0o600])]
    {
        for mode in modes {
            set_mode(closed, mode);
            assert_eq!(place.expect_success("cat file && touch new").await, "secret", "{mode:o}");
            place.run_structured("chmod 755 .git; chmod 755 .git/info; mkdir .git/hooks; echo x > .git/hooks/pre-commit; echo x > .git/info/attributes").await;
            set_mode(closed, 0o755);
            Spawner::release_shared_prewarmed();
            assert!(!git.join("hooks").exists(), "{mode:o}");
            assert!(!git.join("info/attributes").exists(), "{mode:o}");
        }
    }
}

#[tokio::test]
async fn too_many_masked_files_error_suggests_fix() {
    let temp = temp_dir();
    for number in 0..2_100 {
        write_secret(&temp.path().join(format!("work/keys/{number}.pem")));
    }
    let deny = ["Read(*.pem)", "Read(.env)"];
    let place = MaskSetup { deny: &deny, ..MaskSetup::default() }.open(temp.path());
    let error = place.call_bash("true").await.unwrap_err();
    assert!(
        error.message.contains("2 rules") && error.message.contains("Read(secrets/**)"),
        "{error}"
    );
    // The advice in the error works.
    let place = MaskSetup { deny: &["Read(keys/**)"], ..MaskSetup::default() }.open(temp.path());
    place.expect_failure("cat keys/1.pem").await;
}
