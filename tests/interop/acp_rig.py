"""What the suites of `zero acp` share: a home, a project, a scripted model, claims. See README.md."""

import asyncio
import json
import os
import sys
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PATIENCE = float(os.environ.get("PATIENCE", "60"))


@dataclass
class Place:
    """Where a claim is looked at: nothing there is anybody's."""

    root: Path
    home: Path
    project: Path
    env: dict


@contextmanager
def place(model):
    """A home with the scripted model in its settings, and a project with one file."""
    with tempfile.TemporaryDirectory(prefix="zero-interop-", dir="/var/tmp") as root:
        root = Path(root)
        home, project = root / "home", root / "work"
        settings = home / ".config/zero/settings.json"
        settings.parent.mkdir(parents=True)
        project.mkdir()
        (project / "hello.txt").write_text("hello\n")
        scripted = {"api": "chat", "model": "scripted", "baseUrl": model.url}
        settings.write_text(json.dumps({"models": {"scripted": scripted}, "model": "scripted"}))
        env = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        yield Place(root, home, project, env)


def check(condition, what):
    if not condition:
        raise AssertionError(what)


async def look_at(claims, only, each):
    """Prints whether each claim holds; the program ends with 0 when all do.

    A claim is a function whose first line of documentation says what it claims; `each` looks at
    one.
    """
    failed = 0
    for claim in claims:
        if only and claim.__name__ != only:
            continue
        name = claim.__doc__.splitlines()[0].rstrip(".")
        began = time.monotonic()
        try:
            await asyncio.wait_for(each(claim), 4 * PATIENCE)
            print(f"  holds  {name} ({time.monotonic() - began:.1f} s)", flush=True)
        except Exception as error:  # noqa: BLE001: each claim is told on its own
            failed += 1
            print(f"  FAILS  {name}: {type(error).__name__}: {str(error)[:2000]}", flush=True)
    sys.exit(1 if failed else 0)
