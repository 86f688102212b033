//! Builds the program for a platform, and reads from a program what it needs to run.
//!
//! cargo-zigbuild links with the C library of an old system, wherever the build runs. Both it and the linker come from
//! Python's package registry, into a folder of their own. Paths of the machine are replaced in the program.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use object::read::elf::{Dyn as _, FileHeader as _};
use object::{Endianness, Object as _, elf};

use super::platform::{self, Platform};
use super::release_info::ReleaseInfo;
use crate::repository::cargo_command;
use crate::required_programs::is_available;

/// The C library that releases run with: that of RHEL 8, Debian 10 and Ubuntu 20.04.
const GLIBC: GlibcVersion = GlibcVersion { major: 2, minor: 28 };
/// What builds for it, from Python's package registry.
const BUILD_TOOLS: [&str; 2] = ["ziglang==0.17.0", "cargo-zigbuild==0.24.0"];

/// A version of the C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GlibcVersion {
    pub(super) major: u32,
    pub(super) minor: u32,
}

impl std::fmt::Display for GlibcVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A program, and what its file says about itself.
#[derive(Clone, Debug)]
pub(super) struct BuiltProgram {
    pub(super) path: PathBuf,
    pub(super) platform: &'static Platform,
    pub(super) content: Vec<u8>,
    /// The oldest C library that it runs with.
    pub(super) glibc: GlibcVersion,
    /// The shared libraries that it needs.
    pub(super) libraries: BTreeSet<String>,
}

impl BuiltProgram {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let content =
            std::fs::read(path).with_context(|| format!("could not read {}", path.display()))?;
        Self::inspect(path, content).with_context(|| format!("{} cannot be packed", path.display()))
    }

    fn inspect(path: &Path, content: Vec<u8>) -> Result<Self> {
        let file = object::File::parse(&*content).context("it is no program")?;
        let platform = platform::of_architecture(file.architecture())?;
        let header = elf::FileHeader64::<Endianness>::parse(&*content)?;
        let (libraries, glibc) = read_dynamic_section(header, &content)?;
        let path = path.canonicalize()?;
        Ok(Self { path, platform, glibc, libraries, content })
    }

    /// Whether it needs a library whose name starts so.
    pub(super) fn needs(&self, library: &str) -> bool {
        self.libraries.iter().any(|name| name.starts_with(library))
    }
}

/// The libraries that a program names, and the newest version of the C library among those it asks for.
fn read_dynamic_section(
    header: &elf::FileHeader64<Endianness>,
    content: &[u8],
) -> Result<(BTreeSet<String>, GlibcVersion)> {
    let endian = header.endian()?;
    let sections = header.sections(endian, content)?;
    let (entries, strings) =
        sections.dynamic(endian, content)?.context("it is linked statically")?;
    let strings = sections.strings(endian, content, strings)?;
    let mut libraries = BTreeSet::new();
    for entry in entries.iter().filter(|entry| entry.tag(endian) == elf::DT_NEEDED) {
        let name = entry.string(endian, strings).context("a library has no name")?;
        libraries.insert(String::from_utf8_lossy(name).into_owned());
    }
    let mut glibc = GlibcVersion { major: 2, minor: 0 };
    if let Some((mut needs, link)) = sections.gnu_verneed(endian, content)? {
        let strings = sections.strings(endian, content, link)?;
        while let Some((_, mut versions)) = needs.next()? {
            while let Some(version) = versions.next()? {
                let name = version.name(endian, strings).context("a version has no name")?;
                glibc = glibc.max(parse_glibc(&String::from_utf8_lossy(name)).unwrap_or(glibc));
            }
        }
    }
    Ok((libraries, glibc))
}

/// The version in a name such as `GLIBC_2.2.5`.
fn parse_glibc(name: &str) -> Option<GlibcVersion> {
    let mut numbers = name.strip_prefix("GLIBC_")?.split('.');
    let mut number = || numbers.next()?.parse().ok();
    Some(GlibcVersion { major: number()?, minor: number()? })
}

/// Builds for each platform. All that is missing is reported at once, before anything is built.
pub(super) fn build_all(
    root: &Path,
    platforms: &[&'static Platform],
    release: &ReleaseInfo,
) -> Result<Vec<BuiltProgram>> {
    let missing = missing_targets(platforms)?;
    ensure!(
        missing.is_empty(),
        "the Rust toolchain lacks {}: `rustup target add {}` adds it; or build only for others with --target",
        missing.join(" and "),
        missing.join(" ")
    );
    let tools = install_build_tools(root)?;
    let build = |platform: &&'static Platform| {
        build_program(root, &tools, platform, release, &root.join("target/dist-build"))
    };
    platforms.iter().map(build).collect()
}

