//! Code samples in each language that has a known language server.
//!
//! The check uses the first installed server, with the sample in its language. The first sample is the
//! file of the tool examples.

use serde_json::{Value, json};
use zero_core::{ErrorReason, ErrorType, ToolError};
use zero_lsp::LanguageServerDefinition;
use zero_lsp::server_definition::{self, ProgramSearchPath};

use crate::AppContext;
use crate::trial_host::{DialectCall, TrialHost, WorkspaceFiles};

/// Code that defines a function and calls it.
struct CodeSample {
    /// Language server for the sample.
    server: &'static str,
    /// Source file, followed by other files of the project.
    files: &'static WorkspaceFiles,
    /// Line and character of the call, from 1.
    call: (u64, u64),
    /// Line of the definition, from 1.
    defined: u64,
}

/// Samples, the server that starts fastest first.
const SAMPLES: &[CodeSample] = &[
    CodeSample {
        server: "clangd",
        files: &[(
            "shop.c",
            "int price(int count) { return 3 * count; }\nint main(void) { return price(2); }\n",
        )],
        call: (2, 25),
        defined: 1,
    },
    CodeSample {
        server: "python",
        files: &[("shop.py", "def price(count):\n    return 3 * count\n\nprint(price(2))\n")],
        call: (4, 7),
        defined: 1,
    },
    CodeSample {
        server: "typescript",
        files: &[(
            "shop.ts",
            "function price(count: number): number {\n  return 3 * count;\n}\nprice(2);\n",
        )],
        call: (4, 1),
        defined: 1,
    },
    CodeSample {
        server: "gopls",
        files: &[
            (
                "shop.go",
                "package main\n\nfunc price(count int) int { return 3 * count }\n\nfunc main() { price(2) }\n",
            ),
            ("go.mod", "module shop\n\ngo 1.18\n"),
        ],
        call: (5, 15),
        defined: 3,
    },
    CodeSample {
        server: "bash",
        files: &[("shop.sh", "price() {\n  echo $((3 * $1))\n}\nprice 2\n")],
        call: (4, 1),
        defined: 1,
    },
    CodeSample {
        server: "lua",
        files: &[(
            "shop.lua",
            "local function price(count)\n  return 3 * count\nend\nprint(price(2))\n",
        )],
        call: (4, 7),
        defined: 1,
    },
    CodeSample {
        server: "zls",
        files: &[(
            "shop.zig",
            "fn price(count: u32) u32 {\n    return 3 * count;\n}\npub fn main() void {\n    _ = price(2);\n}\n",
        )],
        call: (5, 9),
        defined: 1,
    },
    CodeSample {
        server: "ruby",
        files: &[("shop.rb", "def price(count)\n  3 * count\nend\n\nprice(2)\n")],
        call: (5, 1),
        defined: 1,
    },
    CodeSample {
        server: "rust-analyzer",
        files: &[
            (
                "src/main.rs",
                "fn price(count: u32) -> u32 {\n    3 * count\n}\n\nfn main() {\n    let _ = price(2);\n}\n",
            ),
            ("Cargo.toml", "[package]\nname = \"shop\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
        ],
        call: (6, 13),
        defined: 1,
    },
    CodeSample {
        server: "java",
        files: &[(
            "Shop.java",
            "class Shop {\n    static int price(int count) { return 3 * count; }\n    static int two() { return price(2); }\n}\n",
        )],
        call: (3, 31),
        defined: 2,
    },
];

/// Result of querying the installed servers.
pub(super) enum ServerProbe {
    /// This server gave the correct answer.
    Found(RespondingServer),
    /// No server can be started, and the tool reports the specified error. Contains the output of
    /// servers that were found.
    NoServer(Vec<String>),
    /// A server or an error message was wrong.
    Failed(String),
}

/// A working server and its sample.
#[derive(Clone, Copy)]
pub(super) struct RespondingServer {
    sample: &'static CodeSample,
}

impl RespondingServer {
    pub(super) fn server(self) -> &'static str {
        self.sample.server
    }

    /// Replaces the file and position in an example input with those of the sample.
    pub(super) fn adapt_input(
        self,
        trial: &TrialHost,
        mut input: Value,
    ) -> Result<Value, ToolError> {
        let put = trial.write_files(self.sample.files);
        put.map_err(|error| ToolError::failed(ErrorReason::Io, error.to_string()))?;
        let file = self.sample.files.first().map(|(file, _)| *file).unwrap_or_default();
        let (line, character) = self.sample.call;
        let values = [
            ("filePath", json!(file)),
            ("path", json!(file)),
            ("line", json!(line)),
            ("character", json!(character)),
        ];
        for (name, value) in values {
            if let Some(field) = input.get_mut(name) {
                *field = value;
            }
        }
        Ok(input)
    }
}

