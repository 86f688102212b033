//! The changes of a command are undone exactly, redone exactly, and survive crashes.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use zero_core::ByteSize;
use zero_sandbox::command_capture::{CaptureOutcome, CommandCapture};
use zero_sandbox::journal::{ChangeRecorder, SetLimits, SetOrigin, UndoConflictPolicy};
use zero_sandbox::spawner::SpawnSpec;
use zero_sandbox::{ChangeState, Journal, StateDir, Workspace};

use crate::command_fixture::{run, shell_spec, start_spawner};

/// A workspace with its journal.
pub(crate) struct UndoLab {
    pub(crate) temp: tempfile::TempDir,
    pub(crate) journal: Journal,
}

impl UndoLab {
    pub(crate) fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir(temp.path().join("tree")).unwrap();
        let temp_path = temp.path().canonicalize().unwrap();
        let journal = open_journal(&temp_path);
        Self { temp, journal }
    }

    pub(crate) fn tree(&self) -> PathBuf {
        self.temp.path().canonicalize().unwrap().join("tree")
    }

    fn recorder(&self) -> ChangeRecorder {
        self.journal.record_command(origin(), SetLimits::NONE).unwrap()
    }

    /// Runs a script in the sandbox, records its changes, and returns them with its output.
    fn run(
        &self,
        spawner: &zero_sandbox::spawner::Spawner,
        script: &str,
    ) -> (CaptureOutcome, String) {
        let capture = CommandCapture::start(self.recorder()).unwrap();
        self.run_captured(spawner, script, capture)
    }

    fn run_captured(
        &self,
        spawner: &zero_sandbox::spawner::Spawner,
        script: &str,
        capture: (CommandCapture, std::os::fd::OwnedFd),
    ) -> (CaptureOutcome, String) {
        self.run_spec(spawner, shell_spec(&format!("exec 2>&1; {script}")), capture)
    }

    fn run_spec(
        &self,
        spawner: &zero_sandbox::spawner::Spawner,
        mut spec: SpawnSpec,
        (capture, channel): (CommandCapture, std::os::fd::OwnedFd),
    ) -> (CaptureOutcome, String) {
        spec.profile.writable.push(self.tree());
        spec.command.folder = self.tree();
        spec.capture = Some(std::sync::Arc::new(channel));
        let (output, _) = run(spawner, spec);
        (capture.finish(), output)
    }

    #[track_caller]
    fn undo(&self, id: u64) -> u64 {
        self.journal.undo_set(id, UndoConflictPolicy::Refuse).unwrap().0
    }
}

impl Drop for UndoLab {
    /// Opens folders whose mode keeps their owner from removing what is in them.
    fn drop(&mut self) {
        open_folders(self.temp.path());
    }
}

fn open_folders(folder: &Path) {
    let _ = std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700));
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_folders(&entry.path());
        }
    }
}

/// Reads something at a path that its owner may have closed, and leaves its mode as it is.
fn read_closed<T>(path: &Path, mut read: impl FnMut(&Path) -> std::io::Result<T>) -> T {
    if let Ok(found) = read(path) {
        return found;
    }
    let permissions = path.symlink_metadata().unwrap().permissions();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).unwrap();
    let found = read(path).unwrap();
    std::fs::set_permissions(path, permissions).unwrap();
    found
}

pub(crate) fn open_journal(folder: &Path) -> Journal {
    let workspace = Workspace::open(&[folder.join("tree")], None).unwrap();
    let state = StateDir::new(folder.join("state"));
    Journal::new(&state, workspace, ByteSize::megabytes(100))
}

pub(crate) fn origin() -> SetOrigin {
    SetOrigin {
        tool: "Bash".to_owned(),
        call: "call_1".to_owned(),
        caller: Some("call_of_session".to_owned()),
        command: "make".to_owned(),
        undoes: None,
        is_beside: false,
    }
}

/// Everything that an undo restores: kind, mode, contents or target, and which paths are one file.
pub(crate) fn snapshot(tree: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    add_folder_to_snapshot(tree, &mut found, &mut BTreeMap::new());
    found
}

fn add_folder_to_snapshot(
    tree: &Path,
    found: &mut BTreeMap<PathBuf, String>,
    inodes: &mut BTreeMap<u64, PathBuf>,
) {
    read_closed(tree, |tree| {
        let entries = std::fs::read_dir(tree)?.map(|entry| Ok(entry?.path()));
        let mut paths = entries.collect::<std::io::Result<Vec<_>>>()?;
        paths.sort();
        paths.iter().try_for_each(|path| add_to_snapshot(path, found, inodes))
    });
}

fn add_to_snapshot(
    path: &Path,
    found: &mut BTreeMap<PathBuf, String>,
    inodes: &mut BTreeMap<u64, PathBuf>,
) -> std::io::Result<()> {
    let facts = path.symlink_metadata()?;
    let mode = facts.permissions().mode() & 0o7777;
    let first = inodes.entry(facts.ino()).or_insert_with(|| path.to_owned()).clone();
    let text = if facts.is_symlink() {
        format!("link {:?}", std::fs::read_link(path)?)
    } else if facts.is_dir() {
        add_folder_to_snapshot(path, found, inodes);
        format!("folder {mode:o}")
    } else if !facts.is_file() {
        format!("special {:o} {mode:o} {first:?}", facts.mode())
    } else {
        let (bytes, blocks) = (read_closed(path, |path| std::fs::read(path)), facts.blocks());
        let shown = zero_sandbox::journal::sha256(&bytes);
        let sparse = bytes.len() > 100_000 && blocks * 512 < bytes.len() as u64;
        format!("file {mode:o} {} {shown} {sparse} {first:?}", bytes.len())
    };
    found.insert(path.to_owned(), text);
    Ok(())
}

