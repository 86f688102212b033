//! The files that hooks name, as they were when the settings were read.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;
use zero_runtime::{HookFile, HookFileReader};
use zero_sandbox::Workspace;

use crate::hooks::{LISTS, ParsedHook};
use crate::layer::{SettingsEntry, SettingsLayer};
use crate::layer_kind::SettingsLayerKind;

/// The files that hooks use, read once: the approved content is what runs.
pub(crate) struct HookFileSnapshots {
    /// By layer and command line.
    files: HashMap<(SettingsLayerKind, String), Vec<HookFile>>,
}

impl HookFileSnapshots {
    /// Reads the files of a workspace, given its canonical folder.
    pub(crate) fn read<'a>(
        layers: impl Iterator<Item = &'a SettingsLayer>,
        root: &Path,
        home: Option<&Path>,
    ) -> Self {
        let entries = layers.flat_map(SettingsLayer::entries);
        let hooks: Vec<(&SettingsEntry, &ParsedHook)> =
            entries.filter_map(|entry| Some((entry, entry.hook()?))).collect();
        let mut files = HashMap::new();
        let workspace = match hooks.is_empty() {
            true => None,
            false => Workspace::open(&[root.to_owned()], None).ok(),
        };
        let mut look = workspace.as_ref().map(HookFileReader::new);
        for (entry, hook) in hooks {
            if let Some(look) = &mut look {
                let words = hook.command_words(entry.layer, home);
                files.insert(Self::entry_key(entry), look.read_files(&words));
            }
        }
        Self { files }
    }

    /// Makes these hooks fail, because the files they use are not the trusted ones.
    pub(crate) fn mark_untrusted(&mut self, hooks: &[SettingsEntry]) {
        for entry in hooks {
            let (layer, command) = Self::entry_key(entry);
            let files = self.files.entry((layer, command.clone())).or_default();
            HookFile::distrust(files, &command);
        }
    }

    fn entry_key(entry: &SettingsEntry) -> (SettingsLayerKind, String) {
        let command = entry.value.get("command").and_then(Value::as_str).unwrap_or_default();
        (entry.layer, command.to_owned())
    }

    /// Attaches the files of each hook to its entry.
    pub(crate) fn attach(&self, entries: &mut [SettingsEntry]) {
        for entry in entries.iter_mut().filter(|entry| LISTS.contains(&entry.key.as_str())) {
            entry.files = self.files.get(&Self::entry_key(entry)).cloned().unwrap_or_default();
        }
    }
}
