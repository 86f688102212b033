"""A model that says what the prompt asks it to, and what is measured with it. See README.md.

    scripted_model.py COMMAND…

Chat completions on loopback, as OpenAI and many others speak them. Run as a program, it serves as
long as a command runs, which finds its address in MODEL_URL, and ends with that command's code.
"""

import asyncio
import json
import os
import re
import sys

# What a message has in it that another gateway adds to the person's.
GATEWAYS_OWN = "INTERNAL_CONTEXT>>>"
HELLO = "Hello from the model, ünïcode and all."


class Model:
    """Chat completions. What was asked is kept in `requests`."""

    def __init__(self):
        self.requests = []

    async def start(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"

    async def serve(self, reader, writer):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(re.search(rb"content-length: (\d+)", head.lower()).group(1))
            request = json.loads(await reader.readexactly(length))
            self.requests.append(request)
            writer.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
            )
            async for piece in self.answer(request):
                writer.write(b"data: " + json.dumps(piece).encode() + b"\n\n")
                await writer.drain()
            writer.write(b"data: [DONE]\n\n")
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def answer(self, request):
        news = since_it_spoke(request["messages"])
        results = [message for message in news if message["role"] == "tool"]
        if results:
            for piece in words(f"The tool said: {plain(results[-1]['content'])[:80]}"):
                yield piece
            yield done("stop")
            return
        asked = [message for message in news if GATEWAYS_OWN not in plain(message["content"])]
        parts = parts_of(asked[-1]["content"])
        pictures = sum(1 for part in parts if part["type"] == "image_url")
        if pictures:
            for piece in words(f"I see {pictures} picture."):
                yield piece
            yield done("stop")
            return
        text = plain(parts)
        if "[read]" in text:
            for piece in words("I look first."):
                yield piece
            yield self.call(request, "call_1", "Read", {"file_path": "hello.txt"})
            yield done("tool_calls")
        elif "[write]" in text:
            yield self.call(
                request, "call_2", "Write", {"file_path": "made.txt", "content": "made\n"}
            )
            yield done("tool_calls")
        elif "[shell]" in text:
            yield self.call(request, "call_3", "Bash", {"command": "echo from the shell"})
            yield done("tool_calls")
        elif "[slow]" in text:
            for number in range(600):
                yield delta({"content": f"{number} "})
                await asyncio.sleep(0.05)
            yield done("stop")
        elif "[long]" in text:
            yield delta({"content": "cut"})
            yield done("length")
        else:
            for piece in words(HELLO):
                yield piece
            yield done("stop")

    def call(self, request, call_id, name, arguments):
        """A call by the name that is offered: others call the same tools otherwise."""
        offered = {tool["function"]["name"] for tool in request.get("tools", [])}
        if name not in offered:
            name = {"Bash": "exec"}.get(name, name.lower())
            arguments = {THEIRS.get(key, key): value for key, value in arguments.items()}
        return call(call_id, name, arguments)


# What other programs call an argument.
THEIRS = {"file_path": "path"}


def since_it_spoke(messages):
    """What the model has not answered yet."""
    spoken = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
    return messages[spoken[-1] + 1 :] if spoken else messages[1:]


def parts_of(content):
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def plain(content):
    """The words of a message, whole or in parts."""
    return " ".join(part.get("text", "") for part in parts_of(content))


def delta(change):
    return {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": change}]}


def words(text):
    return [delta({"content": part}) for part in re.findall(r"\S+\s*", text)]


def call(call_id, name, arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    return delta({"tool_calls": [{"index": 0, "id": call_id, "type": "function", "function": function}]})


def done(reason):
    piece = delta({})
    piece["choices"][0]["finish_reason"] = reason
    piece["usage"] = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return piece


async def main(command):
    model = Model()
    await model.start()
    process = await asyncio.create_subprocess_exec(*command, env={**os.environ, "MODEL_URL": model.url})
    sys.exit(await process.wait())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
