#!/usr/bin/env python3
"""An MCP server with one tool. It needs nothing but Python."""
import json
import sys

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS = [{"name": "count", "description": "Counts the words of a text.", "inputSchema": TEXT}]


def answer(method, params):
    if method == "initialize":
        info = {"name": "words", "version": "1.0"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call" and params.get("name") == "count":
        words = len(params["arguments"]["text"].split())
        return {"content": [{"type": "text", "text": f"{words} words"}]}
    raise LookupError(f"{method} is not known here")


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:  # a notification, which has no answer
        continue
    reply = {"jsonrpc": "2.0", "id": request["id"]}
    try:
        reply["result"] = answer(request["method"], request.get("params") or {})
    except LookupError as error:
        reply["error"] = {"code": -32601, "message": str(error)}
    print(json.dumps(reply), flush=True)
