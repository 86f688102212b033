//! The protected names, as usually written. An entry covers the file or folder and everything
//! beneath it.

use super::credential_paths::CredentialScope;
use super::name_table::NameTable;
use crate::word_list::words;

/// Names that must not be changed in any folder.
pub(super) static ANYWHERE: NameTable = NameTable::new(&[
    // The second has where `zero update` finds releases, and whose it believes.
    ("zero's own settings and state", &[".zero", ".local/share/zero"]),
    ("a file that makes a folder a Git repository", &["HEAD"]),
    (
        "a file that a shell runs when it starts",
        words!(
            ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv \
             .zprofile .zlogin .zlogout .kshrc .mkshrc .cshrc .tcshrc .login .logout .inputrc \
             .xinitrc .xprofile .xsession .xsessionrc .pam_environment config.fish fish/conf.d \
             fish/functions .config/fish .local/share/fish .local/share/bash-completion \
             .config/environment.d .config/zsh .config/nushell .config/elvish .config/powershell \
             .config/xonsh .xonshrc .p10k.zsh .fzf.bash .fzf.zsh .config/starship.toml .envrc .envrc.local .envrc.private \
             .envrc.override .envrc.user .envrc.dev .envrc.development .envrc.prod \
             .envrc.production .envrc.staging .envrc.test .envrc.ci .envrc.secret .envrc.secrets \
             .envrc.shared .envrc.base .direnv .config/direnv .autoenv .autoenv.zsh \
             .autoenv_leave.zsh .shadowenv.d"
        ),
    ),
    (
        "part of the Git settings, which can run commands",
        &[".gitconfig", ".config/git", ".gitmodules", ".husky", ".githooks"],
    ),
    (
        "a setting of a version control system that can run a command",
        words!(
            ".hg/hgrc .hg/hgrc-not-shared .hg/sharedpath .hgrc .config/hg .jj/repo/config.toml \
             .jj/workspace-config.toml .jjconfig.toml .config/jj _darcs/prefs .sl/config \
             .pijul/config .bzr/branch/branch.conf .lazygit.yml .p4config .p4enviro"
        ),
    ),
    (
        "a hook that runs at the next commit",
        words!(
            "lefthook.yml lefthook.yaml .lefthook.yml .lefthook.yaml .lefthook lefthook-local.yml \
             lefthook-local.yaml .pre-commit-config.yaml .pre-commit-config.yml \
             .pre-commit-hooks.yaml .overcommit.yml prek.toml .huskyrc .huskyrc.js .huskyrc.json \
             .huskyrc.yaml .huskyrc.yml husky.config.js .lintstagedrc .lintstagedrc.js \
             .lintstagedrc.cjs .lintstagedrc.mjs .lintstagedrc.json .lintstagedrc.yaml \
             .lintstagedrc.yml lint-staged.config.js lint-staged.config.cjs lint-staged.config.mjs \
             .simple-git-hooks.js .simple-git-hooks.cjs .simple-git-hooks.json \
             simple-git-hooks.js simple-git-hooks.cjs simple-git-hooks.json .trunk \
             hk.pkl .rusty-hook.toml captainhook.json"
        ),
    ),
    ("SSH keys and settings", &[".ssh"]),
    (
        "a package manager setting or secret",
        words!(
            ".netrc _netrc .npmrc .yarnrc .yarnrc.yml .yarn/plugins .yarn/releases .pnpmfile.cjs \
             .pnpmfile.mjs .pypirc pip.conf .pip/pip.conf .config/pip .cargo/config \
             .cargo/config.toml .cargo/bin .cargo/env .gemrc .condarc nuget.config \
             NuGet.config NuGet.Config .bowerrc .mambarc"
        ),
    ),
    (
        "a setting that selects which toolchain runs",
        words!(
            "rust-toolchain rust-toolchain.toml mise.toml .mise.toml mise.local.toml \
             .mise.local.toml .mise mise/config.toml .config/mise .config/mise.toml .rtx.toml \
             .miserc.toml .asdfrc .tool-versions .prototools .bazeliskrc .bazelversion .sdkmanrc \
             .pkgx.yaml .pkgx.yml pkgx.yaml pkgx.yml .flox/env aqua.yaml aqua.yml .aqua.yaml .aqua.yml \
             global.json"
        ),
    ),
    (
        "an editor setting that can run a command",
        words!(
            ".vscode .idea .devcontainer .devcontainer.json .emacs .emacs.d .config/emacs .vimrc \
             .gvimrc .exrc .vim .nvimrc .nvim.lua .config/nvim .lvimrc .vimspector.json \
             .ycm_extra_conf.py .dir-locals.el .dir-locals-2.el .fleet .zed .run .vs .nova .theia \
             .helix/languages.toml .helix/config.toml .config/helix *.code-workspace \
             *.sublime-project .gitpod.yml .gitpod .replit .idx .codesandbox/tasks.json \
             .stackblitzrc devfile.yaml .devfile.yaml .externalToolBuilders .factorypath omnisharp.json .lapce .kateproject \
             .tm_properties .lazy.lua .nvim .neoconf.json .nlsp-settings .local.vimrc \
             .vimrc.local .lite_project.lua .atom-build.json .antigravity"
        ),
    ),
    (
        "a setting of a language server that can run a command",
        words!(
            ".bsp buildServer.json rust-analyzer.toml .rust-analyzer.toml hie.yaml \
             .lsp/config.edn .sourcekit-lsp/config.json .merlin .luarc.json .luarc.jsonc \
             .solargraph.yml .pylintrc pylintrc .pylintrc.toml pylintrc.toml"
        ),
    ),
    (
        "an agent setting",
        words!(
            ".mcp.json .claude .claude.json .cursor .gemini .qwen .codex .opencode opencode.json \
             opencode.jsonc .aider.conf.yml .windsurf .continue .roo .kiro .amazonq .kilocode \
             .cline .trae .augment .junie .factory .amp .goose .crush .crush.json crush.json \
             .codebuddy .iflow .rovodev .tabnine .copilot .github/hooks .github/mcp.json \
             .openhands .pi .vibe .agents/skills .github/agents .github/copilot .grok .warp .qoder .lingma \
             .kimi .llxprt .mux conductor.json gptme.toml .devin .clinerules/hooks .agent \
             .agents/hooks .agents/hooks.json .agents/mcp.json .agents/plugins mcp.json .aider-desk \
             .aider.conf.yaml .autohand .bob .codeartsdoer .codemaker .codestudio .codewhale \
             .commandcode .cortex .deepagents .dexto .firebender .forge .hermes .inferencesh .jazz \
             .kilo .kimchi .kimi-code .kode .mcpjam .minimax .moxby .neovate .ona .openclaw .pochi \
             .posit/assistant .qodo .reasonix .serena .terramind .tinycloud .zcode .zencoder .adal"
        ),
    ),
    (
        "a CI configuration",
        words!(
            ".github/workflows .github/actions .gitlab-ci.yml .gitlab-ci.yaml .gitlab/ci .circleci \
             Jenkinsfile azure-pipelines.yml azure-pipelines.yaml .travis.yml .buildkite \
             .drone.yml .woodpecker.yml .woodpecker.yaml .woodpecker bitbucket-pipelines.yml \
             .gitea/workflows .gitea/actions .forgejo/workflows .forgejo/actions .cirrus.yml \
             .cirrus.star buildspec.yml buildspec.yaml amplify.yml codemagic.yaml bitrise.yml \
             wercker.yml .scrutinizer.yml \
             .appveyor.yml appveyor.yml .semaphore .teamcity .tekton .build.yml .builds \
             .azure-pipelines cloudbuild.yaml .readthedocs.yaml .readthedocs.yml readthedocs.yml \
             .zuul.yaml zuul.yaml .zuul.d zuul.d .vela.yml .vela.yaml .onedev-buildspec.yml .harness \
             .space.kts .depot/workflows .mergify.yml .mergify .github/mergify.yml screwdriver.yaml \
             .packit.yaml .packit.yml .copr .gitlab/agents"
        ),
    ),
    (
        "a build wrapper script",
        words!(
            "gradlew gradlew.bat gradle/wrapper .gradle/init.gradle .gradle/init.d mvnw mvnw.cmd \
             .mvn .bazelrc tools/bazel .buckconfig .sbtopts .sbtrc .jvmopts"
        ),
    ),
    (
        "a program that starts automatically",
        words!(
            ".config/systemd .local/share/systemd .config/autostart .local/bin \
             Library/LaunchAgents Library/LaunchDaemons crontabs var/spool/cron var/at"
        ),
    ),
    (
        "a file that a program runs when it starts",
        words!(
            ".gdbinit .lldbinit .pythonrc .pythonrc.py sitecustomize.py usercustomize.py \
             .tmux.conf .config/tmux .screenrc .Rprofile .RData .Renviron .irbrc .pryrc .perldb .psqlrc \
             .sqliterc .wgetrc .curlrc .gdbearlyinit .pdbrc .pdbrc.py .ipython .ghci .iex.exs \
             .ocamlinit .radare2rc .latexmkrc latexmkrc .octaverc .rdbgrc .byebugrc .psysh.php \
             jupyter_config.py jupyter_config.json jupyter_notebook_config.py \
             jupyter_notebook_config.json jupyter_server_config.py jupyter_server_config.json \
             jupyter_lab_config.py jupyter_lab_config.json jupyter_console_config.py \
             .mongorc.js .mongoshrc.js .duckdbrc .lessfilter .julia/config ansible.cfg .ansible.cfg \
             jupyter_nbconvert_config.py jupyter_nbconvert_config.json jupyter_qtconsole_config.py \
             .terraformrc .tofurc .mailcap .procmailrc .forward .muttrc .config/mutt .config/neomutt \
             .wezterm.lua .config/wezterm .config/kitty .config/ghostty .config/alacritty \
             .config/zellij .config/i3 .config/sway .config/hypr .hammerspoon .tmuxinator.yml \
             .tmuxp.yaml .tmuxp.yml .tmuxp.json renv/activate.R"
        ),
    ),
]);

