//! Brings a profile and the layers of this machine together, and a command under both.
//!
//! With bubblewrap the command runs in namespaces of its own, where most of the profile is a matter
//! of what is mounted, and this binary is started once more inside to give up the rest. Without,
//! the process that is to become the command gives everything up by itself. Either way Landlock, the
//! filter of system calls and the limits come last, right before exec.
//!
//! What no layer can enforce is an error that names it. A profile may say that it can do without;
//! then [`Confinement::missing`] says that it does.
//!
//! What cannot be had at all, and is true of every such confinement: another name for a masked file
//! that exists already (a hard link) reads it; and a file of the host that somebody outside replaces
//! while the command runs loses the mount that lay on it. Without namespaces the names and
//! arguments of the host's processes can be seen.

pub(crate) mod filter;
pub(crate) mod gaps;
mod host_sockets;
pub(crate) mod landlock;
mod layout;
mod mounts;
mod placeholders;
mod restrict;
pub(crate) mod stage;
pub(crate) mod word;

use std::ffi::{CStr, CString, NulError, OsString};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, OFlags};
use rustix::io::Errno;

pub use self::gaps::Gap;

use self::filter::Sockets;
use self::landlock::{Grant, Rule, Tcp};
use self::layout::{Layout, Said};
use self::mounts::Mounts;
use self::placeholders::Placeholders;
use self::restrict::{Ready, RestrictError, Restrictions};
use self::stage::{DOOR, Image, Plan};
use crate::child;
use crate::probe::{Bubblewrap, Layers};
use crate::profile::{CommandSpec, Network, Profile, Property};
use crate::running::Confinement;

/// Rules about files that one command may need.
const RULES_MAX: usize = 8192;

/// How much of what bubblewrap says about a failure is read.
const COMPLAINT_BYTES_MAX: usize = 4096;

/// Devices that hold nothing of anybody's. Not the terminals: those of the person are among them.
const DEVICES: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Whose network a command has that is not the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Its own, made for it.
    Own,
    /// The one in which it is started.
    Session,
}

/// Where the terminal of a command is in the child's own `/dev`.
const CONSOLE: &str = "/dev/console";

