//! Which crate may depend on which, and which crates may use an external crate.

use std::collections::BTreeSet;
use std::path::Path;

use super::tidy_finding::TidyFinding;
use crate::repository::{CargoMetadata, ManifestDependency, WorkspacePackage};

/// What each crate of the workspace may depend on. Dependencies point down only.
const ALLOWED_DEPENDENCIES: &[(&str, &[&str])] = &[
    ("zero-core", &[]),
    ("zero-sandbox", &["zero-core"]),
    ("zero-policy", &["zero-core"]),
    ("zero-exec", &["zero-core", "zero-sandbox", "zero-policy"]),
    ("zero-runtime", &["zero-core", "zero-sandbox", "zero-policy", "zero-exec"]),
    ("zero-lsp", &["zero-core", "zero-sandbox", "zero-exec"]),
    ("zero-tools", &["zero-core", "zero-sandbox", "zero-exec", "zero-runtime", "zero-lsp"]),
    ("zero-wire", &["zero-core"]),
    ("zero-session", &["zero-core", "zero-policy", "zero-sandbox", "zero-runtime"]),
    ("zero-mcp", &["zero-core", "zero-policy", "zero-sandbox", "zero-exec", "zero-runtime"]),
    ("zero-terminal", &["zero-core", "zero-policy", "zero-sandbox"]),
    ("zero-client", &["zero-core", "zero-policy", "zero-runtime", "zero-wire"]),
    ("zero-acp", &["zero-core", "zero-policy", "zero-runtime", "zero-client"]),
    ("zero-chat", &["zero-core", "zero-policy", "zero-runtime", "zero-terminal", "zero-client"]),
    ("zero-gateway", &["zero-core", "zero-runtime", "zero-session", "zero-wire"]),
    // Language servers that are known by name, the tools that rules and their examples name, and the
    // checker of schemas that the protocol has.
    (
        "zero-settings",
        &[
            "zero-core",
            "zero-sandbox",
            "zero-policy",
            "zero-runtime",
            "zero-lsp",
            "zero-tools",
            "zero-wire",
        ],
    ),
    (
        "zero",
        &[
            "zero-core",
            "zero-sandbox",
            "zero-policy",
            "zero-exec",
            "zero-runtime",
            "zero-tools",
            "zero-lsp",
            "zero-wire",
            "zero-session",
            "zero-mcp",
            "zero-client",
            "zero-acp",
            "zero-chat",
            "zero-gateway",
            "zero-settings",
            "zero-terminal",
        ],
    ),
    // A third-party program, as an example.
    ("custom-tool", &["zero-core", "zero-sandbox", "zero-runtime"]),
    // The fuzz targets as tests, and the macro that makes functions of them.
    ("fuzz-target-macro", &[]),
    (
        "fuzz-smoke",
        &[
            "fuzz-target-macro",
            "zero-core",
            "zero-exec",
            "zero-lsp",
            "zero-mcp",
            "zero-policy",
            "zero-runtime",
            "zero-sandbox",
            "zero-tools",
            "zero-wire",
        ],
    ),
    ("xtask", &[]),
];

