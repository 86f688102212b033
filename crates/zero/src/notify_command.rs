//! The programs of the user that run outside the sandbox, `notify.command`, `chat.statusLine` and those that
//! read the clipboard: finds them, and refuses those that agents could change.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use zero_sandbox::notification_program::{NotificationProgram, ProgramIdentity};
use zero_sandbox::path_survey;
use zero_settings::{WorkspaceSettings, chat, notify};

use crate::AppContext;
use crate::exit::UsageError;
use crate::terminal::escape_line;

/// The variables that a program needs to reach the desktop.
const DESKTOP_VARIABLES: [&str; 6] = [
    "DBUS_SESSION_BUS_ADDRESS",
    "XDG_RUNTIME_DIR",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "HOME",
];

/// Programs that print what is on the clipboard as a type that is their last argument: the variable that
/// says which desktop runs, the program with its other arguments, and where it is from.
const CLIPBOARD_READERS: [(&str, &[&str], &str); 2] = [
    ("WAYLAND_DISPLAY", &["wl-paste", "--no-newline", "--type"], "wl-clipboard"),
    ("DISPLAY", &["xclip", "-selection", "clipboard", "-out", "-target"], "xclip"),
];
/// The types of images that are asked for, the usual one first.
const CLIPBOARD_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/webp", "image/gif"];

impl AppContext {
    /// The program of the user's settings, if they name one. Fails with file and line if it does not
    /// exist, or if a command in the sandbox could change it.
    pub(crate) fn notification_program(
        &self,
        settings: &WorkspaceSettings,
        cwd: &Path,
    ) -> Result<Option<NotificationProgram>, UsageError> {
        self.find_user_program(settings, cwd, notify::COMMAND_KEY, settings.notify().command)
    }

    /// The program that makes the status line of a chat, under the same rules.
    pub(crate) fn status_line_program(
        &self,
        settings: &WorkspaceSettings,
        cwd: &Path,
    ) -> Result<Option<NotificationProgram>, UsageError> {
        self.find_user_program(settings, cwd, chat::STATUS_LINE_KEY, settings.chat().status_line)
    }

    /// The programs that print the image on the clipboard: the first one that succeeds has it. Fails if
    /// there is no desktop, or no program that no command could change.
    pub(crate) fn clipboard_programs(
        &self,
        settings: &WorkspaceSettings,
        cwd: &Path,
    ) -> Result<Vec<NotificationProgram>, String> {
        let is_set = |name: &str| self.config.variable(name).is_some_and(|value| !value.is_empty());
        let here: Vec<_> =
            CLIPBOARD_READERS.iter().filter(|(variable, ..)| is_set(variable)).collect();
        let mut programs = Vec::new();
        for (_, words, _) in &here {
            for media_type in CLIPBOARD_TYPES {
                let words: Vec<String> =
                    words.iter().chain([&media_type]).map(|&word| word.to_owned()).collect();
                programs.extend(self.find_program_outside(settings, cwd, &words));
            }
        }
        match here.first() {
            None => Err("the clipboard of a desktop cannot be reached from here; drop the image's file on the window, or mention it with @".to_owned()),
            Some((.., package)) if programs.is_empty() => {
                Err(format!("images are read from the clipboard by `{package}`; install it"))
            }
            Some(_) => Ok(programs),
        }
    }

    fn find_user_program(
        &self,
        settings: &WorkspaceSettings,
        cwd: &Path,
        key: &str,
        words: Option<Vec<String>>,
    ) -> Result<Option<NotificationProgram>, UsageError> {
        let Some(words) = words else { return Ok(None) };
        let location = settings.location_of(key).unwrap_or_default();
        let found = self.find_program_outside(settings, cwd, &words);
        found
            .map(Some)
            .map_err(|why| UsageError(format!("{location}: `{key}`: {}", escape_line(&why))))
    }

    fn find_program_outside(
        &self,
        settings: &WorkspaceSettings,
        cwd: &Path,
        words: &[String],
    ) -> Result<NotificationProgram, String> {
        let Some((name, args)) = words.split_first() else {
            return Err("name a program".to_owned());
        };
        let mut changeable = self.command_settings(settings, cwd).writable;
        changeable.push(cwd.to_owned());
        let real: Vec<PathBuf> =
            changeable.iter().filter_map(|folder| path_survey::canonicalize(folder)).collect();
        changeable.extend(real);
        let is_changeable = |path: &Path| changeable.iter().any(|folder| path.starts_with(folder));
        let path: Vec<&PathBuf> =
            self.config.search_path().iter().filter(|folder| !is_changeable(folder)).collect();
        let written = match Path::new(name) {
            path if path.is_absolute() => path.to_owned(),
            _ if name.contains('/') => {
                return Err(format!(
                    "`{name}` is relative; write the whole path, or a name that is in PATH"
                ));
            }
            _ => {
                let mut found = path.iter().map(|folder| folder.join(name));
                found.find(|file| ProgramIdentity::read(file).is_ok()).ok_or_else(|| {
                    format!(
                        "there is no program `{name}` in PATH; install it, or write its whole path"
                    )
                })?
            }
        };
        let inside = |path: &Path| {
            format!(
                "`{}` is in a folder that commands may change, and would run outside the sandbox; move it to a folder outside, such as `~/.local/bin`",
                path.display()
            )
        };
        if is_changeable(&written) {
            return Err(inside(&written));
        }
        let program = path_survey::canonicalize(&written)
            .ok_or_else(|| format!("there is no file `{}`", written.display()))?;
        if is_changeable(&program) {
            return Err(inside(&program));
        }
        // A script that an interpreter runs is as good as a program.
        let named = args.iter().find(|arg| {
            changeable
                .iter()
                .filter_map(|folder| folder.to_str())
                .any(|folder| arg.contains(folder))
        });
        if let Some(named) = named {
            return Err(inside(Path::new(named)));
        }
        let identity = ProgramIdentity::read(&program)
            .map_err(|error| format!("`{}` cannot be run: {error}", program.display()))?;
        let variable = |name: &str| {
            self.config.variable(name).map(|value| (OsString::from(name), OsString::from(value)))
        };
        let mut environment: Vec<_> = DESKTOP_VARIABLES.into_iter().filter_map(variable).collect();
        // An empty value would hide the folders that programs look into by default.
        if !path.is_empty()
            && let Ok(path) = std::env::join_paths(path)
        {
            environment.push(("PATH".into(), path));
        }
        let args = args.iter().map(OsString::from).collect();
        Ok(NotificationProgram { program, args, environment, identity })
    }
}
