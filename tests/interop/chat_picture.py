"""Draws a chat in a terminal: a question, a change that is approved, and the answer. See CONTRIBUTING.md.

    chat_picture.py ZERO OUT.svg

The screen is that of the real `zero` in tmux; only the model is scripted, and the window around the
screen is drawn.
"""

import asyncio
import json
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from calls_picture import SHOWN_HOME, draw, styled_pieces
from scripted_model import Model, done, since_it_spoke, words

COLUMNS, ROWS = 95, 46
DEADLINE_S = 60
PROMPT = "greet people by name, and say hello to everybody else"
SOURCE = '''use std::env;

fn main() {
    println!("hello");
}
'''
BEFORE = '    println!("hello");'
AFTER = '''    let name = env::args().nth(1).unwrap_or("everybody".to_owned());
    println!("hello, {name}");'''
ANSWER = """The program greets the name that it is given:

```sh
cargo run -- Ada     # hello, Ada
cargo run            # hello, everybody
```

Names with **spaces** need quotes, as in any shell."""


class Scripted(Model):
    """Reads a file, changes it and says what it did."""

    async def answer(self, request):
        news = since_it_spoke(request["messages"])
        results = sum(1 for message in request["messages"] if message["role"] == "tool")
        if any(message["role"] == "user" for message in news):
            for piece in words("I look at the program first."):
                yield piece
            yield self.call(request, "call_1", "Read", {"file_path": "src/main.rs"})
            yield done("tool_calls")
        elif results == 1:
            change = {"file_path": "src/main.rs", "old_string": BEFORE, "new_string": AFTER}
            yield self.call(request, "call_2", "Edit", change)
            yield done("tool_calls")
        else:
            for piece in words(ANSWER):
                yield piece
            yield done("stop")


class Pane:
    """A program in a pane of tmux."""

    def __init__(self, folder, script):
        self.socket = str(Path(folder) / "tmux")
        self.call("new-session", "-d", "-x", str(COLUMNS), "-y", str(ROWS), f"sh {shlex.quote(script)}")

    def call(self, *arguments):
        command = ["tmux", "-u", "-f", "/dev/null", "-S", self.socket, *arguments]
        env = {name: value for name, value in os.environ.items() if name != "TMUX"}
        return subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout

    def screen(self):
        return self.call("capture-pane", "-p", "-e")

    def wait_for(self, text):
        deadline = time.monotonic() + DEADLINE_S
        while text not in self.call("capture-pane", "-p"):
            if time.monotonic() > deadline:
                raise SystemExit(f"no `{text}` in:\n{self.call('capture-pane', '-p')}")
            time.sleep(0.02)


def start_model():
    """A model that answers on a thread of its own; its address."""
    model, started = Scripted(), threading.Event()

    def serve():
        async def run():
            await model.start()
            started.set()
            await asyncio.Event().wait()

        asyncio.run(run())

    threading.Thread(target=serve, daemon=True).start()
    started.wait(DEADLINE_S)
    return model.url


def record(zero):
    """The screen as lines of (text, style) pieces."""
    with tempfile.TemporaryDirectory(prefix="z") as home:
        project = Path(home) / "hello"
        (project / "src").mkdir(parents=True)
        (project / "src/main.rs").write_text(SOURCE)
        subprocess.run(["git", "init", "-q", "-b", "main", str(project)], check=True)
        settings = Path(home) / ".config/zero/settings.json"
        settings.parent.mkdir(parents=True)
        entry = {"api": "chat", "model": "scripted", "baseUrl": start_model()}
        settings.write_text(json.dumps({"models": {"model": entry}, "model": "model"}))
        script = Path(home) / "start"
        variables = f"HOME={shlex.quote(home)} PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 TERM=xterm"
        script.write_text(f"cd {shlex.quote(str(project))}\nexec env -i {variables} {shlex.quote(zero)}\n")
        pane = Pane(home, str(script))
        try:
            pane.wait_for(" · ask · ")
            pane.call("send-keys", "-l", PROMPT)
            pane.call("send-keys", "Enter")
            pane.wait_for("Allow?")
            # Who was typing does not answer a question at once.
            time.sleep(1.5)
            pane.call("send-keys", "y")
            pane.wait_for("as in any shell")
            pane.wait_for("sandbox")
            time.sleep(0.5)
            lines = pane.screen().replace(home, SHOWN_HOME).rstrip("\n").split("\n")
        finally:
            pane.call("kill-server")
    # The cursor is drawn in reverse video, which a picture does not need.
    return [styled_pieces(line.replace("\x1b[7m", "")) for line in lines]


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    zero, out = sys.argv[1:]
    lines = record(os.path.abspath(zero))
    picture = draw(lines, "A chat in the terminal: zero reads a file, asks about a change and answers")
    Path(out).write_text(picture)
    for pieces in lines:
        print("".join(text for text, _ in pieces))


if __name__ == "__main__":
    main()
