//! What a command of this host may do, said to whoever confines it.
//!
//! What a command may not change is one of two things. The kernel refuses it: everything that
//! exists, and of what does not exist the little for which something empty may stand in without
//! misleading anybody. The rest is watched (see [`super::watch`]): a command that makes it finds it
//! taken away again.

mod git;
mod roots;
mod secrets;
mod settings;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zero_core::{ErrorType, Reason, ToolError};
use zero_sandbox::{Network, Profile, Workspace};

pub(super) use self::git::{Repositories, repositories};

use super::CallCommands;
use super::watch::Watch;
use crate::policy::DeniedFiles;

/// Files that rules may deny before commands are refused. Each is hidden by a mount of its own, and
/// the time a start takes grows with their square: 0.3 s for these, four for two thousand. The
/// walls hold a few more, because secrets of the host and its sockets come on top.
const DENIED_MAX: usize = 400;

/// What a command may do, and what is looked after once it has ended. Fails when what rules deny
/// cannot be listed: then no command may run.
pub(super) fn profile_for(
    commands: &CallCommands,
    workspace: &Workspace,
    network: Network,
) -> Result<(Profile, Watch), ToolError> {
    let settings = &commands.host.settings;
    let roots: Vec<PathBuf> = workspace.roots().map(Path::to_owned).collect();
    roots::check(&roots, &commands.host.state)?;
    let git = repositories(&roots);
    let own = settings::look(&roots, &settings.protected, &*commands.policy);
    let mut masked = secrets::of(settings.home.as_deref());
    masked.extend(settings.masked.iter().cloned());
    masked.push(commands.host.state.clone());
    match commands.policy.denied_files(workspace, DENIED_MAX) {
        DeniedFiles::All(files) => masked.extend(files),
        DeniedFiles::TooMany => return Err(too_many()),
    }
    masked.sort();
    masked.dedup();
    let host = (commands.host.kept.clone(), Arc::clone(&commands.host.live));
    let watch = Watch::new(roots.clone(), own.watched, own.held_names, &git, host);
    let profile = Profile {
        writable: [roots, git.writable, settings.writable.clone()].concat(),
        protected: [own.held, git.folders, git.held].concat(),
        protected_files: git.files,
        masked,
        network,
        limits: commands.limits.into(),
        tmp: commands.session.tmp.path().to_owned(),
        weaknesses: settings.weaknesses.clone(),
    };
    Ok((profile, watch))
}

fn too_many() -> ToolError {
    let message = format!(
        "no command can run here: the rules deny reading more files than can be hidden from it ({DENIED_MAX}), or there are too many places to look for them; narrow the deny rules for `Read`, above all those that begin at `//`, or work in a smaller folder"
    );
    ToolError::new(ErrorType::PermissionDenied, Reason::Denied, message)
}
