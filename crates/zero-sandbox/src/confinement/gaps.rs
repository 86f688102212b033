//! Finds the properties of a profile that the layers of this machine cannot enforce, and describes
//! each as a [`ConfinementGap`].

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::landlock::{ABI_SCOPE, ABI_TRUNCATE};
use super::path_layout::{PathAccess, PathLayout};
use crate::layer_probe::{MissingLayer, SandboxLayers};
use crate::profile::{NetworkAccess, SandboxProfile, SandboxProperty};

/// Most names of a protected folder that are checked. The folders that are protected because
/// programs execute their contents have fewer.
const NAMES_MAX: usize = 1000;

/// A property of a profile that is not enforced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfinementGap {
    /// The demanded property that this machine cannot enforce.
    pub property: SandboxProperty,
    /// Why it is not enforced, as a lowercase fragment.
    pub why: String,
    /// What the user can do to have it enforced, if anything.
    pub fix: Option<String>,
}

pub(super) fn has_gap(gaps: &[ConfinementGap], property: SandboxProperty) -> bool {
    gaps.iter().any(|gap| gap.property == property)
}

/// Describes all gaps, one per line.
pub(crate) fn describe_gaps(gaps: &[ConfinementGap]) -> String {
    let each = gaps.iter().map(|ConfinementGap { property, why, fix }| {
        let fix = fix.as_ref().map(|fix| format!("; to fix it: {fix}")).unwrap_or_default();
        format!("`{property}` cannot be enforced here: {why}{fix}")
    });
    each.collect::<Vec<_>>().join("\n")
}

/// Finds the gaps. `readable` is whether rules could grant everything but the masked paths.
pub(super) fn find_gaps(
    profile: &SandboxProfile,
    layers: &SandboxLayers,
    layout: &PathLayout,
    readable: bool,
) -> Vec<ConfinementGap> {
    let mut gaps = GapCollector(Vec::new());
    match &layers.bubblewrap {
        Ok(_) => check_with_mounts(&mut gaps, profile, layers, layout),
        Err(absent) => check_without_mounts(&mut gaps, profile, layers, layout, readable, absent),
    }
    if let Err(absent) = &layers.seccomp {
        gaps.push_missing_layer(SandboxProperty::SystemCalls, absent);
    }
    gaps.0
}

struct GapCollector(Vec<ConfinementGap>);

impl GapCollector {
    fn push_missing_layer(&mut self, property: SandboxProperty, absent: &MissingLayer) {
        let MissingLayer { why, fix } = absent.clone();
        self.0.push(ConfinementGap { property, why, fix });
    }

    fn push(&mut self, property: SandboxProperty, why: impl Into<String>, fix: Option<String>) {
        self.0.push(ConfinementGap { property, why: why.into(), fix });
    }
}

fn check_with_mounts(
    gaps: &mut GapCollector,
    profile: &SandboxProfile,
    layers: &SandboxLayers,
    layout: &PathLayout,
) {
    if let Some(link) = layout.links.first() {
        let why = format!("`{}` is a link, and could be replaced", link.display());
        let fix = "protect what it points at, or replace it by a real file";
        gaps.push(SandboxProperty::Protected, why, Some(fix.to_owned()));
    }
    let mut held = layout
        .paths_with(PathAccess::Protected)
        .filter(|path| layout.writable_folder_above(path).is_some());
    if let Some((why, fix)) = held.find_map(explain_hard_link) {
        gaps.push(SandboxProperty::Protected, why, Some(fix));
    }
    // A private network has no abstract sockets of the host.
    if profile.network == NetworkAccess::Host && landlock_version(layers) < ABI_SCOPE {
        let why = "abstract unix sockets of the host are reachable through its network";
        gaps.push(SandboxProperty::HostSockets, why, Some("use Linux 6.12 or later".to_owned()));
    }
}

