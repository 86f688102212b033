//! The bill of materials: every crate in the program, in the format CycloneDX.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::release_info::{ReleaseFile, ReleaseInfo, SUMMARY};
use crate::repository::cargo_command;

/// The crates in the program, and what each of them uses.
#[derive(Debug)]
pub(super) struct DependencyTree {
    /// By cargo's id of the package.
    pub(super) packages: BTreeMap<String, CratePackage>,
    /// The ids that each package uses.
    uses: BTreeMap<String, BTreeSet<String>>,
}

/// A crate in the program.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct CratePackage {
    id: String,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) license: Option<String>,
    /// `None` for a crate of this repository.
    source: Option<String>,
    manifest_path: PathBuf,
}

impl CratePackage {
    /// Whether it comes from elsewhere.
    pub(super) fn is_foreign(&self) -> bool {
        self.source.is_some()
    }

    /// The folder with its files.
    pub(super) fn folder(&self) -> Option<&std::path::Path> {
        self.manifest_path.parent()
    }
}

#[derive(Deserialize)]
struct ResolvedMetadata {
    packages: Vec<CratePackage>,
    resolve: ResolvedGraph,
}

#[derive(Deserialize)]
struct ResolvedGraph {
    nodes: Vec<ResolvedNode>,
}

#[derive(Deserialize)]
struct ResolvedNode {
    id: String,
    deps: Vec<ResolvedEdge>,
}

#[derive(Deserialize)]
struct ResolvedEdge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Deserialize)]
struct EdgeKind {
    /// `None` for an ordinary dependency.
    kind: Option<String>,
}

impl DependencyTree {
    /// Asks cargo for what is linked into the program on Linux.
    pub(super) fn load() -> Result<Self> {
        let output = cargo_command(&["metadata", "--locked", "--format-version=1"])
            .arg("--filter-platform=x86_64-unknown-linux-gnu")
            .output()
            .context("could not start cargo")?;
        ensure!(
            output.status.success(),
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let metadata: ResolvedMetadata = serde_json::from_slice(&output.stdout)?;
        Self::select(metadata)
    }

    /// Keeps what `zero` reaches by ordinary dependencies: no tests, build scripts and other programs.
    fn select(metadata: ResolvedMetadata) -> Result<Self> {
        let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for node in metadata.resolve.nodes {
            let linked = node
                .deps
                .into_iter()
                .filter(|edge| edge.dep_kinds.iter().any(|kind| kind.kind.is_none()));
            uses.insert(node.id, linked.map(|edge| edge.pkg).collect());
        }
        let zero = metadata
            .packages
            .iter()
            .find(|package| package.name == "zero" && !package.is_foreign());
        let mut open = vec![zero.context("there is no crate `zero`")?.id.clone()];
        let mut reached = BTreeSet::new();
        while let Some(id) = open.pop() {
            if reached.insert(id.clone()) {
                open.extend(uses.get(&id).into_iter().flatten().cloned());
            }
        }
        uses.retain(|id, _| reached.contains(id));
        let packages =
            metadata.packages.into_iter().filter(|package| reached.contains(&package.id));
        Ok(Self { packages: packages.map(|package| (package.id.clone(), package)).collect(), uses })
    }

    fn reference(&self, id: &str) -> Option<String> {
        let package = self.packages.get(id)?;
        let (name, version) = (&package.name, &package.version);
        Some(if package.is_foreign() {
            format!("pkg:cargo/{name}@{version}")
        } else {
            format!("zero/{name}@{version}")
        })
    }
}

pub(super) fn build(tree: &DependencyTree, release: &ReleaseInfo) -> Result<ReleaseFile> {
    let component = |package: &CratePackage| -> Value {
        let mut component = json!({
            "type": if package.name == "zero" && !package.is_foreign() { "application" } else { "library" },
            "bom-ref": tree.reference(&package.id),
            "name": package.name,
            "version": package.version,
        });
        if package.is_foreign() {
            component["purl"] = json!(tree.reference(&package.id));
        }
        if let Some(license) = &package.license {
            // Some manifests still have the old sign for "or".
            component["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
        }
        component
    };
    let is_zero = |package: &&CratePackage| package.name == "zero" && !package.is_foreign();
    let zero = tree.packages.values().find(is_zero).context("there is no crate `zero`")?;
    let mut main = component(zero);
    main["description"] = json!(SUMMARY);
    let time = Timestamp::from_second(i64::from(release.time))?;
    let dependencies: Vec<Value> = tree
        .uses
        .iter()
        .map(|(id, used)| {
            let used: Vec<String> = used.iter().filter_map(|id| tree.reference(id)).collect();
            json!({"ref": tree.reference(id), "dependsOn": used})
        })
        .collect();
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"timestamp": time.to_string(), "component": main},
        "components": tree.packages.values().filter(|package| !is_zero(package)).map(component).collect::<Vec<_>>(),
        "dependencies": dependencies,
    });
    Ok(ReleaseFile::new(format!("zero-{}.cdx.json", release.version), format!("{bill:#}\n")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dist::release_info::PackingEffort;

    #[test]
    fn bill_has_each_crate_of_program_once_and_no_test_crate() {
        let tree = DependencyTree::load().unwrap();
        let release = ReleaseInfo {
            version: "1.2.3".to_owned(),
            time: 1_700_000_000,
            maintainer: String::new(),
            address: None,
            public_key: None,
            effort: PackingEffort::Fastest,
        };
        let bill: Value = serde_json::from_slice(&build(&tree, &release).unwrap().content).unwrap();
        let components = bill["components"].as_array().unwrap();
        let names: BTreeSet<&str> =
            components.iter().map(|it| it["name"].as_str().unwrap()).collect();
        for name in ["zero-core", "tokio", "rustls", "libsqlite3-sys"] {
            assert!(names.contains(name), "{name}");
        }
        for name in ["insta", "proptest", "xtask", "cc", "rpm"] {
            assert!(!names.contains(name), "{name}");
        }
        let references: Vec<&str> =
            components.iter().map(|it| it["bom-ref"].as_str().unwrap()).collect();
        let distinct: BTreeSet<&str> = references.iter().copied().collect();
        assert_eq!(references.len(), distinct.len());
        for used in bill["dependencies"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|it| it["dependsOn"].as_array().unwrap())
        {
            assert!(distinct.contains(used.as_str().unwrap()), "{used}");
        }
        assert_eq!(bill["metadata"]["timestamp"], "2023-11-14T22:13:20Z");
    }
}
