//! Selects the variables that a command gets: those that programs commonly need, none that could
//! hold a secret.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use zero_policy::PackageManager;
use zero_policy::shell::{changes_what_runs, is_locale_name, is_plain_locale};
use zero_sandbox::path_survey;

use crate::command_request::StreamMode;

/// Variables that are passed on. A name that ends in `*` is a prefix.
const PASSED_VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "SOURCE_DATE_EPOCH",
    // Where programs store their files.
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    // Where toolchains are installed.
    "CARGO_HOME",
    "CARGO_TARGET_DIR",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "GOPATH",
    "GOROOT",
    "GOCACHE",
    "GOMODCACHE",
    "JAVA_HOME",
    "MAVEN_HOME",
    "GRADLE_HOME",
    "GRADLE_USER_HOME",
    "ANDROID_HOME",
    "ANDROID_SDK_ROOT",
    "DOTNET_ROOT",
    "NVM_DIR",
    "NVM_BIN",
    "VOLTA_HOME",
    "PNPM_HOME",
    "BUN_INSTALL",
    "PYENV_ROOT",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "RBENV_ROOT",
    "GEM_HOME",
    "GEM_PATH",
    "ASDF_DIR",
    "ASDF_DATA_DIR",
    "SDKMAN_DIR",
];
/// Words in the names of variables that hold a secret or give access to one.
const SECRET_WORDS: &[&str] = &[
    "KEY",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "AUTH",
    "COOKIE",
    "PRIVATE",
    "SESSION",
    "SOCK",
    "WEBHOOK",
];
/// Prefixes of provider variables, and of variables that lead to services outside the sandbox.
const SECRET_STARTS: &[&str] = &[
    "ANTHROPIC_",
    "OPENAI_",
    "GEMINI_",
    "GOOGLE_",
    "GCP_",
    "GCLOUD_",
    "CLOUDSDK_",
    "AWS_",
    "AZURE_",
    "ARM_",
    "CLOUDFLARE_",
    "DIGITALOCEAN_",
    "HEROKU_",
    "GITHUB_",
    "GH_",
    "GITLAB_",
    "CI_JOB_",
    "HF_",
    "HUGGING",
    "MISTRAL_",
    "COHERE_",
    "GROQ_",
    "DEEPSEEK_",
    "OPENROUTER_",
    "XAI_",
    "STRIPE_",
    "TWILIO_",
    "SENTRY_",
    "VAULT_",
    "NPM_CONFIG_",
    "KUBE",
    "PGPASS",
    "MYSQL_PWD",
    "DBUS_",
    "WAYLAND_",
    "SSH_",
    "GPG_",
    "XDG_RUNTIME_DIR",
    "XAUTHORITY",
    "DISPLAY",
    "DOCKER_",
    "CONTAINER_HOST",
    "PULSE_",
    "PIPEWIRE_",
    "AT_SPI_",
    "VSCODE_",
    "TMUX",
    "STY",
    "ZERO_",
];
/// Variables that every command gets, whatever the environment contains: no pagers, no password
/// prompts.
const FIXED_VARIABLES: &[(&str, &str)] =
    &[("PAGER", "cat"), ("GIT_PAGER", "cat"), ("GIT_TERMINAL_PROMPT", "0")];
/// `PATH` when the environment has none.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The absolute entries of a `PATH`. In a relative one, a file of the folder in which a command runs
/// would replace a program that policy knows.
fn absolute_search_path(path: Option<&str>) -> String {
    let entries: Vec<&str> = path
        .into_iter()
        .flat_map(|path| path.split(':'))
        .filter(|it| it.starts_with('/'))
        .collect();
    match entries.is_empty() {
        true => DEFAULT_PATH.to_owned(),
        false => entries.join(":"),
    }
}

/// The variables that every command of a host gets.
#[derive(Clone, Debug)]
pub(super) struct CommandEnvironment(Vec<(String, String)>);

