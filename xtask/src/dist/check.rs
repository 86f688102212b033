//! Checks of a release: the same bytes twice, sizes, and packages that Debian's own tools accept.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::program_build::BuiltProgram;
use super::release_info::{ReleaseFile, ReleaseInfo};
use super::{DistOptions, build_release, program_build};
use crate::required_programs::is_available;

/// Largest program, and largest archive with it.
const PROGRAM_BYTES_MAX: usize = 28 * 1024 * 1024;
const ARCHIVE_BYTES_MAX: usize = 12 * 1024 * 1024;

/// Runs all checks and names those that fail together.
pub(super) fn run(
    root: &Path,
    options: &DistOptions,
    release: &ReleaseInfo,
    programs: &[BuiltProgram],
    files: &[ReleaseFile],
) -> Result<()> {
    let mut failed = Vec::new();
    let mut check = |name: &str, result: Result<()>| match result {
        Ok(()) => eprintln!("== {name}: ok"),
        Err(error) => {
            eprintln!("== {name}: {error:#}");
            failed.push(name.to_owned());
        }
    };
    check("packing twice gives the same bytes", repack(root, release, programs, files));
    if options.programs.is_empty() {
        check("building twice gives the same bytes", rebuild(root, release, programs));
    } else {
        eprintln!("note: the programs were built before (--program), so they are not built twice");
    }
    check("sizes", check_sizes(programs, files));
    check("the Debian package in a new Debian system", install_in_debian(files));
    ensure!(failed.is_empty(), "failed: {}", failed.join("; "));
    Ok(())
}

/// The files of a second release of the same programs.
fn repack(
    root: &Path,
    release: &ReleaseInfo,
    programs: &[BuiltProgram],
    files: &[ReleaseFile],
) -> Result<()> {
    for again in build_release(root, release, programs)? {
        let first = files.iter().find(|file| file.name == again.name);
        ensure!(
            first.is_some_and(|first| first.content == again.content),
            "{} differs",
            again.name
        );
    }
    Ok(())
}

/// The programs of a second build: of a clone in another folder, so that no path of this one is in it.
fn rebuild(root: &Path, release: &ReleaseInfo, programs: &[BuiltProgram]) -> Result<()> {
    let folder = root.join("target/dist-again");
    let (clone, target) = (folder.join("source"), folder.join("built"));
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    let git = Command::new("git")
        .arg("clone")
        .args(["--quiet", "--no-hardlinks"])
        .arg(root)
        .arg(&clone)
        .status();
    ensure!(git.context("could not start git")?.success(), "could not clone the repository");
    for program in programs {
        let again = program_build::build_program(
            &clone,
            &root.join("target/dist-tools/bin"),
            program.platform,
            release,
            &target,
        )?;
        ensure!(
            again.content == program.content,
            "{} and {} differ; `diffoscope` shows where",
            program.path.display(),
            again.path.display()
        );
    }
    Ok(std::fs::remove_dir_all(&folder)?)
}

fn check_sizes(programs: &[BuiltProgram], files: &[ReleaseFile]) -> Result<()> {
    for program in programs {
        let bytes = program.content.len();
        ensure!(
            bytes <= PROGRAM_BYTES_MAX,
            "the program has {bytes} bytes; the limit is {PROGRAM_BYTES_MAX}"
        );
    }
    for archive in files.iter().filter(|file| file.name.ends_with("linux.tar.gz")) {
        let bytes = archive.content.len();
        ensure!(
            bytes <= ARCHIVE_BYTES_MAX,
            "{} has {bytes} bytes; the limit is {ARCHIVE_BYTES_MAX}",
            archive.name
        );
    }
    Ok(())
}

/// Installs the package in a system that debootstrap makes, uses it for one call, and purges it.
fn install_in_debian(files: &[ReleaseFile]) -> Result<()> {
    let here = super::platform::PLATFORMS.iter().find(|platform| platform.is_this_machine());
    let suffix = here.map(|platform| format!("_{}.deb", platform.debian)).unwrap_or_default();
    let package = files
        .iter()
        .find(|file| file.name.ends_with(&suffix))
        .context("there is no package for this machine")?;
    if !is_available(Command::new("debootstrap").arg("--version")) {
        bail!("debootstrap is missing; `apt-get install debootstrap` installs it");
    }
    let folder = tempfile::tempdir()?;
    let root = folder.path().join("root");
    let made = Command::new("debootstrap")
        .args(["--variant=minbase", "--include=bubblewrap,ca-certificates", "stable"])
        .arg(&root)
        .output()?;
    ensure!(made.status.success(), "debootstrap: {}", String::from_utf8_lossy(&made.stdout));
    std::fs::write(root.join("zero.deb"), &package.content)?;
    const STEPS: &str = "set -e
        find / -xdev -not -path '/proc/*' -not -path '/var/*' | sort > /var/before
        dpkg -i /zero.deb
        echo hello > /tmp/note.txt
        cd /tmp && HOME=/tmp/home && export HOME && mkdir $HOME
        zero --version
        zero tools call Read '{\"file_path\": \"note.txt\"}' | grep hello
        cd / && rm -r /tmp/home /tmp/note.txt
        dpkg -P zero
        find / -xdev -not -path '/proc/*' -not -path '/var/*' | sort > /var/after
        diff /var/before /var/after";
    let steps = Command::new("chroot").arg(&root).args(["sh", "-c", STEPS]).output()?;
    ensure!(
        steps.status.success(),
        "{}{}",
        String::from_utf8_lossy(&steps.stdout),
        String::from_utf8_lossy(&steps.stderr)
    );
    Ok(())
}
