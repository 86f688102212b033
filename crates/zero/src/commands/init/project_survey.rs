//! What the files of a project say about its languages, tools and other agents.

use std::path::Path;

use serde_json::{Value, json};
use zero_core::text_shortening::one_line;
use zero_exec::project_registry_hosts;
use zero_policy::PackageManager;
use zero_sandbox::path_survey;

use super::project_rules::{ProjectCommand, STACKS, Stack};

/// Largest file of a project that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1_000_000;
/// Most names of a folder that are looked at.
const NAMES_MAX: usize = 10_000;
/// Longest name of a project, in characters.
const NAME_LEN_MAX: usize = 80;
/// Most files of other agents that are named one by one.
const OTHER_FILES_MAX: usize = 20;

/// Files with instructions that zero reads by itself.
const INSTRUCTIONS: [&str; 4] =
    ["AGENTS.md", "CLAUDE.md", "GEMINI.md", ".github/copilot-instructions.md"];
/// Names of files that usually contain secrets.
const SECRET_FILES: [&str; 9] = [
    ".env",
    ".env.local",
    ".env.development",
    ".env.development.local",
    ".env.production",
    ".env.production.local",
    ".env.staging",
    "credentials.json",
    "secrets.json",
];
/// Files of other agents, and the command that takes them over.
const OTHER_AGENTS: [(&str, Option<&str>, &[&str]); 5] = [
    (
        "Claude Code",
        Some("zero import claude --project"),
        &[".claude/settings.json", ".mcp.json", ".claude/commands"],
    ),
    ("Codex", Some("zero import codex --project"), &[".codex/config.toml", ".codex/rules"]),
    (
        "opencode",
        Some("zero import opencode --project"),
        &["opencode.json", "opencode.jsonc", ".opencode"],
    ),
    (
        "Gemini CLI",
        Some("zero import gemini --project"),
        &[".gemini/settings.json", ".gemini/commands", ".gemini/policies"],
    ),
    ("Cursor", None, &[".cursorrules", ".cursor/rules"]),
];
/// Lock files, their package manager, and what its configuration is called here.
const PACKAGE_MANAGERS: [(&str, &str, Option<PackageManager>); 15] = [
    ("package-lock.json", "npm", Some(PackageManager::Npm)),
    ("pnpm-lock.yaml", "pnpm", Some(PackageManager::Npm)),
    ("yarn.lock", "Yarn", Some(PackageManager::Npm)),
    ("bun.lock", "Bun", Some(PackageManager::Npm)),
    ("bun.lockb", "Bun", Some(PackageManager::Npm)),
    ("Cargo.toml", "Cargo", Some(PackageManager::Cargo)),
    ("uv.lock", "uv", Some(PackageManager::Uv)),
    ("poetry.lock", "Poetry", Some(PackageManager::Pip)),
    ("Pipfile.lock", "Pipenv", Some(PackageManager::Pip)),
    ("requirements.txt", "pip", Some(PackageManager::Pip)),
    ("go.mod", "Go modules", Some(PackageManager::Go)),
    ("pom.xml", "Maven", Some(PackageManager::Maven)),
    ("Gemfile", "Bundler", Some(PackageManager::Gem)),
    ("composer.json", "Composer", None),
    ("mix.exs", "Hex", None),
];

/// Settings of another agent in the project.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OtherAgent {
    pub(super) program: &'static str,
    pub(super) files: Vec<String>,
    /// The command that takes them over, if zero can.
    pub(super) import: Option<&'static str>,
}

/// What is known of a project.
#[derive(Debug, Default)]
pub(super) struct ProjectSurvey {
    pub(super) name: String,
    pub(super) languages: Vec<String>,
    pub(super) build_tools: Vec<String>,
    pub(super) package_managers: Vec<String>,
    /// Hosts of the package registries that files of the project name.
    pub(super) hosts: Vec<String>,
    pub(super) commands: Vec<ProjectCommand>,
    /// Commands that publish something.
    pub(super) publishes: Vec<String>,
    /// Whether builds usually take long.
    pub(super) is_slow: bool,
    pub(super) secret_files: Vec<String>,
    pub(super) other_agents: Vec<OtherAgent>,
    /// The file with instructions for agents that the project has.
    pub(super) instructions: Option<String>,
}