/// Paths that must not be changed, relative to the root.
pub(super) static FROM_ROOT: NameTable = NameTable::new(&[(
    "a system file",
    words!(
        "etc private/etc boot bin sbin lib lib64 usr/bin usr/sbin usr/lib usr/local/bin \
         usr/local/sbin system proc sys"
    ),
)]);

/// Names that must not be changed in `.git`.
pub(super) static IN_GIT: NameTable = NameTable::new(&[
    ("a Git hook", &["hooks"]),
    (
        "part of the Git settings, which can run commands",
        words!(
            "config config.lock config.worktree info/attributes git-rebase-todo \
             rebase-merge/git-rebase-todo rebase-merge/strategy sequencer/todo sequencer/opts"
        ),
    ),
    ("a file that locates the repository", &["commondir", "gitdir"]),
]);

/// Names in `.git` that tools must not change: settings of programs that work with git, and files of
/// old versions that name a remote repository. Git and these programs create them.
pub(super) static IN_GIT_FOR_TOOLS: NameTable = NameTable::new(&[
    (
        "a setting of a version control system that can run a command",
        &["lazygit.yml", "sl/config", "branchless/config"],
    ),
    ("a file that names a remote repository", &["remotes", "branches"]),
]);

/// Names that must not be read in any folder.
pub(super) static SECRETS: NameTable =
    NameTable::of_credentials(&[CredentialScope::Anywhere, CredentialScope::AnyRoot]);

/// Names that must not be read, relative to the root.
pub(super) static SECRETS_OF_SYSTEM: NameTable =
    NameTable::of_credentials(&[CredentialScope::System]);

/// Names that must not be read in the home folder; elsewhere they are not secrets.
pub(super) static SECRETS_OF_HOME: NameTable = NameTable::of_credentials(&[CredentialScope::Home]);
