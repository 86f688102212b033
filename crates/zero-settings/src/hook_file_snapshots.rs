//! The files that hooks name, as they were when the settings were read.

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;
use zero_runtime::{HookFile, HookFileReader};
use zero_sandbox::Workspace;

use crate::hooks::{LISTS, ParsedHook};
use crate::layer::{SettingsEntry, SettingsLayer};
use crate::layer_kind::SettingsLayerKind;

/// The files that hooks name, looked at once: what is trusted is what runs.
pub(crate) struct HookFileSnapshots {
    /// By whose settings and which command line.
    files: HashMap<(SettingsLayerKind, String), Vec<HookFile>>,
}

impl HookFileSnapshots {
    /// Looks at the files of a workspace, by its canonical folder.
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

    /// Has these hooks fail, since the files that they name are not those that were trusted.
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

    /// Says of each hook which files it names.
    pub(crate) fn attach(&self, entries: &mut [SettingsEntry]) {
        for entry in entries.iter_mut().filter(|entry| LISTS.contains(&entry.key.as_str())) {
            entry.files = self.files.get(&Self::entry_key(entry)).cloned().unwrap_or_default();
        }
    }
}