/// Why a command cannot be confined as its profile says.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfineError {
    /// This machine cannot enforce part of the profile.
    #[error("{}", gaps::listed(.0))]
    Unenforceable(Vec<Gap>),
    /// A path depends on where somebody stands.
    #[error("`{}` is not an absolute path", path.display())]
    NotAbsolute {
        /// The path.
        path: PathBuf,
    },
    /// A profile that lets everything be written to confines nothing.
    #[error("`/` cannot be a writable folder")]
    WritableRoot,
    /// The private `/tmp` is not there.
    #[error("the private folder for temporary files `{}` is not there", path.display())]
    NoTmp {
        /// Where it should be.
        path: PathBuf,
    },
    /// The mounts could not be prepared.
    #[error("the mounts could not be prepared")]
    Mounts(#[source] io::Error),
    /// The process could not be told what to give up.
    #[error(transparent)]
    Restrict(#[from] RestrictError),
    /// Part of the command holds a zero byte.
    #[error("the command holds a zero byte")]
    ZeroByte(#[from] NulError),
    /// The program that runs this does not look at its name first.
    #[error("this program cannot start itself as a helper: `main` must begin with `from_argv0`")]
    NoHelper,
    /// What the helper needs to know could not be handed over.
    #[error("the command could not be handed over")]
    HandOver(#[source] io::Error),
}

/// A command that is ready to start, confined.
#[derive(Debug)]
pub(crate) struct Prepared {
    image: Image,
    way: Way,
    confinement: Confinement,
}

/// How the command gets under its walls.
#[derive(Debug)]
enum Way {
    /// Through bubblewrap and the last step inside it.
    Bubblewrap(Box<Inside>),
    /// The process gives everything up by itself.
    Direct(Ready),
}

/// What belongs to a command behind mounts.
#[derive(Debug)]
struct Inside {
    /// Handles that the program needs until it has started.
    kept: Vec<OwnedFd>,
    kept_numbers: Vec<RawFd>,
    /// Where the last step says what becomes of the command.
    word: OwnedFd,
    /// Stands for input and output of bubblewrap, which has none.
    nothing: OwnedFd,
    /// What bubblewrap says when the walls cannot be put up.
    complaints: OwnedFd,
    processes: u64,
    placeholders: Option<Placeholders>,
}

impl Prepared {
    /// Prepares `command` to run under `profile` by means of `layers`, with these `streams`, and
    /// with the network it is started in where that is not its own.
    pub(crate) fn new(
        profile: &Profile,
        layers: &Layers,
        command: &CommandSpec,
        streams: [RawFd; 3],
        whose: Whose,
    ) -> Result<Self, ConfineError> {
        let Profile { writable, protected, protected_files, masked, tmp, .. } = profile;
        let held = protected.iter().chain(protected_files);
        let mut paths = writable.iter().chain(held).chain(masked).chain([tmp, &command.folder]);
        if let Some(path) = paths.find(|path| !path.is_absolute()) {
            return Err(ConfineError::NotAbsolute { path: path.clone() });
        }
        if !profile.tmp.is_dir() {
            return Err(ConfineError::NoTmp { path: profile.tmp.clone() });
        }
        let layout = Layout::new(profile);
        if layout.of(Said::Writable).any(|path| path == Path::new("/")) {
            return Err(ConfineError::WritableRoot);
        }
        let readable = match &layers.bubblewrap {
            Ok(_) => Some(vec![Rule::new("/", Grant::Read)]),
            Err(_) => landlock::readable_except(&hidden_without_mounts(&layout), RULES_MAX),
        };
        let gaps = gaps::find(profile, layers, &layout, readable.is_some());
        if gaps.iter().any(|gap| !profile.weaknesses.contains(&gap.property)) {
            let not_allowed = |gap: &Gap| !profile.weaknesses.contains(&gap.property);
            return Err(ConfineError::Unenforceable(
                gaps.into_iter().filter(not_allowed).collect(),
            ));
        }
        let readable = readable.unwrap_or_else(|| vec![Rule::new("/", Grant::Read)]);
        let restrictions = restrictions(profile, layers, &layout, readable);
        let (image, way) = match &layers.bubblewrap {
            Ok(bubblewrap) => {
                through(bubblewrap, profile, &layout, restrictions, command, streams, whose)?
            }
            Err(_) => direct(profile, &restrictions, command)?,
        };
        let holds = Property::ALL.into_iter().filter(|property| !gaps::has(&gaps, *property));
        let confinement = Confinement { holds: holds.collect(), missing: gaps };
        Ok(Self { image, way, confinement })
    }

    /// The program to execute.
    pub(crate) fn program(&self) -> &CStr {
        &self.image.program
    }

    /// Its arguments, its name first.
    pub(crate) fn argv(&self) -> &[CString] {
        &self.image.argv
    }

    /// Its environment.
    pub(crate) fn envp(&self) -> &[CString] {
        &self.image.envp
    }

    /// The streams of the program, where they are not those of the command.
    pub(crate) fn own_streams(&self) -> Option<[RawFd; 3]> {
        match &self.way {
            Way::Bubblewrap(inside) => {
                let Inside { nothing, complaints, .. } = &**inside;
                Some([nothing.as_raw_fd(), nothing.as_raw_fd(), complaints.as_raw_fd()])
            }
            Way::Direct(_) => None,
        }
    }

    /// Gives up what the profile does not grant. Afterwards this process can do nothing sensible
    /// but execute [`Prepared::program`].
    ///
    /// Every open handle but the first three is closed by that, but for those it needs.
    ///
    /// # Safety
    ///
    /// For the only thread of a process, or for a forked child right before exec: part of what is
    /// given up belongs to the process and part to the thread. Makes system calls only, and
    /// allocates nothing.
    #[expect(unsafe_code, reason = "a promise only the caller can make")]
    pub(crate) unsafe fn restrict_self(&self) -> Result<(), Errno> {
        restrict::lead_session();
        match &self.way {
            Way::Bubblewrap(inside) => {
                restrict::take_defaults()?;
                restrict::close_on_exec(&inside.kept_numbers)
            }
            Way::Direct(ready) => Ok(ready.apply()?),
        }
    }

    /// Lets go of what only the program needs. To be called when it runs: what is said inside has
    /// an end only when nobody out here could say anything.
    pub(crate) fn launched(&mut self) {
        if let Way::Bubblewrap(inside) = &mut self.way {
            inside.kept.clear();
        }
    }

    /// Where the last step says what becomes of the command: see [`word::Word`]. None where the
    /// program is the command itself.
    pub(crate) fn word(&self) -> Option<&OwnedFd> {
        match &self.way {
            Way::Bubblewrap(inside) => Some(&inside.word),
            Way::Direct(_) => None,
        }
    }

    /// What was said about walls that could not be put up.
    pub(crate) fn complaints(&self) -> String {
        let Way::Bubblewrap(inside) = &self.way else { return String::new() };
        let mut bytes = vec![0; COMPLAINT_BYTES_MAX];
        let count = rustix::io::pread(&inside.complaints, &mut bytes, 0).unwrap_or(0);
        bytes.truncate(count);
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }

    /// Processes of the tree that belong to the walls and not to the command.
    pub(crate) fn own_processes(&self) -> u64 {
        match &self.way {
            Way::Bubblewrap(inside) => inside.processes,
            Way::Direct(_) => 0,
        }
    }

    /// What is enforced, and what is not, by leave of the profile.
    pub(crate) fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    /// Takes away what had to be made on the host. To be called when nothing is left of the
    /// command; dropping does the same.
    pub(crate) fn cleanup(&mut self) {
        if let Way::Bubblewrap(inside) = &mut self.way {
            inside.placeholders = None;
        }
    }
}

/// Takes away what commands with a private `/tmp` in the same folder as `tmp` left behind when
/// their process was killed. Returns how many empty folders and files there were.
pub fn sweep(tmp: &Path) -> usize {
    placeholders::sweep(tmp)
}

/// What must not be read when there are no mounts to hide it: what is masked, but for what lies in
/// writable folders, and every device that is not harmless. Root owns the disks.
fn hidden_without_mounts(layout: &Layout) -> Vec<PathBuf> {
    let masked = layout.of(Said::Masked).filter(|path| layout.writable_above(path).is_none());
    masked.map(Path::to_owned).chain([PathBuf::from("/dev")]).collect()
}

fn restrictions(
    profile: &Profile,
    layers: &Layers,
    layout: &Layout,
    readable: Vec<Rule>,
) -> Restrictions {
    let mut rules = readable;
    let inside = layers.bubblewrap.is_ok();
    if inside {
        rules.push(Rule::new("/dev", Grant::Use));
        rules.push(Rule::new("/dev/shm", Grant::Change));
        rules.push(Rule::new(mounts::TMP, Grant::Change));
    } else {
        rules.extend(DEVICES.iter().map(|device| Rule::new(device, Grant::Use)));
        rules.push(Rule::new(&profile.tmp, Grant::Change));
    }
    rules.extend(layout.of(Said::Writable).map(|path| Rule::new(path, Grant::Change)));
    let tcp = if profile.network == Network::Nothing { Tcp::Closed } else { Tcp::Open };
    let sockets = match (&profile.network, inside) {
        (Network::Nothing, true) => Sockets::Unix,
        (Network::Nothing, false) => Sockets::Pairs,
        (_, true) => Sockets::UnixAndInternet,
        (_, false) => Sockets::Internet,
    };
    Restrictions {
        landlock: layers.landlock.as_ref().ok().map(|abi| (*abi, rules, tcp)),
        sockets: layers.seccomp.is_ok().then_some(sockets),
        filter: Vec::new(),
        open_files: profile.limits.open_files,
        file_bytes: profile.limits.file_bytes,
    }
}

fn direct(
    profile: &Profile,
    restrictions: &Restrictions,
    command: &CommandSpec,
) -> Result<(Image, Way), ConfineError> {
    let image = Image::new(&with_tmp(command, &profile.tmp))?;
    Ok((image, Way::Direct(Ready::new(restrictions, &command.folder)?)))
}

fn through(
    bubblewrap: &Bubblewrap,
    profile: &Profile,
    layout: &Layout,
    mut restrictions: Restrictions,
    command: &CommandSpec,
    streams: [RawFd; 3],
    whose: Whose,
) -> Result<(Image, Way), ConfineError> {
    if !child::can_be_helper() {
        return Err(ConfineError::NoHelper);
    }
    if let Some(sockets) = restrictions.sockets {
        // Made here, where it was made before; the last step would begin from nothing.
        let filter = filter::program(sockets).map_err(RestrictError::from)?;
        restrictions.filter = filter::to_numbers(&filter);
    }
    placeholders::sweep(&profile.tmp);
    let mut placeholders = Placeholders::beside(&profile.tmp);
    let mounts = Mounts::new(profile, &command.folder, layout, &mut placeholders)
        .map_err(ConfineError::Mounts)?;
    let hand_over = |errno: Errno| ConfineError::HandOver(errno.into());
    let (word, inner_word) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(hand_over)?;
    rustix::fs::fcntl_setfl(&word, OFlags::NONBLOCK).map_err(hand_over)?;
    let plan = Plan {
        command: with_tmp(command, Path::new(mounts::TMP)),
        restrictions,
        word: inner_word.as_raw_fd(),
        streams,
    };
    let plan = serde_json::to_vec(&plan).map_err(|error| ConfineError::HandOver(error.into()))?;
    let plan = in_memory(&plan).map_err(ConfineError::HandOver)?;
    let binary = this_binary().map_err(ConfineError::HandOver)?;

    let mut args: Vec<OsString> = bubblewrap.base().map(OsString::from).collect();
    if profile.network != Network::Host && whose == Whose::Own {
        args.push("--unshare-net".into());
    }
    let memory = bubblewrap.shared_memory(profile.limits.memory_bytes);
    args.extend(memory.into_iter().map(OsString::from));
    args.extend(mounts.args);
    if let Some(terminal) = terminal_name(streams) {
        // The child has terminals of its own, among which the one it was given has no name. Without
        // one, programs that ask for it believe that there is no terminal.
        args.extend(["--dev-bind".into(), terminal.into(), CONSOLE.into()]);
    }
    let link = format!("/proc/self/fd/{}", binary.as_raw_fd());
    args.extend(["--symlink", &link, DOOR, "--chdir", "/"].map(OsString::from));
    let args = in_memory(&zero_ended(&args)).map_err(ConfineError::HandOver)?;

    let words = [
        bubblewrap.path().as_os_str().to_owned(),
        "--args".into(),
        args.as_raw_fd().to_string().into(),
        "--".into(),
        DOOR.into(),
        plan.as_raw_fd().to_string().into(),
    ];
    let argv: Vec<CString> =
        words.iter().map(|word| CString::new(word.as_bytes())).collect::<Result<_, _>>()?;
    let program = CString::new(bubblewrap.path().as_os_str().as_bytes())?;
    let kept: Vec<OwnedFd> =
        mounts.empty_files.into_iter().chain([args, plan, binary, inner_word]).collect();
    let kept_numbers = kept.iter().map(AsRawFd::as_raw_fd).chain(streams).collect();
    // An empty environment: bubblewrap must not load what the command's variables name.
    let image = Image { program, argv, envp: Vec::new() };
    let inside = Inside {
        kept,
        kept_numbers,
        word,
        nothing: nothing().map_err(ConfineError::HandOver)?,
        complaints: in_memory(&[]).map_err(ConfineError::HandOver)?,
        // Bubblewrap and the last step.
        processes: 2,
        placeholders: Some(placeholders),
    };
    Ok((image, Way::Bubblewrap(Box::new(inside))))
}

fn with_tmp(command: &CommandSpec, tmp: &Path) -> CommandSpec {
    let mut command = command.clone();
    command.environment.retain(|(name, _)| name != "TMPDIR");
    command.environment.push(("TMPDIR".into(), tmp.into()));
    command
}

fn zero_ended(words: &[OsString]) -> Vec<u8> {
    words.iter().flat_map(|word| word.as_bytes().iter().copied().chain([0])).collect()
}

fn in_memory(bytes: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(rustix::fs::memfd_create("zero", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// The name of the terminal that a command is given, if it is given one that has a name here.
fn terminal_name([stdin, ..]: [RawFd; 3]) -> Option<PathBuf> {
    let handle = PathBuf::from(format!("/proc/self/fd/{stdin}"));
    let name = rustix::fs::readlink(&handle, Vec::new()).ok()?.into_string().ok()?;
    let (given, named) = (rustix::fs::stat(&handle).ok()?, rustix::fs::stat(&name).ok()?);
    let is_device = rustix::fs::FileType::from_raw_mode(given.st_mode).is_char_device();
    let is_same = (given.st_dev, given.st_ino) == (named.st_dev, named.st_ino);
    (is_device && is_same && name.starts_with("/dev/pts/")).then(|| name.into())
}

/// A stream that leads nowhere.
fn nothing() -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    Ok(rustix::fs::open("/dev/null", flags, rustix::fs::Mode::empty())?)
}

/// This binary, also when another one has taken its path since.
#[expect(clippy::disallowed_methods, reason = "our own binary is no person's file")]
fn this_binary() -> io::Result<OwnedFd> {
    Ok(File::open("/proc/self/exe")?.into())
}
