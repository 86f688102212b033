"""An MCP server for tests, of the older kind. Called with the name of the server, and how it is to
behave: `hang` (never answers, and does not want to end), `late` (answers once there is a file `go`),
`write` and `fetch` (fails, because it may not), `save` (has a tool that writes files), a name with `<` (gives it as
its own), or nothing. Asked with JSON, `ask` asks exactly that."""
import json
import os
import signal
import sys
import time

alias, behaviour = (sys.argv + [""])[1:3]
folder = os.path.dirname(os.path.abspath(__file__))
who = os.urandom(8).hex()
with open(f"{folder}/started-{alias}", "a") as marker:
    marker.write("x")

if behaviour == "hang":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
if behaviour == "write":
    open("/usr/mine", "w")
if behaviour == "fetch":
    import urllib.request
    urllib.request.urlopen("http://registry.example.com/", timeout=5)
while behaviour == "late" and not os.path.exists(f"{folder}/go"):
    time.sleep(0.01)


def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def words():
    try:
        return open(f"{folder}/words-{alias}").read()
    except FileNotFoundError:
        return "Says the same."


def tools():
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    names = ["env", "who", "crash", "ask", "dotted.name"]
    names += ["save"] if behaviour == "save" else []
    echo = {"name": "echo", "description": words(), "inputSchema": schema,
            "annotations": {"readOnlyHint": True}}
    return [echo] + [{"name": name, "inputSchema": schema} for name in names]


def ask(what):
    if (what or "").startswith("{"):
        question = {"mode": "form", **json.loads(what)}
    elif what == "visit":
        question = {"mode": "url", "message": "Log in there", "elicitationId": "e1",
                    "url": "https://example.org/login"}
    elif what == "choose":
        colours = {"type": "string", "enum": ["red", "green"]}
        question = {"mode": "form", "message": "Which colour?",
                    "requestedSchema": {"type": "object", "properties": {"colour": colours}}}
    else:
        colours = {"type": "string", "enum": ["red", "blue"]}
        field = colours if what == "colour" else {"type": "string"}
        form = {"type": "object", "properties": {"name": field}}
        question = {"mode": "form", "message": "Who are you?", "requestedSchema": form}
    send({"id": "q", "method": "elicitation/create", "params": question})
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == "q" and "method" not in message:
            return json.dumps(message.get("result"), sort_keys=True)


def call(name, arguments):
    if name == "crash":
        print("out of cheese", file=sys.stderr, flush=True)
        os._exit(7)
    if name == "env":
        return json.dumps({key: len(value) for key, value in os.environ.items()})
    if name == "save":
        with open(f"{folder}/{arguments['text']}", "a") as file:
            file.write("saved\n")
    if name == "ask":
        return ask(arguments.get("text"))
    return {"who": who, "dotted.name": "dotted"}.get(name) or arguments.get("text", "")


for line in sys.stdin:
    message = json.loads(line)
    method, params = message.get("method"), message.get("params") or {}
    if "id" not in message or method is None:
        continue
    if method == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                  "serverInfo": {"name": behaviour if "<" in behaviour else alias, "version": "1"}}
    elif method == "tools/list":
        result = {"tools": tools()}
    elif method == "tools/call":
        text = call(params["name"], params.get("arguments") or {})
        result = {"content": [{"type": "text", "text": text}]}
    else:
        send({"id": message["id"], "error": {"code": -32601, "message": "not here"}})
        continue
    send({"id": message["id"], "result": result})
