//! Rules for the build tools of a project.
//!
//! A command is allowed if the project itself says how it is built and tested: the command then runs
//! code of the project in the sandbox. A command that publishes something always asks.

use serde_json::{Value, json};

use super::project_survey::{ProjectFiles, ProjectSurvey};

/// Most commands that are taken from one file.
const COMMANDS_MAX: usize = 16;
/// Names of scripts, targets and recipes that build or check something.
const USUAL_NAMES: [&str; 10] = [
    "test",
    "build",
    "check",
    "lint",
    "typecheck",
    "type-check",
    "format",
    "fmt",
    "compile",
    "all",
];
/// Words in names of scripts that do more than that.
const UNUSUAL_WORDS: [&str; 6] = ["deploy", "publish", "release", "push", "upload", "install"];
/// Deadline of commands where builds take long.
const SLOW_TIMEOUT: &str = "10m";

/// What a command is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CommandPurpose {
    Build,
    Test,
    Check,
}

/// A command that the project uses, as it is written in a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProjectCommand {
    pub(super) purpose: CommandPurpose,
    pub(super) rule: String,
}

/// The commands of one stack.
#[derive(Debug, Default)]
pub(super) struct StackCommands {
    pub(super) build_tool: Option<&'static str>,
    pub(super) commands: Vec<ProjectCommand>,
    pub(super) publishes: Vec<&'static str>,
}

/// A language or build tool, and how it is recognised.
pub(super) struct Stack {
    /// Names of which one is in the folder of the project.
    files: &'static [&'static str],
    /// Empty for a tool of any language.
    pub(super) language: &'static str,
    /// Whether builds usually take longer than the default deadline of a command.
    pub(super) is_slow: bool,
    pub(super) commands: fn(&ProjectFiles<'_>) -> StackCommands,
}

impl Stack {
    pub(super) fn is_in(&self, project: &ProjectFiles<'_>) -> bool {
        self.files.iter().any(|file| project.has(file))
    }
}