impl ProjectSurvey {
    pub(super) fn read(root: &Path) -> Self {
        let project = ProjectFiles::list(root);
        let name = root.file_name().map(|name| name.to_string_lossy().into_owned());
        let mut survey =
            Self { name: one_line(&name.unwrap_or_default(), NAME_LEN_MAX), ..Self::default() };
        for stack in STACKS.iter().filter(|stack| stack.is_in(&project)) {
            survey.add_stack(stack, &project);
        }
        let mut managers = Vec::new();
        for (file, name, manager) in PACKAGE_MANAGERS {
            if project.has(file) {
                push_once(&mut survey.package_managers, name);
                managers.extend(manager);
            }
        }
        if project.has("package.json") && !managers.contains(&PackageManager::Npm) {
            push_once(&mut survey.package_managers, "npm");
            managers.push(PackageManager::Npm);
        }
        if project.has("pyproject.toml") && !managers.contains(&PackageManager::Uv) {
            managers.push(PackageManager::Uv);
        }
        for manager in managers {
            for host in project_registry_hosts(manager, root) {
                push_once(&mut survey.hosts, &host.to_string());
            }
        }
        let there = SECRET_FILES.iter().filter(|name| project.has(name));
        survey.secret_files = there.map(|name| (*name).to_owned()).collect();
        survey.other_agents =
            OTHER_AGENTS.iter().filter_map(|agent| find_other_agent(root, agent)).collect();
        let instructions = INSTRUCTIONS.iter().find(|name| path_survey::exists(&root.join(name)));
        survey.instructions = instructions.map(|name| (*name).to_owned());
        survey
    }

    fn add_stack(&mut self, stack: &Stack, project: &ProjectFiles<'_>) {
        if !stack.language.is_empty() {
            push_once(&mut self.languages, stack.language);
        }
        let found = (stack.commands)(project);
        if let Some(tool) = found.build_tool {
            push_once(&mut self.build_tools, tool);
        }
        for command in found.commands {
            if !self.commands.contains(&command) {
                self.commands.push(command);
            }
        }
        found.publishes.iter().for_each(|command| push_once(&mut self.publishes, command));
        self.is_slow |= stack.is_slow;
    }

    pub(super) fn to_json(&self) -> Value {
        let others = self.other_agents.iter().map(
            |agent| json!({"program": agent.program, "files": agent.files, "import": agent.import}),
        );
        json!({
            "name": self.name,
            "languages": self.languages,
            "buildTools": self.build_tools,
            "packageManagers": self.package_managers,
            "registryHosts": self.hosts,
            "secretFiles": self.secret_files,
            "otherAgents": others.collect::<Vec<_>>(),
            "instructions": self.instructions,
        })
    }
}

/// The names in the folder of a project, and the texts of its files.
pub(super) struct ProjectFiles<'a> {
    root: &'a Path,
    names: Vec<String>,
}

impl<'a> ProjectFiles<'a> {
    fn list(root: &'a Path) -> Self {
        let entries = path_survey::list_sorted(root, NAMES_MAX).unwrap_or_default();
        let files = entries.into_iter().filter(|entry| !entry.is_link);
        let names = files.filter_map(|entry| Some(entry.path.file_name()?.to_str()?.to_owned()));
        Self { root, names: names.collect() }
    }

    /// Whether the folder has a name. `*.x` stands for any name that ends so.
    pub(super) fn has(&self, name: &str) -> bool {
        match name.strip_prefix('*') {
            Some(end) => self.names.iter().any(|there| there.ends_with(end)),
            None => self.names.iter().any(|there| there == name),
        }
    }

    /// The text of a file; empty if there is none, or it is too large.
    pub(super) fn text(&self, name: &str) -> String {
        let bytes = match self.has(name) {
            true => {
                path_survey::read_small_file_beneath(self.root, Path::new(name), FILE_BYTES_MAX)
            }
            false => None,
        };
        String::from_utf8(bytes.unwrap_or_default()).unwrap_or_default()
    }
}