impl CommandEnvironment {
    /// Selects the variables from an environment. Those that name registries of package managers pass
    /// without passwords, as does configuration in files. `allowed` names further ones: an exact name
    /// always passes; a prefix that ends in `*` passes only variables that neither look like
    /// secrets nor make programs run code. A locale passes only with the encoding UTF-8.
    pub(super) fn scrub(all: &[(String, String)], allowed: &[String]) -> Self {
        let passes = |name: &str, value: &str| {
            let is_harmless =
                || !is_secret_name(name) && !changes_what_runs(name) && !has_password(value);
            let is_meant = |pattern: &str| match pattern.strip_suffix('*') {
                Some(start) => name.starts_with(start) && is_harmless(),
                None => name == pattern,
            };
            // Policy reads lines as UTF-8. A shell with another encoding would see other words in them.
            if is_locale_name(name) && !is_plain_locale(value) {
                return false;
            }
            let is_registry = PackageManager::from_registry_variable(name).is_some();
            (is_registry && !has_password(value))
                || PASSED_VARIABLES.iter().any(|pattern| is_meant(pattern))
                || allowed.iter().any(|pattern| is_meant(pattern))
        };
        let mut kept: Vec<(String, String)> =
            all.iter().filter(|(name, value)| passes(name, value)).cloned().collect();
        let path = kept.iter().position(|(name, _)| name == "PATH");
        let path = path.map(|at| kept.remove(at).1);
        kept.push(("PATH".to_owned(), absolute_search_path(path.as_deref())));
        Self(kept)
    }

    /// `PATH` without relative entries and without the folders inside `folders`. Policy uses it to
    /// find programs, so it must not contain anything that a call could have written.
    pub(super) fn trusted_search_path(&self, folders: &[PathBuf]) -> String {
        let path = self.0.iter().find(|(name, _)| name == "PATH");
        let entries = path.into_iter().flat_map(|(_, path)| std::env::split_paths(path));
        let is_outside = |path: &PathBuf| path_survey::is_outside(path, folders);
        let kept: Vec<String> = entries
            .filter(is_outside)
            .filter_map(|path| path.to_str().map(str::to_owned))
            .collect();
        if kept.is_empty() { DEFAULT_PATH.to_owned() } else { kept.join(":") }
    }

    /// The selected variables.
    pub(super) fn variables(&self) -> &[(String, String)] {
        &self.0
    }

    /// The complete environment of one command: registries of package managers, the selected
    /// variables, caches of package managers, those of its network, and those that its call sets.
    /// Later ones replace earlier ones.
    pub(super) fn build(
        &self,
        registries: Vec<(OsString, OsString)>,
        caches: Vec<(OsString, OsString)>,
        network: &[(&str, &str)],
        variables: &[(String, String)],
        streams: StreamMode,
        tmp: &Path,
    ) -> Vec<(OsString, OsString)> {
        let terminal = match streams {
            StreamMode::Pipes => "dumb",
            StreamMode::Terminal => "xterm-256color",
        };
        let fixed = FIXED_VARIABLES.iter().copied().chain([("TERM", terminal)]);
        let fixed = fixed.chain(network.iter().copied());
        let fixed = fixed.map(|(name, value)| (name.into(), value.into()));
        let kept = self.0.iter().map(|(name, value)| (name.into(), value.into()));
        let own = variables.iter().map(|(name, value)| (name.into(), value.into()));
        let all = registries
            .into_iter()
            .chain(kept)
            .chain(caches)
            .chain(fixed)
            .chain([("TMPDIR".into(), tmp.into())])
            .chain(own);
        let mut environment: Vec<(OsString, OsString)> = Vec::new();
        for (name, value) in all {
            match environment.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => *known = value,
                None => environment.push((name, value)),
            }
        }
        environment
    }
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
        || SECRET_STARTS.iter().any(|start| name.starts_with(start))
}

