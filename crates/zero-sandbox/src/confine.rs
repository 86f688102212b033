//! Brings a profile and the layers of this machine together, and a command under both.
//!
//! With bubblewrap the command runs in namespaces of its own, where most of the profile is a matter
//! of what is mounted, and this binary is started once more inside to give up the rest. Without,
//! the process that is to become the command gives everything up by itself. Either way Landlock, the
//! filter of system calls and the limits come last, right before exec.
//!
//! What no layer can enforce is an error that names it. A profile may say that it can do without;
//! then [`Prepared::missing`] says that it does.
//!
//! What cannot be had at all, and is true of every such confinement: another name for a masked file
//! that exists already (a hard link) reads it; and a file of the host that somebody outside replaces
//! while the command runs loses the mount that lay on it.

mod filter;
mod forward;
mod gaps;
mod host_sockets;
pub(crate) mod landlock;
mod layout;
mod mounts;
mod placeholders;
mod restrict;
pub(crate) mod stage;

use std::ffi::{CStr, CString, NulError, OsString};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;

pub use self::filter::FilterError;
pub use self::gaps::Gap;
pub use self::restrict::RestrictError;

use self::filter::Sockets;
use self::landlock::{Grant, Rule, Tcp};
use self::layout::{Layout, Said};
use self::mounts::Mounts;
use self::placeholders::Placeholders;
use self::restrict::{Ready, Restrictions};
use self::stage::{DOOR, Forward, Image, Plan};
use crate::child;
use crate::probe::{Bubblewrap, Layers};
use crate::profile::{CommandSpec, Network, Profile, Property, Weakness};

/// Rules about files that one command may need.
const RULES_MAX: usize = 8192;

/// Devices that hold nothing of anybody's. Not the terminals: those of the person are among them.
const DEVICES: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Why a command cannot be confined as its profile says.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
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
pub struct Prepared {
    image: Image,
    way: Way,
    holds: Vec<Property>,
    missing: Vec<Weakness>,
    gaps: Vec<Gap>,
}

/// How the command gets under its walls.
#[derive(Debug)]
enum Way {
    /// Through bubblewrap and the last step inside it.
    Bubblewrap {
        kept: Vec<OwnedFd>,
        kept_numbers: Vec<RawFd>,
        started: OwnedFd,
        placeholders: Placeholders,
    },
    /// The process gives everything up by itself.
    Direct(Ready),
}

