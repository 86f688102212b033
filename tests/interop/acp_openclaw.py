"""Drives a real `openclaw gateway` by `zero acp --url`, with a scripted model. See README.md.

    acp_openclaw.py ZERO NODE OPENCLAW [--only CLAIM]

The other way round than openclaw.py: here the editor's side is ours and the gateway is somebody
else's. It takes half a minute to start, so there is one for all claims. Everything is on loopback.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import tempfile
import time
from contextlib import asynccontextmanager
from pathlib import Path

from acp_rig import check, look_at
from openclaw import TOKEN, Bridge
from scripted_model import HELLO, Model

# A gateway that starts for the first time has much to prepare.
START_SECONDS_MAX = 300
# It answers an abort at once.
CANCEL_SECONDS_MAX = 5


class Gateway:
    """The gateway, and the folder that its tools work in: it has only one for all sessions."""

    def __init__(self, args, root, model):
        self.args = args
        self.model = model
        self.home = root / "gateway"
        self.workspace = root / "workspace"
        self.token = root / "token"
        self.log = root / "gateway.log"
        self.port = free_port()
        self.process = None

    async def start(self):
        self.workspace.mkdir()
        (self.workspace / "hello.txt").write_text("hello\n")
        (self.home / ".openclaw").mkdir(parents=True)
        (self.home / ".openclaw/openclaw.json").write_text(json.dumps(self.settings()))
        self.token.write_text(TOKEN)
        self.token.chmod(0o600)
        node = Path(self.args.node)
        env = {
            "HOME": str(self.home), "PATH": f"{node.parent}:{os.environ['PATH']}", "LANG": "C.UTF-8",
            "NO_COLOR": "1", "TMPDIR": str(self.home),
        }
        with self.log.open("wb") as log:
            self.process = await asyncio.create_subprocess_exec(
                node, self.args.openclaw, "gateway", "--port", str(self.port), env=env,
                cwd=self.workspace, stdout=log, stderr=log, start_new_session=True,
            )
        for _ in range(START_SECONDS_MAX * 10):
            said = self.log.read_text(errors="replace")
            if "ready" in [line.split()[-1] for line in said.splitlines() if line.split()]:
                return
            check(self.process.returncode is None, f"the gateway has ended: {said[-2000:]}")
            await asyncio.sleep(0.1)
        raise TimeoutError(f"the gateway did not get ready: {said[-2000:]}")

    def settings(self):
        """What it needs: a token, a provider that speaks chat completions, and a folder."""
        nothing = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}
        scripted = {
            "id": "scripted", "name": "scripted", "reasoning": False, "input": ["text"],
            "cost": nothing, "contextWindow": 200_000, "maxTokens": 8192,
        }
        provider = {
            "baseUrl": self.model.url, "apiKey": "none", "api": "openai-completions",
            "models": [scripted],
        }
        defaults = {
            "model": {"primary": "scripted/scripted"}, "workspace": str(self.workspace),
            "skipBootstrap": True,
        }
        auth = {"mode": "token", "token": TOKEN}
        return {
            "gateway": {"mode": "local", "bind": "loopback", "auth": auth},
            "models": {"mode": "replace", "providers": {"scripted": provider}},
            "agents": {"defaults": defaults},
        }

    async def stop(self):
        """Ends it with what it started."""
        if self.process and self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(self.process.wait(), 15)
            except asyncio.TimeoutError:
                os.killpg(self.process.pid, signal.SIGKILL)
                await self.process.wait()


def free_port():
    """It does not tell which port it took, so it is given one."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@asynccontextmanager
async def editor(gateway, folder):
    """An editor that has greeted a `zero acp` of its own."""
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    url = f"ws://127.0.0.1:{gateway.port}"
    process = await asyncio.create_subprocess_exec(
        gateway.args.zero, "acp", "--url", url, "--token-file", gateway.token, env=env, cwd=folder,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=30_000_000,
    )
    bridge = Bridge(process)
    try:
        answer = await bridge.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        check(answer["result"]["agentInfo"]["name"] == "zero", answer)
        yield bridge
        process.stdin.close()
        check(await asyncio.wait_for(process.wait(), 15) == 0, "it did not end with its input")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def streams(gateway, folder):
    """An answer streams, and ends."""
    async with editor(gateway, folder) as bridge:
        session = await bridge.new(folder)
        answer = await bridge.prompt(session, "hi")
        check(answer.get("result", {}).get("stopReason") == "end_turn", answer)
        check(bridge.said(session) == HELLO, bridge.said(session))


