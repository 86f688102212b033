//! Tool host in a temporary folder with a local web server, for trial calls.
//!
//! The conformance check and the tool reference run their calls here, through the complete path. An
//! approver allows everything, and questions get the first option. The web server on loopback also
//! acts as a search engine and is allowed by settings, so that no network and no user files are used.

mod local_web;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use zero_core::{CallId, ErrorReason, SessionId, ToolCall, ToolError};
use zero_runtime::notes::NoteStoreSet;
use zero_runtime::skills::UserSkillFolder;
use zero_runtime::tool::BoxFuture;
use zero_runtime::{
    CallOutcome, Dialect, DialectName, Elicitation, ElicitationAnswer, ElicitationMode, Elicitor,
    ToolHost, ToolHostConfig, ToolHostSession,
};
use zero_sandbox::{StateDir, Workspace};
use zero_settings::WorkspaceSettings;
use zero_tools::examples::{self, BackgroundJobSetup, JobReadiness, ToolExample, WEB_URL};

use self::local_web::LocalWebServer;
pub(crate) use self::local_web::TrialPage;
use crate::AppContext;
use crate::approval::AutoApprover;

/// Time limit for a job to end by itself.
const JOB_TIME_MAX: Duration = Duration::from_secs(60);
/// The id of the job in the inputs of examples.
const EXAMPLE_JOB: &str = "job_1";
/// Time between two checks of a job.
const JOB_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Files of a workspace: path and content.
pub(crate) type WorkspaceFiles = [(&'static str, &'static str)];

/// A host in a temporary workspace.
pub(crate) struct TrialHost {
    folder: TempDir,
    files: &'static WorkspaceFiles,
    host: ToolHost,
    web: LocalWebServer,
}

/// A call under a name of a dialect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DialectCall<'a> {
    pub(crate) dialect: DialectName,
    pub(crate) name: &'a str,
}

impl<'a> DialectCall<'a> {
    pub(crate) fn canonical(name: &'a str) -> Self {
        Self { dialect: DialectName::Canonical, name }
    }
}

