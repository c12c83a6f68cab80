"""A WebSocket as a transport: TLS as the profile says, no compression, no redirects, no secrets in logs."""

import asyncio
import hashlib
import logging
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final

from core.model.errors import Invalid, Unavailable
from core.remote.profile import Profile, Tls, check_open, parse_url
from core.remote.refusal import GatewayRefused, unreachable, unusable
from core.wire.frames import CLOSE_TOO_LARGE, MAX_FRAME
from core.wire.transport import FrameTooLong, Transport

OPEN_SECONDS: Final = 10.0
CLOSE_SECONDS: Final = 1.0
_silent: Final = logging.getLogger("switchboard.remote.frames")
_silent.setLevel(logging.CRITICAL)  # at its lowest level the library writes whole frames down, tokens and all


class ClientWebSocket:
    """One open WebSocket; see `core.wire.transport.Transport`."""

    def __init__(self, connection: Any, peer: str) -> None:  # noqa: ANN401 - its module is imported when it is used
        self.peer = peer
        self.trusted = False
        self._connection = connection

    async def receive(self) -> str | None:
        from websockets.exceptions import ConnectionClosed

        try:
            frame = await self._connection.recv()
        except ConnectionClosed as end:
            if end.sent is not None and end.sent.code == CLOSE_TOO_LARGE:
                raise FrameTooLong(f"a frame is longer than {MAX_FRAME} bytes") from None
            return None
        return frame if isinstance(frame, str) else bytes(frame).decode(errors="replace")

    async def send(self, text: str) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            await self._connection.send(text)
        except ConnectionClosed:
            raise Unavailable("the connection has ended") from None

    async def close(self, code: int, reason: str) -> None:
        """End the connection, politely for a second."""
        await self._connection.close(code, reason)


def dialer(profile: Profile) -> Callable[[], Awaitable[Transport]]:
    """Return what makes connections to a gateway."""
    return partial(_dial, profile)


async def _dial(profile: Profile) -> Transport:
    """Connect.

    Raises:
        Refused: The address cannot be meant, what is there is no gateway, or its certificate is not the right one.
        OSError: Nobody is there.
    """
    try:
        check_open(profile)
    except Invalid as error:
        raise GatewayRefused(error) from None
    origin, url = parse_url(profile.url)
    where = profile.name or str(origin)
    connect, library = await asyncio.to_thread(_load)
    context = await asyncio.to_thread(tls_context, profile.tls) if origin.secure else None
    try:
        connection = await connect(
            url,
            compression=None,
            max_size=MAX_FRAME,
            ping_interval=None,  # the gateway's ticks tell whether it lives
            open_timeout=OPEN_SECONDS,
            close_timeout=CLOSE_SECONDS,
            proxy=None if origin.loopback else True,
            logger=_silent,
            ssl=context,
        )
    except ssl.SSLCertVerificationError as error:
        raise _untrusted(where, error.verify_message) from None
    except ssl.SSLError as error:
        raise unreachable(where, f"it does not speak TLS as we do ({error.reason or 'no reason given'})") from None
    except TimeoutError:
        raise unreachable(where, f"no answer within {OPEN_SECONDS:g} s") from None
    except ImportError:  # the library wants another one for it
        raise _no_proxy(where, "it is a SOCKS proxy, for which the library python-socks is missing") from None
    except library.InvalidProxy:  # its text repeats the address, with a password perhaps
        raise _no_proxy(where, "its address is malformed") from None
    except library.ProxyError:
        raise _no_proxy(where, "it does not let us through") from None
    except library.InvalidHandshake as error:
        raise _no_gateway(where, error) from None
    if profile.tls.fingerprint is not None and origin.secure:
        shown = hashlib.sha256(
            connection.transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        ).hexdigest()
        if shown != profile.tls.fingerprint.strip().lower().removeprefix("sha256:").replace(":", ""):
            connection.transport.abort()
            raise _changed(where, shown)
    return ClientWebSocket(connection, str(origin))


def _load() -> tuple[Any, Any]:
    """Import the library, which takes a moment, with redirects turned off: credentials stay where they belong."""
    from websockets import exceptions
    from websockets.asyncio.client import connect

    class Direct(connect):
        def process_redirect(self, exc: Exception) -> Exception:
            return exc

    return Direct, exceptions


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Return how certificates are checked."""
    context = ssl.create_default_context(cafile=str(tls.ca_file) if tls.ca_file else None)
    if tls.fingerprint is not None:  # the one certificate is known: names and authorities say nothing more
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _changed(where: str, shown: str) -> GatewayRefused:
    sentence = (
        f"{where} shows another certificate than the pinned one (sha256:{shown}): if it was renewed, pin the new one;"
        " if not, somebody else answers there"
    )
    return unusable(sentence, "CERTIFICATE_CHANGED")


def _untrusted(where: str, why: str) -> GatewayRefused:
    sentence = (
        f"the certificate of {where} does not verify ({why}): name its authority (caFile) or pin the certificate"
        " by its SHA-256 fingerprint in the profile"
    )
    return unusable(sentence, "CERTIFICATE_UNTRUSTED")


def _no_proxy(where: str, why: str) -> GatewayRefused:
    sentence = (
        f"{where} cannot be reached through the proxy that the environment names (wss_proxy, https_proxy, all_proxy):"
        f" {why}; mend that, or add the gateway's host to no_proxy"
    )
    return unusable(sentence, "PROXY")


def _no_gateway(where: str, error: Exception) -> GatewayRefused:
    from websockets.exceptions import InvalidStatus

    if not isinstance(error, InvalidStatus):
        return unreachable(where, "what answers there is no gateway")
    status = error.response.status_code
    if 300 <= status < 400:
        sentence = f"{where} points elsewhere (HTTP {status}), which is not followed: give the gateway's own address"
        return unusable(sentence)
    if status in {429, 502, 503, 504}:
        return unreachable(where, f"it is not ready (HTTP {status})")
    sentence = f"there is no gateway at {where}: it answers with HTTP {status}; check address and port"
    return unusable(sentence)