/// Explains why a mount cannot protect a file, and what would help: a file with another hard link
/// can be written through that one.
fn explain_hard_link(path: &Path) -> Option<(String, String)> {
    let facts = path.symlink_metadata().ok()?;
    let files = if facts.is_dir() { list_names(path) } else { vec![path.to_owned()] };
    if files.len() > NAMES_MAX {
        let why = format!(
            "`{}` contains more than {NAMES_MAX} files, too many to check each for hard links",
            path.display()
        );
        return Some((why, "move some of them elsewhere".to_owned()));
    }
    let has_another = |path: &&PathBuf| {
        path.symlink_metadata().is_ok_and(|facts| facts.is_file() && facts.nlink() > 1)
    };
    let file = files.iter().find(has_another)?.display();
    let why = format!(
        "`{file}` has another name (a hard link), through which commands could still write to it"
    );
    let fix =
        format!("replace it by a copy: cp -p '{file}' '{file}.own' && mv '{file}.own' '{file}'");
    Some((why, fix))
}

/// The entries of a folder, up to one more than the allowed number.
#[expect(clippy::disallowed_methods, reason = "lists names that the profile protects anyway")]
fn list_names(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.take(NAMES_MAX + 1).map(|entry| entry.path()).collect()
}

fn check_without_mounts(
    gaps: &mut GapCollector,
    profile: &SandboxProfile,
    layers: &SandboxLayers,
    layout: &PathLayout,
    readable: bool,
    bubblewrap: &MissingLayer,
) {
    let fix = || bubblewrap.fix.clone();
    let because = |what: &str| format!("{what}; {}", bubblewrap.why);
    let version = landlock_version(layers);

    if version < ABI_TRUNCATE {
        let why = because("Landlock before version 3 cannot prevent that files are truncated");
        gaps.push(SandboxProperty::Writes, why, fix());
    }
    let why = because("Landlock does not cover modes, owners, times and attributes of files");
    gaps.push(SandboxProperty::Attributes, why, fix());
    let in_writable = |path: &Path| layout.writable_folder_above(path).is_some();
    let missing = layout.missing.iter().map(|(path, _)| path.as_path());
    let links = layout.links.iter().map(AsRef::as_ref);
    let mut protected = layout.paths_with(PathAccess::Protected).chain(missing).chain(links);
    if let Some(path) = protected.find(|path| in_writable(path)) {
        let what = format!("`{}` is in a folder that is writable as a whole", path.display());
        gaps.push(SandboxProperty::Protected, because(&what), fix());
    }
    let masked_inside = layout.paths_with(PathAccess::Masked).find(|path| in_writable(path));
    if let Some(path) = masked_inside {
        let what = format!("`{}` is in a folder that is readable as a whole", path.display());
        gaps.push(SandboxProperty::Masked, because(&what), fix());
    } else if !readable || (version == 0 && layout.paths_with(PathAccess::Masked).next().is_some())
    {
        let why = because("there are too many files beside the masked ones to allow each of them");
        let none = because("the kernel has no Landlock");
        gaps.push(SandboxProperty::Masked, if version == 0 { none } else { why }, fix());
    }
    match profile.network {
        NetworkAccess::Host => {}
        NetworkAccess::Nothing => {
            if let Err(absent) = &layers.seccomp {
                gaps.push_missing_layer(SandboxProperty::Network, absent);
            }
        }
        NetworkAccess::Loopback => gaps.0.push(network_gap(bubblewrap)),
    }
    if let Err(absent) = &layers.seccomp {
        gaps.push_missing_layer(SandboxProperty::HostSockets, absent);
        // Only the filter protects the limits and priorities of other processes.
        gaps.push_missing_layer(SandboxProperty::Processes, absent);
    }
    if version < ABI_SCOPE {
        let why = because("Landlock before version 6 cannot block signals to other processes");
        gaps.push(SandboxProperty::Processes, why, fix());
    }
    gaps.push(SandboxProperty::PrivateTmp, because("commands can read the host's `/tmp`"), fix());
}

