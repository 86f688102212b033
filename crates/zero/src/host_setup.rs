//! Creates tool hosts from the command line and the settings.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use zero_core::{HostLimits, ToolError, ToolName};
use zero_lsp::{FolderTrustCheck, LanguageServerLimits, LanguageServersConfig};
use zero_policy::PermissionMode;
use zero_runtime::dialect::{BUILTIN, DialectTool};
use zero_runtime::notes::NoteStoreSet;
use zero_runtime::skills::{self, UserSkillFolder};
use zero_runtime::{
    Dialect, DialectName, SecretMaskConfig, ToolHost, ToolHostConfig, ToolRegistry,
};
use zero_sandbox::{StateDir, Workspace, machine_resources};
use zero_settings::TrustStore;
use zero_settings::WorkspaceSettings;

use crate::AppContext;
use crate::environment::EnvironmentConfig;
use crate::exit::UsageError;
use crate::folder_trust::check_trusted;
use crate::settings_adapter::network::extra_roots;
use crate::settings_adapter::web::search_tool;

impl AppContext {
    /// Tools in a dialect: the built-in ones in their fixed order, then the known external ones. Starts
    /// nothing. A tool requested by name (`asks_for`) is included even if it would be deferred.
    pub(crate) fn offered_tools(
        &self,
        dialect: DialectName,
        asks_for: Option<&str>,
    ) -> anyhow::Result<Vec<DialectTool>> {
        Ok(self.tools_in_dialect(&*self.registry(asks_for)?, dialect))
    }

    /// Tools of a registry in a dialect, in the built-in order.
    pub(crate) fn tools_in_dialect(
        &self,
        registry: &ToolRegistry,
        dialect: DialectName,
    ) -> Vec<DialectTool> {
        let mut offered = Dialect::new(dialect).list_tools(registry);
        zero_mcp::server::sort_tools(&mut offered, &self.tool_order());
        offered
    }

    /// Every known tool. Starts nothing.
    pub(crate) fn registry(&self, asks_for: Option<&str>) -> anyhow::Result<Arc<ToolRegistry>> {
        let registry = match self.known_tools() {
            Ok(registry) => registry,
            Err(error) => {
                let what = "tools of MCP servers and commands are not included";
                self.terminal.print_note(&format!("{what}: {error:#}"));
                Arc::new(self.builtin_registry()?)
            }
        };
        if let Some(Ok(name)) = asks_for.map(ToolName::new) {
            registry.reveal(&[name]);
        }
        Ok(registry)
    }

    /// The built-in tools.
    pub(crate) fn builtin_registry(&self) -> anyhow::Result<ToolRegistry> {
        let registry = ToolRegistry::default();
        registry
            .add(BUILTIN, self.tools.to_vec())
            .context("could not register the built-in tools")?;
        registry.add_missing(&zero_tools::missing_tools());
        Ok(registry)
    }

    /// Names of the built-in tools, in their fixed order.
    pub(crate) fn tool_order(&self) -> Vec<ToolName> {
        self.tools.iter().map(|tool| tool.spec().name.clone()).collect()
    }

    /// Every tool known in the current folder.
    fn known_tools(&self) -> anyhow::Result<Arc<ToolRegistry>> {
        let workspace = self.config.open_workspace(&[])?;
        let settings = self.load_settings(&workspace, &[])?;
        let host = self.idle_host(workspace, &settings)?;
        self.external_tools(&host, &settings, None).register_known();
        Ok(Arc::clone(host.registry()))
    }

    /// Settings of a workspace, or of the given files instead.
    pub(crate) fn load_settings(
        &self,
        workspace: &Workspace,
        files: &[PathBuf],
    ) -> anyhow::Result<WorkspaceSettings> {
        if files.is_empty() {
            let trust = TrustStore::load(&self.config.state_dir()?).map_err(UsageError::from)?;
            let settings =
                WorkspaceSettings::load(&self.config.user_paths(), workspace.cwd(), &trust);
            return Ok(settings.map_err(UsageError::from)?);
        }
        self.load_settings_files_at(files, workspace.cwd())
    }

    /// Settings of the given files, for the current folder.
    pub(crate) fn load_settings_files(
        &self,
        files: &[PathBuf],
    ) -> anyhow::Result<WorkspaceSettings> {
        self.load_settings_files_at(files, self.config.cwd()?)
    }

    fn load_settings_files_at(
        &self,
        files: &[PathBuf],
        root: &Path,
    ) -> anyhow::Result<WorkspaceSettings> {
        let cwd = self.config.cwd()?;
        let files: Vec<PathBuf> = files.iter().map(|file| cwd.join(file)).collect();
        Ok(WorkspaceSettings::load_files(&self.config.user_paths(), &files, root)
            .map_err(UsageError::from)?)
    }

    /// Configuration of a host with the rules, limits and command settings of these settings.
    pub(crate) fn host_config(
        &self,
        workspace: Workspace,
        settings: &WorkspaceSettings,
        mode: Option<PermissionMode>,
    ) -> anyhow::Result<ToolHostConfig> {
        let policy = self.build_policy(&workspace, settings, mode)?;
        let commands = self.command_settings(settings, workspace.cwd());
        let mut config = ToolHostConfig::new(workspace, self.config.state_dir()?);
        config.limits = HostLimits::for_machine(machine_resources::read());
        settings.apply_limits(&mut config.limits);
        config.policy = policy;
        config.commands = commands;
        config.secrets = self.secret_mask_config(settings);
        config.file_backup = settings.file_backup();
        config.started_calls = self.config.dry_run_calls();
        Ok(config)
    }

