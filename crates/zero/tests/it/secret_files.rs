//! Somebody with a token for writing goes after what the gateway itself knows, and after folders
//! that are none of their business.

#![expect(clippy::disallowed_methods, reason = "tests set up real files")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use zero_wire::chat::{
    AgentWait, AgentWaitParams, AgentWaitResult, AgentWaitStatus, ChatAbort, ChatAbortParams,
    ChatSend, ChatSendParams,
};
use zero_wire::client::{
    ConnectOptions, GatewayClient, GatewayClientError, GatewayCredentials, GatewayTarget,
};
use zero_wire::handshake::{ClientId, ClientInfo, ClientMode};
use zero_wire::tools::{ToolsAttach, ToolsAttachParams};
use zero_wire::zero_sessions::{
    SessionInfo, SessionKeyParams, SessionOpenParams, ZeroSessionsOpen, ZeroSessionsShow,
};

use crate::config::{USER_FILE, write_file};
use crate::gateway_process::GatewayProcess;
use crate::test_program::TestProgram;

const ADMIN: &str = "admin-token-0123456789abcdef";
const PASSWORD: &str = "password-0123456789abcdef";
const ALICE: &str = "alice-token-0123456789abcdef";
const KEY: &str = "model-key-0123456789abcdef";
const REMOTE: &str = "remote-token-0123456789abcdef";

/// Longer than any run here takes, also where the folder is the root of a full disk.
const RUN_MAX: Duration = Duration::from_secs(120);

/// A gateway with all the secrets that one can have, and a client with a token for writing.
struct SecretsFixture {
    zero: TestProgram,
    base: PathBuf,
    gateway: GatewayProcess,
    client: GatewayClient,
    runtime: tokio::runtime::Runtime,
}

impl SecretsFixture {
    /// `folders` are those that clients may work in, beneath the gateway's own.
    fn start(folders: &Value) -> Self {
        let zero = TestProgram::outside_tmp();
        let base = zero.folder().canonicalize().unwrap();
        for (file, text) in [
            ("proj/README.md", "needle"),
            ("keys/adm.tok", ADMIN),
            ("keys/password", PASSWORD),
            ("home/keys/alice", ALICE),
            ("home/keys/model", KEY),
        ] {
            write_file(&zero, file, text);
        }
        let mut settings = json!({
            "permissions": {"allow": ["Read(//**)", "Bash(*)", "Write", "Edit", "Grep", "Glob"]},
            "models": {"m": {"api": "chat", "model": "m", "baseUrl": "http://127.0.0.1:9/v1", "apiKey": {"file": "~/keys/model"}}},
            "gateway": {
                "tokens": {"alice": {"secret": {"file": "~/keys/alice"}, "scopes": ["write", "approvals"]}},
                "remote": {"url": "ws://127.0.0.1:9", "token": REMOTE},
            },
        });
        if !folders.is_null() {
            settings["gateway"]["folders"] = folders.clone();
        }
        write_file(&zero, USER_FILE, settings.to_string());
        symlink(base.join("keys/adm.tok"), base.join("proj/notes.txt")).unwrap();
        symlink("/", base.join("proj/all")).unwrap();
        symlink(&base, base.join("proj/up")).unwrap();
        let args =
            ["--cwd", "proj", "--token-file", "keys/adm.tok", "--password-file", "keys/password"];
        let gateway = GatewayProcess::start_with(&zero, &args);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        let client = runtime.block_on(connect(&gateway.url, ALICE));
        Self { zero, base, gateway, client, runtime }
    }

    fn open_session(
        &self,
        key: &str,
        cwd: &Path,
        mode: &str,
    ) -> Result<SessionInfo, GatewayClientError> {
        let wanted = SessionOpenParams {
            session_key: Some(direct_key(key)),
            cwd: Some(cwd.display().to_string()),
            mode: Some(mode.to_owned()),
            ..SessionOpenParams::default()
        };
        self.runtime.block_on(self.client.request::<ZeroSessionsOpen>(wanted))
    }

