"""Drives the real `zero acp` by the official Python SDK. See README.md.

    acp_python.py ZERO [--only CLAIM]
"""

import argparse
import asyncio
from contextlib import asynccontextmanager

import acp
from acp import schema

from acp_rig import PATIENCE, check, look_at, place
from scripted_model import HELLO, Model


class Editor(acp.Client):
    """A client: it keeps what it hears, and decides as it is told to."""

    def __init__(self, decide):
        self.decide = decide
        self.heard = []
        self.asked = []
        self.news = asyncio.Event()

    async def session_update(self, session_id, update, **_):
        self.heard.append((session_id, update))
        self.news.set()

    async def request_permission(self, session_id, tool_call, options, **_):
        self.asked.append((session_id, tool_call, options))
        chosen = next(option for option in options if option.kind == self.decide)
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def until(self, condition):
        while not condition():
            self.news.clear()
            await asyncio.wait_for(self.news.wait(), PATIENCE)

    def of(self, session, kind):
        return [update for of, update in self.heard if of == session and update.session_update == kind]

    def said(self, session, kind="agent_message_chunk"):
        return "".join(update.content.text for update in self.of(session, kind))


@asynccontextmanager
async def agent(zero, place, decide="reject_once"):
    """An agent that has been greeted, and the editor it talks with."""
    editor = Editor(decide)
    spawned = acp.spawn_agent_process(editor, zero, "acp", env=place.env, cwd=place.project)
    async with spawned as (agent, process):
        hello = await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        check(hello.protocol_version == 1 and hello.agent_info.name == "zero", hello)
        yield agent, editor
    check(process.returncode == 0, f"the agent ended with {process.returncode}")


def ask(agent, session, text):
    return agent.prompt(session_id=session, prompt=[acp.text_block(text)])


async def streams(zero, place, _model):
    """An answer streams, and ends."""
    async with agent(zero, place) as (zero_acp, editor):
        opened = await zero_acp.new_session(cwd=str(place.project), mcp_servers=[])
        answer = await ask(zero_acp, opened.session_id, "hi")
        check(answer.stop_reason == "end_turn", answer)
        check(editor.said(opened.session_id) == HELLO, editor.said(opened.session_id))


async def calls(zero, place, _model):
    """A tool call is told from its start to its end."""
    async with agent(zero, place) as (zero_acp, editor):
        session = (await zero_acp.new_session(cwd=str(place.project), mcp_servers=[])).session_id
        await ask(zero_acp, session, "[read]")
        [start] = editor.of(session, "tool_call")
        ends = editor.of(session, "tool_call_update")
        check(start.kind == "read" and ends[-1].status == "completed", (start, ends))
        check("The tool said:" in editor.said(session), editor.said(session))


async def allows(zero, place, _model):
    """Permission: a yes has the call run."""
    async with agent(zero, place, "allow_once") as (zero_acp, editor):
        session = (await zero_acp.new_session(cwd=str(place.project), mcp_servers=[])).session_id
        await ask(zero_acp, session, "[write]")
        [(of, tool_call, _)] = editor.asked
        check(of == session and tool_call.content[0].type == "diff", tool_call)
        check((place.project / "made.txt").read_text() == "made\n", "nothing was written")


async def denies(zero, place, _model):
    """Permission: a no does not, and the turn goes on."""
    async with agent(zero, place, "reject_once") as (zero_acp, editor):
        session = (await zero_acp.new_session(cwd=str(place.project), mcp_servers=[])).session_id
        answer = await ask(zero_acp, session, "[write]")
        check(answer.stop_reason == "end_turn" and len(editor.asked) == 1, answer)
        check(not (place.project / "made.txt").exists(), "it was written though denied")
        check(editor.of(session, "tool_call_update")[-1].status == "failed", editor.heard)


async def cancels(zero, place, _model):
    """Cancel ends a prompt in mid-stream, and the session goes on."""
    async with agent(zero, place) as (zero_acp, editor):
        session = (await zero_acp.new_session(cwd=str(place.project), mcp_servers=[])).session_id
        slow = asyncio.create_task(ask(zero_acp, session, "[slow]"))
        await editor.until(lambda: "3 " in editor.said(session))
        await zero_acp.cancel(session_id=session)
        check((await slow).stop_reason == "cancelled", "it goes on")
        check((await ask(zero_acp, session, "hi")).stop_reason == "end_turn", "it does not go on")


async def loads(zero, place, _model):
    """Another process lists a session, and loads it with its calls."""
    cwd = str(place.project)
    async with agent(zero, place) as (zero_acp, editor):
        session = (await zero_acp.new_session(cwd=cwd, mcp_servers=[])).session_id
        await ask(zero_acp, session, "[read] first")
        said = editor.said(session)
    async with agent(zero, place) as (zero_acp, editor):
        listed = (await zero_acp.list_sessions(cwd=cwd)).sessions
        check([row.session_id for row in listed] == [session], listed)
        await zero_acp.load_session(cwd=cwd, session_id=session, mcp_servers=[])
        check("[read] first" in editor.said(session, "user_message_chunk"), editor.heard)
        check(editor.said(session) == said, editor.said(session))
        check(len(editor.of(session, "tool_call")) == 1, editor.heard)


async def chooses(zero, place, _model):
    """Modes and options are chosen, and decide what is asked about."""
    async with agent(zero, place) as (zero_acp, editor):
        opened = await zero_acp.new_session(cwd=str(place.project), mcp_servers=[])
        session = opened.session_id
        answer = await zero_acp.set_config_option(
            config_id="thought_level", session_id=session, value="low")
        check(len(answer.config_options) == len(opened.config_options), answer)
        await zero_acp.set_session_mode(session_id=session, mode_id="accept-edits")
        await ask(zero_acp, session, "[write]")
        check(not editor.asked and (place.project / "made.txt").exists(), editor.asked)


async def uses_tools(zero, place, _model):
    """Tools can be used without a model."""
    async with agent(zero, place) as (zero_acp, _):
        session = (await zero_acp.new_session(cwd=str(place.project), mcp_servers=[])).session_id
        # The SDK writes the underscore of an extension itself.
        call = {"sessionId": session, "toolCallId": "own-1", "toolName": "Read",
                "input": {"file_path": "hello.txt"}}
        used = await zero_acp.ext_method("zero/tools/use", call)
        check(not used.get("isError") and "hello" in str(used["content"]), used)


CLAIMS = [streams, calls, allows, denies, cancels, loads, chooses, uses_tools]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("zero")
    parser.add_argument("--only")
    args = parser.parse_args()

    asyncio.run(all_claims(args))


async def all_claims(args):
    model = Model()
    await model.start()

    async def each(claim):
        with place(model) as here:
            await claim(args.zero, here, model)

    await look_at(CLAIMS, args.only, each)


if __name__ == "__main__":
    main()
