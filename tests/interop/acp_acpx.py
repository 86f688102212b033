"""Drives the real `zero acp` by acpx, a client for the command line. See README.md.

    acp_acpx.py ZERO NODE PACKAGES [--only CLAIM]

PACKAGES is the folder that acpx and the TypeScript SDK are installed in: what acpx writes down of
the wire is held against the schema of the latter.
"""

import argparse
import asyncio
import json
from pathlib import Path

from jsonschema import Draft202012Validator

from acp_rig import PATIENCE, check, look_at, place
from scripted_model import HELLO, Model

# What acpx ends with when something was denied.
DENIED = 5


class Acpx:
    """acpx in a place, with zero as its agent."""

    def __init__(self, args, place):
        self.place = place
        self.program = [args.node, args.packages / "node_modules/acpx/dist/cli.js"]
        self.agent = ["--agent", f"{args.zero} acp"]
        schema = args.packages / "node_modules/@agentclientprotocol/sdk/schema/v1/schema.json"
        self.schema = json.loads(schema.read_text())
        self.env = {**place.env, "PATH": f"{Path(args.node).parent}:{place.env['PATH']}"}

    async def start(self, *arguments):
        return await asyncio.create_subprocess_exec(
            *self.program, *self.agent, *arguments, cwd=self.place.project, env=self.env,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE, limit=30_000_000,
        )

    async def run(self, *arguments, code=0):
        """What it printed."""
        process = await self.start(*arguments)
        out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
        said = f"{out.decode()}{err.decode()}"
        check(process.returncode == code, f"{arguments} ended with {process.returncode}: {said}")
        return out.decode()

    def made(self):
        return (self.place.project / "made.txt").exists()


async def executes(acpx, _model):
    """exec: the answer is printed."""
    said = await acpx.run("exec", "hello")
    check(HELLO in said, said)


async def approves(acpx, _model):
    """--approve-all: the call runs."""
    await acpx.run("--approve-all", "exec", "[write]")
    check(acpx.made(), "nothing was written")


async def denies(acpx, _model):
    """--deny-all: it does not, and acpx ends with 5."""
    await acpx.run("--deny-all", "exec", "[write]", code=DENIED)
    check(not acpx.made(), "it was written though denied")


async def resumes(acpx, model):
    """sessions new, then prompt: the session is taken up by another process."""
    await acpx.run("sessions", "new")
    try:
        check(HELLO in await acpx.run("prompt", "the first"), "no answer")
        check(HELLO in await acpx.run("prompt", "the second"), "no answer")
        asked = [str(m["content"]) for m in model.requests[-1]["messages"] if m["role"] == "user"]
        check(any("the first" in text for text in asked), asked)
        check(any("the second" in text for text in asked), asked)
    finally:
        await acpx.run("sessions", "close")


async def cancels(acpx, _model):
    """cancel: a prompt that streams ends as cancelled."""
    await acpx.run("sessions", "new")
    try:
        slow = await acpx.start("--format", "json", "prompt", "[slow]")
        heard = []
        async for line in slow.stdout:
            heard.append(line.decode())
            if sum("agent_message_chunk" in line for line in heard) == 2:
                break
        await acpx.run("cancel")
        rest = await asyncio.wait_for(slow.stdout.read(), PATIENCE)
        heard += rest.decode().splitlines()
        await slow.wait()
        reasons = [json.loads(line)["result"]["stopReason"] for line in heard if "stopReason" in line]
        check(reasons == ["cancelled"], heard[-5:])
    finally:
        await acpx.run("sessions", "close")


