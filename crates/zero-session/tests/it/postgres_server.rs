//! A real Postgres server on loopback, with a pooler in front of it if a test wants one.
//!
//! Each test starts its own, in a folder of its own, and as a user who is not root.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;

/// Password of every user of the server.
pub(crate) const PASSWORD: &str = "correct-horse";
/// A user and a group without rights, if the tests run as root.
const NOBODY: u32 = 65534;
/// Ports that are tried; another program may take one between its choice and its use.
const PORTS_TRIED_MAX: usize = 8;

/// A running server. It ends when this is dropped.
pub(crate) struct PostgresServer {
    folder: TempDir,
    port: u16,
    process: Option<Child>,
    settings: Vec<String>,
    databases: AtomicUsize,
}

impl PostgresServer {
    /// Starts a server that asks for no password: a login with one takes long in a debug build.
    pub(crate) fn start() -> Self {
        Self::start_with("trust")
    }

    /// Starts a server that asks for the password.
    pub(crate) fn start_with_passwords() -> Self {
        Self::start_with("scram-sha-256")
    }

    fn start_with(authentication: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        fs::create_dir(&data).unwrap();
        let password = folder.path().join("password");
        fs::write(&password, PASSWORD).unwrap();
        for path in [folder.path(), &data, &password] {
            give_away(path);
        }
        let mut initdb = as_ordinary_user(&binary("initdb"));
        initdb.arg("--pgdata").arg(&data).arg("--pwfile").arg(&password);
        initdb.arg(format!("--auth={authentication}"));
        initdb.args(["--username=zero", "--encoding=UTF8"]);
        initdb.args(["--locale=C", "--no-sync", "--no-instructions"]);
        let made = initdb.output().expect("`postgresql` is needed; install that package");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let (settings, databases) = (Vec::new(), AtomicUsize::default());
        let mut server = Self { folder, port: 0, process: None, settings, databases };
        server.run();
        server
    }

    /// Starts the server process; at the same port if it had one.
    pub(crate) fn run(&mut self) {
        assert!(self.process.is_none(), "it runs");
        let mut logs = String::new();
        // Clients know the port of a server that runs again.
        let is_again = self.port != 0;
        for _ in 0..if is_again { 1 } else { PORTS_TRIED_MAX } {
            if !is_again {
                self.port = free_port();
            }
            match self.try_run() {
                Ok(process) => return self.process = Some(process),
                Err(log) => logs.push_str(&log),
            }
        }
        panic!("the server did not start: {logs}");
    }

    fn try_run(&self) -> Result<Child, String> {
        let mut command = as_ordinary_user(&binary("postgres"));
        command.arg("-D").arg(self.data()).arg("-p").arg(self.port.to_string());
        let sockets = format!("unix_socket_directories={}", self.folder.path().display());
        for setting in ["listen_addresses=127.0.0.1", "fsync=off", "max_connections=150", &sockets]
        {
            command.args(["-c", setting]);
        }
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        wait_for_line(command, "database system is ready to accept connections")
    }

    /// Starts the server process again, with one more setting.
    pub(crate) fn run_with(&mut self, setting: &str) {
        self.settings.push(setting.to_owned());
        self.run();
    }

    /// Ends the server as a crash of the machine would: nothing is tidied up.
    pub(crate) fn crash(&mut self) {
        let first = self.process.as_ref().map_or(0, Child::id);
        let others = fs::read_to_string(format!("/proc/{first}/task/{first}/children")).unwrap();
        self.end("KILL");
        // They end when the first one is gone, and no server starts on these files before that.
        for pid in others.split_ascii_whitespace() {
            while fs::read_to_string(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| !line.is_empty())
            {
                std::thread::yield_now();
            }
        }
        let pid_file = self.data().join("postmaster.pid");
        fs::remove_file(pid_file).unwrap();
    }

    /// Ends the server as its operator would.
    pub(crate) fn stop(&mut self) {
        self.end("INT");
    }

    fn end(&mut self, signal: &str) {
        let Some(mut process) = self.process.take() else { return };
        send_signal(&process, signal);
        process.wait().unwrap();
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Where the files of the server are; files in it can be read by the server.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The address of a database.
    pub(crate) fn url(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}:{PASSWORD}@127.0.0.1:{}/{database}", self.port)
    }