impl TrialHost {
    /// Creates a workspace with these files and a web server with these pages; without pages, there is
    /// no web access. Needs a Tokio runtime.
    pub(crate) async fn new(
        app: &AppContext,
        files: &'static WorkspaceFiles,
        pages: Vec<TrialPage>,
    ) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("could not create a temporary folder")?;
        let is_open = !pages.is_empty();
        let web = LocalWebServer::start(pages).await.context("could not listen on 127.0.0.1")?;
        write_workspace_files(folder.path(), files)
            .context("could not fill the temporary workspace")?;
        let settings = match is_open {
            true => app.load_settings_files(&[write_settings(folder.path(), web.address())?])?,
            false => WorkspaceSettings::empty(),
        };
        let workspace = Workspace::open(&[workspace_path(folder.path())], None)?;
        let policy = app.build_policy(&workspace, &settings, None)?;
        let commands = app.command_settings(&settings, workspace.cwd());
        let mut config = ToolHostConfig::new(workspace, StateDir::new(folder.path().join("state")));
        config.policy = policy;
        config.commands = commands;
        config.approver = Some(Arc::new(AutoApprover { name: "trial" }));
        config.elicitor = Some(Arc::new(FirstOptionElicitor));
        let host = app.build_host(config, &settings)?;
        // All files in this folder are zero's own, so it is trusted.
        app.add_language_servers(&host, &settings, Arc::new(|_| Ok(())));
        // Trial calls must not see the user's notes and skills.
        host.insert_extension(Arc::new(NoteStoreSet::new(None, host.state().clone())));
        host.insert_extension(Arc::new(UserSkillFolder::default()));
        Ok(Self { folder, files, host, web })
    }

    /// Pages for the example files, as a web server in their folder would serve them.
    pub(crate) fn example_pages() -> Vec<TrialPage> {
        let page = |(path, body): &(&str, &str)| {
            let content_type = match path.rsplit_once('.') {
                Some((_, "html")) => "text/html",
                Some((_, "txt" | "c")) => "text/plain",
                _ => "application/json",
            };
            TrialPage { path: format!("/{path}"), content_type, body: (*body).to_owned() }
        };
        examples::FILES.iter().map(page).collect()
    }

    pub(crate) fn host(&self) -> &ToolHost {
        &self.host
    }

    /// Folder of the workspace.
    pub(crate) fn root(&self) -> PathBuf {
        workspace_path(self.folder.path())
    }

    /// Adds files to the workspace.
    pub(crate) fn write_files(&self, files: &WorkspaceFiles) -> std::io::Result<()> {
        write_workspace_files(self.folder.path(), files)
    }

    /// Removes a file that a call may have created.
    #[expect(clippy::disallowed_methods, reason = "a temporary folder of our own")]
    pub(crate) fn remove_file(&self, path: &str) {
        // A missing file is fine.
        let _ = std::fs::remove_file(self.root().join(path));
    }

    /// Restores the workspace files and parses an input: `{root}` becomes the workspace, and the
    /// address of the examples' web server becomes that of the local one.
    pub(crate) fn prepare_input(&self, text: &str) -> Result<Value, ToolError> {
        let failed = |why: String| ToolError::failed(ErrorReason::Io, why);
        write_workspace_files(self.folder.path(), self.files)
            .map_err(|error| failed(format!("could not write the workspace files: {error}")))?;
        let mut input = serde_json::from_str(text).map_err(|error| failed(error.to_string()))?;
        let root = self.root().to_string_lossy().into_owned();
        replace_placeholders(&mut input, &[("{root}", &root), (WEB_URL, self.web.address())]);
        Ok(input)
    }

    /// Replaces the temporary folder and address in an output with those of the examples.
    #[cfg(all(test, feature = "lsp", feature = "web"))]
    pub(crate) fn normalize_output(&self, output: &str) -> String {
        let root = self.root().canonicalize().unwrap_or_else(|_| self.root());
        output.replace(&*root.to_string_lossy(), "/shop").replace(self.web.address(), WEB_URL)
    }

    /// Runs one call in its own session.
    pub(crate) async fn call(
        &self,
        named: DialectCall<'_>,
        input: Value,
    ) -> Result<CallOutcome, ToolError> {
        self.call_in_session(
            &self.host.open_one_shot_session()?,
            named,
            input,
            zero_runtime::tool_host::new_call_id(),
        )
        .await
    }

    /// Runs the example of a tool under one of its names, after the calls it depends on.
    pub(crate) async fn run_example(
        &self,
        example: &ToolExample,
        named: DialectCall<'_>,
        input: Value,
        id: CallId,
    ) -> Result<CallOutcome, ToolError> {
        let Some(earlier) = &example.earlier else {
            return self
                .call_in_session(&self.host.open_one_shot_session()?, named, input, id)
                .await;
        };
        let session = SessionId::new(format!("trial-{:016x}", fastrand::u64(..)))
            .map_err(|error| ToolError::failed(ErrorReason::Io, error.to_string()))?;
        let session = self.host.open_session(session)?;
        let job = self.start_job(&session, earlier).await?;
        let input = fill_job_id(input, &job);
        self.call_in_session(&session, named, input, id).await
    }

    /// Starts the job of an example, and returns its id.
    async fn start_job(
        &self,
        session: &ToolHostSession,
        earlier: &BackgroundJobSetup,
    ) -> Result<String, ToolError> {
        let (input, id) =
            (self.prepare_input(earlier.input)?, zero_runtime::tool_host::new_call_id());
        let bash = DialectCall::canonical("Bash");
        let started = self.call_in_session(session, bash, input, id).await?.result.structured;
        if earlier.then == JobReadiness::WhenEnded {
            self.wait_for_job(session).await?;
        }
        let job = started.get("job_id").and_then(Value::as_str);
        Ok(job.unwrap_or(EXAMPLE_JOB).to_owned())
    }

    /// Waits until the first job of a session has ended.
    async fn wait_for_job(&self, session: &ToolHostSession) -> Result<(), ToolError> {
        let listed = async || {
            let (jobs, id) =
                (DialectCall::canonical("BashOutput"), zero_runtime::tool_host::new_call_id());
            let listed =
                self.call_in_session(session, jobs, json!({}), id).await?.result.structured;
            let status = listed.pointer("/jobs/0/status").and_then(Value::as_str);
            Ok::<_, ToolError>(status == Some("exited"))
        };
        let started = Instant::now();
        while !listed().await? {
            if started.elapsed() > JOB_TIME_MAX {
                let message = format!("the job did not end within {JOB_TIME_MAX:?}");
                return Err(ToolError::failed(ErrorReason::Deadline, message));
            }
            tokio::time::sleep(JOB_POLL_INTERVAL).await;
        }
        Ok(())
    }

    async fn call_in_session(
        &self,
        session: &ToolHostSession,
        named: DialectCall<'_>,
        input: Value,
        id: CallId,
    ) -> Result<CallOutcome, ToolError> {
        let call =
            ToolCall { id, session: None, tool: named.name.to_owned(), input, timeout: None };
        let dialect = Dialect::new(named.dialect);
        self.host.call(session, &dialect, call, &CancellationToken::new()).await.outcome
    }
}