impl Prepared {
    /// Prepares `command` to run under `profile` by means of `layers`.
    pub fn new(
        profile: &Profile,
        layers: &Layers,
        command: &CommandSpec,
    ) -> Result<Self, ConfineError> {
        let Profile { writable, protected, masked, tmp, .. } = profile;
        let mut paths =
            writable.iter().chain(protected).chain(masked).chain([tmp, &command.folder]);
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
            Ok(bubblewrap) => through(bubblewrap, profile, &layout, restrictions, command)?,
            Err(_) => direct(profile, &restrictions, command)?,
        };
        let missing: Vec<_> =
            Property::ALL.into_iter().filter(|property| gaps::has(&gaps, *property)).collect();
        let holds =
            Property::ALL.into_iter().filter(|property| !missing.contains(property)).collect();
        Ok(Self { image, way, holds, missing, gaps })
    }

    /// The program to execute.
    pub fn program(&self) -> &CStr {
        &self.image.program
    }

    /// Its arguments, its name first.
    pub fn argv(&self) -> &[CString] {
        &self.image.argv
    }

    /// Its environment.
    pub fn envp(&self) -> &[CString] {
        &self.image.envp
    }

    /// Handles that must be open, under these numbers, until the program has started.
    pub fn kept_fds(&self) -> Vec<BorrowedFd<'_>> {
        match &self.way {
            Way::Bubblewrap { kept, started, .. } => {
                kept.iter().chain([started]).map(AsFd::as_fd).collect()
            }
            Way::Direct(_) => Vec::new(),
        }
    }

    /// Gives up what the profile does not grant. Afterwards this process can do nothing sensible
    /// but execute [`Prepared::program`].
    ///
    /// Every open handle but the first three is closed by that, but for those of
    /// [`Prepared::kept_fds`].
    ///
    /// # Safety
    ///
    /// For the only thread of a process, or for a forked child right before exec: part of what is
    /// given up belongs to the process and part to the thread. Makes system calls only, and
    /// allocates nothing.
    #[expect(unsafe_code, reason = "a promise only the caller can make")]
    pub unsafe fn restrict_self(&self) -> Result<(), Errno> {
        restrict::lead_session();
        match &self.way {
            Way::Bubblewrap { kept_numbers, .. } => {
                restrict::take_defaults()?;
                restrict::close_on_exec(kept_numbers)
            }
            Way::Direct(ready) => ready.apply(),
        }
    }

    /// Whether the command itself was reached, once the process has ended. If not, how it ended says
    /// nothing about the command: its walls could not be put up. Something on the host may have
    /// changed in between; preparing it anew and trying once more is sound.
    pub fn has_started(&self) -> bool {
        match &self.way {
            Way::Bubblewrap { started, .. } => rustix::io::read(started, &mut [0; 8]).is_ok(),
            // This way a failure is the answer of `restrict_self`.
            Way::Direct(_) => true,
        }
    }

    /// What is enforced.
    pub fn holds(&self) -> &[Property] {
        &self.holds
    }

    /// What is not, by leave of the profile.
    pub fn missing(&self) -> &[Weakness] {
        &self.missing
    }

    /// What is not enforced, why, and what would help.
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// Takes away what had to be made on the host. To be called when the command has ended;
    /// dropping does the same.
    pub fn cleanup(self) {
        if let Way::Bubblewrap { placeholders, .. } = self.way {
            drop(placeholders);
        }
    }
}

/// Takes away what commands with a private `/tmp` in the same folder as `tmp` left behind when
/// their process was killed. Returns how many empty folders there were.
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
    restrictions: Restrictions,
    command: &CommandSpec,
) -> Result<(Image, Way), ConfineError> {
    if !child::can_be_helper() {
        return Err(ConfineError::NoHelper);
    }
    placeholders::sweep(&profile.tmp);
    let mut placeholders = Placeholders::beside(&profile.tmp);
    let mounts = Mounts::new(profile, &command.folder, layout, &mut placeholders)
        .map_err(ConfineError::Mounts)?;
    let forward = match profile.network {
        Network::Proxy { .. } => Forward::Proxy,
        _ => Forward::Nothing,
    };
    let started = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .map_err(|error| ConfineError::HandOver(error.into()))?;
    let plan = Plan {
        command: with_tmp(command, Path::new(mounts::TMP)),
        restrictions,
        forward,
        started: started.as_raw_fd(),
    };
    let plan = serde_json::to_vec(&plan).map_err(|error| ConfineError::HandOver(error.into()))?;
    let plan = in_memory(&plan).map_err(ConfineError::HandOver)?;
    let binary = this_binary().map_err(ConfineError::HandOver)?;

    let mut args: Vec<OsString> = bubblewrap.base().map(OsString::from).collect();
    args.extend(mounts.args);
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
    let kept: Vec<OwnedFd> = mounts.empty_files.into_iter().chain([args, plan, binary]).collect();
    let kept_numbers = kept.iter().chain([&started]).map(AsRawFd::as_raw_fd).collect();
    // An empty environment: bubblewrap must not load what the command's variables name.
    let image = Image { program, argv, envp: Vec::new() };
    Ok((image, Way::Bubblewrap { kept, kept_numbers, started, placeholders }))
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

/// This binary, also when another one has taken its path since.
#[expect(clippy::disallowed_methods, reason = "our own binary is no person's file")]
fn this_binary() -> io::Result<OwnedFd> {
    Ok(File::open("/proc/self/exe")?.into())
}
