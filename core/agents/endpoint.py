"""Talks HTTP to model endpoints: one question at a time, with retries, time limits, and one sentence for what fails.

A key is read when a request is made, goes to the configured address only (redirects are not followed), and is removed
from whatever the endpoint says about it. httpx is imported on first use, in a thread: it takes over 100 ms.
"""

import asyncio
import contextlib
import functools
import importlib
import math
import random
from collections.abc import AsyncGenerator, Generator, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast

from core.agents.anthropic import ANTHROPIC
from core.agents.openai import OPENAI
from core.agents.port import AgentFailure, Reply
from core.agents.reading import EndpointAnswer, decoded
from core.agents.wire import (
    OFF_LOOP_CHARS,
    Ask,
    BadReply,
    Dialect,
    ReplyDecoder,
    WordsDelta,
    error_words,
    items,
    load,
    words,
)
from core.clock import Clock
from core.config.settings import ModelApi, ModelSettings
from core.model import json_codec
from core.model.errors import Invalid, SwitchboardError
from core.model.json_codec import mapping

if TYPE_CHECKING:
    import ssl

    import httpx

DIALECTS: Final[Mapping[ModelApi, Dialect]] = {"openai-completions": OPENAI, "anthropic-messages": ANTHROPIC}
ATTEMPTS: Final = 4
_FIRST_PAUSE: Final = 0.5
_LONGEST_PAUSE: Final = 60.0
_QUOTED: Final = 300
_MOST_ERROR_BYTES: Final = 64 * 1024
_NEEDED_SOON: Final = ("httpx_sse", "anyio.streams.tls", "anyio.streams.stapled", "anyio.abc")
"""What httpx only loads with the first request, in the loop: 40 ms."""
_GRACE: Final = 0.25
"""Seconds for a stream to end by itself after its last event, so that the connection can be used again."""


class ModelClient:
    """The HTTP client for all model endpoints of one backend.

    `connect_timeout` is seconds to reach an endpoint, `silence_timeout` seconds without a byte from it.
    """

    def __init__(self, *, connect_timeout: float, silence_timeout: float) -> None:
        self._connect_timeout = connect_timeout
        self._silence_timeout = silence_timeout
        self._opening = asyncio.Lock()
        self._http: httpx.AsyncClient | None = None

    async def reply(self, ask: Ask, clock: Clock) -> AsyncGenerator[WordsDelta | Reply, None]:
        """Ask for a reply: yields its words as they come and then the whole reply.

        `AgentFailure` when there is none to be had; the sentence says why and what to do.
        """
        attempt, began = 0, False
        while True:
            attempt += 1
            try:
                async with contextlib.aclosing(self._reply_once(ask)) as events:
                    async for event in events:
                        began = True
                        yield event
            except _PassingFailure as failure:
                if began:
                    raise AgentFailure(str(failure)) from failure
                await _pause(failure, attempt, clock)
            else:
                return

    async def first_model(self, model: ModelSettings, clock: Clock) -> ModelSettings:
        """Return the settings with the id of the first model that the endpoint lists.

        `AgentFailure` when it lists none, or does not answer.
        """
        attempt = 0
        while True:
            attempt += 1
            try:
                return replace(model, model_id=await self._first_id(model))
            except _PassingFailure as failure:
                await _pause(failure, attempt, clock)

    async def close(self) -> None:
        """Close all connections."""
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()

    async def _reply_once(self, ask: Ask) -> AsyncGenerator[WordsDelta | Reply, None]:
        http, target = await self._client(), _target(ask.model)
        url = target.url(target.dialect.reply_path)
        body = json_codec.encode(target.dialect.body(ask)).encode()
        with self._explained(target):
            async with http.stream("POST", url, content=body, headers=target.headers()) as response:
                await _refuse_bad_status(response, target)
                async with contextlib.aclosing(read_reply(response, target.dialect.decoder())) as events:
                    async for event in events:
                        yield event

    async def _first_id(self, model: ModelSettings) -> str:
        http, target = await self._client(), _target(model)
        with self._explained(target):
            async with http.stream("GET", target.url(target.dialect.models_path), headers=target.headers()) as response:
                await _refuse_bad_status(response, target)
                listed = load(await EndpointAnswer(response).whole())
        ids = (words(mapping(entry).get("id")) for entry in items(listed.get("data")))
        found = next(filter(None, ids), "")
        if not found:
            raise target.failure("cannot be chosen: the endpoint lists no models", "load one, or name one")
        return found

    async def _client(self) -> "httpx.AsyncClient":
        async with self._opening:
            if self._http is None:
                self._http = await asyncio.to_thread(self._open)
        return self._http

    def _open(self) -> "httpx.AsyncClient":
        import httpx

        for name in _NEEDED_SOON:
            importlib.import_module(name)
        try:
            return httpx.AsyncClient(
                verify=_certificates(),
                timeout=httpx.Timeout(self._silence_timeout, connect=self._connect_timeout, pool=None),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=16),
                headers={"User-Agent": "switchboard", "Accept-Encoding": "identity"},
                follow_redirects=False,
            )
        except (ImportError, OSError, ValueError, httpx.InvalidURL) as error:
            raise AgentFailure(
                f"no model can be asked: {_plain(str(error))[:_QUOTED]} (check the proxy and certificate variables)"
            ) from error

    @contextlib.contextmanager
    def _explained(self, target: "_Target") -> Generator[None]:
        """Turn what goes wrong with a request into one sentence."""
        import httpx

        try:
            yield
        except BadReply as error:
            kind = _PassingFailure if error.passing else AgentFailure
            raise kind(target.sentence(error.words)) from None  # the cause quotes the endpoint unredacted
        except httpx.ReadTimeout as error:
            raise target.failure(f"sent nothing for {self._silence_timeout:g} s", "try again") from error
        except httpx.WriteTimeout as error:
            raise target.failure(f"did not take the request for {self._silence_timeout:g} s", "try again") from error
        except httpx.ConnectTimeout as error:
            trouble = f"cannot be reached at {target.address}: no answer for {self._connect_timeout:g} s"
            raise _PassingFailure(target.sentence(trouble), "is it running?") from error
        except (httpx.ConnectError, httpx.ProxyError) as error:
            trouble = f"cannot be reached at {target.address}: {error}"
            raise _PassingFailure(target.sentence(trouble), "is it running?") from error
        except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
            raise _PassingFailure(target.sentence(f"broke off: {error or 'the connection was lost'}")) from error
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise target.failure(f"cannot be asked at {target.address}: {error}", "check the base URL") from error