/// External crates that only some crates may use, and why.
const RESTRICTED_CRATES: &[(&[&str], &[&str], &str)] = &[
    (
        &["rustix", "libc", "nix", "landlock", "seccompiler"],
        &["zero-sandbox"],
        "system calls live behind zero-sandbox",
    ),
    (
        &["clap", "clap_complete", "clap_mangen", "tracing-subscriber"],
        &["zero"],
        "the command line lives in zero",
    ),
    (
        &["anstyle", "terminal_size"],
        &["zero", "zero-terminal", "zero-chat"],
        "terminals are for who talks to people",
    ),
    (&["pulldown-cmark"], &["zero-terminal"], "one renderer of Markdown"),
    (&["syntect", "two-face"], &["zero-terminal"], "colors of code are found in one place"),
    (&["anyhow"], &["zero", "xtask"], "libraries have errors that can be matched"),
    (&["jsonschema"], &["zero-runtime"], "inputs are checked in one place"),
    (&["httparse"], &["zero-exec"], "one proxy, one reader of HTTP heads"),
    (
        &["ignore", "grep-matcher", "grep-regex", "grep-searcher"],
        &["zero-tools"],
        "searching is the tools' business",
    ),
    (&["globset"], &["zero-tools", "zero-exec"], "globs are used in searches and command lines"),
    (
        &["chardetng", "encoding_rs", "html5gum", "infer", "similar"],
        &["zero-tools"],
        "what a file holds is the tools' business",
    ),
    (&["agent-client-protocol"], &["zero-acp"], "one protocol, one crate"),
    (
        &["base64"],
        &[
            "zero-runtime",
            "zero-tools",
            "zero-mcp",
            "zero-session",
            "zero-wire",
            "zero-acp",
            "zero-gateway",
            "zero",
            "xtask",
        ],
        "bytes become text where files and wires are",
    ),
    (&["rmcp", "sse-stream", "keyring"], &["zero-mcp"], "one protocol, one crate"),
    (&["tokio-tungstenite"], &["zero-wire", "zero-gateway"], "one protocol, two sides"),
    (
        &["ring"],
        &["zero-wire", "zero-gateway", "zero-session"],
        "keys are used where processes meet",
    ),
    (&["subtle"], &["zero-wire", "zero-gateway"], "clients are authenticated where they connect"),
    (
        &["hyper", "hyper-util", "tokio-rustls"],
        &["zero-mcp", "zero-session", "zero-wire", "zero-gateway"],
        "the web is for who speaks a protocol on it",
    ),
    (
        &["reqwest", "rustls"],
        &["zero-runtime", "zero-mcp", "zero-session", "zero-wire", "zero-gateway", "zero"],
        "the web is for who speaks a protocol on it",
    ),
    (
        &["url"],
        &[
            "zero-runtime",
            "zero-tools",
            "zero-mcp",
            "zero-session",
            "zero-wire",
            "zero-gateway",
            "zero-settings",
            "zero",
        ],
        "addresses are for who goes to them",
    ),
    (
        &["flate2", "tar"],
        &["zero-runtime", "zero-tools", "zero-gateway", "zero", "xtask"],
        "what comes packed is unpacked within bounds, and the console is sent packed",
    ),
    (
        &[
            "opentelemetry",
            "opentelemetry_sdk",
            "opentelemetry-proto",
            "prost",
            "tracing-opentelemetry",
        ],
        &["zero"],
        "what leaves the machine as telemetry is decided in one place",
    ),
    (
        &["rusqlite", "tokio-postgres", "deadpool-postgres", "sqlx"],
        &["zero-session"],
        "databases live in zero-session",
    ),
    (&["async-nats"], &["zero-session"], "gateways reach each other through one port"),
    (
        &["tokio", "tokio-util", "futures-util"],
        &[
            "zero-exec",
            "zero-runtime",
            "zero-lsp",
            "zero-tools",
            "zero-session",
            "zero-wire",
            "zero-mcp",
            "zero-client",
            "zero-acp",
            "zero-gateway",
            "zero-terminal",
            "zero-chat",
            "zero",
            "custom-tool",
            "fuzz-smoke",
        ],
        "the pure and the kernel-facing crates do not wait",
    ),
];

/// The only external crates of the pure crates, which do no input or output.
const PURE_CRATE_DEPENDENCIES: &[(&str, &[&str])] =
    &[("zero-core", &["schemars", "serde", "serde_json", "thiserror"])];

/// Checks every manifest against the tables.
pub(super) fn check(metadata: &CargoMetadata, root: &Path) -> Vec<TidyFinding> {
    metadata
        .packages
        .iter()
        .flat_map(|package| check_package(package, &manifest_display_path(package, root)))
        .collect()
}

