"""The gateways that can be worked on by name: those of the configuration, and those that `switchboard connect` stored.

The stored ones are one small JSON file in the state directory, in the shape of the configuration's `gateways`, readable
by its owner alone, since it holds tokens. A name in the configuration wins over the same name there.
"""

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlsplit

from console.hosts.gateways import KeptGateway, KnownGateway
from core.config.gateways import LOCAL, is_name, shown_url, url_problem
from core.config.settings import GatewaySettings, Secret
from core.model import json_codec
from core.model.errors import Conflict, Invalid, NotFound, Unavailable
from core.model.keys import quoted

FILE_NAME: Final = "gateways.json"
TOKEN_VARIABLE: Final = "SWITCHBOARD_GATEWAY_TOKEN"  # noqa: S105 - the name of the variable, not a token
if TYPE_CHECKING:
    from core.clock import Clock


class Profiles:
    """All profiles of a configuration and a state directory; `Unavailable` names the file that cannot be read."""

    def __init__(self, configured: Mapping[str, GatewaySettings], state: Path) -> None:
        self._configured = configured
        self._path = state / FILE_NAME
        self._take(_read(self._path))

    @property
    def known(self) -> list[KnownGateway]:
        """All of them: those of the configuration in its order, then the stored ones by name."""
        return [
            *(KnownGateway(gateway, "configuration") for gateway in self._configured.values()),
            *(
                KnownGateway(gateway, "stored")
                for name, gateway in self._stored.items()
                if name not in self._configured
            ),
        ]

    @property
    def names(self) -> list[str]:
        """Their names, in the same order."""
        return [known.gateway.name for known in self.known]

    def find(self, word: str) -> GatewaySettings:
        """Return the profile that a name or an address means; an address without one gets the token of the environment.

        Raises:
            Invalid: It is neither a name nor an address.
            NotFound: No profile has the name; the sentence gives the nearest.
        """
        if "://" in word:
            return self._at(word)
        for known in self.known:
            if known.gateway.name == word:
                return known.gateway
        if not is_name(word):
            raise Invalid(f"{quoted(word)} names no gateway: give a profile's name, or an address such as wss://host")
        raise NotFound(f"no gateway is called {quoted(word)}{self._hint(word)}")

    def open(self, name: str) -> KeptGateway:
        """Begin to connect to a profile, else `SwitchboardError`; the gateway is there at once, tells its progress."""
        from core.clock import SystemClock

        return self.connect(self.find(name), SystemClock())

    def connect(self, gateway: GatewaySettings, clock: "Clock") -> KeptGateway:
        """Begin to connect to a gateway by what is known of it; `Invalid` when it is on another machine without TLS."""
        from core.remote.connect import connect
        from core.remote.profile import Profile, Tls

        token, tls = gateway.token, Tls(gateway.ca, gateway.fingerprint)
        reveal = token.reveal if token is not None else lambda: None
        profile = Profile(gateway.name, gateway.url, reveal, tls, gateway.insecure)
        return connect(profile, self._path.parent, clock)

    def name_for(self, url: str) -> str:
        """Return the name under which an address is stored when none is given: its own, or one made of its host."""
        for name, gateway in self._stored.items():
            if gateway.url == url:
                return name
        parts = urlsplit(url)
        host = _as_name(parts.hostname or "")
        return host if is_name(host) and host not in self.names else _as_name(f"{host}-{parts.port or parts.scheme}")

    def is_configured(self, gateway: GatewaySettings) -> bool:
        """Whether the configuration has this very gateway."""
        known = self._configured.get(gateway.name)
        return known is not None and known.url == gateway.url

    def store(self, gateway: GatewaySettings, token: str | None) -> None:
        """Write a gateway down, in the place of a stored one of the same name.

        Args:
            token: The token itself; the gateway's own may lie where the next command cannot read it.

        Raises:
            Conflict: The configuration has that name.
            Unavailable: The file cannot be written.
        """
        name = gateway.name
        if name in self._configured:
            raise Conflict(f"the configuration has a gateway {quoted(name)} already: change it there, or use --name")
        certificate = {
            "ca": str(gateway.ca) if gateway.ca is not None else None,
            "fingerprint": gateway.fingerprint,
            "insecure": gateway.insecure or None,
        }
        entry: dict[str, Any] = {"url": gateway.url, "token": token, "tls": _without_none(certificate) or None}
        self._write(self._entries | {name: _without_none(entry)})

    def forget(self, name: str) -> None:
        """Remove a stored profile with its token; `NotFound` says where it stands instead, or gives the nearest."""
        if name not in self._stored:
            there = f"gateway {quoted(name)} stands in the configuration: remove it there"
            none = f"no gateway is called {quoted(name)}{self._hint(name)}"
            raise NotFound(there if name in self._configured else none)
        self._write({known: entry for known, entry in self._entries.items() if known != name})

    def _at(self, url: str) -> GatewaySettings:
        if problem := url_problem(url):
            raise Invalid(f"{quoted(shown_url(url))} cannot be a gateway's address: {problem}")
        url = url.rstrip("/")
        for known in self.known:
            if known.gateway.url == url:
                return known.gateway
        given = os.environ.get(TOKEN_VARIABLE, "").strip()
        token = Secret("env", TOKEN_VARIABLE, "the gateway's token") if given else None
        return GatewaySettings(self.name_for(url), url, token)

    def _hint(self, name: str) -> str:
        known = [*self.names, LOCAL]
        near = difflib.get_close_matches(name, known, 1, 0.6)
        if near:
            return f"; did you mean {quoted(near[0])}?"
        first = "`switchboard connect URL` stores one"
        return f": use one of {', '.join(known)}, or an address; {first}"

    def _write(self, entries: dict[str, dict[str, Any]]) -> None:
        from core.files import write_secret

        write_secret(self._path, json_codec.encode_indented(dict(sorted(entries.items()))))
        self._take(entries)

    def _take(self, entries: dict[str, dict[str, Any]]) -> None:
        self._entries = entries
        self._stored = {name: _settings(name, entry, self._path) for name, entry in sorted(entries.items())}


def split_names(text: str) -> tuple[str, ...]:
    """Return the names and addresses of a `--gateway`, each once, in their order."""
    return tuple(dict.fromkeys(word.strip() for word in text.split(",")))


def _as_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:40] or "gateway"


def _without_none(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if value is not None}


def _read(path: Path) -> dict[str, dict[str, Any]]:
    from core.files import read_secret

    text = read_secret(path)
    try:
        data: object = json_codec.decode(text) if text is not None else {}
    except Invalid as error:
        raise _damaged(path, error.message) from None
    entries = cast("dict[str, object]", data) if isinstance(data, dict) else {"": data}
    if not all(is_name(name) and isinstance(entry, dict) for name, entry in entries.items()):
        raise _damaged(path)
    return cast("dict[str, dict[str, Any]]", entries)


def _settings(name: str, entry: dict[str, Any], path: Path) -> GatewaySettings:
    """Read one stored gateway by the rules of the configuration."""
    from pydantic import ValidationError

    from core.config.build import Misfit, gateway
    from core.config.schema import GatewaySection

    try:
        return gateway(name, GatewaySection.model_validate(entry), [])
    except (ValidationError, Misfit):
        raise _damaged(path) from None


def _damaged(path: Path, why: str = "") -> Unavailable:
    reason = f" ({why})" if why else ""
    advice = "mend the file, or move it away and connect again"
    return Unavailable(f"the stored gateways {path} are damaged{reason}: {advice}")
