//! A pane of tmux: a terminal that rewraps its lines.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use zero_chat::inline_screen::{ReflowKind, TerminalKind};
use zero_terminal::WindowSize;

use crate::shown_row::{COLUMNS_MAX, ShownRow, trim_rows};
use crate::terminal_under_test::TerminalUnderTest;

/// How long tmux may take for anything.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Ends with its server and its folder.
pub(crate) struct TmuxTerminal {
    socket: String,
    folder: PathBuf,
    /// What is written here, the pane shows.
    pipe: Option<File>,
    /// Counts the writes: the title of the pane says which one was shown last.
    writes: usize,
}

impl TmuxTerminal {
    pub(crate) fn new(size: WindowSize) -> Self {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let socket = format!("zerotest-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(&socket);
        std::fs::create_dir_all(&folder).unwrap();
        let pipe_path = folder.join("pipe");
        run(Command::new("mkfifo").arg(&pipe_path));
        let mut terminal = Self { socket, folder, pipe: None, writes: 0 };
        let (columns, rows) = (size.columns.to_string(), size.rows.to_string());
        // `raw`: line ends arrive as they are written.
        let program = format!("stty raw -echo; exec cat '{}'", pipe_path.display());
        let settings = "set -g history-limit 200000\nset -g status off\nset -g default-terminal tmux-256color\n";
        std::fs::write(terminal.settings_path(), settings).unwrap();
        let arguments = ["new-session", "-d", "-x", &columns, "-y", &rows, &program];
        terminal.call(&arguments);
        // Opened when `cat` opens it.
        terminal.pipe = Some(File::options().write(true).open(&pipe_path).unwrap());
        terminal.write(b"");
        terminal
    }

    fn settings_path(&self) -> PathBuf {
        self.folder.join("tmux.conf")
    }

    fn call(&self, arguments: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        tmux.args(["-L", &self.socket, "-f"]).arg(self.settings_path()).args(arguments);
        String::from_utf8(run(tmux.env_remove("TMUX")).stdout).unwrap()
    }

    fn query(&self, format: &str) -> String {
        self.call(&["display-message", "-p", format]).trim_end().to_owned()
    }

    /// Waits until a format has a value.
    fn wait_for(&self, format: &str, value: &str) {
        let start = Instant::now();
        while self.query(format) != value {
            assert!(start.elapsed() < WAIT_MAX, "{format} is not {value}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl TerminalUnderTest for TmuxTerminal {
    fn kind(&self) -> TerminalKind {
        TerminalKind { reflow: ReflowKind::AllLines, synchronized: true }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.writes += 1;
        let title = format!("write-{}", self.writes);
        let mark = format!("\x1b]2;{title}\x1b\\");
        let pipe = self.pipe.as_mut().unwrap();
        pipe.write_all(&[bytes, mark.as_bytes()].concat()).unwrap();
        self.wait_for("#{pane_title}", &title);
    }

    fn resize(&mut self, size: WindowSize) {
        let (columns, rows) = (size.columns.to_string(), size.rows.to_string());
        self.call(&["resize-window", "-x", &columns, "-y", &rows]);
        self.wait_for("#{pane_width}x#{pane_height}", &format!("{columns}x{rows}"));
    }

    fn rows(&mut self) -> Vec<ShownRow> {
        let text = self.call(&["capture-pane", "-p", "-e", "-J", "-S", "-"]);
        let size = (u16::try_from(text.lines().count()).unwrap().max(1), COLUMNS_MAX);
        // A style goes on in the next row.
        let mut reader = vt100::Parser::new(size.0, size.1, 0);
        reader.process(text.trim_end_matches('\n').replace('\n', "\r\n").as_bytes());
        trim_rows((0..size.0).map(|row| ShownRow::from_screen(reader.screen(), row)))
    }

    fn cursor(&mut self) -> (usize, usize, bool) {
        let answer = self.query("#{cursor_y} #{cursor_x} #{cursor_flag}");
        let numbers: Vec<usize> = answer.split(' ').map(|word| word.parse().unwrap()).collect();
        (numbers[0], numbers[1], numbers[2] == 1)
    }
}

impl Drop for TmuxTerminal {
    fn drop(&mut self) {
        self.pipe = None;
        let mut tmux = Command::new("tmux");
        // It may be gone already: `cat` ends with the pipe.
        let _ = tmux.args(["-L", &self.socket, "kill-server"]).output();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[track_caller]
fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}
