"""Does real work in the sandbox, from an empty home, and measures what it costs. See README.md.

    work.py ZERO [PROJECT…]
    WORK_RULES="WebFetch(domain:…) …" work.py ZERO [PROJECT…]
    WORK_REGISTRIES="HOST …" work.py ZERO mcp-npm mcp-pypi
    WORK_LONG=1 work.py ZERO

A model that follows a script makes the calls of a project through the real `zero run`: once in a
terminal, where every question is answered with "in this session" if that is offered, and once
without anybody, with the rules that a person would have added for that. The same commands outside
the sandbox, by hand so to speak, show what it costs. WORK_RULES are rules that both have: without
anybody, the hosts of package registries, and where their names lead to reserved addresses, these.
The project `heavy` takes minutes, so it is tried if it is named, or with WORK_LONG; `heavy-short` is the
same with less.

Each row has the number of questions and the time inside divided by the time outside, with whether that
holds the target. Below a few seconds the time says more about the machine than about the sandbox: then
a missed target fails nothing. Below a project is a row for each of its commands, with the questions
before and during it. The last row is the sum.
"""

import asyncio
import json
import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from scripted_model import Model, call, done, plain, words

RUN_TIME_MAX = 1500
COMMAND_TIME_MAX = 600
RATIO_MAX = 1.25
# Where a command takes less, the time says more about the machine than about the sandbox.
RATIO_FROM_SECONDS = 5
QUESTION = re.compile(r"Allow\?$|\[y/N\]$")
# How long a server may take until it answers.
SERVER_TIME_MAX = 60
# Who does the work that root may not do, such as starting Postgres.
OTHER_USERS = ["postgres", "nobody"]
# Variables that name the certificates of authorities.
CERTIFICATES = ["SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "PIP_CERT", "CARGO_HTTP_CAINFO"]
COLUMNS, ROWS = 120, 40
LAST_WORDS = "All of it is done."


@dataclass
class Project:
    """What is done in a project: calls in order, as pairs of a tool and its input."""

    name: str
    calls: list
    # The programs without which it cannot be tried.
    needs: list = field(default_factory=list)
    # Whether root cannot do it: then somebody else does.
    refuses_root: bool = False
    # Whether it takes minutes.
    is_long: bool = False
    # Settings that it needs besides a model.
    settings: dict = field(default_factory=dict)
    # A command of zero that the user runs before, if there is one.
    before: str = ""
    # The same work outside, where it has other commands.
    outside: list = None


def bash(command):
    return ("Bash", {"command": command, "timeout": COMMAND_TIME_MAX * 1000})


def background(command):
    return ("Bash", {"command": command, "run_in_background": True})


def fetch_from_outside(port, text):
    """A step between calls: the user forwards a port of the sandbox and fetches from it."""
    return ("fetch", {"port": port, "text": text})


def write(path, text):
    return ("Write", {"file_path": path, "content": text})


PYTHON_TEST = """\
import http.server, sqlite3, tempfile, threading, unittest, urllib.request
import iniconfig


class Served(unittest.TestCase):
    def test_page(self):
        server = http.server.ThreadingHTTPServer(("localhost", 0), http.server.SimpleHTTPRequestHandler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with urllib.request.urlopen(f"http://localhost:{server.server_port}/setup.ini") as page:
            self.assertIn(b"name", page.read())
        server.shutdown()

    def test_rows(self):
        with tempfile.NamedTemporaryFile(suffix=".db") as file:
            rows = sqlite3.connect(file.name)
            rows.execute("create table t (x)")
            rows.execute("insert into t values (1)")
            self.assertEqual(rows.execute("select x from t").fetchone(), (1,))

    def test_settings(self):
        self.assertEqual(iniconfig.IniConfig("setup.ini")["metadata"]["name"], "shelf")


unittest.main()
"""

NODE_TEST = """\
const http = require("http"), assert = require("assert"), isOdd = require("is-odd");
const server = http.createServer((_, answer) => answer.end(String(isOdd(3))));
server.listen(0, "127.0.0.1", () => {
  http.get({ port: server.address().port, host: "127.0.0.1" }, (answer) => {
    answer.on("data", (text) => { assert.equal(String(text), "true"); server.close(); });
  });
});
"""

RUST_MAIN = """\
fn main() {
    println!("{}", itoa::Buffer::new().format(42));
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn number_comes_over_loopback() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            listener.accept().unwrap().0.write_all(itoa::Buffer::new().format(42).as_bytes()).unwrap();
        });
        let mut text = String::new();
        TcpStream::connect(address).unwrap().read_to_string(&mut text).unwrap();
        server.join().unwrap();
        assert_eq!(text, "42");
    }
}
"""

C_FILES = {
    "ring.c": "int next(int at, int size) { return (at + 1) % size; }\n",
    "ring_test.c": "int next(int, int);\nint main(void) { return next(7, 8); }\n",
    "Makefile": "ring_test: ring.c ring_test.c\n\t$(CC) -O2 -o $@ $^\n\ntest: ring_test\n\t./ring_test\n",
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.10)\nproject(ring C)\nenable_testing()\n"
    "add_executable(ring_test ring.c ring_test.c)\nadd_test(NAME ring COMMAND ring_test)\n",
}

