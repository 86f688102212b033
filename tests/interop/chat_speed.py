"""Measures a chat on a terminal, and prints what it found as JSON. `cargo xtask bench --only chat` runs it.

    chat_speed.py ZERO SESSIONS FILES

The terminal is a pseudo-terminal whose other end only reads. A key is painted when its letter has arrived
there.
"""

import asyncio
import fcntl
import json
import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path

from scripted_model import Model, delta, done

DEADLINE_S = 120
EVENTS_PER_S = 200
# No sequence that controls the terminal ends with one of these, and the model writes only digits.
LETTERS = "abcdefgijknopqrstuvwxyz"
KEYS = 300
IDLE_S = 3
# An agent hosts at most 256.
SESSIONS_OF_AGENT = 200
# A part of the status line, which is painted last.
READY = " · ask · ".encode()


class Stream(Model):
    """Answers with words at a steady rate, for as long as keys are measured."""

    async def answer(self, request):
        begin = time.monotonic()
        for number in range(EVENTS_PER_S * 60):
            yield delta({"content": f"{number} " if number % 12 else f"{number}\n\n"})
            await asyncio.sleep(max(0, begin + (number + 1) / EVENTS_PER_S - time.monotonic()))
        yield done("stop")


def start_model():
    model, started = Stream(), threading.Event()

    def serve():
        async def run():
            await model.start()
            started.set()
            await asyncio.Event().wait()

        asyncio.run(run())

    threading.Thread(target=serve, daemon=True).start()
    started.wait(DEADLINE_S)
    return model.url


class Chat:
    """A chat on a pseudo-terminal."""

    def __init__(self, zero, home, folder):
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        env = {"HOME": home, "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "TERM": "xterm-256color"}
        self.started = time.perf_counter()
        self.child = subprocess.Popen(
            [zero], stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=env, start_new_session=True
        )
        os.close(theirs)
        self.seen = b""

    def wait_for(self, text, begin=0):
        """Waits for a text after a place in what was seen; the time at which it was there."""
        deadline = time.monotonic() + DEADLINE_S
        while text not in self.seen[begin:]:
            if time.monotonic() > deadline:
                raise SystemExit(f"no {text!r} in {self.seen[-4000:]!r}")
            self.read(1)
        return time.perf_counter()

    def read(self, wait):
        if select.select([self.ours], [], [], wait)[0]:
            self.seen += os.read(self.ours, 1 << 16)
            # Only what is new is searched.
            if len(self.seen) > 1 << 22:
                self.seen = self.seen[-(1 << 16) :]

    def press(self, text):
        """The seconds until a letter that is typed is painted."""
        while select.select([self.ours], [], [], 0)[0]:
            self.read(0)
        self.seen = b""
        begin = time.perf_counter()
        os.write(self.ours, text.encode())
        return self.wait_for(text.encode()) - begin

    def type(self, text):
        os.write(self.ours, text.encode())

    def cpu_s(self):
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        self.type("\x03")
        self.type("\x1b")
        time.sleep(0.2)
        self.type("\x03\x03\x03")
        try:
            while self.child.poll() is None:
                self.read(0.1)
        except OSError:
            pass
        self.child.wait(DEADLINE_S)


def make_sessions(zero, folder, env, count):
    """Stores sessions of one prompt each. An agent makes many of them: a program for each takes minutes."""
    for made in range(0, count, SESSIONS_OF_AGENT):
        run_agent(zero, folder, env, min(SESSIONS_OF_AGENT, count - made))


def run_agent(zero, folder, env, count):
    agent = subprocess.Popen(
        [zero, "acp"], cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    asked = 0

    def ask(method, params):
        nonlocal asked
        asked += 1
        request = {"jsonrpc": "2.0", "id": asked, "method": method, "params": params}
        agent.stdin.write(json.dumps(request).encode() + b"\n")
        agent.stdin.flush()
        for line in agent.stdout:
            answer = json.loads(line)
            if answer.get("id") == asked and "method" not in answer:
                if "error" in answer:
                    raise SystemExit(f"{method}: {answer['error']}")
                return answer["result"]
        raise SystemExit(f"the agent ended during {method}")

    ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    for _ in range(count):
        session = ask("session/new", {"cwd": str(folder), "mcpServers": []})["sessionId"]
        ask("session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "/ls ."}]})
    agent.stdin.close()
    agent.wait(DEADLINE_S)


def share(times, part):
    return sorted(times)[min(len(times) - 1, int(len(times) * part))] * 1000


def measure(zero, sessions, files):
    with tempfile.TemporaryDirectory(prefix="zc", dir="/var/tmp") as home:
        folder = Path(home) / "project"
        folder.mkdir()
        settings = Path(home) / ".config/zero/settings.json"
        settings.parent.mkdir(parents=True)
        entry = {"api": "chat", "model": "scripted", "baseUrl": start_model()}
        settings.write_text(json.dumps({"models": {"model": entry}, "model": "model"}))
        env = {"HOME": home, "PATH": "/usr/bin:/bin"}
        make_sessions(zero, folder, env, sessions)
        figures = {"sessions": sessions, "files": files}
        paints, readies = [], []
        for _ in range(9):
            chat = Chat(zero, home, folder)
            paints.append(chat.wait_for(b"zero") - chat.started)
            readies.append(chat.wait_for(READY) - chat.started)
            chat.end()
        figures["first_paint_ms"] = statistics.median(paints) * 1000
        figures["ready_ms"] = statistics.median(readies) * 1000

        chat = Chat(zero, home, folder)
        chat.wait_for(READY)
        time.sleep(1)
        before = chat.cpu_s()
        time.sleep(IDLE_S)
        figures["idle_percent"] = (chat.cpu_s() - before) / IDLE_S * 100
        chat.type("go\r")
        chat.wait_for(b"30 ")
        times = []
        for number in range(KEYS):
            times.append(chat.press(LETTERS[number % len(LETTERS)]))
            if number % len(LETTERS) == len(LETTERS) - 1:
                chat.type("\x15")
            time.sleep(0.013)
        figures["key_p99_ms"] = share(times, 0.99)
        chat.end()

        for number in range(files):
            path = folder / f"d{number // 1000}" / f"module_{number}.rs"
            if number % 1000 == 0:
                path.parent.mkdir()
            path.touch()
        chat = Chat(zero, home, folder)
        chat.wait_for(READY)
        chat.type("@mod")
        chat.wait_for(b"module_")
        times = [chat.press(letter) for letter in "ule_99"]
        figures["completion_ms"] = max(times) * 1000
        chat.end()
        return figures


def main():
    if len(sys.argv) != 4:
        raise SystemExit(__doc__)
    zero, sessions, files = sys.argv[1:]
    print(json.dumps(measure(os.path.abspath(zero), int(sessions), int(files))))


if __name__ == "__main__":
    main()
