//! Variables that change which code runs.
//!
//! `LD_PRELOAD=x git status` is not `git status`. If a variable on this list is set, for a command
//! or for the rest of a script, a rule that allows the command does not cover it.
//!
//! No list is complete, so there are three classes: variables that steer programs, variables that
//! are harmless, and all others. A program that is judged by its arguments needs a rule if one of
//! the others is set for it, unless it is known to ignore them.

use super::arg::ShellArg;
use crate::word_list::words;

/// The effect that setting a variable has on programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VariableEffect {
    /// None that matters.
    Harmless,
    /// Not known: its name may mean something to a program.
    Unknown,
    /// It can change which program runs, what it loads or what it runs.
    Steers,
}

impl VariableEffect {
    /// The effect of setting a variable to a value; `None` if that is not known.
    pub(crate) fn new(name: &str, value: Option<&ShellArg>) -> Self {
        if is_locale_name(name) {
            let is_plain = value.and_then(ShellArg::as_known).is_some_and(is_plain_locale);
            return if is_plain { Self::Harmless } else { Self::Steers };
        }
        match changes_what_runs(name) {
            true => Self::Steers,
            false if HARMLESS.contains(&name) || IGNORED.contains(&name) => Self::Harmless,
            false => Self::Unknown,
        }
    }
}

/// Whether a variable selects a locale, and with it the encoding of text.
pub fn is_locale_name(name: &str) -> bool {
    name == "LANG" || name.starts_with("LC_")
}

/// Whether a locale encodes text in ASCII or UTF-8. In others, a byte of a character may be a quote
/// or a separator: one word becomes several commands.
pub fn is_plain_locale(locale: &str) -> bool {
    let locale = locale.split('@').next().unwrap_or_default();
    let encoding = locale.split_once('.').map(|(_, encoding)| encoding);
    matches!(locale, "" | "C" | "POSIX")
        || encoding.is_some_and(|encoding| {
            encoding.eq_ignore_ascii_case("utf-8") || encoding.eq_ignore_ascii_case("utf8")
        })
}

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

/// Variables that programs use for their looks and messages only.
const IGNORED: &[&str] = words!(
    "CI NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE COLORTERM TERM COLUMNS LINES LANGUAGE TZ DEBUG \
     VERBOSE RUST_LOG RUST_BACKTRACE GREP_COLORS LS_COLORS JQ_COLORS TIME_STYLE BLOCK_SIZE \
     DEBIAN_FRONTEND"
);

const NAMES: &[&str] = words!(
    "PATH ENV IFS HOME PWD OLDPWD SHELL SHELLOPTS BASHOPTS PS4 PS1 PS0 CDPATH GLOBIGNORE FPATH \
     ZDOTDIR EXECIGNORE PAGER EDITOR VISUAL BROWSER CC CXX CPP LD AR AS CLASSPATH MORE MAKE \
     MAKEFILES TAR_READER_OPTIONS TAPE RSYNC_RSH SUDO_ASKPASS SSH_ASKPASS SSH_AUTH_SOCK \
     DOCKER_HOST DOCKER_CONTEXT KUBECONFIG SYSTEM_WGETRC INPUTRC TERMCAP HOSTALIASES LOCALDOMAIN \
     RES_OPTIONS MALLOC_CHECK_ NLSPATH LOCPATH GCONV_PATH GETCONF_DIR RESOLV_HOST_CONF \
     TMUX XDG_CONFIG_HOME XDG_CONFIG_DIRS XDG_DATA_HOME XDG_DATA_DIRS XDG_STATE_HOME FUNCNEST \
     HISTFILE BROWSERSLIST JUST_JUSTFILE ACKRC AWKPATH AWKLIBPATH BC_ENV_ARGS POSIXLY_CORRECT \
     SHELLCHECK_OPTS SIMPLE_BACKUP_SUFFIX VERSION_CONTROL SSLKEYLOGFILE NETRC MAGIC VIMINIT EXINIT VIMRUNTIME \
     EMACSLOADPATH MAILPATH MAILCAPS FCEDIT PSQLRC PGSERVICEFILE HGRCPATH XML_CATALOG_FILES \
     SGML_CATALOG_FILES LYNX_CFG SCREENRC"
);

const PREFIXES: &[&str] = words!(
    "LD_ DYLD_ GIT_ BASH_ LESS TERMINFO CURL_ WGET RPM_ GAWK MAN NODE_ NPM_CONFIG_ YARN_ PNPM_ PYTHON PERL \
     RUBY GEM_ BUNDLE_ CARGO_ RUSTC RUSTDOC RUSTUP_ GO111 GOPROXY GOROOT GOENV GOTOOL CGO_ JAVA_ \
     JDK_ _JAVA MAVEN_ GRADLE_ SBT_ ANT_ PIP_ UV_ POETRY_ VIRTUAL_ENV CONDA_ LUA_ PHP COMPOSER_ \
     R_PROFILE R_ENVIRON ZERO_ GCC_ CMAKE_ NIX_ TF_CLI RIPGREP_CONFIG GROFF ZIP UNZIP GZIP BZIP \
     XZ_ ZSTD_ DEBUGINFOD GOCACHE GOPRIVATE GOSUMDB PYTEST_ DOTNET_ COMPOSE_ DOCKER_ GNUPG \
     OPENSSL_ GLIBC_ MALLOC_ TRACE2 FZF_DEFAULT"
);

const SUFFIXES: &[&str] = words!(
    "_PATH _RSH _SSH _PLUGINS _CONFIGDIR _OPTIONS _OPTS OPTS _OPT FLAGS _WRAPPER _RUNNER PAGER EDITOR _COMMAND _SHELL _ASKPASS \
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
            "TERMINFO_DIRS",
            "ACKRC",
            "RPM_CONFIGDIR",
            "SYSTEM_WGETRC",
            "WGETRC",
            "WGET2_PLUGINS",
            "LESSHISTFILE",
            "CVS_RSH",
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

    #[test]
    fn only_plain_locale_is_harmless() {
        let effect = |value: &str| VariableEffect::new("LC_ALL", Some(&ShellArg::known(value)));
        for value in ["", "C", "POSIX", "C.UTF-8", "en_US.utf8", "de_DE.UTF-8@euro"] {
            assert_eq!(effect(value), VariableEffect::Harmless, "{value}");
        }
        for value in ["zh_CN.GBK", "ja_JP.SJIS", "zh_CN", "en_US.ISO-8859-1", "x.utf-8.GBK"] {
            assert_eq!(effect(value), VariableEffect::Steers, "{value}");
        }
        assert_eq!(VariableEffect::new("LANG", None), VariableEffect::Steers);
        assert_eq!(VariableEffect::new("lang", None), VariableEffect::Unknown);
        assert_eq!(VariableEffect::new("CI", None), VariableEffect::Harmless);
        assert_eq!(VariableEffect::new("GREP", None), VariableEffect::Unknown);
    }
}
