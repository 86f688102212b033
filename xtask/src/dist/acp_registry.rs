//! The entry in the registry of agents that editors with the Agent Client Protocol read.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};

use super::platform::Platform;
use super::release_info::{LICENSE, ReleaseFile, ReleaseInfo, SUMMARY};
use super::release_sums::sha256;

/// The folder of the entry, which must be its id.
const ID: &str = "zero";

pub(super) fn entry(
    root: &Path,
    archives: &[(&Platform, ReleaseFile)],
    address: &str,
    release: &ReleaseInfo,
) -> Result<Vec<ReleaseFile>> {
    let binary: Map<String, Value> = archives
        .iter()
        .map(|(platform, archive)| {
            let target = json!({
                "archive": format!("{address}{}", archive.name),
                "sha256": sha256(&archive.content),
                "cmd": "./bin/zero",
                "args": ["acp"],
            });
            (platform.acp.to_owned(), target)
        })
        .collect();
    let version = &release.version;
    let agent = json!({
        "id": ID,
        "name": "Zero",
        "version": version,
        "description": SUMMARY,
        "website": address,
        "repository": address,
        "authors": ["The zero contributors"],
        "license": LICENSE,
        "license_url": format!("{address}LICENSE-APACHE"),
        "distribution": {
            "binary": binary,
            "npx": {"package": format!("zero@{version}"), "args": ["acp"]},
            "uvx": {"package": format!("zero=={version}"), "args": ["acp"]},
        },
    });
    let icon = std::fs::read_to_string(root.join("packaging/acp/icon.svg"))
        .context("could not read packaging/acp/icon.svg")?;
    check_icon(&icon)?;
    Ok(vec![
        ReleaseFile::new(format!("acp-registry/{ID}/agent.json"), format!("{agent:#}\n")),
        ReleaseFile::new(format!("acp-registry/{ID}/icon.svg"), icon),
        ReleaseFile::new("LICENSE-APACHE", std::fs::read(root.join("LICENSE-APACHE"))?),
    ])
}

/// The rules of the registry for icons: 16 by 16, and no colour but the current one.
fn check_icon(icon: &str) -> Result<()> {
    ensure!(
        icon.contains("width=\"16\"") && icon.contains("height=\"16\""),
        "the icon is not 16 by 16"
    );
    for attribute in ["fill=\"", "stroke=\""] {
        for rest in icon.split(attribute).skip(1) {
            let colour = rest.split('"').next().unwrap_or_default();
            ensure!(
                matches!(colour, "none" | "currentColor"),
                "the icon has the colour `{colour}`"
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use jsonschema::draft202012::is_valid;

    use super::*;
    use crate::dist::platform::PLATFORMS;
    use crate::repository;

    /// What the registry asks of an entry.
    fn schema() -> Value {
        let text = json!({"type": "string", "minLength": 1});
        let uri = json!({"type": "string", "format": "uri", "pattern": "^https?://"});
        let args = json!({"type": "array", "items": {"type": "string"}});
        let target = json!({
            "type": "object",
            "required": ["archive", "cmd"],
            "properties": {
                "archive": {"type": "string", "pattern": "\\.(zip|tar\\.gz|tgz|tar\\.bz2|tbz2)$"},
                "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
                "cmd": text, "args": args, "env": {"type": "object"},
            },
            "additionalProperties": false,
        });
        let package = json!({
            "type": "object",
            "required": ["package"],
            "properties": {"package": text, "args": args, "env": {"type": "object"}},
            "additionalProperties": false,
        });
        json!({
            "type": "object",
            "required": ["id", "name", "version", "description", "license", "license_url", "distribution"],
            "properties": {
                "id": {"type": "string", "pattern": "^[a-z][a-z0-9-]*$"},
                "name": text,
                "version": {"type": "string", "pattern": "^[0-9]+\\.[0-9]+\\.[0-9]+$"},
                "description": text,
                "repository": uri, "website": uri, "license_url": uri,
                "authors": {"type": "array", "items": text},
                "license": text,
                "distribution": {
                    "type": "object",
                    "minProperties": 1,
                    "properties": {
                        "binary": {
                            "type": "object",
                            "minProperties": 1,
                            "propertyNames": {"pattern": "^(darwin|linux|windows)-(aarch64|x86_64)$"},
                            "additionalProperties": target,
                        },
                        "npx": package, "uvx": package,
                    },
                    "additionalProperties": false,
                },
            },
            "additionalProperties": false,
        })
    }

    #[test]
    fn entry_fits_rules_of_registry() {
        let release = ReleaseInfo::for_test("1.2.3");
        let archives: Vec<(&Platform, ReleaseFile)> = PLATFORMS
            .iter()
            .map(|platform| {
                (platform, ReleaseFile::new(format!("zero-1.2.3-{}.tar.gz", platform.label), "x"))
            })
            .collect();
        let files =
            entry(&repository::root(), &archives, "https://example.com/zero/", &release).unwrap();
        let agent: Value = serde_json::from_slice(&files[0].content).unwrap();
        assert!(is_valid(&schema(), &agent), "{agent:#}");
        let version = agent["version"].as_str().unwrap();
        for target in agent["distribution"]["binary"].as_object().unwrap().values() {
            let archive = target["archive"].as_str().unwrap();
            assert!(archive.contains(version) && !archive.contains("latest"), "{archive}");
        }
        let mut wrong = agent.clone();
        wrong["id"] = json!("Zero");
        assert!(!is_valid(&schema(), &wrong));
    }

    #[test]
    fn coloured_icon_is_refused() {
        assert!(check_icon("<svg width=\"16\" height=\"16\" fill=\"currentColor\"/>").is_ok());
        assert!(check_icon("<svg width=\"16\" height=\"16\" fill=\"#f00\"/>").is_err());
        assert!(check_icon("<svg width=\"24\" height=\"24\"/>").is_err());
    }
}
