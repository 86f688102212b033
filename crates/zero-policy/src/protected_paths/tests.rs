//! Tests of which paths no rule opens, and which similar files are ordinary.

use super::*;

fn test_paths() -> ProtectedPaths {
    ProtectedPaths::new(
        &["/home/me/w".into(), "/srv/project/w".into()],
        Some(Path::new("/home/me")),
        Some(Path::new("/home/me/.config/zero")),
        Some(Path::new("/home/me/.local/state/zero")),
    )
}

#[track_caller]
fn check(path: &str, expected: bool) {
    let why = protected_reason(Path::new(path), &test_paths());
    assert_eq!(why.is_some(), expected, "{path}: {why:?}");
}

#[track_caller]
fn check_sensitive(path: &str, expected: bool) {
    let why = sensitive_reason(Path::new(path), &test_paths());
    assert_eq!(why.is_some(), expected, "{path}: {why:?}");
}

#[test]
fn files_deciding_later_execution_are_protected() {
    for path in [
        ".zero/settings.json",
        ".zero",
        "sub/deep/.zero/x",
        ".git/hooks/pre-commit",
        ".git/hooks",
        ".git/config",
        ".git/config.worktree",
        ".git/info/attributes",
        ".git/rebase-merge/git-rebase-todo",
        ".git/rebase-merge/strategy",
        ".git/sequencer/todo",
        ".git/modules/lib/hooks/post-checkout",
        ".git/modules/vendor/lib/config",
        ".git/modules/objects/config",
        ".git/modules/lib",
        ".git/worktrees/x/config.worktree",
        ".git/worktrees/x/gitdir",
        ".git/worktrees/x/commondir",
        ".git",
        "sub/.git",
        "sub/.git/config",
        ".gitmodules",
        ".bashrc",
        ".zshenv",
        ".config/fish/config.fish",
        ".config/fish/conf.d/x.fish",
        ".gitconfig",
        ".config/git/config",
        ".ssh/authorized_keys",
        ".netrc",
        ".npmrc",
        ".yarnrc.yml",
        ".pnpmfile.cjs",
        "pip.conf",
        ".cargo/config.toml",
        ".cargo/bin/cargo",
        ".husky/pre-commit",
        "lefthook.yml",
        ".lefthook.yaml",
        ".pre-commit-config.yaml",
        ".envrc",
        ".vscode/tasks.json",
        ".idea/workspace.xml",
        ".devcontainer/devcontainer.json",
        ".devcontainer.json",
        ".mcp.json",
        ".claude/settings.json",
        ".cursor/mcp.json",
        ".gemini/settings.json",
        ".qwen/x",
        ".codex/config.toml",
        ".opencode/x",
        ".github/workflows/ci.yml",
        ".gitlab-ci.yml",
        ".circleci/config.yml",
        "Jenkinsfile",
        "azure-pipelines.yml",
        ".travis.yml",
        ".buildkite/pipeline.yml",
        ".drone.yml",
        "gradlew",
        "gradlew.bat",
        "gradle/wrapper/gradle-wrapper.jar",
        "mvnw",
        ".mvn/jvm.config",
        ".bazelrc",
        ".config/systemd/user/x.service",
        ".config/autostart/x.desktop",
        ".local/bin/git",
        ".local/share/zero/install.json",
        ".local/share/bash-completion/completions/zero",
        ".local/share/fish/vendor_conf.d/x.fish",
        "Library/LaunchAgents/x.plist",
        ".emacs.d/init.el",
        ".vimrc",
        ".exrc",
        ".config/nvim/init.lua",
        ".gdbinit",
        "pkg/sitecustomize.py",
        ".tmux.conf",
        ".Rprofile",
        ".irbrc",
        ".roo/mcp.json",
        ".lazy.lua",
        ".trunk/plugins/x/plugin.yaml",
        ".devin/hooks.v1.json",
        ".clinerules/hooks/PreToolUse",
        ".agents/hooks.json",
        ".neoconf.json",
        ".mergify.yml",
        "global.json",
        ".shadowenv.d/x.lisp",
        ".kiro/settings/mcp.json",
        ".amazonq/mcp.json",
        ".kilocode/mcp.json",
        "opencode.json",
        "opencode.jsonc",
        "my.code-workspace",
        "sub/.code-workspace",
        "My.Code-Workspace",
        "mise.toml",
        ".mise.toml",
        ".mise/config.toml",
        ".config/mise/config.toml",
        "rust-toolchain",
        "rust-toolchain.toml",
        ".pdbrc",
        ".nvim.lua",
        ".nvimrc",
        ".run/test.run.xml",
        "app/.lintstagedrc.json",
        ".trunk/trunk.yaml",
        "src/NuGet.Config",
        ".merlin",
        "java/.factorypath",
        "omnisharp.json",
        ".pi/settings.json",
        ".github/agents/x.agent.md",
        ".grok/settings.json",
        ".RData",
        "buildspec.yml",
        ".sbtrc",
        ".helix/languages.toml",
        ".helix/config.toml",
        ".hg/hgrc",
        ".jj/repo/config.toml",
        ".gitea/workflows/ci.yml",
        ".forgejo/workflows/ci.yml",
        "tools/bazel",
        ".iex.exs",
        ".bsp/x.json",
        "buildServer.json",
        "rust-analyzer.toml",
        ".rust-analyzer.toml",
        "hie.yaml",
        ".lsp/config.edn",
        ".sourcekit-lsp/config.json",
        ".externalToolBuilders/x.launch",
        ".git/lazygit.yml",
        ".lazygit.yml",
        ".sl/config",
        ".git/sl/config",
        ".git/branchless/config",
        ".git/remotes/origin",
        ".git/branches/origin",
        ".pijul/config",
        ".bzr/branch/branch.conf",
        ".github/hooks/x.json",
        ".github/mcp.json",
        ".openhands/setup.sh",
        ".pi/extensions/x.ts",
        ".vibe/config.toml",
        ".latexmkrc",
        "latexmkrc",
        "jupyter_server_config.py",
        ".octaverc",
        ".rdbgrc",
        ".byebugrc",
        ".psysh.php",
        ".envrc.local",
        ".envrc.private",
        ".gitlab/ci/build.yml",
        ".gitpod/automations.yaml",
        ".codesandbox/tasks.json",
        ".tool-versions",
        ".pylintrc",
        "pkg/pylintrc",
        ".luarc.json",
        ".solargraph.yml",
        "devfile.yaml",
        "ansible.cfg",
        ".config/starship.toml",
        ".config/nushell/config.nu",
    ] {
        check(&format!("/home/me/w/{path}"), true);
        check(&format!("/srv/elsewhere/{path}"), true);
    }
    check("/etc/passwd", true);
    check("/etc", true);
    check("/var/spool/cron/crontabs/me", true);
    check("/home/me/.config/zero/settings.json", true);
    check("/home/me/.local/state/zero/audit.db", true);
    check("/home/me", true);
    check("/home", true);
    check("/home/me/.config", true);
    check("/srv/project", true);
    check("/", true);
}