POSTGRES_TEST = """\
set -e
PATH=$PATH:$(ls -d /usr/lib/postgresql/*/bin | tail -1)
db=$(mktemp -d)
initdb --pgdata "$db" --auth trust --no-sync >/dev/null
trap 'pg_ctl --pgdata "$db" --mode immediate stop >/dev/null; rm -rf "$db"' EXIT
pg_ctl --pgdata "$db" --options "-c listen_addresses=127.0.0.1 -p 54329 -k $db" --log "$db/log" --wait start >/dev/null
query() { psql --host 127.0.0.1 --port 54329 --no-align --tuples-only --dbname postgres --command "$1"; }
query 'create table t as select generate_series(1, 100000) as x'
test "$(query 'select sum(x) from t')" = 5000050000
"""

# A repository over HTTP: git's own server program behind a small one.
GIT_SERVER = """\
import http.server, os, subprocess


class Hub(http.server.BaseHTTPRequestHandler):
    def answer(self):
        path, _, query = self.path.partition("?")
        length = int(self.headers.get("Content-Length") or 0)
        variables = {"GIT_PROJECT_ROOT": os.path.abspath("hub"), "GIT_HTTP_EXPORT_ALL": "1", "REMOTE_USER": "me",
                     "REQUEST_METHOD": self.command, "PATH_INFO": path, "QUERY_STRING": query,
                     "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(length),
                     "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", "")}
        ran = subprocess.run(["git", "http-backend"], env={**os.environ, **variables},
                             input=self.rfile.read(length), capture_output=True)
        head, _, body = ran.stdout.partition(b"\\r\\n\\r\\n")
        fields = dict(line.split(": ", 1) for line in head.decode().splitlines())
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = answer


http.server.ThreadingHTTPServer(("127.0.0.1", 48124), Hub).serve_forever()
"""
GIT_URL = "http://127.0.0.1:48124/demo.git"
WAIT_FOR_GIT = f"for _ in $(seq 100); do curl --silent --output /dev/null {GIT_URL}/HEAD && break; sleep 0.1; done"

SERVER_PAGE = "<h1>served from the sandbox</h1>"
SERVER_PORT = 48123


def heavy_makefile(megabytes, seconds):
    """A build in two halves that need the processor, after a part that needs memory."""
    return f"""\
all: left right
memory:
\tpython3 -c 'b = bytearray({megabytes} << 20); b[::4096] = b"x" * (len(b) // 4096); print(len(b))'
left right: memory
\tpython3 -c 'exec("import time; end = time.process_time() + {seconds}\\nwhile time.process_time() < end: pass")'
"""


def mcp_call(name, command, args, tool, arguments):
    """A project that calls a tool of a server that downloads itself."""
    server = {"command": command, "args": args, "startupTimeout": "300s"}
    return Project(
        name,
        [(f"everyday__{tool}", arguments)],
        needs=[command],
        settings={"mcpServers": {"everyday": server}},
        # It downloads the server and lists its tools.
        before="mcp status",
        # Outside, the client is missing. The server starts twice: to download it and list its tools, and
        # for the call.
        outside=[bash(f"{command} {' '.join(args)} </dev/null"), bash(f"{command} {' '.join(args)} </dev/null ")],
    )


