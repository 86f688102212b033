"""Counts what calls of zero cost, and prints it as JSON. `cargo xtask bench --only profile` runs it.

    call_profile.py ZERO

For each step: the system calls of the whole process tree with the most frequent ones, its page faults and its
processor time. Counts hardly depend on how busy the machine is. Steps within an agent are differences: the agent runs
once with the step and once without it, or with more and with fewer of them.
"""

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from scripted_model import Model, call, delta, done, plain

DEADLINE_S = 120
# How many calls a turn makes in the two runs that are compared.
FEWER, MORE = 5, 45
# The most frequent system calls of a step that are named.
NAMED = 6

INPUTS = {
    "Read": lambda number: {"file_path": f"{number:03}.txt"},
    "Edit": lambda number: {
        "file_path": f"{number:03}.txt",
        "old_string": f"file {number:03}",
        "new_string": f"changed {number:03}",
    },
    "Bash": lambda number: {"command": f"echo {number}"},
}


class Caller(Model):
    """A prompt `TOOL COUNT` gets this many calls, one after the other; edits follow a read of their file."""

    async def answer(self, request):
        asked = [message for message in request["messages"] if message["role"] == "user"]
        tool, count = plain(asked[-1]["content"]).split()[-2:]
        results = sum(1 for message in since_prompt(request["messages"]) if message["role"] == "tool")
        steps = [("Read", number) for number in range(int(count))] if tool == "Edit" else []
        steps += [(tool, number) for number in range(int(count))]
        if results < len(steps):
            name, number = steps[results]
            yield call(f"call_{results}", name, INPUTS[name](number))
            yield done("tool_calls")
        else:
            yield delta({"content": "done"})
            yield done("stop")


def since_prompt(messages):
    last = max(place for place, message in enumerate(messages) if message["role"] == "user")
    return messages[last:]


class Workspace:
    """A home of its own with settings for the model, and files to work on."""

    def __init__(self, folder, model_url):
        self.folder = Path(folder)
        self.work = self.folder / "work"
        (self.folder / "config/zero").mkdir(parents=True)
        model = {"api": "chat", "model": "scripted", "baseUrl": model_url, "contextWindow": 10_000_000}
        settings = {
            "models": {"scripted": model},
            "model": "scripted",
            "permissions": {"mode": "auto"},
        }
        (self.folder / "config/zero/settings.json").write_text(json.dumps(settings))

    def environment(self):
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return {
            **kept,
            "HOME": str(self.folder),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "XDG_STATE_HOME": str(self.folder / "state"),
        }

    def fill(self):
        """The same files before each run."""
        self.work.mkdir(exist_ok=True)
        for number in range(MORE):
            (self.work / f"{number:03}.txt").write_text(f"file {number:03}\n")


class AgentClient:
    """Speaks the Agent Client Protocol with a process, one request at a time."""

    def __init__(self, process):
        self.process = process
        self.requests = 0

    async def request(self, method, params):
        self.requests += 1
        number = self.requests
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        while True:
            line = await asyncio.wait_for(self.process.stdout.readline(), DEADLINE_S)
            if not line:
                raise SystemExit(f"the agent ended at {method}")
            message = json.loads(line)
            if message.get("id") == number and "method" not in message:
                if "error" in message:
                    raise SystemExit(f"{method} failed: {message['error']}")
                return message["result"]

    def send(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")


async def run_agent(command, workspace, sessions, prompts):
    process = await asyncio.create_subprocess_exec(
        *command,
        "acp",
        cwd=workspace.work,
        env=workspace.environment(),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=1 << 26,
    )
    client = AgentClient(process)
    await client.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
    for number in range(sessions):
        session = await client.request("session/new", {"cwd": str(workspace.work), "mcpServers": []})
        for prompt in prompts if number == 0 else []:
            text = [{"type": "text", "text": prompt}]
            await client.request("session/prompt", {"sessionId": session["sessionId"], "prompt": text})
    process.stdin.close()
    await asyncio.wait_for(process.wait(), DEADLINE_S)


async def run_call(command, workspace, tool, arguments):
    process = await asyncio.create_subprocess_exec(
        *command,
        "tools",
        "call",
        tool,
        json.dumps(arguments),
        "--yes",
        cwd=workspace.work,
        env=workspace.environment(),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, error = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    if process.returncode != 0:
        raise SystemExit(f"{tool} failed: {error.decode()}")


def read_counts(file):
    """The counts of `strace -c`, by system call."""
    rows = [line.split() for line in file.read_text().splitlines()]
    # time, seconds, per call, calls, perhaps errors, name
    return {row[-1]: int(row[3]) for row in rows if len(row) >= 5 and row[0][0].isdigit() and row[-1] != "total"}


async def profile(zero, workspace, step):
    """Runs a step twice: for its system calls, and for its page faults and its processor time."""
    counts_file = workspace.folder / "counts"
    workspace.fill()
    await step(["strace", "-f", "-c", "-o", str(counts_file), "--", zero])
    workspace.fill()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    await step([zero])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "calls": read_counts(counts_file),
        "faults": after.ru_minflt - before.ru_minflt,
        "cpu_ms": cpu * 1000,
    }


def difference(more, fewer, count):
    names = set(more["calls"]) | set(fewer["calls"])
    calls = {name: (more["calls"].get(name, 0) - fewer["calls"].get(name, 0)) / count for name in names}
    return {
        "calls": calls,
        "faults": (more["faults"] - fewer["faults"]) / count,
        "cpu_ms": (more["cpu_ms"] - fewer["cpu_ms"]) / count,
    }


def row(what, found):
    calls = {name: round(count, 1) for name, count in found["calls"].items() if round(count, 1) > 0}
    frequent = sorted(calls.items(), key=lambda call: (-call[1], call[0]))[:NAMED]
    return {
        "what": what,
        "calls": round(sum(found["calls"].values()), 1),
        "frequent": frequent,
        "faults": round(found["faults"], 1),
        "cpu_ms": round(found["cpu_ms"], 2),
    }


async def measure(zero):
    model = Caller()
    await model.start()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        workspace = Workspace(folder, model.url)

        def one_shot(tool, arguments):
            return profile(zero, workspace, lambda command: run_call(command, workspace, tool, arguments))

        def agent(sessions, *prompts):
            return profile(zero, workspace, lambda command: run_agent(command, workspace, sessions, prompts))

        rows = [
            row("`zero tools call Read`", await one_shot("Read", {"file_path": "000.txt"})),
            row("`zero tools call Edit`", await one_shot("Edit", INPUTS["Edit"](0))),
            row("`zero tools call Bash` of `echo`", await one_shot("Bash", {"command": "echo done"})),
        ]
        start, first, later = await agent(0), await agent(1), await agent(5)
        rows.append(row("`zero acp`, start to `initialize`", start))
        rows.append(row("the first `session/new`", difference(first, start, 1)))
        rows.append(row("a later `session/new`", difference(later, first, 4)))
        for tool in ("Read", "Edit", "Bash"):
            more, fewer = await agent(1, f"{tool} {MORE}"), await agent(1, f"{tool} {FEWER}")
            found = difference(more, fewer, MORE - FEWER)
            what = {"Read": "Read", "Edit": "Read and Edit of a file", "Bash": "`echo` in the sandbox"}[tool]
            rows.append(row(f"{what}, in a turn", found))
    return rows


if __name__ == "__main__":
    if subprocess.run(["strace", "-V"], stdout=subprocess.DEVNULL, check=False).returncode:
        raise SystemExit("strace is needed")
    print(json.dumps(asyncio.run(measure(sys.argv[1]))))
