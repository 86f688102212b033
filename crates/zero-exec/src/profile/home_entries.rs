//! What builds need of a home folder. Commands see nothing else of it.
//!
//! An entry is a file or folder with everything in it, except for credentials, which stay hidden.
//! Not here on purpose: the start files of shells (`.bashrc`, `.profile`, `.zshrc`), because many
//! export keys and no command of zero reads them, and files that name package sources together with
//! passwords (`pip.conf`, `.condarc`, `.Renviron`). `sandbox.readable` opens them.

/// Entries of a home folder that commands can read.
#[rustfmt::skip]
pub(super) const HOME_ENTRIES: &[&str] = &[
    // Several languages.
    ".cache", ".local/bin", ".local/lib", ".local/lib64", ".local/libexec", ".local/include",
    ".local/opt", ".local/share/mise", ".local/share/rtx", ".local/share/fonts",
    ".local/state/nix", ".asdf", ".mise", ".proto", ".nix-profile", ".nix-defexpr", ".guix-profile",
    ".linuxbrew", ".terminfo", ".fonts", ".config/fontconfig", ".config/mise", ".config/proto",
    ".tool-versions", ".editorconfig", ".pre-commit-hooks",
    // Version control.
    ".gitconfig", ".config/git", ".gitignore", ".gitignore_global", ".gitattributes",
    ".gitmessage", ".config/jj", ".jjconfig.toml",
    // C and C++.
    ".cmake", ".conan", ".conan2", ".vcpkg", ".config/ccache", ".ccache", ".clang-format",
    ".clang-tidy", ".config/clangd", ".emscripten", "emsdk", ".xmake",
    // Rust, Go, Zig.
    ".cargo", ".rustup", ".rustfmt.toml", ".config/rustfmt", ".go", "go/bin", "go/pkg",
    ".config/go", ".goenv", ".gvm", ".zig", ".zvm", ".zigup",
    // JavaScript.
    ".npm", ".npm-global", ".npm-packages", ".node-gyp", ".electron-gyp", ".node-version", ".nvm",
    ".nvmrc", ".volta", ".fnm", ".nodenv", ".n", ".yarn", ".pnpm-store", ".pnpm-state", ".deno",
    ".bun", ".config/yarn/global", ".local/share/pnpm", ".local/share/yarn", ".local/share/fnm",
    ".local/share/nvm", ".local/share/deno",
    // Python.
    ".pyenv", ".rye", ".pixi", ".poetry", ".pdm", ".hatch", ".virtualenvs", ".venv", ".venvs",
    ".python-version", ".conda", "miniconda3", "anaconda3", "miniforge3", "mambaforge",
    "micromamba", ".micromamba", ".local/pipx", ".local/share/pipx", ".local/share/uv",
    ".local/share/virtualenv", ".local/share/virtualenvs", ".local/share/hatch",
    ".local/share/pypoetry", ".local/share/pdm", ".local/share/jupyter", ".config/uv",
    ".config/pypoetry", ".config/ruff", ".config/black", ".config/matplotlib", ".keras", ".torch",
    "nltk_data",
    // Java, Kotlin, Scala, Android.
    ".m2", ".gradle", ".ivy2", ".sbt", ".coursier", ".sdkman", ".jenv", ".jabba", ".jdks",
    ".java-version", ".konan", ".local/share/coursier", ".android", "Android/Sdk", ".mill",
    // Ruby, PHP, Perl.
    ".gem", ".bundle", ".rbenv", ".rvm", ".rubies", ".ruby-version", ".local/share/gem",
    ".composer/cache", ".composer/vendor", ".config/composer/vendor", ".phpenv", ".phpbrew",
    ".cpan", ".cpanm", ".plenv", "perl5",
    // .NET, Swift, Dart.
    ".dotnet", ".nuget/packages", ".nuget/plugins", ".templateengine", ".local/share/NuGet",
    ".swiftpm", ".local/share/swiftly", ".swiftly", ".pub-cache", ".dart-tool", ".flutter",
    // Haskell, OCaml, Elm, Lean, PureScript.
    ".stack", ".ghcup", ".cabal", ".ghc", ".local/state/cabal", ".opam", ".elm", ".elan",
    ".nimble", ".choosenim", ".crystal", ".shards", ".luarocks", ".roswell", "quicklisp",
    // Erlang, Elixir, Julia, R.
    ".mix", ".hex", ".kerl", ".asdf-data", ".julia", ".juliaup", "R/x86_64-pc-linux-gnu-library",
    ".local/share/R",
    // Others.
    ".terraform.d/plugins", ".terraform.d/plugin-cache", ".tfenv", ".tflint.d", ".foundry",
    ".svm", ".wasmer", ".wasmtime", ".platformio", ".arduino15", ".espressif", "texmf",
    ".texlive", ".ollama/models", ".sonar",
];

