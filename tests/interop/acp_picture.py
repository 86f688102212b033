"""Draws what an editor is asked before a change and before a command. See README.md.

    acp_picture.py ZERO OUT.svg

The words are those of real requests of the real `zero acp`; only the frame around them is drawn.
"""

import asyncio
import difflib
import json
import sys
import textwrap
from pathlib import Path
from xml.sax.saxutils import escape

from acp_rig import check, place
from openclaw import Bridge
from scripted_model import Model, done, plain, since_it_spoke, words

COLUMNS = 92
LINE = 20
CHARACTER = 8.43
MARGIN = 24
COLOURS = {"+": "#1a7f37", "-": "#cf222e", "@": "#57606a", "code": "#0550ae", "text": "#24292f"}


class Painter(Model):
    """A model that changes a file, and then runs a command."""

    async def answer(self, request):
        news = since_it_spoke(request["messages"])
        if any(message["role"] == "tool" for message in news):
            for piece in words("I see."):
                yield piece
            yield done("stop")
            return
        if "[change]" in plain(news[-1]["content"]):
            change = {"old_string": '"hello"', "new_string": '"hello, world"'}
            yield self.call(request, "call_1", "Edit", {"file_path": "src/main.rs", **change})
        else:
            command = "rm -rf target && cargo build --release"
            description = "Build afresh"
            yield self.call(request, "call_2", "Bash", {"command": command, "description": description})
        yield done("tool_calls")


async def asked(zero):
    """What the editor is asked."""
    model = Painter()
    await model.start()
    with place(model) as here:
        (here.project / "src").mkdir()
        (here.project / "src/main.rs").write_text('fn main() {\n    println!("hello");\n}\n')
        process = await asyncio.create_subprocess_exec(
            zero, "acp", env=here.env, cwd=here.project, limit=30_000_000,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )
        editor = Bridge(process)
        editor.decide = "reject_once"
        await editor.request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        session = await editor.new(here.project)
        for prompt in ["[change]", "[command]"]:
            await editor.prompt(session, prompt)
        process.stdin.close()
        await process.wait()
        check(len(editor.asked) == 2, editor.asked)
        return [told(request, here) for request in editor.asked]


def told(request, here):
    """A request as lines of (style, text), and its options."""
    request = json.loads(json.dumps(request).replace(str(here.project), "/home/you/project"))
    lines = [("title", request["toolCall"]["title"])]
    for item in request["toolCall"]["content"]:
        lines += diff_lines(item) if item["type"] == "diff" else text_lines(item["content"]["text"])
    return lines, [(option["kind"], option["name"]) for option in request["options"]]


def diff_lines(item):
    old, new = (item.get("oldText") or "").splitlines(), item["newText"].splitlines()
    changed = list(difflib.unified_diff(old, new, lineterm="", n=2))[3:]
    styled = [(line[0] if line[0] in "+-" else "text", line) for line in changed]
    return [("code", item["path"]), *styled, ("gap", "")]


def text_lines(text):
    lines, fenced = [], False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif fenced:
            lines.append(("code", line))
        else:
            lines += [("text", part) for part in textwrap.wrap(line, COLUMNS)] or [("gap", "")]
    return [*lines, ("gap", "")]


def draw(requests):
    width = round(COLUMNS * CHARACTER) + 4 * MARGIN
    left, body, y = 2 * MARGIN, [], MARGIN
    for lines, options in requests:
        while lines[-1][0] == "gap":
            lines.pop()
        top, inner = y, []
        y += LINE + 10
        for style, text in lines:
            if style != "gap":
                inner.append(text_at(left, y, COLOURS.get(style, COLOURS["text"]), text, style == "title"))
            y += LINE // 2 if style == "gap" else LINE
        y += 6
        for kind, name in options:
            colour = COLOURS["+"] if kind.startswith("allow") else COLOURS["-"]
            inner.append(box(left, y - 4, width - 2 * left, LINE + 6, "#ffffff", colour))
            inner.append(text_at(left + 12, y + LINE - 6, colour, name))
            y += LINE + 14
        y += 2
        body += [box(MARGIN, top, width - 2 * MARGIN, y - top, "#f6f8fa", "#d0d7de"), *inner]
        y += MARGIN
    font = "ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" '
        f'viewBox="0 0 {width} {y}" font-family="{font}" font-size="14">'
    )
    return "\n".join([head, f'<rect width="{width}" height="{y}" fill="#ffffff"/>', *body, "</svg>", ""])


def box(x, y, width, height, fill, stroke):
    return (
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{fill}" stroke="{stroke}"/>'
    )


def text_at(x, y, colour, text, bold=False):
    weight = ' font-weight="700"' if bold else ""
    return f'<text x="{x}" y="{y}" fill="{colour}"{weight} xml:space="preserve">{escape(text)}</text>'


def main():
    zero, out = sys.argv[1:]
    picture = draw(asyncio.run(asked(zero)))
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    Path(out).write_text(picture)
    print(f"{out}: {len(picture)} bytes")


if __name__ == "__main__":
    main()
