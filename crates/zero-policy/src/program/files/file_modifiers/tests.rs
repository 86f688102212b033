//! Checks that every changed file is found, whatever the options.

use crate::program::files::analysis_assert::check;

#[test]
fn copy_may_land_in_folder() {
    check("cp a b", "files: read a, write b, write b/a");
    check("cp x/.env .", "files: read x/.env, write ., write ./.env");
    check("cp a b dir", "files: read a, read b, write dir, write dir/a, write dir/b");
    check("cp -t dir a", "files: read a, write dir, write dir/a");
    check("cp --targ=dir a", "files: read a, write dir, write dir/a");
    check("cp -T a b", "files: read a, write b");
    check("cp -r a b", "files: read a/**, write b/**, write b/a/**");
    check("cp -a a .", "files: read a/**, write ., write ./a/**");
    check("cp -r a/. .", "files: read a/./**, write ., write ./**");
    check("cp *.c dir/", "files: read *.c, write dir//**");
    check("cp --parents x/y dir", "files: read x/y, write dir, write dir/x/y");
    check("cp -b -S v a .en", "files: read a, write .en, write .en/a, write .env, write .en/av");
    check("cp -l a b", "files: read a, write a, write b, write b/a");
    check("cp", "looks");
}

#[test]
fn move_takes_folder_contents() {
    check("mv a b", "files: read a/**, delete a/**, write b/**, write b/a/**");
    check("mv a ..", "files: read a/**, delete a/**, write .., write ../a/**");
}

#[test]
fn link_grants_access_to_target() {
    check("ln a b", "files: read a/**, write a/**, write b/**, write b/a/**");
    check("ln x/.env", "files: read x/.env/**, write x/.env/**, write ., write ./.env/**");
    check(
        "ln -s ../t d/l",
        "files: read ../t/**, write ../t/**, read d/l/../t/**, write d/l/../t/**, \
         read d/../t/**, write d/../t/**, write d/l/**, write d/l/t/**",
    );
    check("ln -s /t l", "files: read /t/**, write /t/**, write l/**, write l/t/**");
}

#[test]
fn created_and_changed_files_are_recorded() {
    check("mkdir -p a/b -m 700", "files: write a/b");
    check("touch -r a b", "files: read a, write b");
    check("tee", "looks");
    check("tee -a a b", "files: write a, write b");
    check("truncate -s 0 a", "files: write a");
    check("dos2unix a", "files: write a");
    check("mktemp", "files: write /tmp");
    check("mktemp -d", "files: write /tmp");
    check("mktemp -t x", "files: write /tmp");
    check("mktemp -u", "looks");
    check("mktemp a.XXX", "files: write a.XXX");
    check("mktemp -p dir a.XXX", "files: write dir, write a.XXX");
    check("install -m 755 a b", "files: read a, write b, write b/a");
    check("install -s --strip-prog=./x a b", "files: read a, write b, write b/a, runs ./x");
    check("install -d a b", "files: write a, write b");
    check("split -l 5 in out", "files: read in, write out…");
    check("split --filt='sh x' in", "files: read in, write x…, script sh x");
    check("csplit in /x/ -f p", "files: read in, write p…");
}

#[test]
fn permission_changes_are_recorded_as_writes() {
    check("chmod 755 a", "files: write a");
    check("chmod -x a", "files: write a");
    check("chmod -777 a", "files: write a");
    check("chmod +x a b", "files: write a, write b");
    check("chmod -R 755 a", "files: write a/**, critical: changes permissions recursively");
    check("chmod --recurs 755 a", "files: write a/**, critical: changes permissions recursively");
    check("chown me a", "program: write a");
    check("chown -hR me a", "program: write a/**, critical: changes permissions recursively");
}

#[test]
fn dd_operands_are_recorded_as_files() {
    check("dd if=a bs=1", "looks: read a");
    check("dd if=a of=b", "files: read a, write b, critical: writes with dd");
    check("dd if=$x", "looks: read if=$x");
    check("dd $x", "looks: caution");
}

#[test]
fn patch_target_files_are_unknown() {
    check("patch -p1 -i a.diff", "program: read a.diff, write ./**");
    check("patch --dry-run -i a.diff", "program: read a.diff");
    check("patch -d dir -o out f a.diff", "program: write out, write dir/**, write f, read a.diff");
    check("patch -e", "program: write ./**, runs something");
}
