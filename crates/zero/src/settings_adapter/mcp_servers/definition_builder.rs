//! Builds the definitions of MCP servers from settings that match the schema.

use std::path::{Path, PathBuf};

use zero_acp::SessionMcpServer;
use zero_core::loopback_host::is_loopback_host;
use zero_core::text_shortening::excerpt;
use zero_mcp::server_definition::{
    CALL_TIMEOUT_MAX, HttpEndpoint, LoginSettings, McpServerDefinition, ServerAlias, ServerLaunch,
    ServerTransport,
};
use zero_policy::{HostPattern, PolicyEngine, PolicyEngineConfig, Verdict};
use zero_settings::mcp_servers::server_setting::{
    McpCommandSetting, McpServerSetting, OauthSetting, TransportSetting,
};
use zero_settings::mcp_servers::variable_expansion::{expand, is_variable};
use zero_settings::{
    ParsedSetting, SettingsEntry, SettingsLayerKind, UserPaths, WorkspaceSettings,
};

use super::editor_servers::{EDITOR_SOURCE, NAME_CHARS_MAX, ServerAliases, from_editor};
use super::{COMMAND_ALIAS, ConfiguredMcpServers, UnavailableMcpServer};
use crate::environment::EnvironmentConfig;

/// Returns the MCP servers for the workspace whose first folder is `root`.
pub(crate) fn configured_servers(
    settings: &WorkspaceSettings,
    config: &EnvironmentConfig,
    root: &Path,
) -> ConfiguredMcpServers {
    configured_servers_with(settings, config, root, &[])
}

/// Like [`configured_servers`], with the servers that an editor adds for one session.
pub(crate) fn configured_servers_with(
    settings: &WorkspaceSettings,
    config: &EnvironmentConfig,
    root: &Path,
    named: &[SessionMcpServer],
) -> ConfiguredMcpServers {
    let mut servers = ConfiguredMcpServers::default();
    let paths = &config.user_paths();
    let builder =
        DefinitionBuilder { settings, config, paths, root, values: ValueSyntax::Expanded };
    for entry in settings.active_entries() {
        if let Some(alias) = entry.key.strip_prefix("mcpServers.") {
            builder.add_server(alias, entry, &mut servers);
        } else if entry.key == "mcp.mcpServerCommand" {
            builder.add_command(entry, &mut servers);
        }
    }
    DefinitionBuilder { values: ValueSyntax::Literal, ..builder }
        .add_editor_servers(named, &mut servers);
    disable_denied(settings, &mut servers);
    servers
}

/// Removes servers whose tools are all denied by a rule, so that they are not started.
fn disable_denied(settings: &WorkspaceSettings, servers: &mut ConfiguredMcpServers) {
    if servers.definitions.is_empty() {
        return;
    }
    let rules = settings.policy_rules();
    let engine = PolicyEngine::new(PolicyEngineConfig { rules, ..PolicyEngineConfig::default() });
    let ConfiguredMcpServers { definitions, denied, .. } = servers;
    definitions.retain(|server| {
        let rule = engine.rules().find_server_rule(Verdict::Deny, server.alias.as_str());
        denied.extend(rule.map(|rule| UnavailableMcpServer {
            alias: server.alias.to_string(),
            why: format!("denied by rule `{}` in {}", rule.text, rule.source),
            written_at: server.written_at.clone(),
        }));
        rule.is_none()
    });
}

struct DefinitionBuilder<'a> {
    settings: &'a WorkspaceSettings,
    config: &'a EnvironmentConfig,
    paths: &'a UserPaths,
    root: &'a Path,
    values: ValueSyntax,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueSyntax {
    /// References to environment variables are replaced.
    Expanded,
    /// Used as they are: they come from a program and may be secrets.
    Literal,
}