@functools.cache
def _certificates() -> "ssl.SSLContext":
    """Read the certificates to trust, once: it takes 100 ms."""
    import httpx

    return httpx.create_ssl_context()


class _PassingFailure(Exception):
    """A failure that may be over in a moment; the message is the sentence for when it is not.

    `hint` says what to do after several attempts; `retry_after` is the header of that name, empty when there is none.
    """

    def __init__(self, sentence: str, hint: str = "try again later", *, retry_after: str = "") -> None:
        super().__init__(sentence)
        self.hint = hint
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class _Target:
    """One model at its endpoint, and the key for as long as the request lasts."""

    model: ModelSettings
    dialect: Dialect
    key: str = field(repr=False)

    def url(self, path: str) -> str:
        return self.model.base_url.rstrip("/") + path

    @property
    def address(self) -> str:
        """Scheme, host and port, without what else an address may hold."""
        scheme, _, rest = self.model.base_url.partition("://")
        return f"{scheme}://{rest.partition('/')[0].rpartition('@')[2]}"

    def headers(self) -> dict[str, str]:
        return {
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
            **self.dialect.headers(self.key),
        }

    def sentence(self, what: str, hint: str = "") -> str:
        """Return what the model did as a sentence: without the key, control characters and excess."""
        if len(self.key) >= 4:  # shorter ones are placeholders for servers that want no key
            what = what.replace(self.key, "[key]")
        plain = _plain(what[: 10 * _QUOTED])
        cut = plain if len(plain) <= _QUOTED else plain[: _QUOTED - 1] + "…"
        return f"model {self.model.ref} {cut}" + (f" ({hint})" if hint else "")

    def failure(self, what: str, hint: str = "") -> AgentFailure:
        return AgentFailure(self.sentence(what, hint))

    def key_hint(self) -> str:
        """Say where to look when the key is refused."""
        secret = self.model.api_key
        if secret is None:
            return "it has no key: set apiKey of its provider, or SWITCHBOARD_MODEL_KEY"
        if secret.where == "literal":
            return "check apiKey of its provider in the configuration"
        return f"check {secret.value}" if secret.where == "env" else f"check the key file {secret.value}"


