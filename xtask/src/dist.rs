//! `cargo xtask dist`: everything that a release consists of, from one checkout.
//!
//! A package is made from the same tree of files for every format, [`ProgramTree`], and from facts that are read from
//! the program itself, such as the oldest C library that it runs with. No file has a time, an owner or an order that
//! depends on the machine, so that the same program gives the same bytes; `dist/check.rs` proves it.
//!
//! Not here: how the packages are installed and removed again in tests (`package_tests.rs`).

mod acp_registry;
mod archive;
mod check;
mod deb;
mod homebrew;
mod npm;
#[cfg(test)]
mod package_tests;
mod platform;
mod program_build;
mod program_tree;
mod release_info;
mod release_sums;
mod rpm_package;
mod software_bill;
mod third_party_licenses;
mod wheel;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};

use self::platform::{PLATFORMS, Platform};
use self::program_build::BuiltProgram;
use self::program_tree::ProgramTree;
use self::release_info::{ReleaseFile, ReleaseInfo, workspace_version};
use crate::repository::{self, cargo_command};

/// Options of `cargo xtask dist`.
#[derive(Debug, Default)]
struct DistOptions {
    /// Built programs to pack, instead of building one for each platform.
    programs: Vec<PathBuf>,
    platforms: Vec<&'static Platform>,
    out: Option<PathBuf>,
    /// Where the files will be fetched from: an address that ends before the file name.
    address: Option<String>,
    secret_key: Option<PathBuf>,
    check: bool,
}

/// Builds the programs, or takes those that are named, and writes a release.
pub(crate) fn run(args: &[String]) -> Result<ExitCode> {
    let Some(options) = parse(args)? else { return Ok(ExitCode::from(2)) };
    let root = repository::root();
    let out = options.out.clone().unwrap_or_else(|| root.join("target/dist-release"));
    let key = options.secret_key.as_deref().map(release_sums::SigningKey::read).transpose()?;
    let public_key = key.as_ref().map(release_sums::SigningKey::public_key).transpose()?;
    let release = ReleaseInfo::read(&root, options.address.clone(), public_key)?;
    let programs = if options.programs.is_empty() {
        program_build::build_all(&root, &options.platforms, &release)?
    } else {
        let read = |path: &PathBuf| BuiltProgram::read(path);
        options.programs.iter().map(read).collect::<Result<_>>()?
    };
    let mut files = build_release(&root, &release, &programs)?;
    files.extend(release_sums::sums_and_signature(&files, &release, key.as_ref())?);
    write_release(&out, &files)?;
    for file in &files {
        eprintln!("{:>12}  {}", file.content.len(), file.name);
    }
    eprintln!("== {} files in {}", files.len(), out.display());
    if release.address.is_none() {
        eprintln!(
            "note: no --address URL: the Homebrew formula and the ACP registry entry, which name it, are not made"
        );
    }
    if key.is_none() {
        eprintln!(
            "note: no --sign KEYFILE: the sums are not signed, so `zero update` will not take this release"
        );
    }
    if options.check {
        check::run(&root, &options, &release, &programs, &files)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn parse(args: &[String]) -> Result<Option<DistOptions>> {
    let mut options = DistOptions::default();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let mut value = || rest.next().with_context(|| format!("`{arg}` needs a value"));
        match arg.as_str() {
            "--program" => options.programs.push(value()?.into()),
            "--target" => options.platforms.push(platform::find(value()?)?),
            "--out" => options.out = Some(value()?.into()),
            "--address" => options.address = Some(parse_address(value()?)?),
            "--sign" => options.secret_key = Some(value()?.into()),
            "--check" => options.check = true,
            _ => {
                eprintln!(
                    "`{arg}` is not an option of `cargo xtask dist`; see `cargo xtask --help`"
                );
                return Ok(None);
            }
        }
    }
    ensure!(
        options.programs.is_empty() || options.platforms.is_empty(),
        "--program and --target exclude each other: the platform of a built program is read from it"
    );
    if options.platforms.is_empty() {
        options.platforms = PLATFORMS.iter().collect();
    }
    Ok(Some(options))
}

/// An address to which file names can be appended.
fn parse_address(text: &str) -> Result<String> {
    let is_web = ["https://", "http://"]
        .iter()
        .any(|scheme| text.len() > scheme.len() && text.starts_with(scheme));
    let is_plain =
        text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"'\\<>`${}?#".contains(&byte));
    ensure!(
        is_web && is_plain,
        "`{text}` is no address such as https://example.com/zero; it must have no query"
    );
    Ok(format!("{}/", text.trim_end_matches('/')))
}

