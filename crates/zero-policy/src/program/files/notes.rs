//! A study while it is being written: one method per thing that can be found out.

use crate::program::options::Options;
use crate::program::{Access, Nature, Run, Study, Touch};
use crate::shell::Arg;

/// Said where an argument that is not known yet could turn out to be a dangerous option.
pub(super) const MAY_BE_OPTION: &str = "an argument that is not known yet may be an option";

/// How deep a touch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// The file or folder itself.
    Itself,
    /// Everything beneath it too.
    Beneath,
}

/// What has been found out so far.
#[derive(Debug, Default)]
pub(super) struct Notes {
    study: Study,
}

impl Notes {
    /// A file that is read. `-` is standard input.
    pub(super) fn read(&mut self, path: &Arg, depth: Depth) {
        if path.as_known() != Some("-") {
            self.touch(Access::Read, path.clone(), depth);
        }
    }

    /// A file with names of files, all of which are read; `-` is standard input. Which they are
    /// nobody can say.
    pub(super) fn read_what_is_listed(&mut self, list: &Arg) {
        self.read(list, Depth::Itself);
        let written = format!("what {list} names");
        let listed = Arg::Unknown { starts_with: String::new(), written };
        self.touch(Access::Read, listed, Depth::Itself);
    }

    /// Arguments that may become several, where all that is not said otherwise is a file: `$x` in
    /// `grep $x` may be a pattern and a file.
    pub(super) fn read_what_splits(&mut self, args: &[Arg]) {
        args.iter().filter(|arg| arg.may_split()).for_each(|arg| self.read(arg, Depth::Itself));
    }

    /// A file that is made or changed.
    pub(super) fn write(&mut self, path: &Arg, depth: Depth) {
        self.touch(Access::Write, path.clone(), depth);
    }

    /// A file that is made or changed, where `-` is standard output.
    pub(super) fn write_unless_output(&mut self, path: &Arg) {
        if path.as_known() != Some("-") {
            self.write(path, Depth::Itself);
        }
    }

    /// A file that is removed.
    pub(super) fn delete(&mut self, path: &Arg, depth: Depth) {
        self.touch(Access::Delete, path.clone(), depth);
    }

    fn touch(&mut self, access: Access, path: Arg, depth: Depth) {
        let touch = Touch { access, path, recursive: depth == Depth::Beneath };
        if !self.study.touches.contains(&touch) {
            self.study.touches.push(touch);
        }
    }

    /// A host that is talked to.
    pub(super) fn host(&mut self, host: &Arg) {
        if !self.study.hosts.contains(host) {
            self.study.hosts.push(host.clone());
        }
    }

    /// A text that a shell runs.
    pub(super) fn script(&mut self, text: &Arg) {
        self.study.runs.push(Run::Script { text: text.clone(), folder: None });
    }

    /// A program that is run, with arguments nobody can say.
    pub(super) fn command(&mut self, program: &Arg) {
        self.study.runs.push(Run::Command {
            argv: vec![program.clone()],
            variables: Vec::new(),
            folder: None,
            more_arguments: true,
        });
    }

    /// Something is run, but nobody can say what.
    pub(super) fn runs_unknown(&mut self, why: &'static str) {
        let run = Run::Unknown(why);
        if !self.study.runs.contains(&run) {
            self.study.runs.push(run);
        }
    }

    /// A reason why no rule may cover it by its name alone. The first one is kept.
    pub(super) fn caution(&mut self, why: &str) {
        self.study.caution.get_or_insert_with(|| why.to_owned());
    }

    /// A reason why it is critical.
    pub(super) fn critical(&mut self, why: &'static str) {
        self.study.critical = Some(why);
    }

    /// Adds what was found out elsewhere, except the nature.
    pub(super) fn absorb(&mut self, other: Study) {
        for touch in other.touches {
            if !self.study.touches.contains(&touch) {
                self.study.touches.push(touch);
            }
        }
        self.study.hosts.extend(other.hosts);
        self.study.runs.extend(other.runs);
        if let Some(why) = other.caution {
            self.caution(&why);
        }
    }

    /// It does what was noted and nothing else: it looks, or it changes files.
    pub(super) fn all_said(self) -> Study {
        let looks = self.study.touches.iter().all(|touch| touch.access == Access::Read);
        self.of(if looks { Nature::ReadOnly } else { Nature::Files })
    }

    /// It may do more than was noted.
    pub(super) fn not_all_said(self) -> Study {
        self.of(Nature::Program)
    }

    fn of(mut self, nature: Nature) -> Study {
        self.study.nature = nature;
        self.study
    }
}

/// Whether some argument may turn out to be an option, or several words with one among them.
///
/// After `--` there are no options, unless that `--` was itself the value of one.
pub(super) fn may_hide_option(args: &[Arg], options: &Options) -> bool {
    let end = Arg::known("--");
    let is_value = options.given.iter().any(|given| given.value.as_ref() == Some(&end));
    let end = args.iter().position(|arg| *arg == end && !is_value).unwrap_or(args.len());
    let unknown = args.iter().take(end).any(Arg::may_split);
    options.uncertain || unknown
}

/// The file `name` in `folder`, both as far as they are known.
pub(super) fn joined(folder: &Arg, name: &str) -> Option<Arg> {
    let put = |folder: &str| match folder {
        "" => name.to_owned(),
        folder if folder.ends_with('/') => format!("{folder}{name}"),
        folder => format!("{folder}/{name}"),
    };
    match folder {
        Arg::Known(folder) => Some(Arg::Known(put(folder))),
        Arg::Pattern(_) | Arg::Unknown { .. } => None,
    }
}

/// The last part of a known path; `None` when it has none of its own, as `.`, `a/..` and `/`.
pub(super) fn last_part(path: &Arg) -> Option<&str> {
    let path = path.as_known()?.trim_end_matches('/');
    let name = path.rsplit('/').next()?;
    (!matches!(name, "" | "." | "..")).then_some(name)
}

/// A path that starts so and goes on in a way nobody can say.
pub(super) fn starting_with(start: &str) -> Arg {
    Arg::Unknown { starts_with: start.to_owned(), written: format!("{start}…") }
}