#[derive(Clone, Debug)]
enum TreeOperation {
    Write(PathBuf, Vec<u8>),
    Append(PathBuf, Vec<u8>),
    Sparse(PathBuf),
    /// A file of half a megabyte with this byte, except in the middle.
    Large(PathBuf, u8),
    Exchange(PathBuf, PathBuf),
    Unlink(PathBuf),
    RemoveFolder(PathBuf),
    MakeFolder(PathBuf),
    Rename(PathBuf, PathBuf),
    Link(PathBuf, PathBuf),
    Symlink(PathBuf, PathBuf),
    Chmod(PathBuf, u32),
    MakePipe(PathBuf),
    RemoveAll(PathBuf),
}

/// Names of files. Two differ only in case, and one is no UTF-8 text.
const NAMES: &[&[u8]] = &[b"a", b"b", b"c", b"d", b"A", b"\xff\n"];

/// What a folder keeps of its mode: nobody but root can record what is in one that its owner cannot list.
const FOLDER_MODE: u32 = 0o500;
/// Modes, some of which keep the owner from reading or changing.
const MODES: &[u32] =
    &[0o600, 0o644, 0o755, 0o700, 0o000, 0o500, 0o555, 0o311, 0o1777, 0o444, 0o070];

fn any_path() -> impl Strategy<Value = PathBuf> {
    let name = || prop::sample::select(NAMES).prop_map(OsStr::from_bytes);
    prop_oneof![
        name().prop_map(PathBuf::from),
        (name(), name()).prop_map(|(a, b)| Path::new(a).join(b)),
        (name(), name(), name()).prop_map(|(a, b, c)| Path::new(a).join(b).join(c)),
    ]
}

fn any_operation() -> impl Strategy<Value = TreeOperation> {
    let bytes = || prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![
        3 => (any_path(), bytes()).prop_map(|(path, bytes)| TreeOperation::Write(path, bytes)),
        2 => (any_path(), bytes()).prop_map(|(path, bytes)| TreeOperation::Append(path, bytes)),
        1 => any_path().prop_map(TreeOperation::Sparse),
        1 => (any_path(), any::<u8>()).prop_map(|(path, byte)| TreeOperation::Large(path, byte)),
        1 => (any_path(), any_path()).prop_map(|(a, b)| TreeOperation::Exchange(a, b)),
        2 => any_path().prop_map(TreeOperation::Unlink),
        1 => any_path().prop_map(TreeOperation::RemoveFolder),
        3 => any_path().prop_map(TreeOperation::MakeFolder),
        4 => (any_path(), any_path()).prop_map(|(a, b)| TreeOperation::Rename(a, b)),
        2 => (any_path(), any_path()).prop_map(|(a, b)| TreeOperation::Link(a, b)),
        1 => (any_path(), any_path()).prop_map(|(a, b)| TreeOperation::Symlink(a, b)),
        2 => (any_path(), prop::sample::select(MODES))
            .prop_map(|(path, mode)| TreeOperation::Chmod(path, mode)),
        1 => any_path().prop_map(TreeOperation::MakePipe),
        1 => any_path().prop_map(TreeOperation::RemoveAll),
    ]
}

/// Options of an open that does not wait for a reader of a pipe.
fn open_options() -> std::fs::OpenOptions {
    let mut options = std::fs::OpenOptions::new();
    options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    options
}

