//! Which variables a command gets: a few that it needs, none that could be a secret.

use std::ffi::OsString;
use std::path::Path;

use super::Streams;

/// Variables that are passed on. A name that ends in `*` stands for many.
const PASSED_ON: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    // Where toolchains lie.
    "CARGO_HOME",
    "RUSTUP_HOME",
    "GOPATH",
    "GOROOT",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "VIRTUAL_ENV",
];
/// Words in the name of a variable that holds a secret.
const SECRET_WORDS: &[&str] =
    &["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "AUTH", "COOKIE"];
/// Variables of providers, and doors to what runs outside.
const SECRET_STARTS: &[&str] = &[
    "ANTHROPIC_",
    "OPENAI_",
    "GEMINI_",
    "GOOGLE_",
    "AWS_",
    "AZURE_",
    "GITHUB_",
    "GH_",
    "GITLAB_",
    "HF_",
    "DBUS_",
    "WAYLAND_",
    "SSH_",
    "GPG_",
    "XDG_RUNTIME_DIR",
    "XAUTHORITY",
    "DISPLAY",
    "ZERO_",
];
/// What a command gets whatever the environment says: nothing pages, nothing asks for a password.
const ALWAYS: &[(&str, &str)] =
    &[("PAGER", "cat"), ("GIT_PAGER", "cat"), ("GIT_TERMINAL_PROMPT", "0")];
/// Where programs are found when the environment does not say.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The variables that every command of a host gets.
#[derive(Clone, Debug)]
pub(super) struct Environment(Vec<(String, String)>);

impl Environment {
    /// Picks them from an environment. `allowed` names further ones: a name by itself always
    /// counts, one that ends in `*` only for what does not look like a secret.
    pub(super) fn scrubbed(all: &[(String, String)], allowed: &[String]) -> Self {
        let passes = |name: &str| {
            let fits = |pattern: &str| match pattern.strip_suffix('*') {
                Some(start) => name.starts_with(start) && !looks_secret(name),
                None => name == pattern,
            };
            PASSED_ON.iter().any(|pattern| fits(pattern))
                || allowed.iter().any(|pattern| fits(pattern))
        };
        let mut kept: Vec<(String, String)> =
            all.iter().filter(|(name, _)| passes(name)).cloned().collect();
        if !kept.iter().any(|(name, _)| name == "PATH") {
            kept.push(("PATH".to_owned(), USUAL_PATH.to_owned()));
        }
        Self(kept)
    }

    /// The whole environment of one command: what its network wants, and what its call sets.
    pub(super) fn with(
        &self,
        network: &[(&str, &str)],
        variables: &[(String, String)],
        streams: Streams,
        tmp: &Path,
    ) -> Vec<(OsString, OsString)> {
        let terminal = match streams {
            Streams::Pipes => "dumb",
            Streams::Terminal => "xterm-256color",
        };
        let fixed = ALWAYS.iter().copied().chain([("TERM", terminal)]);
        let fixed = fixed.chain(network.iter().copied());
        let fixed = fixed.map(|(name, value)| (name.into(), value.into()));
        let kept = self.0.iter().map(|(name, value)| (name.into(), value.into()));
        let own = variables.iter().map(|(name, value)| (name.into(), value.into()));
        let all = kept.chain(fixed).chain([("TMPDIR".into(), tmp.into())]).chain(own);
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

fn looks_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
        || SECRET_STARTS.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, allowed: &[&str], passes: bool) {
        let allowed: Vec<String> = allowed.iter().map(|name| (*name).to_owned()).collect();
        let all = [(name.to_owned(), "x".to_owned())];
        let environment = Environment::scrubbed(&all, &allowed);
        let found = environment.0.iter().any(|(known, _)| known == name);
        assert_eq!(found, passes, "{name} with {allowed:?}");
    }

    #[test]
    fn only_what_is_needed_or_named_passes() {
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
    fn what_a_call_sets_comes_last_and_each_name_once() {
        let all = [("PATH".to_owned(), "/bin".to_owned())];
        let environment = Environment::scrubbed(&all, &[]);
        let own = [("PAGER".to_owned(), "less".to_owned())];
        let network = [("PAGER", "more")];
        let seen = environment.with(&network, &own, Streams::Pipes, Path::new("/private"));
        let mut shown: Vec<String> = seen
            .iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        shown.sort();
        let expected = ["GIT_PAGER=cat", "GIT_TERMINAL_PROMPT=0", "PAGER=less", "PATH=/bin"];
        let expected = [&expected[..], &["TERM=dumb", "TMPDIR=/private"]].concat();
        assert_eq!(shown, expected);
    }
}