pub(super) static STACKS: &[Stack] = &[
    Stack {
        files: &["Cargo.toml"],
        language: "Rust",
        is_slow: true,
        commands: |_| {
            use CommandPurpose::{Build, Check, Test};
            let commands = [
                (Build, "cargo build"),
                (Check, "cargo check"),
                (Test, "cargo test"),
                (Check, "cargo clippy"),
                (Check, "cargo fmt"),
            ];
            StackCommands::new("Cargo", &commands, &["cargo publish"])
        },
    },
    Stack {
        files: &["tsconfig.json"],
        language: "TypeScript",
        is_slow: false,
        commands: |_| StackCommands::default(),
    },
    Stack {
        files: &["package.json"],
        language: "JavaScript",
        is_slow: false,
        commands: npm_scripts,
    },
    Stack {
        files: &["deno.json", "deno.jsonc"],
        language: "TypeScript",
        is_slow: false,
        commands: |_| {
            use CommandPurpose::{Check, Test};
            let commands = [
                (Test, "deno test"),
                (Check, "deno check"),
                (Check, "deno lint"),
                (Check, "deno fmt"),
            ];
            StackCommands::new("Deno", &commands, &["deno publish"])
        },
    },
    Stack {
        files: &[
            "pyproject.toml",
            "requirements.txt",
            "setup.py",
            "setup.cfg",
            "Pipfile",
            "tox.ini",
        ],
        language: "Python",
        is_slow: false,
        commands: python_commands,
    },
    Stack {
        files: &["go.mod"],
        language: "Go",
        is_slow: false,
        commands: |_| {
            use CommandPurpose::{Build, Check, Test};
            let commands = [(Build, "go build"), (Test, "go test"), (Check, "go vet")];
            StackCommands::new("Go", &commands, &[])
        },
    },
    Stack {
        files: &["pom.xml"],
        language: "Java",
        is_slow: true,
        commands: |project| match project.has("mvnw") {
            true => {
                jvm_commands("Maven", "./mvnw", &["compile", "test", "verify"], &["./mvnw deploy"])
            }
            false => jvm_commands("Maven", "mvn", &["compile", "test", "verify"], &["mvn deploy"]),
        },
    },
    Stack {
        files: &["build.gradle", "build.gradle.kts"],
        language: "Java",
        is_slow: true,
        commands: |project| match project.has("gradlew") {
            true => jvm_commands(
                "Gradle",
                "./gradlew",
                &["build", "test", "check"],
                &["./gradlew publish"],
            ),
            false => {
                jvm_commands("Gradle", "gradle", &["build", "test", "check"], &["gradle publish"])
            }
        },
    },
    Stack {
        files: &["CMakeLists.txt"],
        language: "C or C++",
        is_slow: true,
        commands: |_| {
            use CommandPurpose::{Build, Test};
            StackCommands::new("CMake", &[(Build, "cmake --build"), (Test, "ctest")], &[])
        },
    },
    Stack {
        files: &["Gemfile"],
        language: "Ruby",
        is_slow: false,
        commands: |_| {
            use CommandPurpose::{Check, Test};
            let commands = [
                (Test, "bundle exec rspec"),
                (Test, "bundle exec rake test"),
                (Check, "bundle exec rubocop"),
            ];
            StackCommands::new("Bundler", &commands, &["gem push"])
        },
    },
    Stack {
        files: &["composer.json"],
        language: "PHP",
        is_slow: false,
        commands: |_| {
            StackCommands::new("Composer", &[(CommandPurpose::Test, "composer test")], &[])
        },
    },
    Stack {
        files: &["mix.exs"],
        language: "Elixir",
        is_slow: false,
        commands: |_| {
            use CommandPurpose::{Build, Check, Test};
            let commands = [(Build, "mix compile"), (Test, "mix test"), (Check, "mix format")];
            StackCommands::new("Mix", &commands, &["mix hex.publish"])
        },
    },
    Stack {
        files: &["*.sln", "*.csproj", "*.fsproj"],
        language: ".NET",
        is_slow: true,
        commands: |_| {
            use CommandPurpose::{Build, Test};
            let commands = [(Build, "dotnet build"), (Test, "dotnet test")];
            StackCommands::new(".NET", &commands, &["dotnet nuget push"])
        },
    },
    Stack {
        files: &["Package.swift"],
        language: "Swift",
        is_slow: true,
        commands: |_| {
            use CommandPurpose::{Build, Test};
            StackCommands::new("SwiftPM", &[(Build, "swift build"), (Test, "swift test")], &[])
        },
    },
    Stack {
        files: &["Makefile", "makefile", "GNUmakefile"],
        language: "",
        is_slow: false,
        commands: |project| {
            let text =
                ["GNUmakefile", "makefile", "Makefile"].map(|name| project.text(name)).concat();
            StackCommands {
                build_tool: Some("make"),
                commands: target_commands("make", &text),
                publishes: Vec::new(),
            }
        },
    },
    Stack {
        files: &["justfile", "Justfile", ".justfile"],
        language: "",
        is_slow: false,
        commands: |project| {
            let text =
                ["justfile", "Justfile", ".justfile"].map(|name| project.text(name)).concat();
            StackCommands {
                build_tool: Some("just"),
                commands: target_commands("just", &text),
                publishes: Vec::new(),
            }
        },
    },
];