/// Performs an operation, which may fail, and records it before if there is a recorder.
fn perform(tree: &Path, operation: &TreeOperation, recorder: Option<&mut ChangeRecorder>) {
    use std::io::Write as _;
    let mut unused = None;
    let recorder = recorder.or(unused.as_mut());
    // Links are not followed here: the kernel's side of that has its own test.
    let is_plain = |path: &Path| {
        path.ancestors().all(|part| !tree.join(part).is_symlink() || part.as_os_str().is_empty())
    };
    let at = |path: &Path| tree.join(path);
    match operation {
        TreeOperation::Write(path, bytes) if is_plain(path) => {
            if let Some(recorder) = recorder {
                recorder.record_contents(&at(path));
            }
            let opened = open_options().create(true).truncate(true).write(true).open(at(path));
            if let Ok(mut file) = opened {
                file.write_all(bytes).unwrap();
            }
        }
        TreeOperation::Append(path, bytes) if is_plain(path) => {
            if let Some(recorder) = recorder {
                recorder.record_contents(&at(path));
            }
            if let Ok(mut file) = open_options().append(true).open(at(path)) {
                file.write_all(bytes).unwrap();
            }
        }
        TreeOperation::Sparse(path) if is_plain(path) => {
            if let Some(recorder) = recorder {
                recorder.record_contents(&at(path));
            }
            let opened = open_options().create(true).truncate(true).write(true).open(at(path));
            if let Ok(file) = opened {
                file.set_len(1 << 20).unwrap();
            }
        }
        TreeOperation::Large(path, byte) if is_plain(path) => {
            use std::os::unix::fs::FileExt as _;
            if let Some(recorder) = recorder {
                recorder.record_contents(&at(path));
            }
            let opened = open_options().create(true).truncate(false).write(true).open(at(path));
            if let Ok(file) = opened {
                file.write_all_at(&vec![*byte; 1 << 19], 0).unwrap();
                file.write_all_at(b"middle", 1 << 18).unwrap();
            }
        }
        TreeOperation::Exchange(one, other)
            if one.parent().is_none_or(is_plain) && other.parent().is_none_or(is_plain) =>
        {
            if let Some(recorder) = recorder {
                recorder.record_tree(&at(one));
                recorder.record_tree(&at(other));
            }
            let flags = rustix::fs::RenameFlags::EXCHANGE;
            let cwd = rustix::fs::CWD;
            let _ = rustix::fs::renameat_with(cwd, at(one), cwd, at(other), flags);
        }
        TreeOperation::Unlink(path) if path.parent().is_none_or(is_plain) => {
            if let Some(recorder) = recorder {
                recorder.record_removal(&at(path));
            }
            drop(std::fs::remove_file(at(path)));
        }
        TreeOperation::RemoveFolder(path) if path.parent().is_none_or(is_plain) => {
            if let Some(recorder) = recorder {
                recorder.record_removal(&at(path));
            }
            drop(std::fs::remove_dir(at(path)));
        }
        TreeOperation::MakeFolder(path) if path.parent().is_none_or(is_plain) => {
            if let Some(recorder) = recorder {
                recorder.record(&at(path));
            }
            drop(std::fs::create_dir(at(path)));
        }
        TreeOperation::Rename(from, to)
            if from.parent().is_none_or(is_plain) && to.parent().is_none_or(is_plain) =>
        {
            if let Some(recorder) = recorder {
                recorder.record_tree(&at(from));
                recorder.record_removal(&at(to));
            }
            drop(std::fs::rename(at(from), at(to)));
        }
        TreeOperation::Link(from, to)
            if from.parent().is_none_or(is_plain) && to.parent().is_none_or(is_plain) =>
        {
            if let Some(recorder) = recorder {
                recorder.record(&at(to));
            }
            drop(std::fs::hard_link(at(from), at(to)));
        }
        TreeOperation::Symlink(target, path) if path.parent().is_none_or(is_plain) => {
            if let Some(recorder) = recorder {
                recorder.record(&at(path));
            }
            drop(symlink(target, at(path)));
        }
        TreeOperation::Chmod(path, mode) if is_plain(path) => {
            if let Some(recorder) = recorder {
                recorder.record(&at(path));
            }
            let mode = if at(path).is_dir() { mode | FOLDER_MODE } else { *mode };
            drop(std::fs::set_permissions(at(path), std::fs::Permissions::from_mode(mode)));
        }
        TreeOperation::MakePipe(path) if path.parent().is_none_or(is_plain) => {
            if let Some(recorder) = recorder {
                recorder.record(&at(path));
            }
            let (kind, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::from_raw_mode(0o640));
            let _ = rustix::fs::mknodat(rustix::fs::CWD, at(path), kind, mode, 0);
        }
        TreeOperation::RemoveAll(path) if is_plain(path) => {
            let Some(recorder) = recorder else { return };
            if at(path).is_dir() {
                let mut names: Vec<_> = snapshot(&at(path)).into_keys().collect();
                names.reverse();
                for inner in names.into_iter().chain([at(path)]) {
                    recorder.record_removal(&inner);
                    if inner.is_dir() && !inner.is_symlink() {
                        std::fs::remove_dir(inner).unwrap();
                    } else {
                        std::fs::remove_file(inner).unwrap();
                    }
                }
            }
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn undo_restores_tree_and_redo_repeats_it(
        before in prop::collection::vec(any_operation(), 0..25),
        during in prop::collection::vec(any_operation(), 1..25),
    ) {
        let lab = UndoLab::new();
        let tree = lab.tree();
        for operation in &before {
            perform(&tree, operation, None);
        }
        let old = snapshot(&tree);
        let mut recorder = lab.recorder();
        for operation in &during {
            perform(&tree, operation, Some(&mut recorder));
        }
        let new = snapshot(&tree);
        let finished = recorder.finish().unwrap();
        let Some((id, totals)) = finished else {
            prop_assert_eq!(old, new);
            return Ok(());
        };
        prop_assert_eq!(&totals.losses, &Vec::<String>::new());
        prop_assert_eq!(lab.journal.entry(id).unwrap().state, ChangeState::Applied);
        let undo = lab.undo(id);
        prop_assert_eq!(&snapshot(&tree), &old);
        if undo == 0 {
            return Ok(());
        }
        let redo = lab.undo(undo);
        prop_assert_eq!(&snapshot(&tree), &new);
        lab.undo(redo);
        prop_assert_eq!(&snapshot(&tree), &old);
    }
}

/// A line of Python that performs an operation, following links, by a path written in one of several ways.
fn to_python(operation: &TreeOperation, number: usize) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let quoted = |path: &Path| format!("bytes.fromhex('{}')", hex(path.as_os_str().as_bytes()));
    let written = |path: &Path| match number % 3 {
        0 => quoted(path),
        1 => format!("b'./'+{}", quoted(path)),
        _ => format!("os.getcwdb()+b'/'+{}", quoted(path)),
    };
    match operation {
        TreeOperation::Write(path, bytes) => format!(
            "os.write(opened({}, os.O_CREAT | os.O_TRUNC), bytes.fromhex('{}'))",
            written(path),
            hex(bytes)
        ),
        TreeOperation::Append(path, bytes) => {
            format!(
                "os.write(opened({}, os.O_APPEND), bytes.fromhex('{}'))",
                written(path),
                hex(bytes)
            )
        }
        TreeOperation::Sparse(path) => {
            format!("os.truncate(opened({}, os.O_CREAT | os.O_TRUNC), 1 << 20)", written(path))
        }
        TreeOperation::Large(path, byte) => format!(
            "os.pwrite(opened({}, os.O_CREAT), bytes([{byte}]) * (1 << 19), 0)",
            written(path)
        ),
        TreeOperation::Exchange(one, other) => format!(
            "ctypes.CDLL(None).renameat2(-100, {}, -100, {}, 2)",
            written(one),
            written(other)
        ),
        TreeOperation::Unlink(path) => format!("os.unlink({})", written(path)),
        TreeOperation::RemoveFolder(path) => format!("os.rmdir({})", written(path)),
        TreeOperation::MakeFolder(path) => format!("os.mkdir({})", written(path)),
        TreeOperation::Rename(from, to) => format!("os.rename({}, {})", written(from), written(to)),
        TreeOperation::Link(from, to) => format!("os.link({}, {})", written(from), written(to)),
        TreeOperation::Symlink(target, path) => {
            format!("os.symlink({}, {})", quoted(target), written(path))
        }
        TreeOperation::Chmod(path, mode) => {
            format!("os.chmod({0}, {mode} | (os.path.isdir({0}) and {FOLDER_MODE}))", written(path))
        }
        TreeOperation::MakePipe(path) => format!("os.mkfifo({}, 0o640)", written(path)),
        // A pipe is not opened: that would wait for its other end.
        TreeOperation::RemoveAll(path) => {
            format!("os.path.isdir({0}) and shutil.rmtree({0})", written(path))
        }
    }
}

/// A script that performs operations one after the other, each of which may fail. It prints `loop` if
/// a link led to itself before one of them.
fn to_script(operations: &[TreeOperation]) -> String {
    let mut script = "python3 - <<'END'\nimport ctypes, errno, os, shutil\n".to_owned();
    script += "def is_loop(path):\n    try: os.stat(path)\n    except OSError as error: return error.errno == errno.ELOOP\n";
    script += "def has_loop(): return any(is_loop(os.path.join(at, name)) for at, folders, files in os.walk('.') for name in folders + files)\n";
    // A pipe without a reader fails at once.
    script += "def opened(path, flags): return os.open(path, os.O_WRONLY | os.O_NONBLOCK | flags, 0o644)\n";
    script += "looped = False\n";
    for (number, operation) in operations.iter().enumerate() {
        let line = to_python(operation, number);
        script += &format!("looped = looped or has_loop()\ntry: {line}\nexcept OSError: pass\n");
    }
    script + "if looped: print('loop')\nEND"
}

/// What the record of a command says of a path that zero cannot follow, such as one through a link to
/// itself. A command cannot follow that either, so that the record is complete nevertheless.
const UNSEEN: &str = "a program changed files without letting zero see which";

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_command_is_undone_and_redone(
        before in prop::collection::vec(any_operation(), 0..25),
        during in prop::collection::vec(any_operation(), 1..25),
    ) {
        let (spawner, lab) = (start_spawner(), UndoLab::new());
        let tree = lab.tree();
        for operation in &before {
            perform(&tree, operation, None);
        }
        let old = snapshot(&tree);
        let (outcome, output) = lab.run(&spawner, &to_script(&during));
        let new = snapshot(&tree);
        prop_assert!(output.is_empty() || output == "loop\n", "{}", output);
        let has_loop = !output.is_empty();
        let losses = &outcome.totals.losses;
        prop_assert!(
            losses.is_empty() || has_loop && losses == &[UNSEEN],
            "loops: {}, losses: {:?}",
            has_loop,
            losses
        );
        let Some(id) = outcome.id else {
            prop_assert_eq!(old, new);
            return Ok(());
        };
        let undo = lab.undo(id);
        prop_assert_eq!(&snapshot(&tree), &old);
        if undo > 0 {
            lab.undo(undo);
            prop_assert_eq!(&snapshot(&tree), &new);
        }
    }
}

