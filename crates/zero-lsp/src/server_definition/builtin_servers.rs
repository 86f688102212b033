//! The table of built-in language servers.

use serde_json::{Value, json};

use super::{FileLanguage, LanguageServerDefinition};

/// Name, command lines, extensions with the language of each, and how to install it.
type BuiltinServerRow = (
    &'static str,
    &'static [&'static [&'static str]],
    &'static [(&'static str, &'static str)],
    &'static str,
);

const BUILTIN_SERVERS: &[BuiltinServerRow] = &[
    (
        "rust-analyzer",
        &[&["rust-analyzer"]],
        &[("rs", "rust")],
        "`rustup component add rust-analyzer`",
    ),
    (
        "clangd",
        &[
            &["clangd"],
            &["clangd-21"],
            &["clangd-20"],
            &["clangd-19"],
            &["clangd-18"],
            &["clangd-17"],
            &["clangd-16"],
            &["clangd-15"],
            &["clangd-14"],
        ],
        &[
            ("c", "c"),
            ("h", "c"),
            ("cc", "cpp"),
            ("cpp", "cpp"),
            ("cxx", "cpp"),
            ("hh", "cpp"),
            ("hpp", "cpp"),
            ("hxx", "cpp"),
            ("inl", "cpp"),
            ("cu", "cuda-cpp"),
            ("m", "objective-c"),
            ("mm", "objective-cpp"),
        ],
        "`apt install clangd`, or with LLVM",
    ),
    (
        "python",
        &[&["basedpyright-langserver", "--stdio"], &["pyright-langserver", "--stdio"], &["pylsp"]],
        &[("py", "python"), ("pyi", "python")],
        "`pip install basedpyright` or `npm install -g pyright`",
    ),
    (
        "typescript",
        &[&["typescript-language-server", "--stdio"]],
        &[
            ("ts", "typescript"),
            ("mts", "typescript"),
            ("cts", "typescript"),
            ("tsx", "typescriptreact"),
            ("js", "javascript"),
            ("mjs", "javascript"),
            ("cjs", "javascript"),
            ("jsx", "javascriptreact"),
        ],
        "`npm install -g typescript-language-server typescript`",
    ),
    (
        "gopls",
        &[&["gopls"]],
        &[("go", "go"), ("go.mod", "go.mod"), ("go.work", "go.work")],
        "`go install golang.org/x/tools/gopls@latest`",
    ),
    ("zls", &[&["zls"]], &[("zig", "zig")], "with Zig, or from its releases"),
    (
        "lua",
        &[&["lua-language-server"]],
        &[("lua", "lua")],
        "from the releases of lua-language-server",
    ),
    (
        "bash",
        &[&["bash-language-server", "start"]],
        &[("sh", "shellscript"), ("bash", "shellscript")],
        "`npm install -g bash-language-server`",
    ),
    ("ruby", &[&["ruby-lsp"]], &[("rb", "ruby")], "`gem install ruby-lsp`"),
    ("java", &[&["jdtls"]], &[("java", "java")], "from the downloads of Eclipse JDT LS"),
];

/// Returns the built-in servers. They write to their cache folder, so none needs write access to
/// the project.
pub fn builtin_servers() -> Vec<LanguageServerDefinition> {
    let definition =
        |(name, commands, languages, how): &BuiltinServerRow| LanguageServerDefinition {
            name: (*name).to_owned(),
            commands: commands
                .iter()
                .map(|words| words.iter().map(|word| (*word).to_owned()).collect())
                .collect(),
            languages: languages
                .iter()
                .map(|(ending, id)| FileLanguage {
                    ending: (*ending).to_owned(),
                    id: (*id).to_owned(),
                })
                .collect(),
            settings: default_settings(name),
            initialization_options: default_initialization_options(name),
            how_to_get: (*how).to_owned(),
            ..LanguageServerDefinition::default()
        };
    BUILTIN_SERVERS.iter().map(definition).collect()
}

fn default_settings(name: &str) -> Value {
    match name {
        "python" => json!({
            "python": {"analysis": {"diagnosticMode": "openFilesOnly"}},
            "basedpyright": {"analysis": {"diagnosticMode": "openFilesOnly"}},
        }),
        _ => Value::Null,
    }
}

fn default_initialization_options(name: &str) -> Value {
    match name {
        // Without network access it cannot download type definitions, and would try for minutes.
        "typescript" => json!({"disableAutomaticTypingAcquisition": true}),
        _ => Value::Null,
    }
}