async def chooses(acpx, _model):
    """set-mode and set: the mode decides what is asked about."""
    await acpx.run("sessions", "new")
    try:
        await acpx.run("set", "thought_level", "low")
        await acpx.run("set-mode", "accept-edits")
        # Without its files: `--deny-all` would also refuse to write for us, and count that.
        await acpx.run("--no-fs", "--deny-all", "prompt", "[write]")
        check(acpx.made(), "it was asked about")
    finally:
        await acpx.run("sessions", "close")
    # With them, its own no counts: what it will not write is not written another way. In a session of
    # its own, since the agent of the first one goes on without its files.
    (acpx.place.project / "made.txt").unlink()
    await acpx.run("sessions", "new")
    try:
        await acpx.run("set-mode", "accept-edits")
        await acpx.run("--deny-all", "prompt", "[write]", code=DENIED)
        check(not acpx.made(), "acpx refused to write it, and it was written all the same")
    finally:
        await acpx.run("sessions", "close")


async def lists(acpx, _model):
    """sessions list: the agent's own list has the session."""
    await acpx.run("exec", "hello")
    listed = await acpx.run("--format", "json", "sessions", "list")
    check(str(acpx.place.project) in listed, listed)


async def keeps_to_offers(acpx, _model):
    """--no-fs --no-terminal: neither is asked for, and the calls run."""
    wire = ["--no-fs", "--no-terminal", "--approve-all", "--format", "json", "--json-strict"]
    for prompt in ["[read]", "[write]", "[shell]"]:
        log = messages(await acpx.run(*wire, "exec", prompt))
        asked = [message["method"] for message in log if "method" in message]
        check("session/prompt" in asked, asked)
        wrong = [method for method in asked if method.startswith(("fs/", "terminal/"))]
        check(not wrong, wrong)
    check(acpx.made(), "nothing was written")


async def fits_the_schema(acpx, _model):
    """--format json --json-strict: every message fits the official schema."""
    checked = 0
    for prompt in ["hi", "[read]", "[write]", "[shell]", "[long]"]:
        wire = ["--approve-all", "--format", "json", "--json-strict", "exec", prompt]
        log = messages(await acpx.run(*wire))
        checked += validate(acpx.schema, log)
        (acpx.place.project / "made.txt").unlink(missing_ok=True)
    check(checked >= 50, f"only {checked} messages were seen")


def messages(text):
    """The lines of a log. A line that is no JSON would be none of acpx's."""
    return [json.loads(line) for line in text.splitlines()]


def validate(schema, log):
    """Holds messages against the schema; how many there were."""
    of_method = {}
    for name, definition in schema["$defs"].items():
        if method := definition.get("x-method"):
            role = "result" if name.endswith("Response") else "params"
            of_method[(method, role)] = name
    asked = {}
    checked = 0
    for message in log:
        if "method" in message:
            method, role = message["method"], "params"
            if "id" in message:
                asked.setdefault(message["id"], []).append(method)
        elif "result" in message:
            # Both sides count for themselves; what an agent asks is answered before its prompt is.
            method, role = asked[message["id"]].pop(), "result"
        elif message["error"]["code"] == -32002 and asked[message["id"]][-1] == "fs/read_text_file":
            # A client has no buffer of a file that is new.
            asked[message["id"]].pop()
            continue
        else:
            raise AssertionError(f"an error: {message}")
        name = of_method[(method, role)]
        within = {"$ref": f"#/$defs/{name}", "$defs": schema["$defs"]}
        errors = [error.message for error in Draft202012Validator(within).iter_errors(message[role])]
        check(not errors, f"{method} {role}: {errors[:3]}: {json.dumps(message)[:500]}")
        checked += 1
    return checked


CLAIMS = [
    executes, approves, denies, resumes, cancels, chooses, lists, keeps_to_offers, fits_the_schema,
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("zero")
    parser.add_argument("node")
    parser.add_argument("packages", type=Path)
    parser.add_argument("--only")
    args = parser.parse_args()

    asyncio.run(all_claims(args))


async def all_claims(args):
    model = Model()
    await model.start()

    async def each(claim):
        with place(model) as here:
            await claim(Acpx(args, here), model)

    await look_at(CLAIMS, args.only, each)


if __name__ == "__main__":
    main()