/// Scripts that change `tree`, each in another way.
const SCRIPTS: &[&str] = &[
    "rm -rf folder",
    "rm -rf folder file link; mkdir file; echo x > file/inner",
    "echo more >> file; sed -i s/one/two/ folder/inner",
    "mv folder moved; echo changed > moved/inner; mkdir folder; echo new > folder/inner",
    "mv file other; echo more >> other",
    "mv folder/inner moved; chmod 600 moved",
    "ln file alias; echo through >> alias; chmod 600 alias",
    "chmod 700 folder; chmod 600 file; ln -sf elsewhere link",
    "echo through > link",
    "cd folder && rm inner && cp ../file inner && truncate -s 0 ../file",
    "mkdir -p deep/er; echo a > deep/er/a; mv deep/er/a deep/b; rmdir deep/er",
    "python3 -c 'import os; os.rename(\"file\", \"folder/inner\"); os.link(\"folder/inner\", \"again\")'",
    "truncate -s 5M file; dd if=/dev/urandom of=file bs=1k count=3 seek=2000 conv=notrunc status=none",
    "echo x > /proc/self/cwd/file; f=$(pwd)/folder/../file; echo y >> $f; ln -s $PWD/folder /tmp/way-$$; echo z > /tmp/way-$$/inner; rm /tmp/way-$$",
    "mkfifo pipe; rm -f hard1; echo x >> hard2",
    "mkdir -p n/a/b; echo 1 > n/a/b/f; mv n/a/b n/c; chmod 700 n/c; rm n/c/f; rmdir n/c; echo 2 > n/g",
    "mkdir n; ln -s ../folder n/link; echo through > n/link/inner; echo x > n/link/new",
    "mkdir n; mv folder n/folder; echo moved > n/folder/inner; echo x > n/folder/new",
    "mkdir n; ln file n/file; echo through > n/file; ln -s n way; echo x > way/new",
    "mkdir n; mv link n/link; echo x > n/../file; echo y > n/./new; cd n; echo z > ../folder/inner",
    "mkdir n; mv file n/file; echo x > n/file; mv n m; echo y > m/file; mkdir n; echo z > n/new",
    "python3 -c 'import os; os.mkdir(\"n\"); open(\"n/inner\",\"w\").write(\"n\"); os.chmod(\"folder/inner\",0o600); os.rename(\"folder\",\"t\"); os.rename(\"n\",\"folder\"); os.unlink(\"folder/inner\"); os.unlink(\"t/inner\")'",
    "python3 -c 'import os; os.unlink(\"folder/inner\"); os.rmdir(\"folder\"); os.mkdir(\"folder\"); open(\"folder/inner\",\"w\").write(\"n\"); os.symlink(\"folder\",\"w\"); os.chmod(\"w/inner\",0o600)'",
    "chmod 700 closed; rm closed/inner; echo x > closed/new; chmod 555 closed",
    "chmod 700 closed; mkdir -m 700 closed/n; echo x > closed/n/f; mv closed/inner closed/n; chmod 500 closed/n; chmod 555 closed",
    "mkdir -p n/in; echo x > n/in/f; chmod 555 n/in n; mv file \"$(printf '\\377')\"; mkfifo FILE; chmod 0 link",
    "mkdir n; rmdir n; ln -s folder n; echo through > n/inner; echo new > n/other",
    "python3 -c 'import os,ctypes; os.mkdir(\"n\"); open(\"n/f\",\"w\").write(\"x\"); ctypes.CDLL(None).renameat2(-100,b\"n\",-100,b\"folder\",2); open(\"n/inner\",\"w\").write(\"y\")'",
];