impl StackCommands {
    fn new(
        tool: &'static str,
        commands: &[(CommandPurpose, &str)],
        publishes: &[&'static str],
    ) -> Self {
        let command = |(purpose, rule): &(CommandPurpose, &str)| ProjectCommand {
            purpose: *purpose,
            rule: (*rule).to_owned(),
        };
        Self {
            build_tool: Some(tool),
            commands: commands.iter().map(command).collect(),
            publishes: publishes.to_vec(),
        }
    }
}

fn jvm_commands(
    tool: &'static str,
    program: &str,
    tasks: &[&str],
    publishes: &[&'static str],
) -> StackCommands {
    let commands = tasks.iter().map(|task| name_command(task, format!("{program} {task}")));
    StackCommands {
        build_tool: Some(tool),
        commands: commands.collect(),
        publishes: publishes.to_vec(),
    }
}

fn npm_scripts(project: &ProjectFiles<'_>) -> StackCommands {
    let (tool, program, publish) = match () {
        () if project.has("pnpm-lock.yaml") => ("pnpm", "pnpm", "pnpm publish"),
        () if project.has("yarn.lock") => ("Yarn", "yarn", "yarn npm publish"),
        () if project.has("bun.lock") || project.has("bun.lockb") => ("Bun", "bun", "bun publish"),
        () => ("npm", "npm", "npm publish"),
    };
    let package: Value = serde_json::from_str(&project.text("package.json")).unwrap_or_default();
    let scripts = package.get("scripts").and_then(Value::as_object).into_iter().flatten();
    let names: Vec<&str> =
        scripts.map(|(name, _)| name.as_str()).filter(|name| is_usual(name)).collect();
    // `bun test` is a program of Bun's own, whatever the scripts are.
    let short = (program != "bun" && names.contains(&"test")).then(|| format!("{program} test"));
    let short = short.into_iter().map(|rule| name_command("test", rule));
    let long = names.iter().take(COMMANDS_MAX);
    let long = long.map(|name| name_command(name, format!("{program} run {name}")));
    StackCommands {
        build_tool: Some(tool),
        commands: short.chain(long).collect(),
        publishes: vec![publish],
    }
}

fn python_commands(project: &ProjectFiles<'_>) -> StackCommands {
    use CommandPurpose::{Check, Test};
    const FILES: [&str; 6] =
        ["pyproject.toml", "requirements.txt", "setup.py", "setup.cfg", "Pipfile", "tox.ini"];
    let text = FILES.map(|name| project.text(name)).concat();
    let (tool, runner) = match () {
        () if project.has("uv.lock") => ("uv", "uv run "),
        () if project.has("poetry.lock") => ("Poetry", "poetry run "),
        () if project.has("Pipfile.lock") => ("Pipenv", "pipenv run "),
        () => ("pip", ""),
    };
    let mut commands = Vec::new();
    let mut add = |purpose, program: &str| {
        commands.push(ProjectCommand { purpose, rule: format!("{runner}{program}") });
    };
    if text.contains("pytest") || project.has("pytest.ini") || project.has("conftest.py") {
        add(Test, "pytest");
        if runner.is_empty() {
            add(Test, "python -m pytest");
            add(Test, "python3 -m pytest");
        }
    }
    if text.contains("ruff") {
        add(Check, "ruff check");
        add(Check, "ruff format");
    }
    if text.contains("mypy") {
        add(Check, "mypy");
    }
    if project.has("tox.ini") {
        add(Test, "tox");
    }
    StackCommands {
        build_tool: Some(tool),
        commands,
        publishes: vec!["twine upload", "uv publish"],
    }
}

/// The usual targets of a makefile, or recipes of a justfile.
fn target_commands(program: &str, text: &str) -> Vec<ProjectCommand> {
    let mut commands: Vec<ProjectCommand> = Vec::new();
    for line in text.lines() {
        let Some((name, after)) = line.split_once(':') else { continue };
        let name = name.split_whitespace().next().unwrap_or_default();
        let is_target =
            line.starts_with(|c: char| c.is_ascii_alphabetic()) && !after.starts_with('=');
        if is_target && is_usual(name) && commands.len() < COMMANDS_MAX {
            let command = name_command(name, format!("{program} {name}"));
            if !commands.contains(&command) {
                commands.push(command);
            }
        }
    }
    commands
}

/// Whether a script with this name builds or checks something, by its name alone.
fn is_usual(name: &str) -> bool {
    let first = name.split([':', '-', '_']).next().unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ":-_".contains(c);
    (USUAL_NAMES.contains(&name) || USUAL_NAMES.contains(&first))
        && name.chars().all(is_plain)
        && !name.ends_with(':')
        && !UNUSUAL_WORDS.iter().any(|word| name.contains(word))
}

fn name_command(name: &str, rule: String) -> ProjectCommand {
    let purpose = match name {
        name if name.starts_with("test") || name == "verify" => CommandPurpose::Test,
        "build" | "compile" | "all" => CommandPurpose::Build,
        name if name.starts_with("build") => CommandPurpose::Build,
        _ => CommandPurpose::Check,
    };
    ProjectCommand { purpose, rule }
}

/// The text of the settings that are proposed for the project.
pub(super) fn settings_text(survey: &ProjectSurvey) -> String {
    let prefix = |rule: &String| json!(format!("Bash({rule}:*)"));
    let allow: Vec<Value> = survey.commands.iter().map(|command| prefix(&command.rule)).collect();
    let publishes = survey.publishes.iter().map(prefix);
    let ask: Vec<Value> = [json!("Bash(git push:*)")].into_iter().chain(publishes).collect();
    let secrets = survey.secret_files.iter();
    let deny: Vec<Value> = secrets.map(|name| json!(format!("Read({name})"))).collect();
    let mut settings = json!({"permissions": {}});
    for (list, rules) in [("allow", allow), ("ask", ask), ("deny", deny)] {
        if !rules.is_empty() {
            settings["permissions"][list] = Value::Array(rules);
        }
    }
    if survey.is_slow {
        settings["limits"] = json!({ "command-timeout": SLOW_TIMEOUT });
    }
    if !survey.hosts.is_empty() {
        settings["sandbox"] = json!({ "network": survey.hosts });
    }
    let text = serde_json::to_string_pretty(&settings).unwrap_or_default();
    format!(
        "// Settings of zero for this project. Allow rules, limits and hosts apply once you have trusted the\n\
         // folder: zero trust. All keys: zero config schema\n{text}\n"
    )
}