PROJECTS = [
    Project(
        "python",
        [
            write("setup.ini", "[metadata]\nname = shelf\n"),
            write("test_shelf.py", PYTHON_TEST),
            bash("python3 -m venv .venv"),
            bash(".venv/bin/pip install --quiet iniconfig"),
            bash(".venv/bin/python test_shelf.py"),
        ],
        needs=["python3"],
    ),
    Project(
        "uv",
        [
            bash("uv init --quiet --bare --name demo"),
            bash("uv add --quiet iniconfig"),
            write("main.py", "import iniconfig\n"),
            bash("uv run --quiet main.py"),
        ],
        needs=["uv"],
    ),
    Project(
        "node",
        [
            write("package.json", '{"name": "demo", "scripts": {"test": "node test.js"}}\n'),
            write("test.js", NODE_TEST),
            bash("npm install --no-audit --no-fund is-odd"),
            bash("npm test"),
        ],
        needs=["npm", "node"],
    ),
    Project(
        "rust",
        [
            write("src/main.rs", RUST_MAIN),
            bash("cargo init --quiet --name demo"),
            bash("cargo add --quiet itoa"),
            bash("cargo build"),
            bash("cargo test"),
        ],
        needs=["cargo"],
    ),
    Project(
        "c",
        [write(path, text) for path, text in C_FILES.items()]
        + [bash("make"), bash("make test"), bash("cmake -S . -B build"), bash("cmake --build build"),
           bash("ctest --test-dir build")],
        needs=["make", "cc", "cmake"],
    ),
    Project(
        "go",
        [
            bash("go mod init example.org/demo"),
            write("main.go", "package main\n\nfunc main() { println(42) }\n"),
            bash("go vet ./..."),
            bash("go run ."),
        ],
        needs=["go"],
    ),
    Project(
        "git",
        [
            write("notes.txt", "one\n"),
            bash("git add -A"),
            bash("git commit --quiet -m one"),
            bash("git checkout --quiet -b side"),
            write("side.txt", "side\n"),
            bash("git add -A"),
            bash("git commit --quiet -m side"),
            bash("git checkout --quiet main"),
            write("notes.txt", "one\ntwo\n"),
            bash("git commit --quiet -am two"),
            bash("git checkout --quiet side"),
            bash("git rebase --quiet main"),
            bash("git push --quiet origin side"),
            bash("git log --oneline"),
        ],
        needs=["git"],
    ),
    Project(
        "git-http",
        [
            write("hub.py", GIT_SERVER),
            write("notes.txt", "one\n"),
            bash("git init --quiet --bare --initial-branch=main hub/demo.git"),
            background("python3 hub.py"),
            bash(WAIT_FOR_GIT),
            bash("git add hub.py notes.txt"),
            bash("git commit --quiet -m one"),
            bash(f"git push --quiet {GIT_URL} main"),
            bash(f"git clone --quiet {GIT_URL} copy"),
            bash("git -C copy log --oneline"),
            ("BashKill", {"job_id": "job_1"}),
        ],
        needs=["git", "python3", "curl"],
    ),
    Project(
        "postgres",
        [write("test.sh", POSTGRES_TEST), bash("sh test.sh")],
        needs=["psql"],
        refuses_root=True,
    ),
    Project(
        "server",
        [
            write("index.html", SERVER_PAGE),
            background(f"python3 -m http.server --bind 127.0.0.1 {SERVER_PORT}"),
            fetch_from_outside(SERVER_PORT, SERVER_PAGE),
            ("BashKill", {"job_id": "job_1"}),
        ],
        needs=["python3"],
    ),
    mcp_call("mcp-npm", "npx", ["-y", "@modelcontextprotocol/server-everything"], "echo", {"message": "hi"}),
    mcp_call("mcp-pypi", "uvx", ["mcp-server-time"], "get_current_time", {"timezone": "Europe/Berlin"}),
    Project(
        "heavy-short",
        [write("Makefile", heavy_makefile(256, 10)), bash("make -j2")],
        needs=["make", "python3"],
    ),
    # Two gigabytes at once, and two halves of two minutes.
    Project(
        "heavy",
        [write("Makefile", heavy_makefile(2048, 120)), bash("make -j2")],
        needs=["make", "python3"],
        is_long=True,
    ),
]


