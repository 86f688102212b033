"""Drives the real `openclaw acp` against `zero gateway`, with a scripted model. See README.md.

    openclaw.py ZERO NODE OPENCLAW [--record FOLDER]

A bridge of somebody else's speaks ACP with us on one side and the gateway's protocol with zero on
the other. Everything is on loopback. With --record, the frames that both sides exchanged are
written down, one file a scenario; the ordinary tests replay them.
"""

import argparse
import asyncio
import base64
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import websockets

from scripted_model import HELLO, Model

PATIENCE = float(os.environ.get("PATIENCE", "60"))
TOKEN = "interop-token-0123456789abcdef0123456789abcdef"
PNG = base64.b64encode(
    bytes.fromhex(
        "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63606060f80f00010401005f"
        "e5c34b0000000049454e44ae426082"
    )
).decode()


# --- what stands between the bridge and the gateway, and writes down what they say ----------------


class Recorder:
    def __init__(self, target):
        self.target = target
        self.frames = []

    async def start(self):
        self.server = await websockets.serve(
            self.serve, "127.0.0.1", 0, max_size=30_000_000, compression=None
        )
        self.port = self.server.sockets[0].getsockname()[1]

    async def serve(self, client):
        async with websockets.connect(
            self.target, max_size=30_000_000, compression=None
        ) as gateway:
            async def pass_on(source, sink, who):
                async for message in source:
                    self.frames.append((who, message))
                    await sink.send(message)
                await sink.close()

            await asyncio.gather(
                pass_on(client, gateway, "client"),
                pass_on(gateway, client, "gateway"),
                return_exceptions=True,
            )

    def take(self):
        frames, self.frames = self.frames, []
        return frames


# --- the bridge, as an editor sees it --------------------------------------------------------------