/// The input of an example with the id that its job has here: ids are unique among all jobs of a user.
fn fill_job_id(mut input: Value, job: &str) -> Value {
    for value in input.as_object_mut().into_iter().flat_map(|fields| fields.values_mut()) {
        if value == EXAMPLE_JOB {
            *value = Value::String(job.to_owned());
        }
    }
    input
}

/// Answers every question with the first option.
struct FirstOptionElicitor;

impl Elicitor for FirstOptionElicitor {
    fn elicit<'a>(&'a self, elicitation: &'a Elicitation) -> BoxFuture<'a, ElicitationAnswer> {
        let first = |field: &Value| field.pointer("/oneOf/0/const").cloned();
        let answer = match &elicitation.mode {
            ElicitationMode::Form(schema) => {
                let fields = schema.get("properties").and_then(Value::as_object);
                let chosen = |(name, field): (&String, &Value)| Some((name.clone(), first(field)?));
                let values = fields.into_iter().flatten().filter_map(chosen).collect();
                ElicitationAnswer::Accept(values)
            }
            ElicitationMode::Url(_) => ElicitationAnswer::Decline,
        };
        Box::pin(std::future::ready(answer))
    }
}

fn replace_placeholders(value: &mut Value, replaced: &[(&str, &str)]) {
    match value {
        Value::String(text) => {
            for (from, to) in replaced {
                *text = text.replace(from, to);
            }
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| replace_placeholders(item, replaced))
        }
        Value::Object(fields) => {
            fields.values_mut().for_each(|field| replace_placeholders(field, replaced))
        }
        _ => {}
    }
}

fn workspace_path(folder: &Path) -> PathBuf {
    folder.join("workspace")
}

/// Writes the files, replacing earlier content.
#[expect(
    clippy::disallowed_methods,
    reason = "a temporary folder of our own, before any tool sees it"
)]
fn write_workspace_files(folder: &Path, files: &WorkspaceFiles) -> std::io::Result<()> {
    for (path, content) in files {
        let path = workspace_path(folder).join(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, content)?;
    }
    Ok(())
}

/// Writes the settings of the examples, with the address of the local web server.
#[expect(clippy::disallowed_methods, reason = "a temporary folder of our own")]
fn write_settings(folder: &Path, web: &str) -> anyhow::Result<PathBuf> {
    let written = examples::FILES.iter().find(|(name, _)| *name == examples::SETTINGS);
    let (name, text) = written.context("the examples have no settings")?;
    let path = folder.join(name);
    std::fs::write(&path, text.replace(WEB_URL, web)).context("could not write settings")?;
    Ok(path)
}