fn find_other_agent(
    root: &Path,
    (program, import, names): &(&'static str, Option<&'static str>, &[&str]),
) -> Option<OtherAgent> {
    let there = names.iter().filter(|name| path_survey::exists(&root.join(name)));
    let mut files: Vec<String> = there.map(|name| (*name).to_owned()).collect();
    // The rules of Cursor are read by people and agents, so each is named.
    if import.is_none() {
        let rules = path_survey::list_sorted(&root.join(".cursor/rules"), NAMES_MAX);
        let rules = rules.unwrap_or_default();
        let names = rules.iter().filter_map(|entry| entry.path.file_name()?.to_str());
        let names = names.filter(|name| name.ends_with(".mdc") || name.ends_with(".md"));
        let named: Vec<String> =
            names.take(OTHER_FILES_MAX).map(|name| format!(".cursor/rules/{name}")).collect();
        if !named.is_empty() {
            files.retain(|file| file != ".cursor/rules");
            files.extend(named);
        }
    }
    (!files.is_empty()).then_some(OtherAgent { program, files, import: *import })
}

fn push_once(list: &mut Vec<String>, item: &str) {
    if !list.iter().any(|there| there == item) {
        list.push(item.to_owned());
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;

    fn survey(files: &[(&str, &str)]) -> ProjectSurvey {
        let temp = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = temp.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        ProjectSurvey::read(temp.path())
    }

    #[track_caller]
    fn check(files: &[(&str, &str)], commands: &[&str]) {
        let found: Vec<String> =
            survey(files).commands.into_iter().map(|command| command.rule).collect();
        assert_eq!(found, commands, "{files:?}");
    }

    #[test]
    fn commands_follow_files_of_project() {
        check(&[], &[]);
        check(
            &[("Cargo.toml", "")],
            &["cargo build", "cargo check", "cargo test", "cargo clippy", "cargo fmt"],
        );
        check(&[("go.mod", "")], &["go build", "go test", "go vet"]);
        let scripts = r#"{"scripts": {"test": "x", "build": "x", "test:unit": "x", "deploy": "x", "build;rm": "x", "release:build": "x"}}"#;
        check(
            &[("package.json", scripts)],
            &["npm test", "npm run test", "npm run build", "npm run test:unit"],
        );
        check(
            &[("package.json", scripts), ("pnpm-lock.yaml", "")],
            &["pnpm test", "pnpm run test", "pnpm run build", "pnpm run test:unit"],
        );
        check(&[("package.json", "{ no json")], &[]);
        check(
            &[("pyproject.toml", "[tool.pytest.ini_options]\n[tool.ruff]")],
            &["pytest", "python -m pytest", "python3 -m pytest", "ruff check", "ruff format"],
        );
        check(&[("pyproject.toml", "pytest"), ("uv.lock", "")], &["uv run pytest"]);
        check(
            &[("Makefile", "test: a\n\tx\n.PHONY: test\nCC := gcc\ndeploy:\nlint:")],
            &["make test", "make lint"],
        );
        check(
            &[("pom.xml", ""), ("mvnw", "")],
            &["./mvnw compile", "./mvnw test", "./mvnw verify"],
        );
    }

    #[test]
    fn secret_file_is_known_by_name_alone() {
        let found = survey(&[(".env", "TOKEN=abc"), (".env.example", "")]);
        assert_eq!(found.secret_files, [".env"]);
        assert!(!format!("{found:?}").contains("abc"));
    }

    #[test]
    fn hosts_are_those_that_the_project_names() {
        let found = survey(&[
            ("package.json", "{}"),
            (
                ".npmrc",
                "registry=https://packages.example.com/npm/\n//packages.example.com/:_authToken=secret1",
            ),
        ]);
        assert_eq!(found.hosts, ["packages.example.com"]);
        assert_eq!(survey(&[("package.json", "{}")]).hosts, [""; 0]);
    }

    #[test]
    fn other_agents_are_named_with_their_import() {
        let found =
            survey(&[(".mcp.json", "{}"), (".cursor/rules/style.mdc", "x"), ("CLAUDE.md", "")]);
        let others: Vec<_> =
            found.other_agents.iter().map(|agent| (agent.program, &agent.files[..])).collect();
        assert_eq!(
            others,
            [
                ("Claude Code", &[".mcp.json".to_owned()][..]),
                ("Cursor", &[".cursor/rules/style.mdc".to_owned()]),
            ]
        );
        assert_eq!(found.instructions.as_deref(), Some("CLAUDE.md"));
    }
}
