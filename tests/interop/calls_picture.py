"""Draws a terminal session with an allowed, an approved and a denied call. See CONTRIBUTING.md.

    calls_picture.py ZERO OUT.svg

The text is the output of the real `zero` on a terminal; only the window around it is drawn.
"""

import fcntl
import os
import pty
import re
import select
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path
from xml.sax.saxutils import escape

COLUMNS = 95
LINE = 20
CHARACTER = 8.43
MARGIN = 20
BAR = 34
DEADLINE_S = 60
SHOWN_HOME = "/home/you"

# The window brings its own background, so the picture is readable on light and dark pages.
BACKGROUND, BORDER, TEXT, MUTED = "#0d1117", "#484f58", "#e6edf3", "#9198a1"
COLOURS = {31: "#ff7b72", 32: "#56d364", 33: "#e3b341", 34: "#79c0ff", 35: "#d2a8ff", 36: "#76e3ea"}

SESSION = [
    ("Rules are part of your settings.", ["config", "add", "permissions.deny", "Read(.env)"], None),
    ("Reading in the workspace is allowed.", ["run", "--session", "demo", "/read src/main.rs"], None),
    (
        "A change needs approval.",
        ["run", "--session", "demo", "/bash sed -i s/hello/goodbye/ src/main.rs"],
        "y",
    ),
    (
        "A rule about a file also applies to commands.",
        ["run", "--session", "demo", "/bash cat .env"],
        None,
    ),
]


def record(zero):
    """The session as lines of (text, style) pieces."""
    with tempfile.TemporaryDirectory(prefix="z") as home:
        project = Path(home) / "app"
        (project / "src").mkdir(parents=True)
        (project / "src/main.rs").write_text('fn main() {\n    println!("hello");\n}\n')
        (project / ".env").write_text("API_KEY=example\n")
        lines = []
        for comment, args, answer in SESSION:
            output = run_on_terminal([zero, *args], home, project, answer).replace(home, SHOWN_HOME)
            command = " ".join(["zero", *map(quoted, args)])
            lines += [[(f"# {comment}", "muted")], [("$ ", "muted"), (command, "bold")]]
            for line in terminal_lines(output):
                lines += wrapped(styled_pieces(line))
            lines.append([])
        return lines[:-1]


def quoted(argument):
    return argument if shlex.quote(argument) == argument else f"'{argument}'"


def run_on_terminal(command, home, folder, answer):
    """What the command prints on a terminal; it types `answer` when it is asked."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    env = {"HOME": home, "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TERM": "xterm-256color"}
    child = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=env, start_new_session=True
    )
    os.close(theirs)
    output, deadline = b"", time.monotonic() + DEADLINE_S
    while True:
        if time.monotonic() > deadline:
            child.kill()
            raise SystemExit(f"{command} did not end:\n{output.decode()}")
        if not select.select([ours], [], [], 1)[0]:
            continue
        try:
            part = os.read(ours, 65536)
        except OSError:
            part = b""
        if not part:
            break
        output += part
        if answer and b"Allow?" in output:
            os.write(ours, answer.encode())
            answer = None
    os.close(ours)
    child.wait()
    return output.decode()


def terminal_lines(output):
    """The lines that stay on the screen. Of moves and erasing, it knows what questions use: up, to the
    first column, and everything below."""
    lines, row, is_first_column = [""], 0, True
    for piece in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", output):
        if piece == "\n":
            row += 1
            lines += [""] * (row + 1 - len(lines))
        elif piece == "\r":
            is_first_column = True
        elif piece.endswith("A") and piece.startswith("\x1b"):
            row = max(row - int(piece[2:-1] or 1), 0)
        elif piece == "\x1b[J":
            del lines[row + 1 :]
            lines[row] = "" if is_first_column else lines[row]
        else:
            lines[row] = piece if is_first_column else lines[row] + piece
            is_first_column = False
    while lines and not lines[-1]:
        lines.pop()
    return [line.expandtabs(8) for line in lines]


def styled_pieces(line):
    """A line with colours as pieces of (text, style)."""
    pieces, weight, colour = [], None, None
    for text, codes in re.findall(r"([^\x1b]*)(?:\x1b\[([0-9;]*)[A-Za-z]|$)", line):
        if text:
            pieces.append((text, colour or weight or "text"))
        for code in (int(code) for code in codes.split(";") if code):
            if code == 0:
                weight, colour = None, None
            elif code in (1, 2, 22):
                weight = {1: "bold", 2: "muted"}.get(code)
            elif code in COLOURS or code == 39:
                colour = code if code in COLOURS else None
    return pieces


def wrapped(pieces):
    """A line in rows of at most `COLUMNS` characters, as a terminal breaks it."""
    rows, room = [[]], COLUMNS
    for text, style in pieces:
        while text:
            if not room:
                rows.append([])
                room = COLUMNS
            rows[-1].append((text[:room], style))
            text, room = text[room:], max(room - len(text), 0)
    return rows


def draw(lines, title):
    width = round(COLUMNS * CHARACTER) + 2 * MARGIN
    height = BAR + len(lines) * LINE + MARGIN
    font = "'DejaVu Sans Mono', Menlo, Consolas, monospace"
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="{font}" font-size="14" role="img">',
        f"<title>{title}</title>",
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" '
        f'fill="{BACKGROUND}" stroke="{BORDER}"/>',
    ]
    for at, colour in enumerate([COLOURS[31], COLOURS[33], COLOURS[32]]):
        body.append(f'<circle cx="{MARGIN + 18 * at}" cy="18" r="5" fill="{colour}"/>')
    for row, pieces in enumerate(lines):
        column = 0
        for text, style in pieces:
            if text.strip():
                body.append(text_at(column, BAR + (row + 1) * LINE - 6, text, style))
            column += len(text)
    return "\n".join([*body, "</svg>", ""])


def text_at(column, y, text, style):
    indent = len(text) - len(text.lstrip())
    text = text.strip()
    x = round(MARGIN + (column + indent) * CHARACTER, 1)
    colour = {"muted": MUTED}.get(style) or COLOURS.get(style, TEXT)
    weight = ' font-weight="700"' if style == "bold" else ""
    length = round(len(text) * CHARACTER, 1)
    return (
        f'<text x="{x}" y="{y}" textLength="{length}" fill="{colour}"{weight} '
        f'xml:space="preserve">{escape(text)}</text>'
    )


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    zero, out = sys.argv[1:]
    lines = record(os.path.abspath(zero))
    title = "A terminal session: zero allows a call, asks about one and denies one"
    Path(out).write_text(draw(lines, title))
    for pieces in lines:
        print("".join(text for text, _ in pieces))


if __name__ == "__main__":
    main()