/// Everything but the sums.
fn build_release(
    root: &Path,
    release: &ReleaseInfo,
    programs: &[BuiltProgram],
) -> Result<Vec<ReleaseFile>> {
    let Some(runnable) = programs.iter().find(|program| program.platform.is_this_machine()) else {
        bail!(
            "no program for this machine: one is needed to print the completions and manual pages; add {}",
            std::env::consts::ARCH
        );
    };
    let metadata = software_bill::DependencyTree::load()?;
    let licenses = third_party_licenses::collect(&metadata)?;
    let shared = program_tree::shared_files(root, &runnable.path, &licenses)?;
    let mut files = Vec::new();
    let mut archives = Vec::new();
    for program in programs {
        let tree = |method: &str| ProgramTree::new(program, &shared, release, method);
        let archive = archive::release_archive(&tree("archive"), program.platform, release)?;
        archives.push((program.platform, archive.clone()));
        files.push(archive);
        files.push(deb::build(root, &tree("deb"), program, release)?);
        files.push(rpm_package::build(root, &tree("rpm"), program, release)?);
        files.push(npm::platform_package(root, &tree("npm"), program.platform, release)?);
        files.push(wheel::build(&tree("pip"), program, release)?);
    }
    let platforms: Vec<&Platform> = programs.iter().map(|program| program.platform).collect();
    files.push(npm::launcher_package(root, &platforms, release)?);
    files.push(software_bill::build(&metadata, release)?);
    files.push(install_script(root, release)?);
    files.push(ReleaseFile::new(
        "Containerfile",
        std::fs::read(root.join("packaging/container/Containerfile"))?,
    ));
    if let Some(address) = &release.address {
        files.push(homebrew::formula(&archives, address, release)?);
        files.extend(acp_registry::entry(root, &archives, address, release)?);
    }
    Ok(files)
}

/// The installer, with the address and key of the release where the release has them.
fn install_script(root: &Path, release: &ReleaseInfo) -> Result<ReleaseFile> {
    let mut script = std::fs::read_to_string(root.join("packaging/install.sh"))?;
    for (name, value) in
        [("default_address", &release.address), ("default_key", &release.public_key)]
    {
        let line = format!("\n{name}=''\n");
        ensure!(script.contains(&line), "packaging/install.sh has no line `{name}=''`");
        if let Some(value) = value {
            script = script.replace(&line, &format!("\n{name}='{value}'\n"));
        }
    }
    Ok(ReleaseFile::new("install.sh", script))
}

/// Replaces the folder, so that no file of an earlier release is in it.
fn write_release(out: &Path, files: &[ReleaseFile]) -> Result<()> {
    const MARK: &str = ".zero-release";
    if out.exists() {
        let is_ours = out.join(MARK).exists() || std::fs::read_dir(out)?.next().is_none();
        ensure!(
            is_ours,
            "{} exists and is no folder of an earlier release; name another with --out",
            out.display()
        );
        std::fs::remove_dir_all(out)?;
    }
    std::fs::create_dir_all(out)?;
    std::fs::write(out.join(MARK), "Written by `cargo xtask dist`, which replaces this folder.\n")?;
    for file in files {
        let path = out.join(&file.name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&path, &file.content)
            .with_context(|| format!("could not write {}", path.display()))?;
    }
    Ok(())
}