/// The Rust targets whose standard library is not installed.
fn missing_targets(platforms: &[&'static Platform]) -> Result<Vec<&'static str>> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args(["--print", "sysroot"])
        .output()
        .context("could not start rustc")?;
    let libraries = Path::new(String::from_utf8_lossy(&output.stdout).trim()).join("lib/rustlib");
    let is_missing = |target: &&str| !libraries.join(target).join("lib").is_dir();
    Ok(platforms.iter().map(|platform| platform.rust_target).filter(is_missing).collect())
}

/// Installs cargo-zigbuild and its linker beside the build, and returns the folder of their programs.
fn install_build_tools(root: &Path) -> Result<PathBuf> {
    let folder = root.join("target/dist-tools");
    let programs = folder.join("bin");
    if !is_available(Command::new(programs.join("cargo-zigbuild")).arg("--version")) {
        eprintln!("== pip install {}", BUILD_TOOLS.join(" "));
        let venv = Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder).status();
        ensure!(venv.context("could not start python3")?.success(), "`python3 -m venv` failed");
        let mut pip = Command::new(programs.join("pip"));
        pip.args(["install", "--quiet", "--disable-pip-version-check"]).args(BUILD_TOOLS);
        ensure!(pip.status()?.success(), "could not install {}", BUILD_TOOLS.join(" and "));
    }
    Ok(programs)
}

/// Builds one program in the checkout at `root`, with its own target folder.
pub(super) fn build_program(
    root: &Path,
    tools: &Path,
    platform: &'static Platform,
    release: &ReleaseInfo,
    target_folder: &Path,
) -> Result<BuiltProgram> {
    let target = format!("{}.{GLIBC}", platform.rust_target);
    eprintln!("== cargo zigbuild --profile dist --target {target}");
    let mut build =
        cargo_command(&["zigbuild", "--locked", "--package=zero", "--bin=zero", "--profile=dist"]);
    build.arg("--target").arg(&target).current_dir(root);
    build.env("PATH", search_path_with(tools)?).env("CARGO_TARGET_DIR", target_folder);
    build.env("SOURCE_DATE_EPOCH", release.time.to_string());
    build.env("RUSTFLAGS", remapped_paths(root, target_folder)?.join(" "));
    let c_flags: Vec<String> = remapped_folders(root, target_folder)?
        .iter()
        .map(|(from, to)| format!("-ffile-prefix-map={from}={to}"))
        .collect();
    build.env("CFLAGS", c_flags.join(" "));
    ensure!(build.status().context("could not start cargo")?.success(), "the build failed");
    let path = target_folder.join(platform.rust_target).join("dist/zero");
    let program = BuiltProgram::read(&path)?;
    if program.glibc > GLIBC {
        bail!("the program needs glibc {}, and {GLIBC} was asked for", program.glibc);
    }
    Ok(program)
}

fn search_path_with(folder: &Path) -> Result<std::ffi::OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    Ok(std::env::join_paths(
        std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path)),
    )?)
}

/// Folders of this machine that compilers write into programs, and what they write instead.
fn remapped_folders(root: &Path, target_folder: &Path) -> Result<Vec<(String, &'static str)>> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cargo_home =
        std::env::var_os("CARGO_HOME").map_or_else(|| home.join(".cargo"), PathBuf::from);
    // The last one that fits is used, so the longer paths are behind the shorter ones.
    let folders = [
        (home.as_path(), "/home"),
        (&cargo_home, "/cargo"),
        (root, "/zero"),
        (target_folder, "/target"),
    ];
    let mut remapped = Vec::new();
    for (folder, name) in folders {
        let text = folder.to_str().context("a path is not UTF-8")?;
        ensure!(
            !text.contains(char::is_whitespace),
            "build in a folder without spaces in its path: {text}"
        );
        if text.len() > 1 {
            remapped.push((text.to_owned(), name));
        }
    }
    Ok(remapped)
}

fn remapped_paths(root: &Path, target_folder: &Path) -> Result<Vec<String>> {
    let folders = remapped_folders(root, target_folder)?;
    Ok(folders.iter().map(|(from, to)| format!("--remap-path-prefix={from}={to}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glibc_version_is_read_and_ordered() {
        let newest = ["GLIBC_2.2.5", "GLIBC_2.28", "GLIBC_2.9", "GLIBC_PRIVATE", "GCC_3.0"]
            .iter()
            .filter_map(|name| parse_glibc(name))
            .max();
        assert_eq!(newest.unwrap().to_string(), "2.28");
    }

    #[test]
    fn test_program_is_inspected() {
        let own = BuiltProgram::read(&std::env::current_exe().unwrap()).unwrap();
        assert!(own.platform.is_this_machine());
        assert!(own.needs("libc.so"), "{:?}", own.libraries);
        assert!(own.glibc > GlibcVersion { major: 2, minor: 17 }, "{}", own.glibc);
    }

    #[test]
    fn file_without_program_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("zero");
        for content in [&b""[..], b"#!/bin/sh\n", b"\x7fELF\x02\x01\x01"] {
            std::fs::write(&path, content).unwrap();
            let error = format!("{:#}", BuiltProgram::read(&path).unwrap_err());
            assert!(error.contains("cannot be packed"), "{error}");
        }
    }
}