    /// Where a host finds the secret values that it masks.
    pub(crate) fn secret_mask_config(&self, settings: &WorkspaceSettings) -> SecretMaskConfig {
        let files = settings.masked_files();
        let variables = match files.is_empty() {
            true => Vec::new(),
            false => self.config.command_settings().environment,
        };
        let home = self.config.home().map(|home| home.join(".gitconfig"));
        let shared = self.config.config_home().map(|folder| folder.join("git/config"));
        let git_settings = home.into_iter().chain(shared).chain(["/etc/gitconfig".into()]);
        let store = settings.remembers_secrets().then(|| self.config.state_dir().ok()).flatten();
        SecretMaskConfig { files, variables, git_settings: git_settings.collect(), store }
    }

    /// Host for commands that manage external tools and call none.
    pub(crate) fn idle_host(
        &self,
        workspace: Workspace,
        settings: &WorkspaceSettings,
    ) -> anyhow::Result<Arc<ToolHost>> {
        let config = self.host_config(workspace, settings, None)?;
        Ok(Arc::new(self.build_host(config, settings)?))
    }

    /// Enables language servers on a host, for trusted folders. They start on first use.
    pub(crate) fn add_language_servers(
        &self,
        host: &ToolHost,
        settings: &WorkspaceSettings,
        trust: FolderTrustCheck,
    ) {
        let config = LanguageServersConfig {
            services: host.services(),
            definitions: settings.lsp_servers(self.config.home()).definitions,
            search_path: self.config.search_path().to_vec(),
            roots: host.workspace().roots().map(Path::to_owned).collect(),
            trust,
            cache: self.config.cache_dir().map(|cache| cache.child("lsp")),
            bounds: LanguageServerLimits::default(),
        };
        zero_tools::lsp::add_language_servers(host, config);
    }

    /// Check that a folder is trusted at the time of the call.
    fn trust_check(&self, state: &StateDir) -> FolderTrustCheck {
        let (config, state) = (self.config.clone(), state.clone());
        Arc::new(move |folder| check_trusted(&config, &state, folder))
    }

    /// Host with the built-in tools that the settings enable.
    pub(crate) fn build_host(
        &self,
        config: ToolHostConfig,
        settings: &WorkspaceSettings,
    ) -> anyhow::Result<ToolHost> {
        let trust = self.trust_check(&config.state);
        self.build_host_with_trust(config, settings, trust)
    }

    /// The same, with another check whether a folder is trusted.
    pub(crate) fn build_host_with_trust(
        &self,
        config: ToolHostConfig,
        settings: &WorkspaceSettings,
        trust: FolderTrustCheck,
    ) -> anyhow::Result<ToolHost> {
        let hooks = settings.hooks(self.config.home());
        let extra_roots = extra_roots(settings, &self.config)?;
        let host = ToolHost::new(ToolHostConfig { hooks, extra_roots, ..config });
        let mut tools = self.tools.to_vec();
        if let Some(search) = search_tool(settings, &self.config) {
            let name = &search.spec().name;
            tools.iter_mut().filter(|tool| tool.spec().name == *name).for_each(|tool| {
                *tool = Arc::clone(&search);
            });
        }
        host.registry().add(BUILTIN, tools).context("could not register the built-in tools")?;
        host.registry().add_missing(&zero_tools::missing_tools());
        self.add_language_servers(&host, settings, trust);
        host.insert_extension(Arc::new(self.note_store(host.state().clone())));
        host.insert_extension(Arc::new(self.user_skill_folder()));
        Ok(host)
    }

    /// The user's skills, beside their settings.
    pub(crate) fn user_skill_folder(&self) -> UserSkillFolder {
        let settings = self.config.settings_file().ok();
        let folder = settings.and_then(|file| file.parent().map(Path::to_owned));
        UserSkillFolder(folder.map(|folder| folder.join(skills::USER_FOLDER)))
    }

    /// Note stores; the user's notes are beside their settings, if there is such a folder.
    pub(crate) fn note_store(&self, state: StateDir) -> NoteStoreSet {
        let settings = self.config.settings_file().ok();
        NoteStoreSet::new(settings.and_then(|file| file.parent().map(Path::to_owned)), state)
    }
}

impl EnvironmentConfig {
    /// Opens the given folders, or the current one.
    pub(crate) fn open_workspace(&self, folders: &[PathBuf]) -> Result<Workspace, UsageError> {
        let cwd = self.cwd()?;
        let folders = match folders {
            [] => vec![cwd.to_owned()],
            folders => folders.iter().map(|folder| cwd.join(folder)).collect(),
        };
        let home = self.home().map(Path::to_owned);
        Workspace::open(&folders, home).map_err(|error: ToolError| UsageError(error.message))
    }
}

/// Runtime with one thread per processor, for servers with many clients.
pub(crate) fn multi_thread_runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("could not start the async runtime")
}

/// Single-threaded runtime for everything else.
pub(crate) fn small_runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("could not start the async runtime")
}