#[test]
fn protected_name_spellings_are_equivalent() {
    for path in [
        ".GIT/Hooks/pre-commit",
        ".git./config",
        ".git /config",
        ".g\u{200c}it/config",
        "GIT~1/config",
        ".git::$INDEX_ALLOCATION/config",
        ".bashrc::$DATA",
        ".BASHRC. .",
        ".ba\u{17f}hrc",
        ".Ss\u{feff}h/x",
        "jenkinsFILE",
    ] {
        check(&format!("/home/me/w/{path}"), true);
    }
}

#[test]
fn ordinary_files_are_not_protected() {
    for path in [
        "package.json",
        "Makefile",
        "Cargo.toml",
        "pyproject.toml",
        "src/main.rs",
        "src/config",
        "hooks/useState.ts",
        ".git/objects/ab/cdef",
        ".git/refs/heads/main",
        ".git/index",
        ".git/COMMIT_EDITMSG",
        ".git/modules/lib/objects/ab/cd",
        ".git/worktrees/x/index",
        ".gitignore",
        ".gitattributes",
        ".github/CODEOWNERS",
        ".nvmrc",
        ".python-version",
        "justfile",
        "conftest.py",
        "eslint.config.js",
        "code-workspace",
        "my.code-workspace.md",
        "tools/bazel.md",
        ".hg/store/data/x",
        "AGENTS.md",
        "etc/config",
        "x.pth",
        "bashrc",
        "gradle/libs.versions.toml",
        ".cargo/registry/x",
        "...",
    ] {
        check(&format!("/home/me/w/{path}"), false);
    }
    check("/tmp/x", false);
    check("/home/me/.config/zeroes/x", false);
    check("/home/me/.cache/x", false);
    check("/home/me/w", false);
    check("/srv/project/other", false);
}