#[test]
fn captured_scripts_are_undone_and_redone() {
    let spawner = start_spawner();
    for script in SCRIPTS {
        let lab = UndoLab::new();
        let tree = lab.tree();
        std::fs::create_dir(tree.join("folder")).unwrap();
        std::fs::write(tree.join("folder/inner"), "one").unwrap();
        std::fs::write(tree.join("file"), "file").unwrap();
        std::fs::write(tree.join("hard1"), "hard").unwrap();
        std::fs::hard_link(tree.join("hard1"), tree.join("hard2")).unwrap();
        symlink("file", tree.join("link")).unwrap();
        std::fs::create_dir(tree.join("closed")).unwrap();
        std::fs::write(tree.join("closed/inner"), "closed").unwrap();
        std::fs::set_permissions(tree.join("closed"), std::fs::Permissions::from_mode(0o555))
            .unwrap();
        let old = snapshot(&tree);
        let (outcome, output) = lab.run(&spawner, script);
        let new = snapshot(&tree);
        assert_ne!(old, new, "{script}: {output}");
        assert_eq!(outcome.totals.losses, Vec::<String>::new(), "{script}: {output}");
        let id = outcome.id.unwrap_or_else(|| panic!("{script}: nothing recorded: {output}"));
        let undo = lab.undo(id);
        assert_eq!(snapshot(&tree), old, "{script}");
        lab.undo(undo);
        assert_eq!(snapshot(&tree), new, "{script}");
    }
}

#[test]
fn command_that_changes_nothing_leaves_no_record() {
    let (spawner, lab) = (start_spawner(), UndoLab::new());
    std::fs::write(lab.tree().join("file"), "file").unwrap();
    let script = "cat file > /dev/null; echo x > new; rm new; chmod 644 file; : >> file";
    let (outcome, output) = lab.run(&spawner, script);
    assert_eq!(outcome, CaptureOutcome::default(), "{output}");
    assert!(lab.journal.list().unwrap().is_empty());
}

/// Ways to make a program that runs with the user's group for everyone who starts it.
const SET_GROUP_ID_SCRIPT: &str = "
    cp /bin/true p; chmod 2755 p; cp p q; chmod g+s q; install -m 2755 /bin/true r;
    cp /bin/true m; python3 - <<'X'
import os, threading
for f in (lambda: os.chmod('m', 0o2755), lambda: os.fchmod(os.open('m', os.O_RDONLY), 0o2755),
          lambda: os.chmod(os.open('m', os.O_RDONLY), 0o2755),
          lambda: os.chmod('m', 0o2755, dir_fd=os.open('.', os.O_RDONLY))):
    try: f()
    except OSError: pass
# While one thread sets the mode of a folder, others put a program in its place.
os.mkdir('d1'); os.symlink('d1', 'link'); run = True
def swap():
    while run:
        for target in ('m', 'd1'):
            os.symlink(target, 'next'); os.rename('next', 'link')
threads = [threading.Thread(target=swap)]
for t in threads: t.start()
for _ in range(2000):
    try: os.chmod('link', 0o2755)
    except OSError: pass
run = False
for t in threads: t.join()
X
";

/// The regular files of a tree that have a set-group-ID bit.
fn list_set_group_id(tree: &Path) -> Vec<PathBuf> {
    let mode = |path: &Path| path.symlink_metadata().unwrap().permissions().mode();
    let paths = std::fs::read_dir(tree).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.is_file() && mode(path) & 0o2000 != 0).collect()
}

#[test]
fn command_makes_no_set_group_id_program() {
    let spawner = start_spawner();
    let lab = UndoLab::new();
    let (_, output) = lab.run(&spawner, SET_GROUP_ID_SCRIPT);
    assert_eq!(list_set_group_id(&lab.tree()), Vec::<PathBuf>::new(), "{output}");
    assert!(output.contains("Operation not permitted"), "{output}");
    // The same if its changes are not recorded.
    let lab = UndoLab::new();
    let mut spec = shell_spec(&format!("exec 2>&1; {SET_GROUP_ID_SCRIPT}"));
    spec.profile.writable.push(lab.tree());
    spec.command.folder = lab.tree();
    let (output, _) = run(&spawner, spec);
    assert_eq!(list_set_group_id(&lab.tree()), Vec::<PathBuf>::new(), "{output}");
    assert!(output.contains("Operation not permitted"), "{output}");
}

