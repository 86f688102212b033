//! The files `rust-toolchain` and `rust-toolchain.toml`, which tell rustup what to run as `cargo`.
//!
//! Most name a toolchain that the user installed. One with the key `path` names a folder, whose
//! programs then run. Only the forms that are certain to name none are recognised.

use std::path::Path;

use zero_sandbox::path_survey;

/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 16 * 1024;

/// Whether the file may name a folder: unless it is certain that it does not.
pub(super) fn names_folder(file: &Path) -> bool {
    let content = path_survey::read_small_file(file, FILE_BYTES_MAX);
    !content.and_then(|bytes| String::from_utf8(bytes).ok()).is_some_and(|text| is_plain(&text))
}

/// Whether it is the name of a toolchain, or a table of channel, profile, components and targets.
fn is_plain(text: &str) -> bool {
    is_name(text.trim()) || text.lines().all(|line| is_plain_line(line.trim()))
}

fn is_plain_line(line: &str) -> bool {
    const KEYS: [&str; 4] = ["channel", "profile", "components", "targets"];
    if line.is_empty() || line.starts_with('#') || line == "[toolchain]" {
        return true;
    }
    match line.split_once('=') {
        Some((key, value)) => KEYS.contains(&key.trim()) && is_plain_value(value),
        // The rest of a list.
        None => is_plain_value(line),
    }
}

/// Whether a value or a part of a list has nothing but quoted names.
fn is_plain_value(value: &str) -> bool {
    // A comment is recognised only if it cannot be part of a text.
    let value = match value.split_once('#') {
        Some((value, comment)) if !comment.contains(['"', '\'']) => value,
        _ => value,
    };
    value.split([',', '[', ']']).map(str::trim).all(|item| {
        let quoted = |mark: char| item.strip_prefix(mark).and_then(|it| it.strip_suffix(mark));
        item.is_empty() || quoted('"').or_else(|| quoted('\'')).is_some_and(is_name)
    })
}

fn is_name(text: &str) -> bool {
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    starts_well && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn toolchain_by_name_is_plain() {
        for text in [
            "stable\n",
            "nightly-2026-01-01",
            "1.90.0",
            "[toolchain]\nchannel = \"1.90\"\n",
            "# pinned\n[toolchain]\nchannel='stable' # as CI\nprofile = \"minimal\"\n\
             components = [ \"rustfmt\", 'clippy' ]\ntargets = [\n  \"wasm32-wasip1\",\n]\n",
        ] {
            assert!(is_plain(text), "{text}");
        }
    }

    #[test]
    fn toolchain_by_folder_or_unknown_form_is_not_plain() {
        for text in [
            "./evil",
            "/w/evil",
            "..",
            "[toolchain]\npath = \"evil\"\n",
            "[toolchain]\nchannel = \"stable\"\npath = \"evil\"\n",
            "[toolchain]\n\"path\" = \"evil\"\n",
            "[toolchain]\n\"p\\u0061th\" = \"evil\"\n",
            "toolchain.path = \"evil\"\n",
            "toolchain = { path = \"evil\" }\n",
            "[toolchain]\nchannel = \"../evil\"\n",
            "[toolchain]\nchannel = \"\"\"\nstable\"\"\"\n",
            "[toolchain]\ncomponents = [\"a\"] # \"\npath = \"evil\"\n",
            "[toolchain]\rpath = \"evil\"\r",
        ] {
            assert!(!is_plain(text), "{text}");
        }
    }

    #[test]
    fn unreadable_file_may_name_folder() {
        assert!(names_folder(Path::new("/proc/self/no-such-file")));
        assert!(names_folder(Path::new("/")));
    }
}