/// Whether a value contains a URL with a password, as `postgres://me:secret@db/x` does.
fn has_password(value: &str) -> bool {
    value.match_indices("://").any(|(at, mark)| {
        let rest = value.get(at + mark.len()..).unwrap_or_default();
        let end = rest.find(['/', '?', '#', ' ']).unwrap_or(rest.len());
        rest.get(..end).is_some_and(|authority| authority.contains('@'))
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "tests set up real files")]
    use super::*;

    #[track_caller]
    fn check(name: &str, allowed: &[&str], passes: bool) {
        let allowed: Vec<String> = allowed.iter().map(|name| (*name).to_owned()).collect();
        let value = if is_locale_name(name) { "C.UTF-8" } else { "x" };
        let all = [(name.to_owned(), value.to_owned())];
        let environment = CommandEnvironment::scrub(&all, &allowed);
        let found = environment.0.iter().any(|(known, _)| known == name);
        assert_eq!(found, passes, "{name} with {allowed:?}");
    }

    #[test]
    fn writable_folders_are_dropped_from_search_path() {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        for folder in ["work/.venv/bin", "tools"] {
            std::fs::create_dir_all(base.join(folder)).unwrap();
        }
        std::os::unix::fs::symlink(base.join("work"), base.join("link")).unwrap();
        let at = |path: &str| base.join(path).display().to_string();
        let check = |path: &[String], expected: &str| {
            let all = [("PATH".to_owned(), path.join(":"))];
            let environment = CommandEnvironment::scrub(&all, &[]);
            assert_eq!(environment.trusted_search_path(&[base.join("work")]), expected);
        };
        let (tools, inside, link) = (at("tools"), at("work/.venv/bin"), at("link/.venv/bin"));
        let relative = "node_modules/.bin".to_owned();
        check(&[inside.clone(), tools.clone(), link, String::new(), relative], &tools);
        check(&[inside], DEFAULT_PATH);
    }

    #[test]
    fn relative_entries_of_the_search_path_are_not_passed() {
        for (path, expected) in [
            ("venv/bin:/usr/bin:.::/bin", "/usr/bin:/bin"),
            ("/usr/bin", "/usr/bin"),
            ("node_modules/.bin", DEFAULT_PATH),
            ("", DEFAULT_PATH),
        ] {
            let all = [("PATH".to_owned(), path.to_owned())];
            let environment = CommandEnvironment::scrub(&all, &[]);
            assert_eq!(
                environment.variables(),
                [("PATH".to_owned(), expected.to_owned())],
                "{path}"
            );
        }
    }

    #[test]
    fn only_needed_or_named_variables_pass() {
        for name in ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "RUSTUP_HOME"] {
            check(name, &[], true);
        }
        for name in ["OPENAI_API_KEY", "MY_TOKEN", "SSH_AUTH_SOCK", "DISPLAY", "EDITOR", "CI"] {
            check(name, &[], false);
            check(name, &["NOT_IT"], false);
            check(name, &[name], true);
        }
        check("MY_FLAG", &["MY_*"], true);
        for name in ["MY_API_KEY", "my_secret", "MY_PASSWORD", "MY_CREDENTIALS"] {
            check(name, &["MY_*", "my_*"], false);
        }
        for name in ["AWS_REGION", "DBUS_SESSION_BUS_ADDRESS", "WAYLAND_DISPLAY", "ZERO_LOG"] {
            check(name, &["*"], false);
        }
    }

    #[test]
    fn locale_of_other_encoding_does_not_pass() {
        let check = |name: &str, value: &str, passes: bool| {
            let all = [(name.to_owned(), value.to_owned())];
            let environment = CommandEnvironment::scrub(&all, &[name.to_owned()]);
            let found = environment.0.iter().any(|(known, _)| known == name);
            assert_eq!(found, passes, "{name}={value}");
        };
        for name in ["LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES"] {
            for value in ["de_DE.UTF-8", "C.utf8", "C", "POSIX", ""] {
                check(name, value, true);
            }
            for value in ["zh_CN.GBK", "ja_JP.SJIS", "zh_CN", "zh_TW.big5"] {
                check(name, value, false);
            }
        }
    }

    #[test]
    fn registries_pass_without_passwords() {
        let check = |name: &str, value: &str, passes: bool| {
            let environment = CommandEnvironment::scrub(&[(name.into(), value.into())], &[]);
            assert_eq!(environment.0.iter().any(|(known, _)| known == name), passes, "{name}");
        };
        check("PIP_INDEX_URL", "https://a.test/simple", true);
        check("PIP_INDEX_URL", "https://me:secret@a.test/simple", false);
        check("npm_config_registry", "https://a.test", true);
        check("CARGO_REGISTRIES_TEAM_TOKEN", "x", false);
    }

    #[test]
    fn wildcard_passes_no_secret_socket_or_loader() {
        let names = "API_KEY DEPLOY_TOKEN MY_SECRET DB_PASSWORD DB_PASSWD GCP_CREDENTIALS NPM_AUTH \
            AWS_REGION AZURE_TENANT GOOGLE_CLOUD_PROJECT GCP_PROJECT OPENAI_ORG ANTHROPIC_MODEL \
            GEMINI_MODEL GITHUB_ACTOR GITLAB_USER HF_HOME SSH_AUTH_SOCK SSH_AGENT_PID GPG_AGENT_INFO \
            DBUS_SESSION_BUS_ADDRESS DISPLAY WAYLAND_DISPLAY XAUTHORITY DOCKER_HOST XDG_RUNTIME_DIR \
            LD_PRELOAD LD_LIBRARY_PATH BASH_ENV ENV PYTHONSTARTUP NODE_OPTIONS GIT_SSH_COMMAND \
            GIT_EXTERNAL_DIFF PERL5OPT RUBYOPT api_key";
        for name in names.split_whitespace() {
            check(name, &[], false);
            check(name, &["*"], false);
            check(name, &["*", name], true);
        }
        for name in ["MY_FLAG", "CI", "DEBUG", "NODE_ENV", "CARGO_TERM_COLOR"] {
            check(name, &["*"], true);
        }
    }

    #[test]
    fn url_with_password_passes_only_by_exact_name() {
        #[track_caller]
        fn check(value: &str, passes: bool) {
            let all = [("MY_URL".to_owned(), value.to_owned())];
            let found = |allowed: &str| {
                let environment = CommandEnvironment::scrub(&all, &[allowed.to_owned()]);
                environment.0.iter().any(|(name, _)| name == "MY_URL")
            };
            assert_eq!((found("MY_*"), found("MY_URL")), (passes, true), "{value}");
        }
        check("postgres://me:secret@db/x", false);
        check("jdbc:mysql://root:x@h:3306", false);
        check("https://abcdef@sentry.example/1", false);
        check("a b http://u:p@h", false);
        check("https://example.com/@scope/pkg", true);
        check("me@example.com", true);
        check("https://example.com?to=a@b", true);
    }

    #[test]
    fn call_variables_come_last_and_names_are_unique() {
        let all = [("PATH".to_owned(), "/bin".to_owned())];
        let environment = CommandEnvironment::scrub(&all, &[]);
        let own = [("PAGER".to_owned(), "less".to_owned())];
        let network = [("PAGER", "more")];
        // Registries replace nothing that was passed on; caches do.
        let registries = vec![("PATH".into(), "/no".into()), ("UV_CACHE_DIR".into(), "/u".into())];
        let caches = vec![("UV_CACHE_DIR".into(), "/cache".into())];
        let tmp = Path::new("/private");
        let seen = environment.build(registries, caches, &network, &own, StreamMode::Pipes, tmp);
        let mut shown: Vec<String> = seen
            .iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        shown.sort();
        let expected = ["GIT_PAGER=cat", "GIT_TERMINAL_PROMPT=0", "PAGER=less", "PATH=/bin"];
        let expected =
            [&expected[..], &["TERM=dumb", "TMPDIR=/private", "UV_CACHE_DIR=/cache"]].concat();
        assert_eq!(shown, expected);
    }
}