#[test]
fn command_sets_group_id_of_its_folders() {
    let (spawner, lab) = (start_spawner(), UndoLab::new());
    std::fs::create_dir(lab.tree().join("old")).unwrap();
    std::fs::set_permissions(lab.tree().join("old"), std::fs::Permissions::from_mode(0o750))
        .unwrap();
    let script = "mkdir n; chmod 2755 n; chmod g+s old; cd n; chmod 2750 .; mkdir ../f; exec 3<../f; \
                  python3 -c 'import os; os.fchmod(3, 0o2711)'; chmod g+s ../missing; chmod g+s /usr";
    let (outcome, output) = lab.run(&spawner, script);
    assert!(output.contains("'../missing': No such file"), "{output}");
    assert!(output.contains("'/usr': "), "{output}");
    let mode = |name: &str| lab.tree().join(name).metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("n"), mode("old"), mode("f")), (0o2750, 0o2750, 0o2711), "{output}");
    lab.undo(outcome.id.unwrap());
    assert_eq!(mode("old"), 0o750);
}

#[test]
fn command_that_becomes_job_is_recorded_and_undone_after_a_question() {
    let (spawner, lab) = (start_spawner(), UndoLab::new());
    std::fs::write(lab.tree().join("old"), "old").unwrap();
    let mut recorder = lab.recorder();
    recorder.record(&lab.tree().join("new"));
    let started = CommandCapture::start(recorder).unwrap();
    started.0.control().set_beside();
    let script = "echo x > new; mkdir n; echo more >> old; echo ok";
    let (outcome, output) = lab.run_captured(&spawner, script, started);
    assert_eq!((output.as_str(), outcome.totals.losses.len()), ("ok\n", 0));
    let id = outcome.id.unwrap();
    let refused = lab.journal.undo_set(id, UndoConflictPolicy::Refuse).unwrap_err();
    assert!(refused.message.contains("was made in the background"), "{}", refused.message);
    assert!(refused.message.ends_with("\n  old"), "{}", refused.message);
    lab.journal.undo_set(id, UndoConflictPolicy::Overwrite).unwrap();
    assert_eq!(snapshot(&lab.tree()).len(), 1);
    assert_eq!(std::fs::read_to_string(lab.tree().join("old")).unwrap(), "old");
}

#[test]
fn record_that_continues_in_another_set_covers_open_files() {
    let (spawner, lab) = (start_spawner(), UndoLab::new());
    let tree = lab.tree();
    std::fs::write(tree.join("log"), "old\n").unwrap();
    let beside = || {
        let origin = SetOrigin { is_beside: true, ..origin() };
        lab.journal.record_command(origin, SetLimits::NONE).unwrap()
    };
    let (capture, channel) = CommandCapture::start(beside()).unwrap();
    let control = capture.control();
    // A server with an open log: each line that it reads is a call.
    let script =
        "exec 3>>log; while read -r name; do echo $name >&3; echo x > $name; echo done; done";
    let mut spec: SpawnSpec = shell_spec(script);
    spec.profile.writable.push(tree.clone());
    spec.command.folder.clone_from(&tree);
    spec.capture = Some(std::sync::Arc::new(channel));
    let mut running = spawner.spawn(spec).unwrap();
    let mut input = std::fs::File::from(running.stdin.take().unwrap());
    let mut output = std::io::BufReader::new(std::fs::File::from(running.stdout.take().unwrap()));
    let mut call = move |name: &str| {
        use std::io::{BufRead as _, Write as _};
        input.write_all(format!("{name}\n").as_bytes()).unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "done\n");
    };
    call("between");
    let mut ids = Vec::new();
    for name in ["one", "two"] {
        let recorder = lab.journal.record_command(origin(), SetLimits::NONE).unwrap();
        control.continue_with(recorder).unwrap().wait();
        call(name);
        let outcome = control.continue_with(beside()).unwrap().wait();
        assert_eq!((outcome.totals.created, outcome.totals.changed), (1, 1), "{name}");
        ids.push(outcome.id.unwrap());
    }
    drop(call);
    running.wait(std::time::Duration::from_secs(60)).unwrap();
    drop(running);
    assert_eq!(capture.finish(), CaptureOutcome::default());
    assert!(control.continue_with(beside()).is_none(), "it has ended");
    for id in ids.into_iter().rev() {
        lab.undo(id);
    }
    let now = std::fs::read_to_string(tree.join("log")).unwrap();
    assert_eq!(now, "old\nbetween\n");
    assert!(!tree.join("one").exists() && !tree.join("two").exists());
    assert!(tree.join("between").exists());
}

#[test]
fn too_deep_folder_is_reported_lost_and_rest_is_undone() {
    let (spawner, lab) = (start_spawner(), UndoLab::new());
    let file = lab.tree().join("file");
    std::fs::write(&file, "old").unwrap();
    let script = "echo new > file; mkdir deep; cd deep; \
                  for i in $(seq 600); do mkdir d; cd d; done";
    let (outcome, output) = lab.run(&spawner, script);
    let losses = &outcome.totals.losses;
    assert!(losses.iter().any(|loss| loss.contains("/deep/d/d/")), "{losses:?} {output}");
    let id = outcome.id.unwrap();
    assert_eq!(lab.journal.recover().unwrap(), 0);
    assert_eq!(lab.journal.list().unwrap().len(), 1);
    let error = lab.journal.undo_set(id, UndoConflictPolicy::Refuse).unwrap_err();
    assert!(error.message.contains("unreadable since: deep/d/d/"), "{}", error.message);
    lab.journal.undo_set(id, UndoConflictPolicy::Overwrite).unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "old");
    assert!(!lab.tree().join("deep").exists());
}

