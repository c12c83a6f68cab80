"""A model behind an OpenAI-compatible endpoint on loopback, whose answers stand in the question.

    TOOL <name> <json>   calls that tool; the answer to its result is "TOOLDONE <first 160 characters of it>"
    SLOW <n> <ms>        n words, that many ms apart
    SAY <text>           exactly that, up to the end of the line
    anything else        "echo: <last line>"

The steps of an exchange between sessions are known by their prompts; `POST /control` sets what is said to them. It runs
under the Python of the peers, beside a gateway.
"""

# It runs in an environment of its own, which has aiohttp:
# pyright: basic, reportMissingImports=false

import argparse
import asyncio
import json
import re
import time
from pathlib import Path
from typing import Any

from aiohttp import web

CONTROL: dict[str, Any] = {"replyback": "REPLY_SKIP", "announce": "ANNOUNCE_SKIP", "word_ms": 0, "first_ms": 0}
INTERNAL = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>"
USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


class Model:
    """The model, with the log of what it was asked."""

    def __init__(self, log: Path | None) -> None:
        self._log = log
        self._count = 0

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Answer one question."""
        self._count += 1
        body = await request.json()
        plan = _plan(body.get("messages", []))
        if self._log is not None:
            with self._log.open("a") as file:
                file.write(json.dumps({"ts": time.time(), "n": self._count, "body": body, "plan": plan}) + "\n")
        await asyncio.sleep(CONTROL["first_ms"] / 1000)
        head = {"id": f"chatcmpl-{self._count}", "created": int(time.time()), "model": body.get("model", "fake")}
        if body.get("stream"):
            return await _stream(request, head, plan, f"call_{self._count}")
        message = {"role": "assistant", "content": plan.get("text")}
        if "tool" in plan:
            message["tool_calls"] = [_call(plan, f"call_{self._count}")]
        end = "tool_calls" if "tool" in plan else "stop"
        choice = {"index": 0, "message": message, "finish_reason": end}
        return web.json_response({**head, "object": "chat.completion", "choices": [choice], "usage": USAGE})


async def _stream(request: web.Request, head: dict[str, Any], plan: dict[str, Any], call_id: str) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)

    async def say(choices: list[dict[str, Any]], **more: Any) -> None:
        chunk = {**head, "object": "chat.completion.chunk", "choices": choices, **more}
        await response.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")

    async def piece(delta: dict[str, Any], end: str | None = None) -> None:
        await say([{"index": 0, "delta": delta, "finish_reason": end}])

    try:
        await piece({"role": "assistant", "content": ""})
        if "tool" in plan:
            await piece({"tool_calls": [{"index": 0, **_call(plan, call_id)}]})
            await piece({}, "tool_calls")
        else:
            for word in re.findall(r"\S+\s*", plan["text"]) or [""]:
                await piece({"content": word})
                await asyncio.sleep(plan.get("word_ms", CONTROL["word_ms"]) / 1000)
            await piece({}, "stop")
        await say([], usage=USAGE)
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
    except (ConnectionResetError, asyncio.CancelledError):
        pass  # the run was aborted
    return response


def _plan(messages: list[dict[str, Any]]) -> dict[str, Any]:
    while messages and messages[-1].get("role") == "user" and _text(messages[-1]).lstrip().startswith(INTERNAL):
        messages = messages[:-1]
    system = "\n".join(_text(message) for message in messages if message.get("role") in {"system", "developer"})
    if messages and messages[-1].get("role") == "tool":
        return {"text": "TOOLDONE " + re.sub(r"\s+", " ", _text(messages[-1]))[:160]}
    tail: list[str] = []
    for message in reversed(messages):
        if message.get("role") != "user":
            break
        tail.insert(0, _text(message))
    said = "\n".join(tail)
    for step, name in (("announce", "announce"), ("reply", "replyback")):
        if f"Agent-to-agent {step} step" in said or f"Agent-to-agent {step} step" in system:
            return {"text": CONTROL[name]}
    return _directive(said)


def _directive(said: str) -> dict[str, Any]:
    if found := re.search(r"TOOL (\w+) (\{.*\})", said, re.DOTALL):
        arguments, _ = json.JSONDecoder().raw_decode(found[2])
        return {"tool": (found[1], arguments)}
    if found := re.search(r"SLOW (\d+) (\d+)", said):
        return {"text": " ".join(f"w{n}" for n in range(int(found[1]))), "word_ms": int(found[2])}
    if found := re.search(r"SAY ([^\n]*)", said):
        return {"text": found[1].strip()}
    lines = [line for line in said.strip().splitlines() if line.strip()]
    return {"text": "echo: " + (lines[-1][:400] if lines else "")}


def _call(plan: dict[str, Any], call_id: str) -> dict[str, Any]:
    name, arguments = plan["tool"]
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(part.get("text", "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


async def _models(request: web.Request) -> web.Response:
    rows = [{"id": name, "object": "model", "created": 0, "owned_by": "fake"} for name in ("fake-1", "fake-2")]
    return web.json_response({"object": "list", "data": rows})


async def _control(request: web.Request) -> web.Response:
    CONTROL.update(await request.json())
    return web.json_response(CONTROL)


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--log", type=Path)
    given = parser.parse_args()
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/v1/chat/completions", Model(given.log).chat)
    app.router.add_get("/v1/models", _models)
    app.router.add_post("/control", _control)
    web.run_app(app, host="127.0.0.1", port=given.port, print=None)


if __name__ == "__main__":
    main()