class ScriptedWorker(Model):
    """Makes the calls of a script, one after another, and does what the user does between them."""

    def __init__(self, zero, place, steps):
        super().__init__()
        self.zero, self.place = zero, place
        self.script = [step for step in steps if step[0] != "fetch"]
        # When each call was sent, and how long it was until its result came.
        self.sent, self.took = {}, {}
        # What is done before the call with this number.
        self.between = {}
        for step in steps:
            if step[0] == "fetch":
                self.between[len([one for one in steps[:steps.index(step)] if one[0] != "fetch"])] = step[1]
        self.fetch_failures = []

    async def answer(self, request):
        made = sum(1 for message in request["messages"] if message["role"] == "assistant")
        if made - 1 in self.sent:
            self.took.setdefault(made - 1, time.monotonic() - self.sent[made - 1])
        if fetch := self.between.pop(made, None):
            failure = await asyncio.to_thread(fetch_by_forwarding, self.zero, self.place, **fetch)
            self.fetch_failures += [failure] if failure else []
        if made < len(self.script):
            name, arguments = self.script[made]
            self.sent[made] = time.monotonic()
            yield call(f"call_{made}", name, arguments)
            yield done("tool_calls")
            return
        for piece in words(LAST_WORDS):
            yield piece
        yield done("stop")

    def failures(self):
        """The results that say that a call failed."""
        messages = self.requests[-1]["messages"] if self.requests else []
        results = [plain(message["content"]) for message in messages if message["role"] == "tool"]
        answered = zip(self.script, results)
        failed = [(describe(made), text) for made, text in answered
                  if re.match(r"error|.*\(exit code [1-9]", text, re.S)]
        if len(results) < len(self.script):
            failed.append(("", f"only {len(results)} of {len(self.script)} calls were answered"))
        return failed + [("zero ports forward", text) for text in self.fetch_failures]


def describe(made):
    name, arguments = made
    return arguments.get("command") or arguments.get("file_path") or name


def fetch_by_forwarding(zero, place, port, text):
    """Forwards a port as the user would, who says yes, and fetches from it. Returns what went wrong."""
    until = time.monotonic() + SERVER_TIME_MAX
    while str(port) not in place.capture(zero, "ports"):
        if time.monotonic() > until:
            return f"`zero ports` does not list port {port}"
        time.sleep(0.1)
    command = [zero, "ports", "forward", str(port), "--yes"]
    forward = subprocess.Popen(command, cwd=place.work, env=place.environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **place.identity)
    try:
        return fetch_page(port, text, until)
    finally:
        forward.terminate()
        forward.communicate(timeout=30)


def fetch_page(port, text, until):
    """Fetches from a port of this machine as soon as somebody listens. Returns what went wrong."""
    seen = ""
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/index.html", timeout=10) as page:
                seen = page.read().decode()
            return None if seen == text else f"the page is {seen!r}"
        except OSError as error:
            seen = str(error)
            time.sleep(0.1)
    return f"nothing was fetched from port {port}: {seen}"


