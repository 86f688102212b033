//! Why a sub-agent has no worktree, or its changes are not in a branch.

use std::io;
use std::path::PathBuf;

use crate::neutral_git::GitError;

/// Why a worktree could not be made or closed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorktreeError {
    /// The folder is not in the working folder of a repository.
    #[error("`{}` is not in the working folder of a git repository ({why}); run `git init` and commit, or leave out `isolation`", folder.display())]
    NoRepository {
        /// The folder of the parent's session.
        folder: PathBuf,
        /// What git says.
        why: String,
    },
    /// The repository has no commit.
    #[error("the git repository in `{}` has no commit to start from; commit something, or leave out `isolation`", folder.display())]
    NoCommit {
        /// Its working folder.
        folder: PathBuf,
    },
    /// The folder is in a repository, but no commit has it.
    #[error("`{}` is not in the last commit, so a worktree would not have it; commit it, or leave out `isolation`", folder.display())]
    NotCommitted {
        /// The folder of the parent's session.
        folder: PathBuf,
    },
    /// The repository stores its references in a way that is not supported.
    #[error("the git repository in `{}` stores references as `reftable`, which worktrees of sub-agents do not support; leave out `isolation`", folder.display())]
    Reftable {
        /// Its working folder.
        folder: PathBuf,
    },
    /// The folder of worktrees is in the repository, or the other way round.
    #[error("worktrees are in `{}`, which the repository contains or is in; set XDG_STATE_HOME to a folder elsewhere, or leave out `isolation`", folder.display())]
    NotSeparate {
        /// The folder of worktrees.
        folder: PathBuf,
    },
    /// A branch is in the way.
    #[error(
        "the repository already has a branch `{branch}`; rename it with `git branch -m`, or leave out `isolation`"
    )]
    BranchExists {
        /// The branch.
        branch: String,
    },
    /// There are too many worktrees.
    #[error("there are {most} worktrees of sub-agents; wait for one to end, or run `zero prune`")]
    TooMany {
        /// The limit.
        most: usize,
    },
    /// The id of the session cannot be the name of a folder.
    #[error("the id `{}` cannot be the name of a folder", id.escape_debug())]
    BadId {
        /// The id.
        id: String,
    },
    /// The repository of the worktree is not what zero made.
    #[error(
        "the sub-agent replaced the git folder of its worktree, so zero does not take over its commits"
    )]
    Damaged,
    /// Something still works in the worktree.
    #[error("a command of the sub-agent did not end, so zero does not take over its commits")]
    Busy,
    /// The changes are not in a branch.
    #[error("its worktree is kept in `{}`", folder.display())]
    Kept {
        /// Where the changes are.
        folder: PathBuf,
        /// Why.
        source: Box<WorktreeError>,
    },
    /// Git failed.
    #[error("{0}")]
    Git(String),
    /// A file of zero's own could not be used.
    #[error("a file of the worktree could not be used: {0}; check the disk")]
    State(io::Error),
}

impl WorktreeError {
    pub(super) fn state(error: io::Error) -> Self {
        Self::State(error)
    }
}

impl From<GitError> for WorktreeError {
    fn from(error: GitError) -> Self {
        Self::Git(error.to_string())
    }
}
