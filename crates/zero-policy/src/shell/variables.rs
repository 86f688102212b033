//! Variables that change which code runs.
//!
//! `LD_PRELOAD=x git status` is not `git status`. If a variable on this list is set, for a command
//! or for the rest of a script, a rule that allows the command does not cover it.

use crate::word_list::words;

/// Whether setting it can change which program runs, what it loads or what it runs.
pub fn changes_what_runs(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let name = upper.as_str();
    if HARMLESS.contains(&name) {
        return false;
    }
    NAMES.contains(&name)
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

/// Exceptions from the patterns below.
const HARMLESS: &[&str] = words!(
    "NODE_ENV NODE_NO_WARNINGS NODE_DISABLE_COLORS PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE \
     PYTHONIOENCODING PYTHONUTF8 PYTHONHASHSEED PYTHONFAULTHANDLER CARGO_TERM_COLOR \
     CARGO_TERM_VERBOSE CARGO_TERM_QUIET CARGO_TERM_PROGRESS_WHEN CARGO_INCREMENTAL \
     CARGO_BUILD_JOBS CARGO_NET_OFFLINE NPM_CONFIG_LOGLEVEL NPM_CONFIG_YES RUSTUP_LOG CGO_ENABLED \
     GO111MODULE"
);

const NAMES: &[&str] = words!(
    "PATH ENV IFS HOME PWD OLDPWD SHELL SHELLOPTS BASHOPTS PS4 PS1 PS0 CDPATH GLOBIGNORE FPATH \
     ZDOTDIR EXECIGNORE PAGER EDITOR VISUAL BROWSER CC CXX CPP LD AR AS CLASSPATH LESS MORE MAKE \
     MAKEFILES TAR_READER_OPTIONS TAPE RSYNC_RSH SUDO_ASKPASS SSH_ASKPASS SSH_AUTH_SOCK \
     DOCKER_HOST DOCKER_CONTEXT KUBECONFIG WGETRC CURL_HOME INPUTRC TERMCAP TERMINFO HOSTALIASES \
     LOCALDOMAIN RES_OPTIONS MALLOC_CHECK_ NLSPATH LOCPATH GCONV_PATH GETCONF_DIR RESOLV_HOST_CONF \
     TMUX XDG_CONFIG_HOME XDG_CONFIG_DIRS XDG_DATA_HOME XDG_DATA_DIRS XDG_STATE_HOME FUNCNEST \
     HISTFILE BROWSERSLIST JUST_JUSTFILE"
);

const PREFIXES: &[&str] = words!(
    "LD_ DYLD_ GIT_ BASH_ LESSOPEN LESSCLOSE LESSKEY MAN NODE_ NPM_CONFIG_ YARN_ PNPM_ PYTHON PERL \
     RUBY GEM_ BUNDLE_ CARGO_ RUSTC RUSTDOC RUSTUP_ GO111 GOPROXY GOROOT GOENV GOTOOL CGO_ JAVA_ \
     JDK_ _JAVA MAVEN_ GRADLE_ SBT_ ANT_ PIP_ UV_ POETRY_ VIRTUAL_ENV CONDA_ LUA_ PHP COMPOSER_ \
     R_PROFILE R_ENVIRON ZERO_ GCC_ CMAKE_ NIX_ TF_CLI RIPGREP_CONFIG GROFF ZIP UNZIP GZIP BZIP \
     XZ_ ZSTD_ DEBUGINFOD GOCACHE GOPRIVATE GOSUMDB PYTEST_ DOTNET_ COMPOSE_ DOCKER_ GNUPG \
     OPENSSL_ GLIBC_ MALLOC_ TRACE2 FZF_DEFAULT"
);

const SUFFIXES: &[&str] = words!(
    "_PATH _OPTIONS _OPTS OPTS _OPT FLAGS _WRAPPER _RUNNER PAGER EDITOR _COMMAND _SHELL _ASKPASS \
     _PROXY _INDEX_URL _REGISTRY _CONFIG _CONFIG_FILE _HOME _PRELOAD _STARTUP _INIT _RC _CA_BUNDLE \
     _CERT_FILE _CERT_DIR _BASE_URL"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn execution_changing_variables_are_recognized() {
        for name in [
            "PATH",
            "LD_PRELOAD",
            "GIT_SSH_COMMAND",
            "GIT_AUTHOR_NAME",
            "GIT_TERMINAL_PROMPT",
            "MANPAGER",
            "PAGER",
            "NODE_OPTIONS",
            "PYTHONSTARTUP",
            "http_proxy",
            "npm_config_registry",
            "BASH_ENV",
            "RUSTFLAGS",
            "MAKEFLAGS",
            "CARGO_HOME",
            "ENV",
            "IFS",
        ] {
            assert!(changes_what_runs(name), "{name}");
        }
        for name in [
            "NODE_ENV",
            "CI",
            "FOO",
            "RUST_LOG",
            "RUST_BACKTRACE",
            "DEBUG",
            "TZ",
            "LANG",
            "LC_ALL",
            "PORT",
            "TEST",
            "FORCE_COLOR",
            "NO_COLOR",
            "GOOS",
            "GOARCH",
            "i",
            "f",
            "file",
            "AWS_PROFILE",
            "DATABASE_URL",
            "VERSION",
            "PYTHONUNBUFFERED",
            "TERM",
            "COLUMNS",
        ] {
            assert!(!changes_what_runs(name), "{name}");
        }
    }
}