/// Variables that name a folder, or several separated by `:`, that builds need.
pub(super) const FOLDER_VARIABLES: &[&str] = &[
    "ANDROID_HOME",
    "ANDROID_NDK_HOME",
    "ANDROID_SDK_ROOT",
    "ASDF_DATA_DIR",
    "ASDF_DIR",
    "BUN_INSTALL",
    "BUNDLE_PATH",
    "CABAL_DIR",
    "CARGO_HOME",
    "CARGO_TARGET_DIR",
    "CCACHE_DIR",
    "CONAN_HOME",
    "CONDA_PREFIX",
    "DENO_DIR",
    "DENO_INSTALL",
    "DOTNET_ROOT",
    "ELAN_HOME",
    "EMSDK",
    "FLUTTER_ROOT",
    "FNM_DIR",
    "FNM_MULTISHELL_PATH",
    "GEM_HOME",
    "GEM_PATH",
    "GHCUP_INSTALL_BASE_PREFIX",
    "GOBIN",
    "GOCACHE",
    "GOMODCACHE",
    "GOROOT",
    "GRADLE_HOME",
    "GRADLE_USER_HOME",
    "HEX_HOME",
    "HF_HOME",
    "HOMEBREW_PREFIX",
    "IDF_PATH",
    "IDF_TOOLS_PATH",
    "JAVA_HOME",
    "JULIA_DEPOT_PATH",
    "JULIAUP_DEPOT_PATH",
    "LD_LIBRARY_PATH",
    "M2_HOME",
    "MAMBA_ROOT_PREFIX",
    "MAVEN_HOME",
    "MISE_DATA_DIR",
    "MIX_HOME",
    "NODE_PATH",
    "NPM_CONFIG_CACHE",
    "NUGET_PACKAGES",
    "NVM_BIN",
    "NVM_DIR",
    "NVM_INC",
    "OPAMROOT",
    "OPAM_SWITCH_PREFIX",
    "PERL5LIB",
    "PIP_CACHE_DIR",
    "PIPX_HOME",
    "PKG_CONFIG_PATH",
    "PNPM_HOME",
    "POETRY_HOME",
    "PROTO_HOME",
    "PUB_CACHE",
    "PYENV_ROOT",
    "PYTHONPATH",
    "PYTHONUSERBASE",
    "RBENV_ROOT",
    "RUSTUP_HOME",
    "SCCACHE_DIR",
    "SDKMAN_DIR",
    "STACK_ROOT",
    "SWIFTLY_HOME_DIR",
    "UV_CACHE_DIR",
    "UV_PYTHON_INSTALL_DIR",
    "VCPKG_ROOT",
    "VIRTUAL_ENV",
    "VOLTA_HOME",
    "WORKON_HOME",
    "XDG_CACHE_HOME",
];

/// Variables that name a folder whose entries take the place of those in a folder of the home folder.
pub(super) const MOVED_FOLDERS: &[(&str, &str)] = &[
    ("XDG_CONFIG_HOME", ".config"),
    ("XDG_DATA_HOME", ".local/share"),
    ("XDG_STATE_HOME", ".local/state"),
];

/// What belongs to a folder of programs (`PREFIX/bin`) that `PATH` names, beside it.
pub(super) const PREFIX_ENTRIES: &[&str] = &[
    "lib", "lib32", "lib64", "libexec", "share", "include", "conf", "jre", "jmods", "packages",
    "pkg", "plugins",
];

/// What builds need of a folder that `GOPATH` names.
pub(super) const GOPATH_ENTRIES: &[&str] = &["bin", "pkg"];
