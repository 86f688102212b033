//! The package for Debian, Ubuntu and their relatives.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

use super::archive::{tar, xz};
use super::program_build::BuiltProgram;
use super::program_tree::{ProgramTree, TreeFile};
use super::release_info::{DESCRIPTION, PackingEffort, ReleaseFile, ReleaseInfo, SUMMARY};

/// Settings that an upgrade leaves as the administrator changed them.
const CONFIG_FILES: [&str; 1] = ["etc/apparmor.d/zero"];

/// The files of packages that belong to the whole machine: `packaging/` to their place in `/`.
const SYSTEM_FILES: [(&str, &str); 3] = [
    ("apparmor/zero", "etc/apparmor.d/zero"),
    ("systemd/zero-gateway.service", "usr/lib/systemd/system/zero-gateway.service"),
    ("systemd/zero-gateway.user.service", "usr/lib/systemd/user/zero-gateway.service"),
];

/// The tree below `/usr`, and units and profiles for the machine.
pub(super) fn system_tree(root: &Path, tree: &ProgramTree) -> Result<Vec<TreeFile>> {
    let mut files: Vec<TreeFile> = tree
        .files
        .iter()
        .map(|file| TreeFile { path: format!("usr/{}", file.path), ..file.clone() })
        .collect();
    for (source, path) in SYSTEM_FILES {
        let content = std::fs::read(root.join("packaging").join(source))
            .with_context(|| format!("could not read packaging/{source}"))?;
        files.push(TreeFile::text(path, content));
    }
    Ok(files)
}

/// Whether a file is settings of the administrator.
pub(super) fn is_config_file(path: &str) -> bool {
    CONFIG_FILES.contains(&path)
}

pub(super) fn build(
    root: &Path,
    tree: &ProgramTree,
    program: &BuiltProgram,
    release: &ReleaseInfo,
) -> Result<ReleaseFile> {
    let mut files = system_tree(root, tree)?;
    for file in &mut files {
        // Debian's policy wants packed manual pages and a changelog under this name.
        if file.path.starts_with("usr/share/man/") || file.path.ends_with("/CHANGELOG.md") {
            file.content = super::archive::gzip(&file.content, release.effort)?;
            file.path = file.path.replace("CHANGELOG.md", "changelog") + ".gz";
        }
    }
    files.push(TreeFile::text("usr/share/doc/zero/copyright", copyright(root)?));
    let data = tar("", &files, release.time)?;
    let control = [
        TreeFile::text("control", control(&files, program, release)),
        TreeFile::text("conffiles", CONFIG_FILES.map(|path| format!("/{path}\n")).concat()),
        TreeFile::program("postinst", script(root, "postinst")?),
        TreeFile::program("postrm", script(root, "postrm")?),
        TreeFile::program("prerm", script(root, "prerm")?),
    ];
    let control = super::archive::gzip(&tar("", &control, release.time)?, release.effort)?;
    let (data_name, data) = match release.effort {
        PackingEffort::Smallest => ("data.tar.xz", xz(&data)?),
        #[cfg(test)]
        PackingEffort::Fastest => ("data.tar", data),
    };
    let mut package = b"!<arch>\n".to_vec();
    for (name, content) in
        [("debian-binary", &b"2.0\n"[..]), ("control.tar.gz", &control), (data_name, &data)]
    {
        append_member(&mut package, name, content, release.time);
    }
    let name = format!("zero_{}_{}.deb", release.version, program.platform.debian);
    Ok(ReleaseFile::new(name, package))
}

fn script(root: &Path, name: &str) -> Result<Vec<u8>> {
    let path = root.join("packaging/deb").join(name);
    std::fs::read(&path).with_context(|| format!("could not read {}", path.display()))
}

/// One member of an `ar` archive: a header of 60 characters, the content, and a line end if its length is odd.
fn append_member(archive: &mut Vec<u8>, name: &str, content: &[u8], time: u32) {
    let header =
        format!("{name:<16}{time:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, "100644", content.len());
    archive.extend_from_slice(header.as_bytes());
    archive.extend_from_slice(content);
    if content.len() % 2 == 1 {
        archive.push(b'\n');
    }
}

fn control(files: &[TreeFile], program: &BuiltProgram, release: &ReleaseInfo) -> String {
    let bytes: usize = files.iter().map(|file| file.content.len()).sum();
    let mut depends = format!("libc6 (>= {})", program.glibc);
    if program.needs("libgcc_s.so") {
        depends.push_str(", libgcc-s1 | libgcc1");
    }
    let mut text = format!(
        "Package: zero\nVersion: {}\nArchitecture: {}\nMaintainer: {}\nInstalled-Size: {}\nDepends: {depends}\n\
         Recommends: bubblewrap, ca-certificates\nSuggests: apparmor, git\nSection: devel\nPriority: optional\n\
         Description: {SUMMARY}\n",
        release.version,
        program.platform.debian,
        release.maintainer,
        bytes.div_ceil(1024),
    );
    for line in wrap(DESCRIPTION, 76) {
        let _ = writeln!(text, " {line}");
    }
    text
}

fn copyright(root: &Path) -> Result<String> {
    let mit =
        std::fs::read_to_string(root.join("LICENSE-MIT")).context("could not read LICENSE-MIT")?;
    Ok(format!(
        "zero is licensed under MIT or Apache-2.0, at your option. Parts of others are licensed as\n\
         THIRD-PARTY-LICENSES.txt in this folder says. Apache-2.0 is in /usr/share/common-licenses/Apache-2.0,\n\
         and MIT is this:\n\n{mit}"
    ))
}

fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + 1 + word.len() <= columns => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archive_members_begin_at_even_offsets() {
        let mut archive = b"!<arch>\n".to_vec();
        append_member(&mut archive, "a", b"odd", 7);
        append_member(&mut archive, "b", b"even", 7);
        let text = String::from_utf8(archive).unwrap();
        let expected = "!<arch>\n\
            a               7           0     0     100644  3         `\nodd\n\
            b               7           0     0     100644  4         `\neven";
        assert_eq!(text, expected);
    }
}
