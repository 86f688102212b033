//! The package for Fedora, RHEL, openSUSE and their relatives.

use std::path::Path;

use anyhow::Result;
use rpm::{BuildConfig, CompressionWithLevel, Dependency, FileOptions, PackageBuilder};

use super::deb::{is_config_file, system_tree};
use super::program_build::BuiltProgram;
use super::program_tree::ProgramTree;
use super::release_info::{DESCRIPTION, LICENSE, PackingEffort, ReleaseFile, ReleaseInfo, SUMMARY};

pub(super) fn build(
    root: &Path,
    tree: &ProgramTree,
    program: &BuiltProgram,
    release: &ReleaseInfo,
) -> Result<ReleaseFile> {
    let compression = match release.effort {
        PackingEffort::Smallest => CompressionWithLevel::Xz(8),
        #[cfg(test)]
        PackingEffort::Fastest => CompressionWithLevel::None,
    };
    let config = BuildConfig::v4().compression(compression).source_date(release.time);
    let arch = program.platform.rpm;
    let mut package = PackageBuilder::new("zero", &release.version, LICENSE, arch, SUMMARY);
    package.using_config(config).description(DESCRIPTION).packager(release.maintainer.as_str());
    package.build_host("localhost");
    for file in system_tree(root, tree)? {
        let options = FileOptions::new(format!("/{}", file.path)).permissions(file.mode as u16);
        let options = match () {
            () if is_config_file(&file.path) => options.config().noreplace(),
            () if file.path.starts_with("usr/share/doc/") => options.doc(),
            () => options,
        };
        package.with_file_contents(file.content, options)?;
    }
    for folder in ["usr/share/zero", "usr/share/doc/zero"] {
        package.with_dir_entry(FileOptions::dir(format!("/{folder}")).permissions(0o755))?;
    }
    // As rpmbuild writes it, so that package managers find the library that has this version.
    package.requires(Dependency::any(format!("libc.so.6(GLIBC_{})(64bit)", program.glibc)));
    if program.needs("libgcc_s.so") {
        package.requires(Dependency::any("libgcc_s.so.1()(64bit)"));
    }
    package
        .recommends(Dependency::any("bubblewrap"))
        .recommends(Dependency::any("ca-certificates"));
    package.suggests(Dependency::any("git"));
    package.post_install_script(std::fs::read_to_string(root.join("packaging/rpm/post"))?);
    package.pre_uninstall_script(std::fs::read_to_string(root.join("packaging/rpm/preun"))?);
    package.post_uninstall_script(std::fs::read_to_string(root.join("packaging/rpm/postun"))?);
    let mut content = Vec::new();
    package.build()?.write(&mut content)?;
    Ok(ReleaseFile::new(format!("zero-{}-1.{arch}.rpm", release.version), content))
}