async def tells_the_folder(gateway, folder):
    """The model is told which folder the editor has open."""
    async with editor(gateway, folder) as bridge:
        session = await bridge.new(folder)
        await bridge.prompt(session, "where am I?")
        users = [str(m["content"]) for m in gateway.model.requests[-1]["messages"] if m["role"] == "user"]
        check(any(str(folder) in text and "where am I?" in text for text in users), users)


async def calls(gateway, folder):
    """The gateway's tool calls are told from start to end."""
    async with editor(gateway, folder) as bridge:
        session = await bridge.new(folder)
        for prompt, kind in [("[read]", "read"), ("[shell]", "execute"), ("[write]", "edit")]:
            bridge.updates.clear()
            answer = await bridge.prompt(session, prompt)
            check(answer.get("result", {}).get("stopReason") == "end_turn", answer)
            told = bridge.calls(session)
            check(told and told[0]["sessionUpdate"] == "tool_call", bridge.updates)
            check(told[0].get("kind") == kind, told)
            check(told[-1]["status"] == "completed", told)
            check("The tool said:" in bridge.said(session), bridge.said(session))
        check((gateway.workspace / "made.txt").read_text() == "made\n", "nothing was written")


async def cancels(gateway, folder):
    """Cancel ends a prompt in mid-stream, and the session goes on."""
    async with editor(gateway, folder) as bridge:
        session = await bridge.new(folder)
        slow = bridge.prompt(session, "[slow]")
        await bridge.until(lambda: "3 " in bridge.said(session), "streaming")
        began = time.monotonic()
        await bridge.notify("session/cancel", {"sessionId": session})
        answer = await slow
        took = time.monotonic() - began
        check(answer.get("result", {}).get("stopReason") == "cancelled", answer)
        check(took < CANCEL_SECONDS_MAX, f"it took {took:.1f} s to cancel")
        answer = await bridge.prompt(session, "and now?")
        check(answer.get("result", {}).get("stopReason") == "end_turn", answer)
        check(bridge.said(session).endswith(HELLO), bridge.said(session))


async def lists(gateway, folder):
    """Another process lists a session."""
    async with editor(gateway, folder) as bridge:
        session = await bridge.new(folder)
        await bridge.prompt(session, "hi")
    async with editor(gateway, folder) as bridge:
        listed = (await bridge.request("session/list", {}))["result"]["sessions"]
        check(any(row["sessionId"] == session for row in listed), f"{session} is not among {listed}")


async def loads(gateway, folder):
    """Another process loads a session, and goes on with it."""
    async with editor(gateway, folder) as bridge:
        session = await bridge.new(folder)
        await bridge.prompt(session, "the first")
    async with editor(gateway, folder) as bridge:
        params = {"sessionId": session, "cwd": str(folder), "mcpServers": []}
        answer = await bridge.request("session/load", params)
        check("result" in answer, answer)
        check({u["sessionId"] for u in bridge.updates} == {session}, f"{session}: {bridge.updates}")
        check(HELLO in bridge.said(session), bridge.updates)
        users = [
            u["update"]["content"]["text"] for u in bridge.updates
            if u["update"]["sessionUpdate"] == "user_message_chunk"
        ]
        check(any("the first" in text for text in users), bridge.updates)
        answer = await bridge.prompt(session, "the second")
        check(answer.get("result", {}).get("stopReason") == "end_turn", answer)
        asked = str(gateway.model.requests[-1]["messages"])
        check("the first" in asked and "the second" in asked, "the transcript is another one")


async def tells_a_wrong_token(gateway, folder):
    """A wrong token is an error of session/new that says so; the agent lives on."""
    wrong = folder.parent / "wrong"
    wrong.write_text("not-the-token")
    wrong.chmod(0o600)
    right, gateway.token = gateway.token, wrong
    try:
        async with editor(gateway, folder) as bridge:
            for _ in range(2):
                answer = await bridge.request("session/new", {"cwd": str(folder), "mcpServers": []})
                check("token" in answer["error"]["message"].lower(), answer)
    finally:
        gateway.token = right


CLAIMS = [streams, tells_the_folder, calls, cancels, lists, loads, tells_a_wrong_token]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("zero")
    parser.add_argument("node")
    parser.add_argument("openclaw")
    parser.add_argument("--only")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zero-interop-", dir="/var/tmp") as root:
        asyncio.run(all_claims(args, Path(root)))


async def all_claims(args, root):
    model = Model()
    await model.start()
    gateway = Gateway(args, root, model)

    async def each(claim):
        folder = root / claim.__name__ / "work"
        folder.mkdir(parents=True)
        await claim(gateway, folder)

    try:
        await gateway.start()
        await look_at(CLAIMS, args.only, each)
    finally:
        await gateway.stop()


if __name__ == "__main__":
    main()
