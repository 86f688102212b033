"""The official Python client against the real `zero mcp`, over stdio and HTTP, in both eras.

Run by `run client`, which says where `zero` is. Prints a line for each thing that was looked at;
the exit code is 0 when all of it holds.
"""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import mcp_types as types
from jsonschema import Draft202012Validator
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

ZERO = os.environ["ZERO"]
ERAS = {"2025-11-25": "legacy", "2026-07-28": "2026-07-28"}
WAYS = ["stdio", "http"]
STEP_TIME_MAX = 30
# From the moment the client gives up to the moment nothing of the call is left.
CANCEL_MS_MAX = 100
CANCEL_ROUNDS = 5

# One call for every tool that is listed, in an order in which each finds what it needs. A value
# may be taken from an earlier result: `{"job_id": "$Bash.job_id"}`.
CALLS = [
    ("Write", {"file_path": "notes.txt", "content": "buy milk\n"}),
    ("Read", {"file_path": "notes.txt"}),
    ("ReadMany", {"paths": ["*.txt"]}),
    ("Edit", {"file_path": "notes.txt", "old_string": "milk", "new_string": "oat milk"}),
    ("LS", {"path": "."}),
    ("Glob", {"pattern": "**/*.txt"}),
    ("Grep", {"pattern": "milk", "output_mode": "content"}),
    ("Bash", {"command": "sleep 20", "run_in_background": True}),
    ("BashOutput", {}),
    ("BashKill", {"job_id": "$Bash.job_id"}),
    ("Delete", {"file_path": "notes.txt"}),
    # Needs clangd.
    ("LSP", {"operation": "documentSymbol", "filePath": "sum.c"}),
    ("TodoWrite", {"todos": [{"content": "Buy milk", "status": "pending", "activeForm": "Buying milk"}]}),
    ("Plan", {"plan": [{"step": "Buy milk", "status": "pending"}]}),
    ("Memory", {"action": "save", "name": "milk", "text": "Oat milk is preferred."}),
]
# Tools that go out to the web, where nothing is there to go to, and one that asks a person.
ONLY_LISTED = {"WebFetch", "WebSearch", "WebRequest", "AskUserQuestion"}

failures = []


def check(what, holds, why=""):
    """Notes whether something holds."""
    print(f"{'ok  ' if holds else 'FAIL'} {what}{'' if holds or not why else f': {why}'}", flush=True)
    if not holds:
        failures.append(what)


async def main():
    for way in WAYS:
        for era in ERAS:
            name = f"{way} {era}"
            for step in [lists_calls_refuses, asks, cannot_ask, cancels]:
                try:
                    await asyncio.wait_for(step(name, way, ERAS[era]), STEP_TIME_MAX)
                except Exception as error:  # noqa: BLE001 - whatever it is, the next step is looked at
                    check(f"{name}: {step.__name__}", False, f"{type(error).__name__}: {causes(error)}")
    print(f"{len(failures)} failed" if failures else "all hold")
    sys.exit(1 if failures else 0)


def causes(error):
    """What an error says, with those inside a group."""
    inside = getattr(error, "exceptions", [])
    return "; ".join([str(error), *[causes(one) for one in inside]])


async def lists_calls_refuses(name, way, mode):
    """Every tool: valid schemas, a call that works, and one with arguments that do not fit."""
    async with zero(way, mode, ["--yes"]) as (client, _):
        tools = (await client.list_tools()).tools
        by_name = {tool.name: tool for tool in tools}
        check(f"{name}: every tool has a call here", set(by_name) == {tool for tool, _ in CALLS} | ONLY_LISTED,
              f"listed {sorted(by_name)}")
        invalid = []
        for tool in tools:
            for schema in filter(None, [tool.input_schema, tool.output_schema]):
                try:
                    Draft202012Validator.check_schema(schema)
                except Exception as error:  # noqa: BLE001
                    invalid.append(f"{tool.name}: {error}")
        check(f"{name}: {len(tools)} tools with valid JSON Schema 2020-12", tools and not invalid,
              "; ".join(invalid))
        check(f"{name}: every tool has an output schema", all(tool.output_schema for tool in tools))

        results = {}
        for tool, arguments in CALLS:
            result = await client.call_tool(tool, filled_in(arguments, results))
            results[tool] = result.structured_content
            fits = not result.is_error and structured_fits(by_name[tool], result)
            check(f"{name}: {tool} answers with what its schema says", fits is True,
                  text(result) if result.is_error else str(fits))

        refused = 0
        for tool in by_name:
            result = await client.call_tool(tool, {"no_such_argument": 1})
            refused += bool(result.is_error and "no_such_argument" in text(result))
        check(f"{name}: wrong arguments are errors of the tool", refused == len(by_name),
              f"{refused} of {len(by_name)}")
        try:
            await client.call_tool("NoSuchTool", {})
            check(f"{name}: an unknown tool is an error of the protocol", False)
        except Exception as error:  # noqa: BLE001
            code = getattr(getattr(error, "error", None), "code", None)
            check(f"{name}: an unknown tool is an error of the protocol", code == -32602, str(error))