/// Runs the steps of a release that change nothing elsewhere, in the order of RELEASING.md.
pub(crate) fn dry_run_release(args: &[String]) -> Result<ExitCode> {
    let [flag, rest @ ..] = args else {
        eprintln!(
            "`cargo xtask release` publishes nothing itself; run it with --dry-run, and follow RELEASING.md"
        );
        return Ok(ExitCode::from(2));
    };
    if flag != "--dry-run" {
        eprintln!(
            "`{flag}` is not an option of `cargo xtask release`; the one there is: --dry-run"
        );
        return Ok(ExitCode::from(2));
    }
    let root = repository::root();
    release_steps(&root, rest)
}

fn release_steps(root: &Path, dist_args: &[String]) -> Result<ExitCode> {
    eprintln!("== 1. the checkout is clean");
    let status = Command::new("git").args(["status", "--porcelain"]).current_dir(root).output()?;
    ensure!(
        status.status.success() && status.stdout.is_empty(),
        "the checkout has changes that are in no commit:\n{}",
        String::from_utf8_lossy(&status.stdout)
    );
    eprintln!("== 2. the version is new and in the changelog");
    let version = workspace_version(root)?;
    let tag = format!("v{version}");
    let tags = Command::new("git").args(["tag", "--list", &tag]).current_dir(root).output()?;
    ensure!(tags.stdout.is_empty(), "{tag} is already tagged; raise `version` in Cargo.toml");
    let changelog = std::fs::read_to_string(root.join("CHANGELOG.md"))?;
    check_changelog(&changelog, &version)?;
    eprintln!("== 3. the lock file fits the manifests");
    let locked = cargo_command(&["metadata", "--locked", "--format-version=1"]).output()?;
    ensure!(locked.status.success(), "{}", String::from_utf8_lossy(&locked.stderr));
    eprintln!("== 4. the packages");
    run(dist_args)
}

/// Whether the changes of a version are written down: under its own heading, or, before the release, as unreleased.
fn check_changelog(changelog: &str, version: &str) -> Result<()> {
    let heading = format!("## [{version}]");
    let section = |heading: &str| {
        let (_, after) = changelog.split_once(heading)?;
        let body = after.split("\n## ").next().unwrap_or_default();
        body.lines().any(|line| line.starts_with("- ")).then_some(())
    };
    if section(&heading).is_some() {
        return Ok(());
    }
    ensure!(
        section("## [Unreleased]").is_some(),
        "CHANGELOG.md says nothing about {version} below `{heading}`"
    );
    eprintln!(
        "note: CHANGELOG.md has changes under [Unreleased]; rename that heading to [{version}] for the release"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_has_one_slash_at_end() {
        assert_eq!(parse_address("https://a.example/zero").unwrap(), "https://a.example/zero/");
        assert_eq!(parse_address("http://127.0.0.1:8000//").unwrap(), "http://127.0.0.1:8000/");
        for wrong in
            ["", "https://", "ftp://a", "a.example", "https://a/'x", "https://a/?q", "https://a/$x"]
        {
            assert!(parse_address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn changelog_must_name_changes_of_version() {
        let check = |text: &str| check_changelog(text, "1.2.0").is_ok();
        assert!(check("# C\n\n## [1.2.0]\n\n- a change\n\n## [1.1.0]\n\n- b\n"));
        assert!(check("# C\n\n## [Unreleased]\n\n### Added\n\n- a change\n"));
        assert!(!check("# C\n\n## [1.2.0]\n\n## [1.1.0]\n\n- b\n"));
        assert!(!check("# C\n\n## [Unreleased]\n\n## [1.1.0]\n\n- b\n"));
    }

    #[test]
    fn folder_of_others_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = [ReleaseFile::new("a/b", "text")];
        write_release(folder.path(), &file).unwrap();
        write_release(folder.path(), &[ReleaseFile::new("c", "text")]).unwrap();
        assert!(!folder.path().join("a").exists() && folder.path().join("c").exists());
        let other = tempfile::tempdir().unwrap();
        std::fs::write(other.path().join("thesis"), "text").unwrap();
        assert!(write_release(other.path(), &file).is_err());
        assert!(other.path().join("thesis").exists());
    }
}