/// Requests a definition from one server after the other until one finds it.
pub(super) async fn probe_servers(app: &AppContext, trial: &TrialHost) -> ServerProbe {
    let (mut unusable, mut wrong) = (Vec::new(), Vec::new());
    let roots = [trial.root()];
    let search_path = ProgramSearchPath { search_path: app.config.search_path(), roots: &roots };
    let known = server_definition::builtin_servers();
    let is_there = |sample: &&CodeSample| {
        let is_it = |server: &&LanguageServerDefinition| server.name == sample.server;
        known.iter().find(is_it).is_some_and(|server| server.find_command(&search_path).is_some())
    };
    for sample in SAMPLES.iter().filter(is_there) {
        let server = sample.server;
        match find_definition(trial, sample).await {
            Ok(lines) if lines.contains(&sample.defined) => {
                return ServerProbe::Found(RespondingServer { sample });
            }
            Ok(lines) => {
                let defined = sample.defined;
                wrong.push(format!("`{server}` found it on lines {lines:?} instead of {defined}"));
            }
            Err(error) if error.reason() == Some(ErrorReason::ServerUnavailable) => {
                unusable.push(error.message);
            }
            Err(error) => wrong.push(error.message),
        }
    }
    if !wrong.is_empty() {
        return ServerProbe::Failed(wrong.join("; "));
    }
    match check_missing_server_error(trial, SAMPLES.iter().find(|sample| !is_there(sample))).await {
        Ok(()) => ServerProbe::NoServer(unusable),
        Err(why) => ServerProbe::Failed(why),
    }
}

/// Lines that a server reports as the definition of the function.
async fn find_definition(
    trial: &TrialHost,
    sample: &'static CodeSample,
) -> Result<Vec<u64>, ToolError> {
    let input = json!({"operation": "goToDefinition", "filePath": "", "line": 0, "character": 0});
    let input = RespondingServer { sample }.adapt_input(trial, input)?;
    let outcome = trial.call(DialectCall::canonical("LSP"), input).await?;
    let items = outcome.result.structured.get("items").and_then(Value::as_array).cloned();
    let lines = items.into_iter().flatten().filter_map(|item| item.get("line")?.as_u64());
    Ok(lines.collect())
}

/// Checks that a query without an installed server returns the specified error with installation
/// instructions.
async fn check_missing_server_error(
    trial: &TrialHost,
    missing: Option<&'static CodeSample>,
) -> Result<(), String> {
    let Some(sample) = missing else { return Ok(()) };
    let known = server_definition::builtin_servers();
    let known = known.iter().find(|known| known.name == sample.server);
    let how_to_get = known.map(|known| known.how_to_get.as_str()).unwrap_or_default();
    match find_definition(trial, sample).await {
        Err(error)
            if error.error_type == ErrorType::NotFound
                && error.reason() == Some(ErrorReason::ServerUnavailable)
                && [how_to_get, "`zero doctor`"].iter().all(|how| error.message.contains(how)) =>
        {
            Ok(())
        }
        Err(error) => Err(format!("wrong error for a missing server: {}", error.message)),
        Ok(_) => Err(format!("got an answer although `{}` is not installed", sample.server)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_server_has_code_sample() {
        let known = server_definition::builtin_servers();
        let mut names: Vec<&str> = known.iter().map(|server| server.name.as_str()).collect();
        let mut sampled: Vec<&str> = SAMPLES.iter().map(|sample| sample.server).collect();
        names.sort_unstable();
        sampled.sort_unstable();
        assert_eq!(sampled, names);
        for CodeSample { server, files, call: (line, character), defined } in SAMPLES {
            let (file, text) = files[0];
            let server = known.iter().find(|known| known.name == *server).unwrap();
            assert!(server.language_id(file.as_ref()).is_some(), "{file}");
            let line_of = |line: u64| text.lines().nth(line as usize - 1).unwrap();
            let at = &line_of(*line)[*character as usize - 1..];
            assert!(at.starts_with("price"), "{file}: {at}");
            assert!(line_of(*defined).contains("price"), "{file}");
        }
        let (file, text) = SAMPLES[0].files[0];
        assert!(zero_tools::examples::FILES.contains(&(file, text)), "it is that of the examples");
    }
}