fn manifest_display_path(package: &WorkspacePackage, root: &Path) -> String {
    package.manifest_path.strip_prefix(root).unwrap_or(&package.manifest_path).display().to_string()
}

fn check_package(package: &WorkspacePackage, file: &str) -> Vec<TidyFinding> {
    let Some((_, allowed)) = ALLOWED_DEPENDENCIES.iter().find(|(name, _)| *name == package.name)
    else {
        let what =
            format!("crate `{}` is missing in the table of allowed dependencies", package.name);
        return vec![TidyFinding::new(
            file,
            what,
            "add it to ALLOWED_DEPENDENCIES in xtask/src/tidy/crate_boundaries.rs",
        )];
    };
    // Tests may depend on anything: it is not part of the product.
    let built_in =
        package.dependencies.iter().filter(|dependency| dependency.kind.as_deref() != Some("dev"));
    built_in
        .filter_map(|dependency| {
            if dependency.path.is_some() {
                check_edge(package, dependency, allowed, file)
            } else {
                check_restricted_crate(package, dependency, file)
            }
        })
        .collect()
}

fn check_edge(
    package: &WorkspacePackage,
    dependency: &ManifestDependency,
    allowed: &[&str],
    file: &str,
) -> Option<TidyFinding> {
    if allowed.contains(&dependency.name.as_str()) {
        return None;
    }
    let what = format!("`{}` may not depend on `{}`", package.name, dependency.name);
    Some(TidyFinding::new(
        file,
        what,
        "dependencies point down only: move the code, or change ALLOWED_DEPENDENCIES with a reason",
    ))
}

fn check_restricted_crate(
    package: &WorkspacePackage,
    dependency: &ManifestDependency,
    file: &str,
) -> Option<TidyFinding> {
    let (crate_name, outside) = (package.name.as_str(), dependency.name.as_str());
    if let Some((_, allowed)) = PURE_CRATE_DEPENDENCIES.iter().find(|(name, _)| *name == crate_name)
        && !allowed.contains(&outside)
    {
        let what = format!("`{crate_name}` is pure and may not use `{outside}`");
        return Some(TidyFinding::new(file, what, format!("it may use {}", allowed.join(", "))));
    }
    let (_, allowed, why) =
        RESTRICTED_CRATES.iter().find(|(outsiders, ..)| outsiders.contains(&outside))?;
    if allowed.contains(&crate_name) {
        return None;
    }
    let what = format!("`{crate_name}` may not use `{outside}`");
    Some(TidyFinding::new(file, what, format!("{why}: only {} may", allowed.join(", "))))
}

/// Checks that the document explains each external crate, and no other.
pub(super) fn check_reasons(metadata: &CargoMetadata, architecture: &str) -> Vec<TidyFinding> {
    let used: BTreeSet<&str> = metadata
        .packages
        .iter()
        .flat_map(|package| &package.dependencies)
        .filter(|dependency| dependency.path.is_none())
        .map(|dependency| dependency.name.as_str())
        .collect();
    let explained = parse_explained_crates(architecture);
    let file = "ARCHITECTURE.md";
    let missing = used.difference(&explained).map(|name| {
        let what = format!("dependency `{name}` is not explained");
        TidyFinding::new(file, what, "add a row to the table under `## Dependencies`")
    });
    let left_over = explained.difference(&used).map(|name| {
        let what = format!("`{name}` is explained but no crate uses it");
        TidyFinding::new(file, what, "remove its row under `## Dependencies`")
    });
    missing.chain(left_over).collect()
}