    /// Says something to a session, and gives all that comes of it.
    fn send_prompt(&self, client: &GatewayClient, key: &str, message: &str) -> String {
        let run_id = format!("run-{:x}", fastrand::u64(..));
        let send = ChatSendParams {
            session_key: direct_key(key),
            message: message.to_owned(),
            idempotency_key: run_id.clone(),
            ..ChatSendParams::default()
        };
        self.runtime.block_on(async {
            if let Err(error) = client.request::<ChatSend>(send).await {
                return error.to_string();
            }
            let waited = self.wait_for_end_or_question(client, key, run_id).await;
            // A run that waits for an answer would hold up the next one.
            let abort =
                ChatAbortParams { session_key: direct_key(key), ..ChatAbortParams::default() };
            client.request::<ChatAbort>(abort).await.unwrap();
            serde_json::to_string(&waited).unwrap()
        })
    }

    /// Returns the state of a run that has ended or asks something.
    async fn wait_for_end_or_question(
        &self,
        client: &GatewayClient,
        key: &str,
        run_id: String,
    ) -> AgentWaitResult {
        let deadline = Instant::now() + RUN_MAX;
        loop {
            let wait = AgentWaitParams { run_id: run_id.clone(), timeout_ms: Some(100) };
            let state = client.request::<AgentWait>(wait).await.unwrap();
            let session = SessionKeyParams { session_key: direct_key(key) };
            let session = client.request::<ZeroSessionsShow>(session).await.unwrap();
            if state.status != AgentWaitStatus::Timeout || session.open_questions > 0 {
                return state;
            }
            assert!(Instant::now() < deadline, "run {run_id} of {key} neither ends nor asks");
        }
    }

    /// Asks for a file by each tool, and by commands.
    fn check_unreachable(&self, key: &str, file: &str) {
        self.check_unreachable_by_tools(key, file);
        let folder = Path::new(file).parent().unwrap().display().to_string();
        for command in [
            format!("cat {file}"),
            format!("f={file}; cat $f"),
            format!("cat {folder}/*"),
            format!("grep -r 0123456789 {folder}"),
            format!("ln {file} hard; cat hard"),
            format!("mv {folder} moved; cat moved/*"),
        ] {
            self.check_keeps_secrets(key, &format!("/bash {command}"));
        }
        self.check_unchanged(file);
    }

    fn check_unreachable_by_tools(&self, key: &str, file: &str) {
        let call = |tool: &str, input: Value| format!("/{tool} {input}");
        let folder = Path::new(file).parent().unwrap().display().to_string();
        for message in [
            call("Read", json!({"file_path": file})),
            call("ReadMany", json!({"paths": [file]})),
            call(
                "Grep",
                json!({"pattern": "token|password|key", "path": file, "output_mode": "content"}),
            ),
            call(
                "Grep",
                json!({"pattern": "token-|password-|key-", "path": folder, "output_mode": "content"}),
            ),
            call("Edit", json!({"file_path": file, "old_string": "0123456789", "new_string": "x"})),
            call("Write", json!({"file_path": file, "content": "x"})),
        ] {
            self.check_keeps_secrets(key, &message);
        }
        self.check_unchanged(file);
    }

    fn check_keeps_secrets(&self, key: &str, message: &str) {
        let seen = self.send_prompt(&self.client, key, message);
        for secret in [ADMIN, PASSWORD, ALICE, KEY, REMOTE] {
            assert!(!seen.contains(secret), "{message}: {seen}");
        }
    }

    fn check_unchanged(&self, file: &str) {
        assert!(std::fs::read_to_string(file).unwrap().contains("0123456789"), "{file}");
    }
}

/// A session without a model: what is said is done.
fn direct_key(key: &str) -> String {
    format!("agent:direct:{key}")
}

async fn connect(url: &str, token: &str) -> GatewayClient {
    let client = ClientInfo {
        id: ClientId::Cli,
        display_name: None,
        version: "1".to_owned(),
        build_id: None,
        platform: "linux".to_owned(),
        device_family: None,
        model_identifier: None,
        time_zone: None,
        mode: ClientMode::Cli,
        instance_id: None,
    };
    let auth = GatewayCredentials::token(token.to_owned());
    let options = ConnectOptions { auth, ..ConnectOptions::new(client) };
    let target = GatewayTarget::Url(url.parse().unwrap());
    GatewayClient::connect(target, options).await.unwrap().0
}