class Bridge:
    def __init__(self, process):
        self.process = process
        self.last_id = 0
        self.waiting = {}
        self.updates = []
        self.decide = "allow-once"
        self.asked = []
        self.reader = asyncio.create_task(self.read())

    async def read(self):
        while line := await self.process.stdout.readline():
            message = json.loads(line)
            if "method" in message and "id" in message:
                await self.answer(message)
            elif "method" in message:
                self.updates.append(message["params"])
            elif (future := self.waiting.pop(message.get("id"), None)) and not future.done():
                future.set_result(message)

    async def answer(self, request):
        if request["method"] == "session/request_permission":
            self.asked.append(request["params"])
            options = [option["optionId"] for option in request["params"]["options"]]
            chosen = next((option for option in options if option == self.decide), options[0])
            result = {"outcome": {"outcome": "selected", "optionId": chosen}}
            await self.write({"jsonrpc": "2.0", "id": request["id"], "result": result})
        else:
            error = {"code": -32601, "message": "not here"}
            await self.write({"jsonrpc": "2.0", "id": request["id"], "error": error})

    async def write(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        await self.process.stdin.drain()

    async def request(self, method, params):
        return await self.begin(method, params)

    def begin(self, method, params):
        self.last_id += 1
        future = asyncio.get_running_loop().create_future()
        self.waiting[self.last_id] = future
        message = {"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params}

        async def go():
            await self.write(message)
            return await asyncio.wait_for(future, PATIENCE)

        return asyncio.create_task(go())

    async def notify(self, method, params):
        await self.write({"jsonrpc": "2.0", "method": method, "params": params})

    async def new(self, folder, meta=None):
        params = {"cwd": str(folder), "mcpServers": []}
        if meta:
            params["_meta"] = meta
        return (await self.request("session/new", params))["result"]["sessionId"]

    def prompt(self, session, *blocks):
        blocks = [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]
        return self.begin("session/prompt", {"sessionId": session, "prompt": blocks})

    def said(self, session):
        return "".join(
            update["update"]["content"]["text"]
            for update in self.updates
            if update["sessionId"] == session
            and update["update"]["sessionUpdate"] == "agent_message_chunk"
        )

    def calls(self, session):
        kinds = ("tool_call", "tool_call_update")
        return [
            update["update"]
            for update in self.updates
            if update["sessionId"] == session and update["update"]["sessionUpdate"] in kinds
        ]

    async def until(self, condition, what):
        for _ in range(int(PATIENCE * 20)):
            if condition():
                return
            await asyncio.sleep(0.05)
        raise AssertionError(f"{what} did not come about")


# --- the scenarios -----------------------------------------------------------------------------------


def check(condition, what):
    if not condition:
        raise AssertionError(what)


async def new_and_prompt(bridge, folder, _model):
    session = await bridge.new(folder)
    answer = await bridge.prompt(session, "hi")
    check(answer["result"]["stopReason"] == "end_turn", answer)
    check(bridge.said(session) == HELLO, bridge.said(session))


async def tool_calls(bridge, folder, _model):
    session = await bridge.new(folder)
    answer = await bridge.prompt(session, "[read] please")
    check(answer["result"]["stopReason"] == "end_turn", answer)
    check("I look first." in bridge.said(session), bridge.said(session))
    check("The tool said:" in bridge.said(session), bridge.said(session))
    statuses = [call.get("status") for call in bridge.calls(session)]
    check(statuses[0] == "in_progress" and statuses[-1] == "completed", statuses)


async def cancel(bridge, folder, _model):
    session = await bridge.new(folder)
    prompt = bridge.prompt(session, "[slow]")
    await bridge.until(lambda: "3 " in bridge.said(session), "streaming")
    await bridge.notify("session/cancel", {"sessionId": session})
    answer = await prompt
    check(answer["result"]["stopReason"] == "cancelled", answer)
    answer = await bridge.prompt(session, "and now?")
    check(answer["result"]["stopReason"] == "end_turn", answer)


async def overlapping(bridge, folder, _model):
    session = await bridge.new(folder)
    first = bridge.prompt(session, "[slow]")
    await bridge.until(lambda: "3 " in bridge.said(session), "streaming")
    second = await bridge.prompt(session, "never mind")
    check((await first)["result"]["stopReason"] == "cancelled", "the first goes on")
    check(second["result"]["stopReason"] == "end_turn", second)
    check(bridge.said(session).endswith(HELLO), bridge.said(session))


async def image(bridge, folder, _model):
    session = await bridge.new(folder)
    picture = {"type": "image", "mimeType": "image/png", "data": PNG}
    answer = await bridge.prompt(session, "what is this?", picture)
    check(answer["result"]["stopReason"] == "end_turn", answer)
    check(bridge.said(session) == "I see 1 picture.", bridge.said(session))


async def approval_allow(bridge, folder, _model):
    session = await bridge.new(folder)
    bridge.decide = "allow-once"
    answer = await bridge.prompt(session, "[write]")
    check(answer["result"]["stopReason"] == "end_turn", answer)
    check(len(bridge.asked) == 1, bridge.asked)
    check((folder / "made.txt").read_text() == "made\n", "nothing was written")


async def approval_deny(bridge, folder, _model):
    session = await bridge.new(folder)
    bridge.decide = "deny"
    answer = await bridge.prompt(session, "[write]")
    check(answer["result"]["stopReason"] == "end_turn", answer)
    check(len(bridge.asked) == 1, bridge.asked)
    check(not (folder / "made.txt").exists(), "it was written though denied")


async def list_load_reset(bridge, folder, model):
    session = await bridge.new(folder, {"sessionKey": "agent:main:kept"})
    await bridge.prompt(session, "hi")
    listed = (await bridge.request("session/list", {}))["result"]["sessions"]
    check(any(row["sessionId"] == "agent:main:kept" for row in listed), listed)
    before = len(bridge.updates)
    params = {"sessionId": "agent:main:kept", "cwd": str(folder), "mcpServers": []}
    await bridge.request("session/load", params)
    replayed = [u["update"] for u in bridge.updates[before:]]
    texts = [u["content"]["text"] for u in replayed if u["sessionUpdate"] == "agent_message_chunk"]
    check("Hello from the model" in "".join(texts), replayed)
    again = await bridge.new(folder, {"sessionKey": "agent:main:kept", "resetSession": True})
    await bridge.prompt(again, "anew")
    users = [m for m in model.requests[-1]["messages"] if m["role"] == "user"]
    check(len(users) == 1, "the transcript was not begun anew")


SCENARIOS = [
    new_and_prompt, tool_calls, cancel, overlapping, image, approval_allow, approval_deny,
    list_load_reset,
]


# --- the rig -----------------------------------------------------------------------------------------


async def run_scenario(scenario, args, model, record):
    with tempfile.TemporaryDirectory(prefix="zero-interop-", dir="/var/tmp") as temp:
        temp = Path(temp)
        home, folder = temp / "home", temp / "work"
        folder.mkdir(parents=True)
        (folder / "hello.txt").write_text("hello\n")
        settings = home / ".config/zero/settings.json"
        settings.parent.mkdir(parents=True)
        scripted = {"api": "chat", "model": "scripted", "baseUrl": model.url, "images": True}
        settings.write_text(json.dumps({"models": {"scripted": scripted}, "model": "scripted"}))
        token = temp / "token"
        token.write_text(TOKEN)
        token.chmod(0o600)
        env = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        gateway = await asyncio.create_subprocess_exec(
            args.zero, "gateway", "--port", "0", "--json", "--token-file", token, "--cwd", folder,
            env=env, stdout=asyncio.subprocess.PIPE, cwd=folder,
        )
        bridge = None
        try:
            ready = json.loads(await asyncio.wait_for(gateway.stdout.readline(), PATIENCE))
            recorder = Recorder(ready["url"])
            await recorder.start()
            env["PATH"] = f"{Path(args.node).parent}:{env['PATH']}"
            process = await asyncio.create_subprocess_exec(
                args.node, args.openclaw, "acp", "--url", f"ws://127.0.0.1:{recorder.port}",
                "--token-file", token, env=env, cwd=folder,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=30_000_000,
            )
            bridge = Bridge(process)
            hello = {"protocolVersion": 1, "clientCapabilities": {}}
            await bridge.request("initialize", hello)
            try:
                await scenario(bridge, folder, model)
            finally:
                if record:
                    write_down(record / f"{scenario.__name__}.jsonl", recorder.take(), temp)
        finally:
            for process in filter(None, [bridge and bridge.process, gateway]):
                if process.returncode is None:
                    process.send_signal(signal.SIGTERM)
                    try:
                        await asyncio.wait_for(process.wait(), 10)
                    except asyncio.TimeoutError:
                        process.kill()


def write_down(file, frames, temp):
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for who, message in frames:
        text = message.replace(str(temp), "/rig").replace(TOKEN, "TOKEN")
        lines.append(json.dumps({"from": who, "frame": json.loads(text)}))
    file.write_text("\n".join(lines) + "\n")


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("zero")
    parser.add_argument("node")
    parser.add_argument("openclaw")
    parser.add_argument("--record", type=Path)
    parser.add_argument("--only")
    args = parser.parse_args()
    model = Model()
    await model.start()
    failed = 0
    for scenario in SCENARIOS:
        if args.only and scenario.__name__ != args.only:
            continue
        began = time.monotonic()
        try:
            await run_scenario(scenario, args, model, args.record)
            print(f"  holds  {scenario.__name__} ({time.monotonic() - began:.1f} s)", flush=True)
        except Exception as error:  # noqa: BLE001: each scenario is told on its own
            failed += 1
            print(f"  FAILS  {scenario.__name__}: {type(error).__name__}: {error}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    asyncio.run(main())