/// Names in the first column of the table under `## Dependencies`.
fn parse_explained_crates(architecture: &str) -> BTreeSet<&str> {
    architecture
        .lines()
        .skip_while(|line| *line != "## Dependencies")
        .skip(1)
        .take_while(|line| !line.starts_with("## "))
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workspace of one crate with one dependency, which belongs to the workspace if its name
    /// says so.
    fn sample_metadata(package: &str, dependency: &str, kind: Option<&str>) -> CargoMetadata {
        let path = dependency.starts_with("zero").then(|| "/r/crates".into());
        let kind = kind.map(str::to_owned);
        let dependencies = vec![ManifestDependency { name: dependency.to_owned(), kind, path }];
        let manifest_path = "/r/crates/x/Cargo.toml".into();
        let packages =
            vec![WorkspacePackage { name: package.to_owned(), manifest_path, dependencies }];
        CargoMetadata { packages, target_directory: "/r/target".into() }
    }

    #[track_caller]
    fn check_one(package: &str, dependency: &str, kind: Option<&str>, expected: &str) {
        let findings = check(&sample_metadata(package, dependency, kind), Path::new("/r"));
        let findings: Vec<String> = findings.iter().map(TidyFinding::to_string).collect();
        assert_eq!(findings.join("\n"), expected, "{package} -> {dependency}");
    }

    #[test]
    fn upward_dependencies_are_found() {
        check_one("zero-runtime", "zero-core", None, "");
        check_one("zero-core", "zero-sandbox", Some("dev"), "");
        check_one(
            "zero-core",
            "zero-runtime",
            None,
            "crates/x/Cargo.toml: `zero-core` may not depend on `zero-runtime`; dependencies point down only: move the code, or change ALLOWED_DEPENDENCIES with a reason",
        );
        check_one(
            "zero-new",
            "serde",
            None,
            "crates/x/Cargo.toml: crate `zero-new` is missing in the table of allowed dependencies; add it to ALLOWED_DEPENDENCIES in xtask/src/tidy/crate_boundaries.rs",
        );
    }

    #[test]
    fn restricted_crates_are_found_outside_their_crate() {
        check_one("zero-sandbox", "rustix", None, "");
        check_one("zero-runtime", "rustix", Some("dev"), "");
        check_one(
            "zero-runtime",
            "rustix",
            None,
            "crates/x/Cargo.toml: `zero-runtime` may not use `rustix`; system calls live behind zero-sandbox: only zero-sandbox may",
        );
        check_one(
            "zero-sandbox",
            "tokio",
            Some("build"),
            "crates/x/Cargo.toml: `zero-sandbox` may not use `tokio`; the pure and the kernel-facing crates do not wait: only zero-exec, zero-runtime, zero-lsp, zero-tools, zero-session, zero-wire, zero-mcp, zero-client, zero-acp, zero-gateway, zero-terminal, zero-chat, zero, custom-tool, fuzz-smoke may",
        );
        check_one(
            "zero-core",
            "regex",
            None,
            "crates/x/Cargo.toml: `zero-core` is pure and may not use `regex`; it may use schemars, serde, serde_json, thiserror",
        );
    }

    #[test]
    fn allowed_dependencies_have_no_cycle() {
        for (index, (name, below)) in ALLOWED_DEPENDENCIES.iter().enumerate() {
            for lower in *below {
                let at = ALLOWED_DEPENDENCIES.iter().position(|(other, _)| other == lower);
                assert!(
                    at.is_some_and(|at| at < index),
                    "`{name}` depends on `{lower}` and must come after it"
                );
            }
        }
    }

    #[test]
    fn unexplained_outside_crate_is_found() {
        let metadata = sample_metadata("zero-core", "serde", None);
        let explain = |rows: &str| {
            let findings = check_reasons(
                &metadata,
                &format!("## Dependencies\n\n| crate | why |\n|---|---|\n{rows}"),
            );
            findings.iter().map(TidyFinding::to_string).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(explain("| `serde` | writes things down |\n"), "");
        assert_eq!(
            explain(""),
            "ARCHITECTURE.md: dependency `serde` is not explained; add a row to the table under `## Dependencies`"
        );
        assert_eq!(
            explain("| `serde` | x |\n| `left-pad` | x |\n## Next\n| `other` | x |\n"),
            "ARCHITECTURE.md: `left-pad` is explained but no crate uses it; remove its row under `## Dependencies`"
        );
    }
}
