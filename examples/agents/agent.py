#!/usr/bin/env python3
"""An agent in Python on `zero tools serve`: its own model loop, with zero's tools, rules and sandbox.

    MODEL_URL=http://127.0.0.1:11434/v1 MODEL=qwen3:8b ./agent.py "what does notes.txt say?"
"""
import itertools
import json
import os
import subprocess
import sys
import urllib.request

TURNS_MAX = 20
ids = itertools.count(1)
zero = subprocess.Popen(
    ["zero", "tools", "serve"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def send(message):
    zero.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    zero.stdin.flush()


def request(method, params):
    """Sends a request and returns its result. Answers what zero asks meanwhile."""
    wanted = next(ids)
    send({"id": wanted, "method": method, "params": params})
    for line in zero.stdout:
        message = json.loads(line)
        if message.get("method") == "session/request_permission":
            send({"id": message["id"], "result": {"outcome": ask(message["params"])}})
        elif message.get("id") == wanted and "method" not in message:
            if "error" in message:
                raise RuntimeError(message["error"]["message"])
            return message["result"]
    raise RuntimeError("zero ended")


def ask(params):
    """Asks on the terminal; without one, the answer is no."""
    title = params["toolCall"].get("title", "a call")
    is_yes = sys.stdin.isatty() and input(f"{title}? [y/N] ").lower() == "y"
    kind = "allow_once" if is_yes else "reject_once"
    chosen = next(option for option in params["options"] if option["kind"] == kind)
    return {"outcome": "selected", "optionId": chosen["optionId"]}


def complete(messages, tools):
    body = json.dumps({"model": os.environ.get("MODEL", "default"), "messages": messages, "tools": tools})
    headers = {"content-type": "application/json"}
    if key := os.environ.get("MODEL_KEY"):
        headers["authorization"] = f"Bearer {key}"
    url = os.environ["MODEL_URL"] + "/chat/completions"
    with urllib.request.urlopen(urllib.request.Request(url, body.encode(), headers)) as answer:
        return json.load(answer)["choices"][0]["message"]


def main(prompt):
    offered = request("tools/list", {})["tools"]
    tools = [{"type": "function", "function": {
        "name": tool["name"], "description": tool["description"], "parameters": tool["inputSchema"],
    }} for tool in offered]
    messages = [{"role": "user", "content": prompt}]
    for _ in range(TURNS_MAX):
        message = complete(messages, tools)
        messages.append(message)
        for call in message.get("tool_calls") or []:
            function = call["function"]
            result = request("tools/use", {
                "sessionId": "agent", "toolCallId": call["id"], "toolName": function["name"],
                "input": json.loads(function["arguments"])})
            text = "\n".join(part["text"] for part in result["content"] if part["type"] == "text")
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
        if not message.get("tool_calls"):
            print(message["content"])
            return
    sys.exit("the model did not finish")


try:
    main(" ".join(sys.argv[1:]))
finally:
    zero.stdin.close()
    zero.wait()
