//! Tool hosts of editor sessions: local hosts with the folders, buffers and MCP servers of the editor.
//!
//! The user starts the editor and zero, so folders and servers that the editor names need no trust.
//! Rules, sandbox and audit log apply as for every other client.

pub(crate) mod client_tool;

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zero_acp::{SessionToolHost, ToolHostFactory, ToolHostOpenError, ToolHostRequest};
use zero_runtime::tool::BoxFuture;
use zero_runtime::tool_backend::FolderAccess;
use zero_runtime::tool_backend::{ToolBackendError, ToolBackendRequest};

use crate::AppContext;
use crate::error_chain::describe_error;
use crate::settings_adapter::is_about_settings;
use crate::tool_host_factory::{ConfiguredToolBackend, EditorExtras, LocalToolHostFactory};

/// Largest number of additional folders of a session.
const FOLDERS_MAX: usize = 64;
/// Largest number of MCP servers that an editor configures for a session.
const SERVERS_MAX: usize = 64;

/// Opens the tool hosts of editor sessions.
#[derive(Clone)]
pub(crate) struct EditorToolHostFactory {
    tool_host_factory: Arc<LocalToolHostFactory>,
}

impl EditorToolHostFactory {
    /// Uses the settings of each folder, or the given files instead.
    pub(crate) fn new(app: AppContext, settings_files: Vec<PathBuf>) -> Self {
        Self { tool_host_factory: Arc::new(LocalToolHostFactory::new(app, settings_files)) }
    }

    fn check_blocking(&self, cwd: &Path, additional: &[PathBuf]) -> Result<(), ToolBackendError> {
        let refused = |message: String| Err(ToolBackendError::Workspace(message));
        if additional.len() > FOLDERS_MAX {
            return refused(format!("more than {FOLDERS_MAX} additional folders; use fewer"));
        }
        for folder in std::iter::once(cwd).chain(additional.iter().map(PathBuf::as_path)) {
            if !folder.is_absolute() {
                let shown = folder.display();
                return refused(format!("`{shown}` is not an absolute path; use one"));
            }
        }
        let workspace = self.tool_host_factory.open_workspace(cwd, additional);
        let workspace =
            workspace.map_err(|error| ToolBackendError::Workspace(error.to_string()))?;
        if workspace.roots().any(|root| root == Path::new("/")) {
            return refused("`/` cannot be a workspace; use the folder of a project".to_owned());
        }
        Ok(())
    }

    /// Creates the shared host of these folders in advance.
    fn prewarm(&self, cwd: &Path, additional: &[PathBuf]) -> Option<impl Any + Send + use<>> {
        self.check_blocking(cwd, additional).ok()?;
        self.tool_host_factory.prewarm(cwd, additional).ok()?
    }

    fn open_blocking(&self, order: ToolHostRequest) -> Result<SessionToolHost, ToolHostOpenError> {
        let ToolHostRequest {
            session,
            cwd,
            additional,
            mode,
            approver,
            elicitor,
            editor,
            servers,
            tools,
            result_lifetime,
        } = order;
        self.check_blocking(&cwd, &additional)?;
        if servers.len() > SERVERS_MAX {
            let message = format!("more than {SERVERS_MAX} MCP servers; use fewer");
            return Err(ToolBackendError::Workspace(message).into());
        }
        let order = ToolBackendRequest {
            session,
            owner: None,
            cwd,
            folder_access: FolderAccess::Anywhere,
            mode,
            approver,
            elicitor,
            grants: Vec::new(),
            result_lifetime,
        };
        let opened = self
            .tool_host_factory
            .open_backend(order, EditorExtras { additional, editor, servers, tools });
        let ConfiguredToolBackend { backend, own_mode, .. } = opened.map_err(to_error)??;
        Ok(SessionToolHost { backend: Arc::new(backend), own_mode })
    }

    /// Runs work that reads files on a blocking thread.
    async fn run_blocking<T: Send + 'static, E: From<ToolBackendError> + Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        let factory = self.clone();
        let over = || ToolBackendError::Workspace("zero is shutting down".to_owned()).into();
        tokio::task::spawn_blocking(move || work(&factory)).await.unwrap_or_else(|_| Err(over()))
    }
}

impl ToolHostFactory for EditorToolHostFactory {
    fn check_folders<'a>(
        &'a self,
        cwd: &'a Path,
        additional: &'a [PathBuf],
    ) -> BoxFuture<'a, Result<(), ToolBackendError>> {
        let (cwd, additional) = (cwd.to_owned(), additional.to_vec());
        Box::pin(self.run_blocking(move |factory| factory.check_blocking(&cwd, &additional)))
    }

    fn prepare<'a>(
        &'a self,
        cwd: &'a Path,
        additional: &'a [PathBuf],
    ) -> BoxFuture<'a, Box<dyn Any + Send>> {
        let (cwd, additional) = (cwd.to_owned(), additional.to_vec());
        let made = self.run_blocking(move |factory| {
            Ok::<_, ToolBackendError>(factory.prewarm(&cwd, &additional))
        });
        Box::pin(async { Box::new(made.await.ok()) as _ })
    }

    fn resolve_folder<'a>(&'a self, folder: &'a Path) -> BoxFuture<'a, Option<PathBuf>> {
        let folder = folder.to_owned();
        let looked = self.run_blocking(move |factory| {
            let workspace = factory.tool_host_factory.open_workspace(&folder, &[]);
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
        Box::pin(self.run_blocking(move |factory| factory.open_blocking(order)))
    }
}

/// Error for the editor if a tool host could not be created.
fn to_error(error: anyhow::Error) -> ToolHostOpenError {
    let message = describe_error(&error);
    match is_about_settings(&error) {
        true => ToolHostOpenError::Settings(message),
        false => ToolBackendError::Workspace(message).into(),
    }
}

#[cfg(test)]
mod tests;