#[test]
fn other_file_at_new_place_is_not_taken_for_moved_one() {
    let (spawner, lab) = (start_spawner(), UndoLab::new());
    let tree = lab.tree();
    std::fs::write(tree.join("file"), "mine").unwrap();
    let (outcome, _) = lab.run(&spawner, "mv file moved");
    std::fs::write(tree.join("other"), "evil").unwrap();
    std::fs::rename(tree.join("other"), tree.join("moved")).unwrap();
    let undone = lab.journal.undo_set(outcome.id.unwrap(), UndoConflictPolicy::Overwrite);
    let error = undone.unwrap_err();
    assert!(error.message.contains("file: its contents were not recorded"), "{}", error.message);
    assert!(!tree.join("file").exists());
}

#[test]
fn what_is_written_into_stored_tree_does_not_come_back() {
    let (spawner, lab) = (start_spawner(), UndoLab::new());
    let tree = lab.tree();
    let (outcome, _) = lab.run(&spawner, "mkdir -p n/inner; echo x > n/inner/file");
    // As a process would whose folder it is.
    let inner = std::fs::File::open(tree.join("n/inner")).unwrap();
    let undo = lab.undo(outcome.id.unwrap());
    let held = PathBuf::from(format!("/proc/self/fd/{}", inner.as_raw_fd()));
    std::fs::write(held.join("planted"), "x").unwrap();
    let error = lab.journal.undo_set(undo, UndoConflictPolicy::Refuse).unwrap_err();
    assert!(error.message.contains("changed in the journal since: n"), "{}", error.message);
    let error = lab.journal.undo_set(undo, UndoConflictPolicy::Overwrite).unwrap_err();
    assert!(error.message.contains("n: it was changed in the journal"), "{}", error.message);
    assert!(!tree.join("n").exists());
    std::fs::remove_file(held.join("planted")).unwrap();
    lab.undo(undo);
    assert_eq!(std::fs::read_to_string(tree.join("n/inner/file")).unwrap(), "x\n");
}

#[test]
fn path_that_only_command_can_follow_is_a_loss() {
    let spawner = start_spawner();
    for script in [
        "echo x > /proc/self/task/$$/cwd/file",
        "chmod 600 /proc/thread-self/../../cwd/file",
        "ln -s $PWD/new /tmp/only-followed-by-command-$$; echo x > /tmp/only-followed-by-command-$$; rm /tmp/only-followed-by-command-$$",
    ] {
        let lab = UndoLab::new();
        std::fs::write(lab.tree().join("file"), "old").unwrap();
        let old = snapshot(&lab.tree());
        let (outcome, output) = lab.run(&spawner, script);
        assert_ne!(snapshot(&lab.tree()), old, "{script}: {output}");
        assert!(!outcome.totals.losses.is_empty(), "{script}: {outcome:?} {output}");
    }
}

#[test]
fn conflicts_are_named_and_nothing_is_touched() {
    let (spawner, lab) = (start_spawner(), UndoLab::new());
    let tree = lab.tree();
    std::fs::write(tree.join("a"), "a").unwrap();
    std::fs::write(tree.join("b"), "b").unwrap();
    let (outcome, _) = lab.run(&spawner, "echo 1 > a; echo 2 > b; mkdir n; echo 3 > n/c");
    let id = outcome.id.unwrap();
    assert_eq!((outcome.totals.created, outcome.totals.changed), (2, 2));
    std::fs::write(tree.join("b"), "mine").unwrap();
    std::fs::write(tree.join("n/mine"), "mine").unwrap();
    let before = snapshot(&tree);
    let error = lab.journal.undo_set(id, UndoConflictPolicy::Refuse).unwrap_err();
    assert!(error.message.contains("changed since: b"), "{}", error.message);
    assert!(error.message.contains("created since: n/mine"), "{}", error.message);
    assert_eq!(snapshot(&tree), before);
    assert_eq!(lab.journal.entry(id).unwrap().state, ChangeState::ChangedSince);
    let (undo, _) = lab.journal.undo_set(id, UndoConflictPolicy::Overwrite).unwrap();
    assert_eq!(std::fs::read_to_string(tree.join("b")).unwrap(), "b");
    assert!(!tree.join("n").exists());
    lab.undo(undo);
    assert_eq!(snapshot(&tree), before);
}

#[test]
fn refreshed_git_index_is_neither_change_nor_conflict() {
    let (spawner, lab) = (start_spawner(), UndoLab::new());
    let tree = lab.tree();
    let git = |args: &[&str]| {
        let mut git = std::process::Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b.c"]).args(args).current_dir(&tree);
        let output = git.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    // A file whose time differs from that in the index makes `git status` write the index.
    let touch = |hours: u64| {
        let file = std::fs::File::options().append(true).open(tree.join("other")).unwrap();
        let ago = std::time::Duration::from_secs(hours * 3_600);
        file.set_modified(std::time::SystemTime::now() - ago).unwrap();
    };
    git(&["init", "-q"]);
    std::fs::write(tree.join("file"), "old").unwrap();
    std::fs::write(tree.join("other"), "other").unwrap();
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "first"]);
    touch(1);
    let index = || std::fs::read(tree.join(".git/index")).unwrap();
    let before = index();
    let (outcome, output) = lab.run(&spawner, "git status --short");
    assert_ne!(index(), before, "the index was not refreshed: {output}");
    assert_eq!(outcome, CaptureOutcome::default(), "{output}");
    let (outcome, output) = lab.run(&spawner, "echo new > file; git add file");
    let id = outcome.id.unwrap_or_else(|| panic!("{output}"));
    touch(2);
    let before = index();
    git(&["status", "--short"]);
    assert_ne!(index(), before, "the index was not refreshed");
    assert_eq!(lab.journal.entry(id).unwrap().state, ChangeState::Applied);
    lab.undo(id);
    assert_eq!(git(&["status", "--short"]), "");
    // What is staged since is somebody else's work.
    let (outcome, _) = lab.run(&spawner, "echo new > file; git add file");
    std::fs::write(tree.join("mine"), "mine").unwrap();
    git(&["add", "mine"]);
    let undone = lab.journal.undo_set(outcome.id.unwrap(), UndoConflictPolicy::Refuse);
    let error = undone.unwrap_err();
    assert!(error.message.contains("changed since: .git/index"), "{}", error.message);
}