    /// Runs statements in a database as the superuser.
    pub(crate) async fn execute(&self, database: &str, sql: &str) {
        self.query(database, sql).await;
    }

    /// The same, with the rows of the answer. No value has a tab or a line break in it.
    pub(crate) async fn query(&self, database: &str, sql: &str) -> Vec<Vec<String>> {
        let mut psql = Command::new(binary("psql"));
        psql.args(["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"]);
        psql.args(["--no-align", "--tuples-only", "--field-separator=\t", "--command", sql]);
        psql.arg(self.url("zero", database)).stdin(Stdio::null());
        let done = tokio::task::spawn_blocking(move || psql.output()).await.unwrap().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let rows = String::from_utf8(done.stdout).unwrap();
        rows.lines().map(|row| row.split('\t').map(str::to_owned).collect()).collect()
    }

    /// Makes a new and empty database.
    pub(crate) async fn create_database(&self) -> String {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        let name = format!("test{number}");
        self.execute("postgres", &format!("CREATE DATABASE {name} TEMPLATE template0")).await;
        name
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A pooler that gives each transaction any of its few connections to the server.
pub(crate) struct TransactionPooler {
    port: u16,
    process: Child,
    _folder: TempDir,
}

impl TransactionPooler {
    /// Starts one in front of a server.
    pub(crate) fn start(server: &PostgresServer) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let users = folder.path().join("users.txt");
        fs::write(&users, format!("\"zero\" \"{PASSWORD}\"\n")).unwrap();
        for path in [folder.path(), &users] {
            give_away(path);
        }
        let mut logs = String::new();
        for _ in 0..PORTS_TRIED_MAX {
            let port = free_port();
            let config = folder.path().join("pooler.ini");
            let text = format!(
                "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
                 listen_port = {port}\nunix_socket_dir =\nauth_type = trust\n\
                 auth_file = {}\npool_mode = transaction\ndefault_pool_size = 3\n\
                 max_client_conn = 200\n",
                server.port(),
                users.display()
            );
            fs::write(&config, text).unwrap();
            give_away(&config);
            let mut command = as_ordinary_user(Path::new("pgbouncer"));
            command.arg(config);
            match wait_for_line(command, "process up") {
                Ok(process) => return Self { port, process, _folder: folder },
                Err(log) => logs.push_str(&log),
            }
        }
        panic!("the pooler did not start; is the package `pgbouncer` installed? {logs}");
    }

    /// The address of a database behind it.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://zero:{PASSWORD}@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for TransactionPooler {
    fn drop(&mut self) {
        send_signal(&self.process, "TERM");
        let _ = self.process.wait();
    }
}

/// Starts a program and waits until it logs a text; fails with its log if it ends before.
fn wait_for_line(mut command: Command, text: &str) -> Result<Child, String> {
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut output = BufReader::new(child.stderr.take().unwrap());
    let (mut log, mut line) = (String::new(), String::new());
    while output.read_line(&mut line).unwrap() > 0 {
        if line.contains(text) {
            // Nobody reads the rest, and a full pipe would block the program.
            std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
            return Ok(child);
        }
        log.push_str(&line);
        line.clear();
    }
    child.wait().unwrap();
    Err(log)
}

/// A program of the newest server that is installed.
fn binary(name: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let version = |folder: &PathBuf| {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        name.parse::<u32>().unwrap_or(0)
    };
    let newest = versions.map(|entry| entry.path()).max_by_key(version);
    match newest.map(|folder| folder.join("bin").join(name)) {
        Some(program) if program.exists() => program,
        _ => PathBuf::from(name),
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// A command that ends with the test, and that root runs as somebody else: the server refuses root.
fn as_ordinary_user(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.arg("--pdeathsig=INT");
    if is_root() {
        let (user, group) = (format!("--reuid={NOBODY}"), format!("--regid={NOBODY}"));
        command.args([&user, &group]).arg("--clear-groups");
    }
    command.arg(program).current_dir("/").stdin(Stdio::null());
    command
}

/// Makes the user of [`as_ordinary_user`] the owner of a file.
pub(crate) fn give_away(path: &Path) {
    if is_root() {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn send_signal(process: &Child, signal: &str) {
    let sent = Command::new("kill").args(["-s", signal, &process.id().to_string()]).status();
    assert!(sent.unwrap().success());
}
