"""The reference servers `server-everything` and `server-filesystem` behind the real `zero`.

Run by `run servers`. The servers are started by zero, in its sandbox, as settings name them. They
are used twice: by single `zero` commands, and through a `zero mcp` that stays, which the official
Python client drives, so that calls can be watched, given up, and made again after a crash.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import mcp_types as types
from mcp import Client, StdioServerParameters

ZERO = os.environ["ZERO"]
CACHE = Path(os.environ["INTEROP_CACHE"])
NODE = CACHE / "node_modules/node/bin/node"
PACKAGES = CACHE / "node_modules/@modelcontextprotocol"
STEP_TIME_MAX = 90
READY_TIME_MAX = 60
SECRET = "nobody-should-see-this"

failures = []


def check(what, holds, why=""):
    """Notes whether something holds."""
    print(f"{'ok  ' if holds else 'FAIL'} {what}{'' if holds or not why else f': {why}'}", flush=True)
    if not holds:
        failures.append(what)


def main():
    # What is outside lies beside the programs, where servers can look and must not write.
    with (tempfile.TemporaryDirectory(prefix="zero-interop-") as place,
          tempfile.TemporaryDirectory(prefix="outside-", dir=CACHE) as outside):
        world = World(Path(place), Path(outside))
        try:
            by_commands(world)
        except Exception as error:  # noqa: BLE001 - the other half is looked at all the same
            check("by single commands", False, f"{type(error).__name__}: {error}")
        try:
            asyncio.run(asyncio.wait_for(by_client(world), STEP_TIME_MAX))
        except Exception as error:  # noqa: BLE001
            check("through `zero mcp`", False, f"{type(error).__name__}: {causes(error)}")
    print(f"{len(failures)} failed" if failures else "all hold")
    sys.exit(1 if failures else 0)


def causes(error):
    """What an error says, with those inside a group."""
    inside = getattr(error, "exceptions", [])
    return "; ".join([str(error), *[causes(one) for one in inside]])


class World:
    """A home, a folder to work in, one outside it, and settings that name the servers."""

    def __init__(self, place, outside):
        self.home, self.folder, self.outside = place / "home", place / "work", outside
        settings = self.home / ".config/zero/settings.json"
        for folder in [settings.parent, self.folder]:
            folder.mkdir(parents=True)
        (self.outside / "there.txt").write_text("outside\n")
        everything = {
            "command": str(NODE),
            "args": [str(PACKAGES / "server-everything/dist/index.js"), "stdio"],
            "env": {"GIVEN": "by the settings"},
        }
        files = {
            "command": str(NODE),
            "args": [str(PACKAGES / "server-filesystem/dist/index.js"), str(self.folder)],
        }
        # This one would write outside the workspace if it were let.
        wide = {
            "command": str(NODE),
            "args": [str(PACKAGES / "server-filesystem/dist/index.js"), str(self.outside)],
            "includeTools": ["write_file", "read_text_file"],
        }
        settings.write_text(json.dumps(
            {"mcpServers": {"everything": everything, "files": files, "wide": wide}}))

    def environment(self):
        return {"HOME": str(self.home), "PATH": os.environ["PATH"], "SECRET_TOKEN": SECRET}

    def zero(self, *arguments):
        """Runs a command of zero and returns what it printed."""
        return subprocess.run([ZERO, *arguments], cwd=self.folder, env=self.environment(), text=True,
                              capture_output=True, timeout=STEP_TIME_MAX)


def by_commands(world):
    status = world.zero("mcp", "status", "--json")
    shown = json.loads(status.stdout) if status.stdout.strip() else {}
    servers = shown.get("servers", shown) if isinstance(shown, dict) else shown
    states = {server["alias"]: (server["state"], len(server.get("tools") or []))
              for server in servers if isinstance(server, dict)}
    check(f"status: three servers are ready ({states})",
          set(states) == {"everything", "files", "wide"} and all(
              state in ("ready", "connected", "idle") for state, _ in states.values()),
          status.stdout + status.stderr)

    listed = world.zero("tools", "list", "--json")
    tools = json.loads(listed.stdout)
    names = {tool["name"] for tool in (tools["tools"] if isinstance(tools, dict) else tools)}
    check("list: the tools of the servers beside our own",
          {"Read", "everything__echo", "everything__get-sum", "files__read_text_file"} <= names,
          str(sorted(names)))
    check("list: only the allowed tools of a server",
          {name for name in names if name.startswith("wide__")}
          == {"wide__write_file", "wide__read_text_file"})

    called = world.zero("tools", "call", "everything__get-sum", '{"a": 19, "b": 23}', "--yes")
    check("call: everything__get-sum", called.returncode == 0 and "42" in called.stdout,
          called.stdout + called.stderr)
    refused = world.zero("tools", "call", "everything__get-sum", '{"a": "x", "b": 23}', "--yes")
    check("call: arguments that do not fit", refused.returncode != 0, refused.stdout)
    unasked = world.zero("tools", "call", "everything__get-sum", '{"a": 1, "b": 2}')
    check("call: not without a yes", unasked.returncode != 0, unasked.stdout)
    check("nothing is left running", not processes_of(world), str(processes_of(world)))


async def by_client(world):
    zero = StdioServerParameters(
        command=ZERO, env=world.environment(), cwd=str(world.folder),
        args=["mcp", "--yes", "--workspace", str(world.folder)])
    asked = []

    async def person(_context, params):
        asked.append(params.message)
        return types.ElicitResult(action="decline")

    async with Client(zero, mode="auto", cache=None, elicitation_callback=person) as client:
        await until_listed(client, {"everything__echo", "files__write_file", "wide__write_file"})
        await calls(client)
        await question(client, asked)
        await progress(client)
        await cancel(client, world)
        await crash(client, world)
        await files(client, world)
    left = await gone(world)
    check("nothing is left running afterwards", not left, str(left))


async def until_listed(client, wanted):
    began = time.monotonic()
    names = set()
    while time.monotonic() - began < READY_TIME_MAX:
        names = {tool.name for tool in (await client.list_tools()).tools}
        if wanted <= names:
            break
        await asyncio.sleep(0.2)
    check(f"the servers' tools appear ({len(names)} tools)", wanted <= names, str(sorted(names)))


async def calls(client):
    result = await client.call_tool("everything__echo", {"message": "hello there"})
    check("echo", not result.is_error and "hello there" in text(result), text(result))
    result = await client.call_tool("everything__get-structured-content", {"location": "Chicago"})
    check("structured content", not result.is_error and "temperature" in text(result), text(result))
    result = await client.call_tool("everything__get-tiny-image", {})
    kinds = [block.type for block in result.content]
    check("an image arrives as an image", "image" in kinds, str(kinds))
    result = await client.call_tool("everything__get-env", {})
    seen = text(result)
    check("the server's environment has what the settings give and no secret of ours",
          "by the settings" in seen and SECRET not in seen, seen)


async def question(client, asked):
    result = await client.call_tool("everything__trigger-elicitation-request", {})
    check("a question of the server reaches the person, with who asks",
          len(asked) == 1 and "everything" in asked[0], str(asked))
    check("and their no reaches the server", "declined" in text(result).lower(), text(result))


async def progress(client):
    told = []

    async def listener(done, total, message):
        told.append((done, total, message))

    began = time.monotonic()
    result = await client.call_tool("everything__trigger-long-running-operation",
                                    {"duration": 2, "steps": 4}, progress_callback=listener)
    check(f"a long operation tells its progress ({len(told)} times)",
          not result.is_error and len(told) >= 2, f"{text(result)} {told}")
    amounts = [done for done, _, _ in told]
    check("progress grows", amounts == sorted(set(amounts)), str(amounts))
    check("and takes as long as it takes", 1.5 < time.monotonic() - began < 10)


async def cancel(client, world):
    before = server_process(world, "server-everything")
    call = asyncio.create_task(client.call_tool(
        "everything__trigger-long-running-operation", {"duration": 60, "steps": 60}))
    await asyncio.sleep(1)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    began = time.monotonic()
    result = await client.call_tool("everything__echo", {"message": "still there"})
    check(f"after a cancel the server answers at once ({(time.monotonic() - began) * 1000:.0f} ms)",
          not result.is_error and time.monotonic() - began < 2, text(result))
    check("and it is the same process", server_process(world, "server-everything") == before)


async def crash(client, world):
    before = server_process(world, "server-everything")
    os.kill(before, signal.SIGKILL)
    answered = None
    for _ in range(20):
        result = await client.call_tool("everything__echo", {"message": "again"})
        if not result.is_error:
            answered = result
            break
        await asyncio.sleep(0.5)
    check("a server that crashed is started again", answered and "again" in text(answered),
          text(result))
    after = server_process(world, "server-everything")
    check("as a new process", after and after != before, f"{before} {after}")
    before = server_process(world, "server-everything")
    call = asyncio.create_task(client.call_tool(
        "everything__trigger-long-running-operation", {"duration": 60, "steps": 60}))
    await asyncio.sleep(1)
    os.kill(before, signal.SIGKILL)
    began = time.monotonic()
    result = await call
    check("a call that was running ends with an error, and is not made again",
          result.is_error and time.monotonic() - began < 10, text(result))
    print(f"       it says: {text(result)[:200]}")


async def files(client, world):
    inside, outside = world.folder / "made.txt", world.outside / "made.txt"
    result = await client.call_tool("files__write_file", {"path": str(inside), "content": "made\n"})
    check("filesystem: writes in the workspace",
          not result.is_error and inside.exists() and inside.read_text() == "made\n", text(result))
    result = await client.call_tool("files__read_text_file", {"path": str(inside)})
    check("filesystem: reads it back", not result.is_error and "made" in text(result), text(result))
    result = await client.call_tool("files__read_text_file",
                                    {"path": str(world.outside / "there.txt")})
    check("filesystem: the server refuses what is outside its folder", result.is_error, text(result))
    result = await client.call_tool("wide__write_file", {"path": str(outside), "content": "made\n"})
    check("filesystem: the sandbox refuses what the server would do",
          result.is_error and "EROFS" in text(result) and not outside.exists(), text(result))


def processes_of(world):
    """Processes that work for this test, whoever started them: they have its home."""
    mark = f"HOME={world.home}".encode()
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            if mark in (process / "environ").read_bytes() or str(world.folder).encode() in command:
                found[int(process.name)] = command.replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
    found.pop(os.getpid(), None)
    return found


async def gone(world):
    for _ in range(100):
        if not (left := processes_of(world)):
            return left
        await asyncio.sleep(0.05)
    return left


def server_process(world, package):
    """The id of the node process that runs a server for this test."""
    zero = {pid for pid, command in processes_of(world).items() if command.startswith(ZERO)}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        is_server = len(words) > 1 and words[0] == str(NODE).encode() and package.encode() in words[1]
        if is_server and zero & set(ancestors(int(process.name))):
            return int(process.name)
    return None


def ancestors(pid):
    """The processes above one."""
    for _ in range(64):
        try:
            status = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return
        pid = int(status.rpartition(")")[2].split()[1])
        if pid <= 1:
            return
        yield pid


def text(result):
    return " ".join(block.text for block in result.content if block.type == "text")


if __name__ == "__main__":
    main()