/// The gap if a private network is not possible without bubblewrap.
pub(crate) fn network_gap(bubblewrap: &MissingLayer) -> ConfinementGap {
    let MissingLayer { why, fix } = bubblewrap.clone();
    let what = "a private network needs a namespace, and the host's network would let commands \
                connect to whatever the host can";
    ConfinementGap { property: SandboxProperty::Network, why: format!("{what}; {why}"), fix }
}

/// The version of Landlock; zero if there is none.
fn landlock_version(layers: &SandboxLayers) -> i32 {
    layers.landlock.as_ref().copied().unwrap_or(0)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests set files up as others would")]
mod tests {
    use super::*;
    use crate::confinement::path_layout::tests::test_profile;

    #[track_caller]
    fn check_hard_link(path: &Path, expected: Option<&str>) {
        let found = explain_hard_link(path).map(|(why, _)| why);
        let is_as_expected = match (&found, expected) {
            (Some(why), Some(text)) => why.contains(text),
            (None, None) => true,
            _ => false,
        };
        assert!(is_as_expected, "{found:?} for {path:?}");
    }

    #[test]
    fn hard_linked_file_is_reported_as_gap() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["hooks", "hooks/deeper", "many"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        for name in ["config", "hooks/one"] {
            std::fs::write(at(name), "").unwrap();
        }
        for path in ["config", "hooks", "many", "missing"] {
            check_hard_link(&at(path), None);
        }
        std::fs::hard_link(at("config"), at("innocent")).unwrap();
        std::fs::hard_link(at("hooks/one"), at("other")).unwrap();
        check_hard_link(&at("config"), Some("config` has another name"));
        check_hard_link(&at("hooks"), Some("hooks/one` has another name"));
        for number in 0..=NAMES_MAX {
            std::fs::create_dir(at("many").join(number.to_string())).unwrap();
        }
        check_hard_link(&at("many"), Some("contains more than 1000"));
    }

    /// Checks which properties are missing without bubblewrap, on a kernel with this version of
    /// Landlock; zero for none.
    #[track_caller]
    fn check(landlock: i32, seccomp: Result<(), MissingLayer>, expected: &[SandboxProperty]) {
        let absent = || MissingLayer { why: "it is not there".to_owned(), fix: None };
        let landlock = if landlock == 0 { Err(absent()) } else { Ok(landlock) };
        let layers = SandboxLayers { bubblewrap: Err(absent()), landlock, seccomp };
        let folder = tempfile::tempdir().unwrap();
        let mut profile = test_profile(folder.path(), &["."], &[]);
        profile.protected_files.clear();
        let gaps = find_gaps(&profile, &layers, &PathLayout::new(&profile, &|_| false), true);
        let mut missing: Vec<SandboxProperty> = gaps.iter().map(|gap| gap.property).collect();
        missing.sort();
        missing.dedup();
        assert_eq!(missing, expected, "{layers:?}");
    }

    #[test]
    fn older_landlock_enforces_fewer_properties() {
        use SandboxProperty::{
            Attributes, HostSockets, Network, PrivateTmp, Processes, SystemCalls, Writes,
        };
        check(7, Ok(()), &[Attributes, PrivateTmp]);
        check(6, Ok(()), &[Attributes, PrivateTmp]);
        check(5, Ok(()), &[Attributes, Processes, PrivateTmp]);
        check(3, Ok(()), &[Attributes, Processes, PrivateTmp]);
        check(2, Ok(()), &[Writes, Attributes, Processes, PrivateTmp]);
        check(0, Ok(()), &[Writes, Attributes, Processes, PrivateTmp]);
        let none = || Err(MissingLayer { why: "no filter".to_owned(), fix: None });
        let without = [Attributes, Network, HostSockets, Processes, PrivateTmp, SystemCalls];
        check(7, none(), &without);
    }
}
