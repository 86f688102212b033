"""Does real work in the sandbox, from an empty home, and measures what it costs. See README.md.

    work.py ZERO [PROJECT…]
    WORK_RULES="WebFetch(domain:…) …" work.py ZERO [PROJECT…]

A model that follows a script makes the calls of a project through the real `zero run`: once in a
terminal, where every question is answered with "in this session" if that is offered, and once
without anybody, with the rules that a person would have added for that. The same commands outside
the sandbox, by hand so to speak, show what it costs. WORK_RULES are rules that both have: without
anybody, the hosts of package registries, and where their names lead to reserved addresses, these.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from scripted_model import Model, call, done, plain, words

RUN_TIME_MAX = 1500
COMMAND_TIME_MAX = 600
RATIO_MAX = 1.25
# Where a command takes less, the time says more about the machine than about the sandbox.
RATIO_FROM_SECONDS = 5
QUESTION = "Allow?"
COLUMNS, ROWS = 120, 40
LAST_WORDS = "All of it is done."


@dataclass
class Project:
    """What is done in a project: calls in order, as pairs of a tool and its input."""

    name: str
    calls: list
    # The programs without which it cannot be tried.
    needs: list = field(default_factory=list)


def bash(command):
    return ("Bash", {"command": command, "timeout": COMMAND_TIME_MAX * 1000})


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

# Two halves of two minutes each, and two gigabytes at once.
HEAVY_MAKEFILE = """\
all: left right
memory:
\tpython3 -c 'b = bytearray(2 << 30); b[::4096] = b"x" * (len(b) // 4096); print(len(b))'
left right: memory
\tpython3 -c 'exec("import time; end = time.process_time() + 120\\nwhile time.process_time() < end: pass")'
"""

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
    Project("heavy", [write("Makefile", HEAVY_MAKEFILE), bash("make -j2")], needs=["make", "python3"]),
]


class ScriptedWorker(Model):
    """Makes the calls of a script, one after another."""

    def __init__(self, calls):
        super().__init__()
        self.script = calls

    async def answer(self, request):
        made = sum(1 for message in request["messages"] if message["role"] == "assistant")
        if made < len(self.script):
            name, arguments = self.script[made]
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
        failed = [(made[1].get("command") or made[1]["file_path"], text) for made, text in answered
                  if re.match(r"error|.*\(exit code [1-9]", text, re.S)]
        if len(results) < len(self.script):
            failed.append(("", f"only {len(results)} of {len(self.script)} calls were answered"))
        return failed


class Place:
    """An empty home, a project under version control, and its remote."""

    def __init__(self):
        # Commands have a `/tmp` of their own and would not see the real one.
        self.root = Path(tempfile.mkdtemp(prefix="zero-work-", dir="/var/tmp"))
        self.home, self.work = self.root / "home", self.root / "project"
        (self.home / ".config/zero").mkdir(parents=True)
        self.work.mkdir()
        # rustup keeps the toolchains in the home of this machine's user.
        toolchains = os.environ.get("RUSTUP_HOME") or str(Path.home() / ".rustup")
        self.environment = {"HOME": str(self.home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8",
                            "TERM": "xterm-256color", "RUSTUP_HOME": toolchains}
        self.run("git", "init", "--quiet", "--bare", str(self.root / "origin.git"))
        self.run("git", "init", "--quiet", "--initial-branch=main", ".")
        self.run("git", "remote", "add", "origin", str(self.root / "origin.git"))
        for key, value in [("user.name", "Me"), ("user.email", "me@example.org")]:
            self.run("git", "config", "--global", key, value)

    def run(self, *command):
        subprocess.run(command, cwd=self.work, env=self.environment, check=True, capture_output=True)

    def settings(self, model_url, allowed):
        model = {"api": "chat", "model": "scripted", "baseUrl": model_url}
        # Folders outside the project are read-only for commands unless the user opens them.
        registry = self.home / ".cargo/registry"
        registry.mkdir(parents=True, exist_ok=True)
        sandbox = {"writable": [str(self.root / "origin.git"), str(registry)]}
        settings = {"models": {"scripted": model}, "model": "scripted", "sandbox": sandbox,
                    "permissions": {"allow": allowed + os.environ.get("WORK_RULES", "").split()}}
        (self.home / ".config/zero/settings.json").write_text(json.dumps(settings))

    def remove(self):
        shutil.rmtree(self.root, ignore_errors=True)


def work_outside(project):
    """The same work without zero; how long it took."""
    place = Place()
    began = time.monotonic()
    for tool, arguments in project.calls:
        if tool == "Write":
            path = place.work / arguments["file_path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(arguments["content"])
            continue
        ran = subprocess.run(["bash", "-c", arguments["command"]], cwd=place.work, env=place.environment,
                             stdin=subprocess.DEVNULL, capture_output=True, text=True,
                             timeout=COMMAND_TIME_MAX, check=False)
        if ran.returncode:
            sys.exit(f"{arguments['command']} fails outside zero, too: {ran.stdout}{ran.stderr}")
    took = time.monotonic() - began
    place.remove()
    return took


async def work_in_terminal(zero, project):
    """The work with somebody at the terminal: failures, the number of questions, how long it took."""
    place, model = Place(), ScriptedWorker(project.calls)
    await model.start()
    place.settings(model.url, [])
    socket = str(place.root / "tmux")
    end = place.root / "ended"
    command = f"'{zero}' run --mode accept-edits 'Do it.'; echo $? > '{end}'; sleep 1000"
    begin = ["new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), command]
    tmux(socket, place, *begin)
    questions, asked, waited = 0, "", 0.0
    began = time.monotonic()
    try:
        while not end.exists() and time.monotonic() - began < RUN_TIME_MAX:
            await asyncio.sleep(0.1)
            screen = await asyncio.to_thread(tmux, socket, place, "capture-pane", "-p", "-J")
            lines = screen.rstrip().splitlines()
            if lines and lines[-1].strip() == QUESTION and screen != asked:
                questions, asked = questions + 1, screen
                if os.environ.get("SHOW"):
                    print(screen)
                key = "s" if re.search(r"\bs allow", screen) else "y"
                tmux(socket, place, "send-keys", key)
                waited += 0.1
        took = time.monotonic() - began - waited
    finally:
        tmux(socket, place, "kill-server")
        model.server.close()
    place.remove()
    return model.failures(), questions, took


def tmux(socket, place, *arguments):
    ran = subprocess.run(["tmux", "-S", socket, *arguments], cwd=place.work, env=place.environment,
                         capture_output=True, text=True, timeout=30, check=False)
    return ran.stdout


async def work_headless(zero, project):
    """The work without anybody, under the rules that zero offers for it."""
    place, model = Place(), ScriptedWorker(project.calls)
    await model.start()
    allowed = []
    for tool, arguments in project.calls:
        checked = subprocess.run([zero, "policy", "check", tool, json.dumps(arguments), "--mode", "accept-edits",
                                  "--json"], cwd=place.work, env=place.environment, capture_output=True,
                                 text=True, timeout=60, check=False)
        if not checked.stdout:
            sys.exit(f"{tool} {arguments}: {checked.stderr}")
        allowed += json.loads(checked.stdout).get("grants", [])
    place.settings(model.url, sorted(set(allowed)))
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        zero, "run", "--mode", "accept-edits", "Do it.", cwd=place.work, env=place.environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    await asyncio.wait_for(process.wait(), RUN_TIME_MAX)
    took = time.monotonic() - began
    model.server.close()
    place.remove()
    return model.failures(), took


async def main(zero, names):
    held = True
    print(f"{'project':10} {'outside':>9} {'terminal':>9} {'questions':>9} {'headless':>9} {'ratio':>6}")
    for project in PROJECTS:
        if names and project.name not in names:
            continue
        missing = [program for program in project.needs if not shutil.which(program)]
        if missing:
            print(f"{project.name:10} not tried: {', '.join(missing)} is not installed")
            continue
        outside = await asyncio.to_thread(work_outside, project)
        failed, questions, terminal = await work_in_terminal(zero, project)
        failed_headless, headless = await work_headless(zero, project)
        ratio = headless / outside
        slow = outside >= RATIO_FROM_SECONDS and ratio > RATIO_MAX
        print(f"{project.name:10} {outside:8.1f}s {terminal:8.1f}s {questions:9} {headless:8.1f}s {ratio:6.2f}"
              f"{' too slow' if slow else ''}", flush=True)
        for where, failures in [("terminal", failed), ("headless", failed_headless)]:
            for command, text in failures:
                print(f"    {where}: {command}: {text[-400:]}", flush=True)
        held = held and not (failed or failed_headless or slow)
    return held


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(0 if asyncio.run(main(os.path.abspath(sys.argv[1]), sys.argv[2:])) else 1)