impl DefinitionBuilder<'_> {
    fn add_server(&self, alias: &str, entry: &SettingsEntry, servers: &mut ConfiguredMcpServers) {
        let problem = |why: String| UnavailableMcpServer {
            alias: alias.to_owned(),
            why,
            written_at: entry.location(),
        };
        let ParsedSetting::McpServer(setting) = &entry.parsed else { return };
        let setting = match setting {
            Ok(setting) => setting,
            Err(why) => {
                servers.problems.push(problem(why.clone()));
                return;
            }
        };
        if setting.is_disabled() {
            servers.turned_off.push(problem("disabled in settings".to_owned()));
            return;
        }
        for key in setting.self_trust_fields() {
            servers.ignored.push(problem(format!(
                "`{key}` allows nothing; write a rule such as `{alias}__*` in `permissions.allow`"
            )));
        }
        match self.build_definition(alias, setting, entry.layer, entry.location()) {
            Ok(definition) => servers.definitions.push(definition),
            Err(why) => servers.problems.push(problem(why)),
        }
    }

    /// Adds the servers of an editor. The user configured them there, so they need no trust; sandbox and
    /// policy apply to them as to all servers.
    fn add_editor_servers(&self, named: &[SessionMcpServer], servers: &mut ConfiguredMcpServers) {
        if named.is_empty() {
            return;
        }
        let rules = self.settings.policy_rules();
        let engine =
            PolicyEngine::new(PolicyEngineConfig { rules, ..PolicyEngineConfig::default() });
        let written = self.settings.active_entries().filter_map(|entry| {
            let is_command = entry.key == "mcp.mcpServerCommand";
            entry.key.strip_prefix("mcpServers.").or(is_command.then_some(COMMAND_ALIAS))
        });
        let mut names = ServerAliases::new(written);
        for server in named {
            let problem = |why: String| UnavailableMcpServer {
                alias: excerpt(&server.name, NAME_CHARS_MAX),
                why,
                written_at: EDITOR_SOURCE.to_owned(),
            };
            let (alias, preferred) = names.assign(&server.name);
            // A deny rule also applies if the server had to be renamed.
            if let Some(rule) = engine.rules().find_server_rule(Verdict::Deny, &preferred) {
                let why = format!("denied by rule `{}` in {}", rule.text, rule.source);
                servers.denied.push(problem(why));
                continue;
            }
            let definition = from_editor(server).and_then(|setting| {
                self.build_definition(
                    &alias,
                    &setting,
                    SettingsLayerKind::User,
                    EDITOR_SOURCE.to_owned(),
                )
            });
            match definition {
                Ok(definition) => servers.definitions.push(definition),
                Err(why) => servers.problems.push(problem(why)),
            }
        }
    }

    /// Adds the server of `mcp.mcpServerCommand`, unless `mcpServers` has a server of the same name.
    fn add_command(&self, entry: &SettingsEntry, servers: &mut ConfiguredMcpServers) {
        let problem = |why: &str| UnavailableMcpServer {
            alias: COMMAND_ALIAS.to_owned(),
            why: why.to_owned(),
            written_at: entry.location(),
        };
        let key = format!("mcpServers.{COMMAND_ALIAS}");
        if self.settings.active_entries().any(|entry| entry.key == key) {
            let why = "`mcp.mcpServerCommand` is not used, because `mcpServers` has a server of that name; rename it there";
            servers.problems.push(problem(why));
            return;
        }
        let ParsedSetting::CommandLine(words) = &entry.parsed else { return };
        let [command, args @ ..] = words.as_slice() else { return };
        let setting = McpServerSetting::default();
        let launch = ServerLaunch {
            command: command.clone(),
            args: args.to_vec(),
            variables: Vec::new(),
            folder: self.default_folder(entry.layer),
            network: Vec::new(),
            writable: Vec::new(),
        };
        let Ok(alias) = ServerAlias::new(COMMAND_ALIAS) else { return };
        let transport = ServerTransport::Command(launch);
        match assemble_definition(alias, transport, &setting, entry.location()) {
            Ok(definition) => servers.definitions.push(definition),
            Err(why) => servers.problems.push(problem(&why)),
        }
    }

    fn build_definition(
        &self,
        alias: &str,
        setting: &McpServerSetting,
        layer: SettingsLayerKind,
        written_at: String,
    ) -> Result<McpServerDefinition, String> {
        let alias = ServerAlias::new(alias).map_err(|error| error.to_string())?;
        let url = setting.url.as_ref().or(setting.http_url.as_ref());
        let transport = match (setting.transport, &setting.command, url) {
            (Some(TransportSetting::Sse), ..) => Err(
                "the transport `sse` is deprecated and not supported; most servers offer `http` at another URL: use that, with `\"type\": \"http\"`",
            ),
            (_, Some(_), Some(_)) => Err("it has a `command` and a `url`; keep only one"),
            (_, None, None) => Err("it has neither a `command` nor a `url`; add one"),
            (Some(TransportSetting::Http), Some(_), None) => {
                Err("its `type` is `http` and it has a `command`; write `url`, or leave `type` out")
            }
            (Some(TransportSetting::Stdio), None, Some(_)) => Err(
                "its `type` is `stdio` and it has a `url`; write `command`, or leave `type` out",
            ),
            (_, Some(command), None) => {
                Ok(ServerTransport::Command(self.build_launch(command, setting, layer)?))
            }
            (_, None, Some(url)) => Ok(ServerTransport::Http(self.build_endpoint(url, setting)?)),
        };
        assemble_definition(alias, transport.map_err(str::to_owned)?, setting, written_at)
    }

    fn build_launch(
        &self,
        command: &McpCommandSetting,
        setting: &McpServerSetting,
        layer: SettingsLayerKind,
    ) -> Result<ServerLaunch, String> {
        let mut variables: Vec<(&str, &str)> = Vec::new();
        let mut args: Vec<&String> = Vec::new();
        let program = match command {
            McpCommandSetting::Program(program) => program,
            McpCommandSetting::Parts(parts) => {
                args.extend(&parts.args);
                variables.extend(parts.env.as_pairs());
                &parts.path
            }
        };
        args.extend(&setting.args);
        variables.extend(setting.env.as_pairs());
        if !setting.headers.is_empty() {
            return Err("`headers` are for a `url`, and it has a `command`; use `env`".to_owned());
        }
        let command = self.expand_value("command", program)?;
        if command.is_empty() {
            return Err("its `command` is empty; name a program".to_owned());
        }
        Ok(ServerLaunch {
            command,
            args: args
                .into_iter()
                .map(|arg| self.expand_value("args", arg))
                .collect::<Result<_, _>>()?,
            variables: self.build_variables(&variables)?,
            folder: self.resolve_folder(setting.cwd.as_deref(), layer)?,
            network: setting
                .network
                .iter()
                .map(|host| HostPattern::parse(host).map_err(|error| format!("`network`: {error}")))
                .collect::<Result<_, _>>()?,
            writable: self.resolve_writable(&setting.writable)?,
        })
    }

    fn build_variables(&self, pairs: &[(&str, &str)]) -> Result<Vec<(String, String)>, String> {
        let mut variables: Vec<(String, String)> = Vec::new();
        for (name, value) in pairs {
            if !is_variable(name) {
                return Err(format!("`{name}` in `env` is not a valid variable name"));
            }
            if variables.iter().any(|(earlier, _)| earlier == name) {
                return Err(format!("`{name}` is in `env` twice; keep one of them"));
            }
            let value = self.expand_value(&format!("env.{name}"), value)?;
            variables.push(((*name).to_owned(), value));
        }
        Ok(variables)
    }

    fn resolve_folder(
        &self,
        cwd: Option<&str>,
        layer: SettingsLayerKind,
    ) -> Result<PathBuf, String> {
        let Some(cwd) = cwd else { return Ok(self.default_folder(layer)) };
        let below_home = if cwd == "~" { Some("") } else { cwd.strip_prefix("~/") };
        match (below_home, self.config.home()) {
            (Some(below), Some(home)) => Ok(home.join(below)),
            (Some(_), None) => {
                Err(format!("`cwd` is `{cwd}`, and your home folder is unknown; set HOME"))
            }
            (None, _) => Ok(zero_policy::path::normalize_lexically(&self.root.join(cwd))),
        }
    }

    /// Working folder of a server without `cwd`. Many programs load code from their working folder, so
    /// a server of the user, which may get secrets, does not start in a project folder.
    fn default_folder(&self, layer: SettingsLayerKind) -> PathBuf {
        match layer {
            SettingsLayerKind::Project | SettingsLayerKind::Local => self.root.to_owned(),
            SettingsLayerKind::User | SettingsLayerKind::Flag => {
                let home = self.config.home().filter(|home| home.is_dir());
                home.unwrap_or(Path::new("/")).to_owned()
            }
        }
    }

    fn resolve_writable(&self, folders: &[String]) -> Result<Vec<PathBuf>, String> {
        let folders = folders.iter();
        let open = |folder: &String| self.settings.resolve_writable(folder, self.paths, self.root);
        folders.map(open).collect()
    }

    fn build_endpoint(
        &self,
        url: &str,
        setting: &McpServerSetting,
    ) -> Result<HttpEndpoint, String> {
        let of_commands = [
            ("args", setting.args.is_empty()),
            ("env", setting.env.as_pairs().is_empty()),
            ("cwd", setting.cwd.is_none()),
            ("network", setting.network.is_empty()),
            ("writable", setting.writable.is_empty()),
        ];
        if let Some((name, _)) = of_commands.iter().find(|(_, is_absent)| !is_absent) {
            return Err(format!("`{name}` is for a `command`, and it has a `url`; leave it out"));
        }
        let text = self.expand_value("url", url)?;
        let url = match self.values {
            ValueSyntax::Expanded => format!(" `{url}`"),
            ValueSyntax::Literal => String::new(),
        };
        // An expanded URL may contain a secret, so the message shows it as written.
        let endpoint = HttpEndpoint {
            url: text.parse().map_err(|error| format!("its `url`{url} is invalid: {error}"))?,
            headers: self.build_headers(setting)?,
            login: self.build_login(&setting.oauth)?,
        };
        let is_local = endpoint.url.host_str().is_some_and(is_loopback_host);
        match endpoint.url.scheme() {
            "https" => {}
            "http" if is_local => {}
            "http" => {
                return Err(format!(
                    "its `url`{url} is `http`, which others on the network can read and change; use `https`"
                ));
            }
            other => return Err(format!("its `url` starts with `{other}:`; write `https://…`")),
        }
        if !endpoint.url.username().is_empty() || endpoint.url.password().is_some() {
            return Err(
                "its `url` contains a user name or password; use `headers` instead".to_owned()
            );
        }
        Ok(endpoint)
    }

    fn build_headers(&self, setting: &McpServerSetting) -> Result<Vec<(String, String)>, String> {
        let mut headers: Vec<(String, String)> = Vec::new();
        for (name, value) in &setting.headers {
            let is_token =
                |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            if name.is_empty() || !name.bytes().all(is_token) {
                return Err(format!(
                    "`{}` in `headers` is not a valid header name",
                    name.escape_debug()
                ));
            }
            if headers.iter().any(|(earlier, _)| earlier.eq_ignore_ascii_case(name)) {
                return Err(format!("`{name}` is in `headers` twice; keep one of them"));
            }
            let value = self.expand_value(&format!("headers.{name}"), value)?;
            if value.chars().any(|c| c.is_control() && c != '\t') {
                return Err(format!(
                    "the header `{name}` has a control character, such as a line break; remove it"
                ));
            }
            headers.push((name.clone(), value));
        }
        Ok(headers)
    }

    fn build_login(&self, oauth: &OauthSetting) -> Result<LoginSettings, String> {
        let expanded = |name: &str, text: &Option<String>| {
            text.as_ref().map(|text| self.expand_value(&format!("oauth.{name}"), text)).transpose()
        };
        Ok(LoginSettings {
            client_id: expanded("clientId", &oauth.client_id)?,
            client_secret: expanded("clientSecret", &oauth.client_secret)?,
            scopes: oauth.scopes.clone(),
            callback_port: oauth.callback_port,
        })
    }

    /// Replaces references to variables with their values in zero's environment.
    fn expand_value(&self, name: &str, text: &str) -> Result<String, String> {
        let expanded = match self.values {
            ValueSyntax::Literal => text.to_owned(),
            ValueSyntax::Expanded => expand(text, &|variable| self.config.variable(variable))
                .map_err(|why| format!("`{name}`: {why}"))?,
        };
        if expanded.contains('\0') {
            return Err(format!("`{name}` contains a NUL byte; remove it"));
        }
        Ok(expanded)
    }
}

fn assemble_definition(
    alias: ServerAlias,
    transport: ServerTransport,
    setting: &McpServerSetting,
    written_at: String,
) -> Result<McpServerDefinition, String> {
    let times = setting.timeouts()?;
    let longest = times.of_calls().max().unwrap_or_default();
    Ok(McpServerDefinition {
        alias,
        startup_timeout: times.startup.unwrap_or_else(|| transport.startup_timeout()),
        transport,
        call_timeout: times.call,
        call_timeout_max: times.longest.unwrap_or(CALL_TIMEOUT_MAX.max(longest)),
        tool_timeouts: times.of_tools,
        tools_allowed: setting.tools_allowed(),
        tools_denied: setting.tools_denied(),
        written_at,
    })
}