class Place:
    """An empty home, a project under version control, and its remote."""

    def __init__(self, project):
        self.project = project
        # Commands have a `/tmp` of their own and would not see the real one.
        self.root = Path(tempfile.mkdtemp(prefix="zero-work-", dir="/var/tmp"))
        self.home, self.work = self.root / "home", self.root / "project"
        (self.home / ".config/zero").mkdir(parents=True)
        self.work.mkdir()
        # What a process needs to run as somebody else.
        self.identity = {}
        if project.refuses_root and os.geteuid() == 0:
            entry = find_other_user()
            self.identity = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
            for path in [self.root, self.home, self.home / ".config", self.home / ".config/zero", self.work]:
                os.chown(path, entry.pw_uid, entry.pw_gid)
        # rustup keeps the toolchains in the home of this machine's user.
        toolchains = os.environ.get("RUSTUP_HOME") or str(Path.home() / ".rustup")
        self.environment = {"HOME": str(self.home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8",
                            "TERM": "xterm-256color", "RUSTUP_HOME": toolchains}
        # Which authorities the clients of registries trust on this machine.
        self.environment |= {name: os.environ[name] for name in CERTIFICATES if name in os.environ}
        self.run("git", "init", "--quiet", "--bare", str(self.root / "origin.git"))
        self.run("git", "init", "--quiet", "--initial-branch=main", ".")
        self.run("git", "remote", "add", "origin", str(self.root / "origin.git"))
        for key, value in [("user.name", "Me"), ("user.email", "me@example.org")]:
            self.run("git", "config", "--global", key, value)

    def run(self, *command):
        subprocess.run(command, cwd=self.work, env=self.environment, check=True, capture_output=True,
                       **self.identity)

    def capture(self, *command):
        ran = subprocess.run(command, cwd=self.work, env=self.environment, capture_output=True, text=True,
                             stdin=subprocess.DEVNULL, timeout=COMMAND_TIME_MAX, check=False,
                             **self.identity)
        return ran.stdout

    def settings(self, model_url, allowed, registries=None):
        model = {"api": "chat", "model": "scripted", "baseUrl": model_url}
        # Folders outside the project are read-only for commands unless the user opens them.
        registry = self.home / ".cargo/registry"
        registry.mkdir(parents=True, exist_ok=True)
        sandbox = {"writable": [str(self.root / "origin.git"), str(registry)]}
        settings = {"models": {"scripted": model}, "model": "scripted", "sandbox": sandbox,
                    "permissions": {"allow": allowed + os.environ.get("WORK_RULES", "").split()},
                    **json.loads(json.dumps(self.project.settings))}
        for server in settings.get("mcpServers", {}).values():
            if registries:
                server["network"] = registries
        (self.home / ".config/zero/settings.json").write_text(json.dumps(settings))

    def remove(self):
        shutil.rmtree(self.root, ignore_errors=True)


def work_outside(project):
    """The same work without zero: how long it took, and each of its commands."""
    place = Place(project)
    servers = []
    try:
        return run_outside(project, place, servers)
    finally:
        for server in servers:
            server.kill()
        place.remove()


def run_outside(project, place, servers):
    """Makes the calls of a project without zero. Servers that still run are in `servers`."""
    steps = {}
    began = time.monotonic()
    for tool, arguments in project.outside or project.calls:
        step_began = time.monotonic()
        if tool == "fetch":
            if failure := fetch_page(until=time.monotonic() + SERVER_TIME_MAX, **arguments):
                sys.exit(f"{project.name} fails outside zero, too: {failure}")
            continue
        if arguments.get("run_in_background"):
            servers.append(subprocess.Popen(arguments["command"].split(), cwd=place.work,
                                            env=place.environment, stdin=subprocess.DEVNULL,
                                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            continue
        if tool == "BashKill":
            servers.pop().kill()
            continue
        if tool == "Write":
            path = place.work / arguments["file_path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(arguments["content"])
            continue
        ran = subprocess.run(["bash", "-c", arguments["command"]], cwd=place.work, env=place.environment,
                             stdin=subprocess.DEVNULL, capture_output=True, text=True,
                             timeout=COMMAND_TIME_MAX, check=False, **place.identity)
        if ran.returncode:
            sys.exit(f"{arguments['command']} fails outside zero, too: {ran.stdout}{ran.stderr}")
        steps[arguments["command"]] = time.monotonic() - step_began
    return time.monotonic() - began, steps


async def work_in_terminal(zero, project):
    """The work with somebody at the terminal: failures, the numbers of the calls that were asked about,
    how long it took."""
    place = Place(project)
    model = ScriptedWorker(zero, place, project.calls)
    await model.start()
    place.settings(model.url, [], registry_hosts(project))
    socket = str(place.root / "tmux")
    end = place.root / "ended"
    before = f"'{zero}' {project.before}; " if project.before else ""
    command = f"{before}'{zero}' run --mode accept-edits 'Do it.'; echo $? > '{end}'; sleep 1000"
    begin = ["new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), command]
    tmux(socket, place, *begin)
    questions, asked, waited = [], "", 0.0
    began = time.monotonic()
    try:
        while not end.exists() and time.monotonic() - began < RUN_TIME_MAX:
            await asyncio.sleep(0.1)
            screen = await asyncio.to_thread(tmux, socket, place, "capture-pane", "-p", "-J")
            lines = screen.rstrip().splitlines()
            if lines and QUESTION.search(lines[-1].strip()) and screen != asked:
                questions.append(max(model.sent, default=-1))
                asked = screen
                if os.environ.get("SHOW"):
                    print(screen)
                keys = ["s" if re.search(r"\bs allow", screen) else "y"]
                if lines[-1].strip().endswith("[y/N]"):
                    keys.append("Enter")
                tmux(socket, place, "send-keys", *keys)
                waited += 0.1
        took = time.monotonic() - began - waited
    finally:
        tmux(socket, place, "kill-server")
        model.server.close()
    place.remove()
    # The user is asked about a forwarded port, too, and here says yes with an option.
    questions += [-1 for tool, _ in project.calls if tool == "fetch"]
    return model.failures(), questions, took


def tmux(socket, place, *arguments):
    ran = subprocess.run(["tmux", "-S", socket, *arguments], cwd=place.work, env=place.environment,
                         capture_output=True, text=True, timeout=30, check=False, **place.identity)
    return ran.stdout


async def work_headless(zero, project):
    """The work without anybody, under the rules that zero offers for it."""
    place = Place(project)
    model = ScriptedWorker(zero, place, project.calls)
    await model.start()
    allowed = []
    # What is offered depends on the folders that the settings open.
    place.settings(model.url, [], registries=registry_hosts(project))
    for tool, arguments in model.script:
        if tool.startswith("everyday__"):
            allowed.append(tool)
            continue
        checked = place.capture(zero, "policy", "check", tool, json.dumps(arguments), "--mode", "accept-edits",
                                "--json")
        if not checked:
            sys.exit(f"{tool} {arguments}: no decision")
        allowed += json.loads(checked).get("grants", [])
    place.settings(model.url, sorted(set(allowed)), registries=registry_hosts(project))
    began = time.monotonic()
    if project.before:
        await asyncio.to_thread(place.capture, zero, *project.before.split())
    process = await asyncio.create_subprocess_exec(
        zero, "run", "--mode", "accept-edits", "Do it.", cwd=place.work, env=place.environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **place.identity)
    await asyncio.wait_for(process.wait(), RUN_TIME_MAX)
    took = time.monotonic() - began
    model.server.close()
    place.remove()
    return model, took


def registry_hosts(project):
    """The hosts that somebody lets the servers of a project reach."""
    return os.environ.get("WORK_REGISTRIES", "").split() if project.settings else []


def find_other_user():
    for name in OTHER_USERS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return None


def find_obstacle(project):
    """Why a project cannot be tried here."""
    missing = [program for program in project.needs if not shutil.which(program)]
    if missing:
        return f"{', '.join(missing)} is not installed"
    if project.refuses_root and os.geteuid() == 0 and not find_other_user():
        return f"root cannot do it, and there is no user {' or '.join(OTHER_USERS)}"
    return None


@dataclass
class Sum:
    """What all projects took together."""

    outside: float = 0.0
    terminal: float = 0.0
    questions: int = 0
    headless: float = 0.0


def print_row(name, outside, terminal, questions, headless, comment):
    print(f"{name:12} {outside:8.1f}s {terminal:8.1f}s {questions:9} {headless:8.1f}s {headless / outside:6.2f}  "
          f"{comment}", flush=True)


def print_steps(worker, outside, questions):
    """A row for each command, and one for the questions that belong to none."""
    for number, step in enumerate(worker.script):
        asked, command = questions.count(number), describe(step)
        if command in outside and number in worker.took:
            inside = worker.took[number]
            print(f"{'':12} {outside[command]:8.2f}s {'':9} {asked:9} {inside:8.2f}s "
                  f"{inside / outside[command]:6.2f}  {command}")
        elif asked:
            print(f"{'':12} {'':9} {'':9} {asked:9} {'':9} {'':6}  {command}")
    if others := questions.count(-1):
        print(f"{'':12} {'':9} {'':9} {others:9} {'':9} {'':6}  before the first call, and of `zero ports forward`")


async def main(zero, names):
    held, total = True, Sum()
    print(f"{'project':12} {'outside':>9} {'terminal':>9} {'questions':>9} {'headless':>9} {'ratio':>6}  "
          f"target ≤ {RATIO_MAX}")
    for project in PROJECTS:
        if (names and project.name not in names) or (not names and project.is_long
                                                     and not os.environ.get("WORK_LONG")):
            continue
        if obstacle := find_obstacle(project):
            print(f"{project.name:12} not tried: {obstacle}")
            continue
        outside, steps = await asyncio.to_thread(work_outside, project)
        failed, questions, terminal = await work_in_terminal(zero, project)
        worker, headless = await work_headless(zero, project)
        failed_headless = worker.failures()
        is_slow = headless / outside > RATIO_MAX
        is_short = outside < RATIO_FROM_SECONDS
        target = ("missed" if is_slow else "held") + (", too short to count" if is_short else "")
        print_row(project.name, outside, terminal, len(questions), headless, target)
        print_steps(worker, steps, questions)
        for where, failures in [("terminal", failed), ("headless", failed_headless)]:
            for command, text in failures:
                print(f"    {where}: {command}: {text[-400:]}", flush=True)
        held = held and not (failed or failed_headless or (is_slow and not is_short))
        total = Sum(total.outside + outside, total.terminal + terminal, total.questions + len(questions),
                    total.headless + headless)
    if total.outside:
        is_slow = total.headless / total.outside > RATIO_MAX
        print_row("all", *vars(total).values(), "missed" if is_slow else "held")
    return held


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(0 if asyncio.run(main(os.path.abspath(sys.argv[1]), sys.argv[2:])) else 1)