#[test]
fn changes_beyond_quota_can_be_undone_until_next_command() {
    let (spawner, lab) = (start_spawner(), UndoLab::new());
    let tree = lab.tree();
    let limits = SetLimits { bytes_max: ByteSize::bytes(100_000), ..SetLimits::NONE };
    let run = |script: &str| {
        let recorder = lab.journal.record_command(origin(), limits).unwrap();
        let outcome =
            lab.run_captured(&spawner, script, CommandCapture::start(recorder).unwrap()).0;
        (outcome.id.unwrap(), outcome.totals.excess)
    };
    let make = || std::fs::write(tree.join("big"), vec![1; 300_000]).unwrap();
    let (small, excess) = run("echo x > small");
    assert_eq!(excess, None);
    make();
    let (id, excess) = run("rm big");
    assert!(excess.unwrap().contains("removed with the next command"));
    lab.undo(id);
    assert_eq!(std::fs::read(tree.join("big")).unwrap(), vec![1; 300_000]);
    let (id, excess) = run("rm big");
    assert!(excess.is_some());
    let (next, excess) = run("echo y > next");
    assert_eq!(excess, None);
    assert!(lab.journal.entry(id).is_err(), "it is still kept");
    // The others are not pushed out by what did not fit.
    for kept in [small, next] {
        assert_eq!(lab.journal.entry(kept).unwrap().state, ChangeState::Applied);
    }
}

#[test]
fn protected_file_gets_no_link_when_command_tries_to_change_it() {
    let (spawner, lab) = (start_spawner(), UndoLab::new());
    let config = lab.tree().join("config");
    std::fs::write(&config, "old").unwrap();
    let script = "{ echo x >> config; rm -f config; mv -f config moved; echo > new; mv -f new config; \
                  chmod 600 config; } 2> /dev/null; stat -c %h config; cat config; rm -f new";
    let mut spec = shell_spec(script);
    spec.profile.protected_files.push(config);
    let capture = CommandCapture::start(lab.recorder()).unwrap();
    let (outcome, output) = lab.run_spec(&spawner, spec, capture);
    assert_eq!((output.as_str(), outcome), ("1\nold", CaptureOutcome::default()));
}

#[test]
fn claim_of_process_that_is_about_to_record_is_not_recovered() {
    let (spawner, lab) = (start_spawner(), UndoLab::new());
    lab.run(&spawner, "echo x > new");
    let journals = lab.temp.path().join("state/journal");
    let journal = std::fs::read_dir(journals).unwrap().next().unwrap().unwrap().path();
    // As between the creation of the log and its lock.
    let log = journal.join("2.set/log");
    std::fs::create_dir(log.parent().unwrap()).unwrap();
    std::fs::write(&log, "").unwrap();
    assert_eq!(lab.journal.recover().unwrap(), 0);
    assert!(log.exists());
}

#[test]
fn interrupted_undo_waits_for_running_job() {
    let (spawner, lab) = (start_spawner(), UndoLab::new());
    let tree = lab.tree();
    let (outcome, _) = lab.run(&spawner, "echo x > new");
    let id = outcome.id.unwrap();
    // As an undo that was killed after its first record leaves it.
    let undo = SetOrigin { tool: "undo".to_owned(), undoes: Some(id), ..origin() };
    let mut recorder = lab.journal.record_command(undo, SetLimits::NONE).unwrap();
    recorder.record(&tree.join("other"));
    drop(recorder);
    assert_eq!(lab.journal.interrupted_undo(), Some(id));
    assert_eq!(lab.journal.recover_beside(&|| true).unwrap(), 0);
    assert!(tree.join("new").exists());
    assert_eq!(lab.journal.recover_beside(&|| false).unwrap(), 1);
    assert!(!tree.join("new").exists());
    assert_eq!(lab.journal.interrupted_undo(), None);
    assert_eq!(lab.journal.entry(id).unwrap().state, ChangeState::Undone);
}

#[test]
fn changed_files_have_text_before_and_now() {
    use zero_sandbox::journal::FileContents;
    let (spawner, lab) = (start_spawner(), UndoLab::new());
    let tree = lab.tree();
    for (name, text) in [("changed", "old\n"), ("gone", "gone\n"), ("moved", "moved\n")] {
        std::fs::write(tree.join(name), text).unwrap();
    }
    let script = "echo new > changed; rm gone; mv moved there; mkdir n; echo in > n/f; \
                  ln -s x link; head -c 300000 /dev/zero > big";
    let (outcome, output) = lab.run(&spawner, script);
    let (files, count) = lab.journal.changed_files(outcome.id.unwrap(), 100).unwrap();
    let text = |text: &str| FileContents::Text(text.to_owned());
    let found: Vec<_> =
        files.iter().map(|file| (file.path.as_str(), &file.before, &file.after)).collect();
    let none = &FileContents::Absent;
    let expected = [
        ("big", none, &FileContents::Binary { bytes: 300_000 }),
        ("changed", &text("old\n"), &text("new\n")),
        ("gone", &text("gone\n"), none),
        ("link", none, &FileContents::Symlink("x".to_owned())),
        ("moved", &text("moved\n"), none),
        ("n", none, &FileContents::Folder),
        ("n/f", none, &text("in\n")),
        ("there", none, &text("moved\n")),
    ];
    assert_eq!(found, expected, "{output}");
    assert_eq!(count, expected.len());
    assert_eq!(lab.journal.changed_files(outcome.id.unwrap(), 3).unwrap().0.len(), 3);
}
