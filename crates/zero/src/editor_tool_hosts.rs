//! What does the work of sessions in an editor: the workshop's hosts, with the folders, buffers and
//! servers that the editor brings.
//!
//! An editor belongs to the person who started it and us, so what it names needs no trust. Rules,
//! walls and the audit log are the same as for everybody else.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use zero_acp::{
    ServerStartup, SessionToolHost, ToolHostFactory, ToolHostOpenError, ToolHostRequest,
    UnavailableServer,
};
use zero_mcp::client::{McpServerSet, McpServerStatus, ServerPhase};
use zero_runtime::tool::BoxFuture;
use zero_session::folder_access::FolderAccess;
use zero_session::tool_backend::{ToolBackendError, ToolBackendRequest};

use crate::AppContext;
use crate::settings_adapter::is_about_settings;
use crate::tool_host_factory::{ConfiguredToolBackend, EditorExtras, LocalToolHostFactory};

/// Most folders of one session, besides the one it works in.
const FOLDERS_MAX: usize = 64;
/// Most servers that an editor names for one session.
const SERVERS_MAX: usize = 64;

/// Makes the tools of an editor's sessions.
#[derive(Clone)]
pub(crate) struct EditorToolHostFactory {
    workshop: Arc<LocalToolHostFactory>,
}

impl EditorToolHostFactory {
    /// A bench by the settings that hold in each folder, or by those of the files named instead.
    pub(crate) fn new(app: AppContext, settings_files: Vec<PathBuf>) -> Self {
        Self { workshop: Arc::new(LocalToolHostFactory::new(app, settings_files)) }
    }

    fn check_blocking(&self, cwd: &Path, additional: &[PathBuf]) -> Result<(), ToolBackendError> {
        let refused = |message: String| Err(ToolBackendError::Workspace(message));
        if additional.len() > FOLDERS_MAX {
            return refused(format!("more than {FOLDERS_MAX} further folders; name fewer"));
        }
        for folder in std::iter::once(cwd).chain(additional.iter().map(PathBuf::as_path)) {
            if !folder.is_absolute() {
                let shown = folder.display();
                return refused(format!("`{shown}` is not absolute; name the folder from `/` on"));
            }
        }
        let workspace = self.workshop.open_workspace(cwd, additional);
        let workspace =
            workspace.map_err(|error| ToolBackendError::Workspace(error.to_string()))?;
        if workspace.roots().any(|root| root == Path::new("/")) {
            return refused("`/` is the whole machine; name the folder of a project".to_owned());
        }
        Ok(())
    }

    /// The host of these folders, where sessions share one.
    fn prewarm(&self, cwd: &Path, additional: &[PathBuf]) -> Option<impl Any + Send + use<>> {
        self.check_blocking(cwd, additional).ok()?;
        self.workshop.prewarm(cwd, additional).ok()?
    }

    fn open_blocking(&self, order: ToolHostRequest) -> Result<SessionToolHost, ToolHostOpenError> {
        let ToolHostRequest { session, cwd, additional, mode, approver, elicitor, editor, servers } =
            order;
        self.check_blocking(&cwd, &additional)?;
        if servers.len() > SERVERS_MAX {
            let message = format!("more than {SERVERS_MAX} MCP servers; name fewer");
            return Err(ToolBackendError::Workspace(message).into());
        }
        let order = ToolBackendRequest {
            session,
            cwd,
            reach: FolderAccess::Anywhere,
            mode,
            approver,
            elicitor,
            standing: Vec::new(),
        };
        let opened =
            self.workshop.open_backend(order, EditorExtras { additional, editor, servers });
        let ConfiguredToolBackend { hands, own_mode, servers } = opened.map_err(to_error)??;
        Ok(SessionToolHost {
            hands: Arc::new(hands),
            own_mode,
            arrivals: Arc::new(McpServerArrivals(servers)),
        })
    }

    /// Does what may wait for a disk where nobody else waits.
    async fn run_blocking<T: Send + 'static, E: From<ToolBackendError> + Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let bench = self.clone();
        let over = || ToolBackendError::Workspace("zero is shutting down".to_owned()).into();
        tokio::task::spawn_blocking(move || work(&bench)).await.unwrap_or_else(|_| Err(over()))
    }
}

impl ToolHostFactory for EditorToolHostFactory {
    fn check_folders<'a>(
        &'a self,
        cwd: &'a Path,
        additional: &'a [PathBuf],
    ) -> BoxFuture<'a, Result<(), ToolBackendError>> {
        let (cwd, additional) = (cwd.to_owned(), additional.to_vec());
        Box::pin(self.run_blocking(move |bench| bench.check_blocking(&cwd, &additional)))
    }

    fn prepare<'a>(
        &'a self,
        cwd: &'a Path,
        additional: &'a [PathBuf],
    ) -> BoxFuture<'a, Box<dyn Any + Send>> {
        let (cwd, additional) = (cwd.to_owned(), additional.to_vec());
        let made = self
            .run_blocking(move |bench| Ok::<_, ToolBackendError>(bench.prewarm(&cwd, &additional)));
        Box::pin(async { Box::new(made.await.ok()) as _ })
    }

    fn resolve_folder<'a>(&'a self, folder: &'a Path) -> BoxFuture<'a, Option<PathBuf>> {
        let folder = folder.to_owned();
        let looked = self.run_blocking(move |bench| {
            let workspace = bench.workshop.open_workspace(&folder, &[]);
            let workspace =
                workspace.map_err(|error| ToolBackendError::Workspace(error.to_string()))?;
            Ok::<_, ToolBackendError>(workspace.cwd().to_owned())
        });
        Box::pin(async { looked.await.ok() })
    }

    fn open(
        &self,
        order: ToolHostRequest,
    ) -> BoxFuture<'_, Result<SessionToolHost, ToolHostOpenError>> {
        Box::pin(self.run_blocking(move |bench| bench.open_blocking(order)))
    }
}

/// What a bench that could not be made is to an editor.
fn to_error(error: anyhow::Error) -> ToolHostOpenError {
    let message = format!("{error:#}");
    match is_about_settings(&error) {
        true => ToolHostOpenError::Settings(message),
        false => ToolBackendError::Workspace(message).into(),
    }
}

/// The servers of a bench.
struct McpServerArrivals(Arc<McpServerSet>);

impl ServerStartup for McpServerArrivals {
    fn wait_for_servers(&self, most: Duration) -> BoxFuture<'_, Vec<UnavailableServer>> {
        let absent = |status: McpServerStatus| UnavailableServer {
            why: match status.state {
                ServerPhase::Unknown | ServerPhase::Starting => None,
                _ => Some(status.last_error.map_or_else(|| "it ended".to_owned(), |e| e.message)),
            },
            name: status.alias,
        };
        Box::pin(
            async move { self.0.wait_for_listings(most).await.into_iter().map(absent).collect() },
        )
    }
}

#[cfg(test)]
mod tests;