#[test]
fn sensitive_files_differ_from_ordinary() {
    for path in [
        ".ssh/id_ed25519",
        ".ssh",
        ".aws/credentials",
        ".gnupg/private-keys-v1.d/x",
        ".config/gh/hosts.yml",
        ".netrc",
        ".docker/config.json",
        ".kube/config",
        ".azure/x",
        ".config/gcloud/credentials.db",
        ".npmrc",
        ".pypirc",
        ".cargo/credentials",
        ".cargo/credentials.toml",
        ".mozilla/firefox/x/logins.json",
        ".config/google-chrome/Default/Cookies",
        "Library/Application Support/Google/Chrome/Default/Cookies",
        ".local/share/keyrings/login.keyring",
        ".local/state/zero/audit.db",
    ] {
        check_sensitive(&format!("/home/me/{path}"), true);
    }
    check_sensitive("/root/.SSH/id_rsa", true);
    check_sensitive("/etc/shadow", true);
    check_sensitive("/proc/1/environ", true);
    check_sensitive("/proc/self/task/1/environ", true);
    for path in [
        "/home/me/w/.npmrc",
        "/home/me/w/src/main.rs",
        "/etc/passwd",
        "/etc/hosts",
        "/usr/share/keyrings/x.gpg",
        "/proc/cpuinfo",
        "/home/me/.docker/cli-plugins/x",
        "/home/me/.config/ghost/x",
        "/home/me/.cargo/registry/x",
        "/home/me/w/environ",
    ] {
        check_sensitive(path, false);
    }
}

#[test]
fn every_folder_variable_moves_a_credential_path() {
    for variable in credential_variables() {
        if let CredentialLocation::FolderInsteadOf(folder) = variable.value {
            let is_inside = |path: &str| std::path::Path::new(path).starts_with(folder);
            let count = credential_paths().iter().filter(|row| is_inside(row.path)).count();
            assert!(count > 0, "{} moves no credentials", variable.name);
        }
    }
}

#[test]
fn every_credential_path_is_sensitive() {
    let mut seen = std::collections::BTreeSet::new();
    for row in credential_paths() {
        let path = match row.scope {
            CredentialScope::Anywhere | CredentialScope::Home => format!("/home/me/{}", row.path),
            CredentialScope::System | CredentialScope::AnyRoot => format!("/{}", row.path),
        };
        check_sensitive(&path, true);
        check_sensitive(&format!("{path}/deeper"), true);
        assert!(seen.insert(row.path), "{} is listed twice", row.path);
        assert!(!row.path.starts_with('/') && !row.path.ends_with('/'), "{}", row.path);
        assert!(!row.why.is_empty() && !row.source.is_empty(), "{}", row.path);
        assert!(!row.source.contains("://"), "{}: name the program", row.path);
    }
    assert!(seen.len() > 150);
    // Names that are ordinary in a project.
    for path in ["w/.claude/settings.json", "w/.history/x", "w/etc/netplan/x", "w/snap/x"] {
        check_sensitive(&format!("/home/me/{path}"), false);
    }
}