async def asks(name, way, mode):
    """What policy asks about reaches the person behind the client, who decides."""
    asked = []
    answers = {"yes": "allow_once", "no": "reject_once"}
    answer = "yes"

    async def person(_context, params):
        asked.append(params)
        return types.ElicitResult(action="accept", content={"answer": answers[answer]})

    async with zero(way, mode, [], person) as (client, folder):
        result = await client.call_tool("Write", {"file_path": "a.txt", "content": "a"})
        check(f"{name}: a yes lets the call run", not result.is_error and (folder / "a.txt").exists(),
              text(result))
        check(f"{name}: the question says what it is about",
              len(asked) == 1 and "a.txt" in asked[0].message, str(asked))
        answer = "no"
        result = await client.call_tool("Write", {"file_path": "b.txt", "content": "b"})
        check(f"{name}: a no does not", result.is_error and not (folder / "b.txt").exists(),
              text(result))


async def cannot_ask(name, way, mode):
    """A client that cannot ask is told what to do."""
    async with zero(way, mode, []) as (client, folder):
        result = await client.call_tool("Write", {"file_path": "a.txt", "content": "a"})
        check(f"{name}: without anybody to ask it is denied, with what to do",
              result.is_error and "--yes" in text(result) and not (folder / "a.txt").exists(),
              text(result))


async def cancels(name, way, mode):
    """A call that the client gives up ends at once, with everything it started."""
    async with zero(way, mode, ["--yes"]) as (client, _):
        took = []
        for number in range(CANCEL_ROUNDS):
            # A duration that no other command has, so that the process can be told apart.
            mark = f"{1000 + number}.{os.getpid()}"
            call = asyncio.create_task(
                client.call_tool("Bash", {"command": f"sleep {mark}", "timeout": 60000}))
            pid = await appears(["sleep", mark])
            call.cancel()
            began = time.monotonic()
            while Path(f"/proc/{pid}").exists() and time.monotonic() - began < 5:
                await asyncio.sleep(0.001)
            took.append((time.monotonic() - began) * 1000)
            await asyncio.gather(call, return_exceptions=True)
        still = await client.call_tool("LS", {"path": "."})
        check(f"{name}: a cancelled call is gone within {CANCEL_MS_MAX} ms "
              f"(median {sorted(took)[CANCEL_ROUNDS // 2]:.0f}, longest {max(took):.0f})",
              max(took) <= CANCEL_MS_MAX)
        check(f"{name}: the connection lives on", not still.is_error)


async def appears(command):
    """The process that runs a command, as soon as there is one."""
    wanted = "\0".join(command).encode() + b"\0"
    for _ in range(1000):
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if (process / "cmdline").read_bytes() == wanted:
                    return int(process.name)
            except OSError:
                continue
        await asyncio.sleep(0.01)
    raise TimeoutError(f"{command} never ran")


@asynccontextmanager
async def zero(way, mode, options, person=None):
    """A client that is connected to a `zero mcp` of its own, and the folder that works in."""
    with tempfile.TemporaryDirectory(prefix="zero-interop-") as place:
        home, folder = Path(place, "home"), Path(place, "work")
        home.mkdir()
        folder.mkdir()
        (folder / "sum.c").write_text("int sum(int a, int b) { return a + b; }\n")
        arguments = ["mcp", "--workspace", str(folder), *options]
        environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
        if way == "stdio":
            server = StdioServerParameters(
                command=ZERO, args=arguments, env=environment, cwd=str(folder))
            async with Client(server, mode=mode, elicitation_callback=person) as client:
                yield client, folder
            return
        process = subprocess.Popen(
            [ZERO, *arguments, "--http", "127.0.0.1:0"], env=environment, cwd=folder,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        try:
            url, token = await asyncio.to_thread(address, process)
            headers = {"Authorization": f"Bearer {token}"}
            async with httpx2.AsyncClient(headers=headers, timeout=STEP_TIME_MAX) as http:
                transport = streamable_http_client(url, http_client=http)
                async with Client(transport, mode=mode, elicitation_callback=person) as client:
                    yield client, folder
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def address(process):
    """Where `zero mcp --http` listens and what it wants to see, from what it prints."""
    url = token = None
    for _ in range(50):
        line = process.stdout.readline()
        if not line:
            break
        if found := re.search(r"http://\S+?/mcp", line):
            url = found.group()
        if found := re.search(r"(?i)(?:bearer|token)[:= `]+([A-Za-z0-9_-]{16,})", line):
            token = found.group(1)
        if url and token:
            return url, token
    raise RuntimeError(f"no address and token were printed (url {url}, token {'seen' if token else 'missing'})")


def filled_in(arguments, results):
    """Arguments with what earlier results said."""
    def value(of):
        if isinstance(of, str) and of.startswith("$"):
            tool, field = of[1:].split(".")
            return results[tool][field]
        return of
    return {key: value(of) for key, of in arguments.items()}


def structured_fits(tool, result):
    """True, or why the structured result is not what the tool promised."""
    errors = list(Draft202012Validator(tool.output_schema).iter_errors(result.structured_content))
    return True if not errors else "; ".join(error.message for error in errors)


def text(result):
    return " ".join(block.text for block in result.content if block.type == "text")


if __name__ == "__main__":
    asyncio.run(main())