def _target(model: ModelSettings) -> _Target:
    """Read the key and return where to send it; `AgentFailure` when it is not there, or cannot stand in a header."""
    try:
        key = model.api_key.reveal().strip() if model.api_key else ""
    except SwitchboardError as error:
        raise AgentFailure(f"model {model.ref} cannot be asked: {error.message}") from error
    target = _Target(model, DIALECTS[model.api], key)
    if not (key.isascii() and key.isprintable()):
        raise target.failure("cannot be asked: its key holds characters that no key has", target.key_hint())
    return target


async def _pause(failure: _PassingFailure, attempt: int, clock: Clock) -> None:
    """Wait before the next attempt; `AgentFailure` when that was the last one."""
    if attempt == ATTEMPTS:
        raise AgentFailure(f"{failure} (tried {ATTEMPTS} times: {failure.hint})") from failure
    asked = _seconds(failure.retry_after, clock)
    backoff = _FIRST_PAUSE * 2 ** (attempt - 1) * random.uniform(1, 1.5)  # noqa: S311  spreads retries, hides nothing
    await clock.sleep(backoff if asked is None else min(asked, _LONGEST_PAUSE))


def _seconds(retry_after: str, clock: Clock) -> float | None:
    """Read a Retry-After header, seconds or an HTTP date; None when it is absent or makes no sense."""
    try:
        seconds = float(retry_after)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(retry_after).timestamp() - clock.now_ms() / 1000
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


async def _refuse_bad_status(response: "httpx.Response", target: _Target) -> None:
    """Raise what an answer without success means."""
    status = response.status_code
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        place = response.headers.get("location", "nowhere")
        raise target.failure(
            f"answered with a redirect to {place}", "redirects are not followed: set the base URL to the right address"
        )
    text = f"{status} {_error_text((await EndpointAnswer(response).read(_MOST_ERROR_BYTES))[0], status)}"
    if status in {401, 403}:
        raise target.failure(f"refused: {text}", target.key_hint())
    if status == HTTPStatus.NOT_FOUND:
        raise target.failure(f"refused: {text}", f"check the model's name and the base URL at {target.address}")
    if status == HTTPStatus.TOO_MANY_REQUESTS or status >= 500:
        what = "refused" if status == HTTPStatus.TOO_MANY_REQUESTS else "failed"
        raise _PassingFailure(target.sentence(f"{what}: {text}"), retry_after=response.headers.get("retry-after", ""))
    raise target.failure(f"refused: {text}")


def _error_text(body: str, status: int) -> str:
    """Return the words of an error's body: what JSON says, or the text; a page of HTML says nothing."""
    try:
        found = error_words(json_codec.heal(body))
    except Invalid:
        found = "" if body.lstrip().startswith("<") else body.strip()
    if found:
        return found
    return HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "without a word"


async def read_reply(response: "httpx.Response", decoder: ReplyDecoder) -> AsyncGenerator[WordsDelta | Reply, None]:
    """Read a reply, as a stream of events or as one JSON document: yields its words, then the whole.

    `BadReply` when it is neither, or incomplete.
    """
    import httpx_sse  # only when httpx, which it imports, is there

    answer = EndpointAnswer(response)
    if "text/event-stream" in response.headers.get("content-type", ""):
        source = httpx_sse.EventSource(cast("httpx.Response", answer))  # it reads nothing else of a response
        async with contextlib.aclosing(source.aiter_sse()) as events:
            async for event in events:
                for delta in await decoded(decoder, event.data):
                    yield delta
                if decoder.done:
                    break
            await _let_end(events)
    else:
        for delta in await decoded(decoder, await answer.whole()):
            yield delta
    yield await asyncio.to_thread(decoder.finish) if decoder.size > OFF_LOOP_CHARS else decoder.finish()


async def _let_end(events: AsyncGenerator[Any, None]) -> None:
    """Give a finished stream a moment to end; what it still says does not matter."""
    import httpx

    with contextlib.suppress(TimeoutError, httpx.TransportError, BadReply):
        async with asyncio.timeout(_GRACE):
            async for _ in events:
                pass


def _plain(text: str) -> str:
    """Return untrusted text as one line without control and invisible characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