/// The folders that can be opened are those of the whole machine here: that they are limited must
/// not be what keeps the secrets.
#[test]
fn client_never_reads_gateway_secrets() {
    let rig = SecretsFixture::start(&json!(["/"]));
    let home = rig.base.join("home");
    let state = home.join(".local/state/zero");
    let at = |name: &str| rig.base.join(name).display().to_string();
    rig.open_session("proj", &rig.base.join("proj"), "auto").unwrap();
    assert!(
        rig.send_prompt(&rig.client, "proj", "/Read {\"file_path\": \"README.md\"}")
            .contains("needle")
    );
    rig.open_session("base", &rig.base, "auto").unwrap();
    rig.open_session("keys", &rig.base.join("keys"), "auto").unwrap();
    for key in ["proj", "base", "keys"] {
        rig.check_unreachable(key, &at("keys/adm.tok"));
    }
    for file in ["keys/password", "home/keys/alice", "home/keys/model", USER_FILE] {
        rig.check_unreachable("base", &at(file));
    }
    rig.check_unreachable("proj", &at("proj/notes.txt"));
    rig.check_unreachable("proj", &at("proj/up/keys/adm.tok"));
    // No command runs there, and each call first looks for secrets on the whole disk.
    rig.open_session("root", Path::new("/"), "auto").unwrap();
    rig.check_unreachable_by_tools("root", &at("keys/adm.tok"));
    rig.check_keeps_secrets("root", &format!("/bash cat {}", at("keys/adm.tok")));
    rig.open_session("home", &home, "auto").unwrap();
    let store = format!("/Read {}", json!({"file_path": state.join("sessions.sqlite")}));
    assert!(
        rig.send_prompt(&rig.client, "home", &store).contains("no rule or approval allows access")
    );
    let environment = "/Read {\"file_path\": \"/proc/self/environ\"}";
    assert!(
        rig.send_prompt(&rig.client, "root", environment)
            .contains("no rule or approval allows access")
    );
    let _ = (&rig.zero, &rig.gateway);
}

#[test]
fn client_works_only_in_configured_folders() {
    let rig = SecretsFixture::start(&Value::Null);
    let proj = rig.base.join("proj");
    std::fs::create_dir(proj.join("sub")).unwrap();
    let is_refused = |cwd: &Path| {
        let refused = rig.open_session("x", cwd, "ask").unwrap_err().to_string();
        let names = refused.contains(&cwd.display().to_string());
        assert!(names && refused.contains("gateway.folders"), "{refused}");
    };
    for outside in
        ["", "keys", "home", "proj/..", "proj/sub/../..", "proj/all", "proj/up", "proj/all/etc"]
    {
        is_refused(&rig.base.join(outside));
    }
    is_refused(Path::new("/"));
    is_refused(Path::new("/etc"));
    for inside in ["proj", "proj/sub", "proj/sub/..", "proj/up/proj"] {
        rig.open_session("x", &rig.base.join(inside), "ask").unwrap();
    }
    // What it was allowed to choose becomes another folder.
    rig.open_session("x", &proj.join("sub"), "ask").unwrap();
    std::fs::remove_dir(proj.join("sub")).unwrap();
    symlink(&rig.base, proj.join("sub")).unwrap();
    let seen = rig.send_prompt(&rig.client, "x", "/read keys/password");
    assert!(seen.contains("gateway.folders"), "{seen}");
    // Whoever may do everything may work anywhere, which lets nobody else in there.
    let admin = rig.runtime.block_on(connect(&rig.gateway.url, ADMIN));
    let there = SessionOpenParams {
        session_key: Some(direct_key("x")),
        cwd: Some(rig.base.display().to_string()),
        ..SessionOpenParams::default()
    };
    rig.runtime.block_on(admin.request::<ZeroSessionsOpen>(there)).unwrap();
    assert!(rig.send_prompt(&admin, "x", "/read proj/README.md").contains("needle"));
    let seen = rig.send_prompt(&rig.client, "x", "/read proj/README.md");
    assert!(seen.contains("gateway.folders"), "{seen}");
    // A client that hosts the tools has folders of its own; the gateway never works there instead.
    let attach = ToolsAttachParams {
        session_key: direct_key("y"),
        host: "laptop".to_owned(),
        ..ToolsAttachParams::default()
    };
    rig.open_session("y", &proj, "ask").unwrap();
    rig.runtime.block_on(rig.client.request::<ToolsAttach>(attach)).unwrap();
    rig.open_session("y", &rig.base, "ask").unwrap();
    let other = rig.runtime.block_on(connect(&rig.gateway.url, ALICE));
    rig.runtime.block_on(rig.client.close());
    let seen = rig.send_prompt(&other, "y", "/read proj/README.md");
    assert!(!seen.contains("needle"), "{seen}");
}
