"""`switchboard follow`: the messages of a session as they come, until Ctrl+C."""

import argparse
from dataclasses import dataclass
from typing import Final

from console.cli.one_shot import OneShot
from console.cli.output import print_json, print_message, print_progress
from core.gateway import Gateway
from core.model.access import ALL
from core.model.errors import Unavailable
from core.model.events import ConnectionChanged, Gap, MessageAppended, Reloaded, SessionChanged, SessionGone
from core.model.messages import Message
from core.model.paging import forwards
from core.model.sessions import HistoryPage

PAGE: Final = 200


async def follow(shot: OneShot, options: argparse.Namespace) -> int:
    """Print what is appended to a session from now on; a reset goes on with the new transcript."""
    await shot.host.watch()
    feed = shot.gateway.subscribe()
    session = await shot.find(options.key)
    feed.watch(session.key)
    follower = _Follower(shot.gateway, session.key, session.last_seq, bool(options.json))
    print_progress(f"following {shot.shown(session.key)}; Ctrl+C ends it")
    async for event in feed:
        match event:
            case MessageAppended(_, key, _, message) if key == session.key:
                await follower.take(message)
            case SessionChanged(_, changed) if changed.key == session.key:
                await follower.catch_up(changed.last_seq)
            case Gap() | Reloaded():
                await follower.catch_up(None)
            case ConnectionChanged(connection) if connection.detail:
                print_progress(connection.detail)
            case SessionGone(_, key) if key == session.key:
                raise Unavailable(f"{shot.shown(key)} was deleted")
            case _:
                pass
    raise Unavailable("the gateway has closed")


@dataclass(slots=True)
class _Follower:
    """Prints each message of a session once, in order, whatever way it came; `last` is the `seq` of the newest."""

    gateway: Gateway
    key: str
    last: int
    as_json: bool

    async def take(self, message: Message) -> None:
        """Print a message, and before it those that are missing."""
        if message.seq > self.last + 1:
            await self.catch_up(message.seq - 1)
        if message.seq > self.last:
            self._print(message)

    async def catch_up(self, last: int | None) -> None:
        """Print what is stored and was not told of, up to a `seq`, or all of it."""
        if last is None:
            last = (await self.gateway.get_session(self.key, ALL)).last_seq

        async def read(limit: int, before: int) -> HistoryPage:
            return await self.gateway.history(self.key, ALL, limit=limit, before=before)

        async for messages, upto in forwards(read, self.last, last, PAGE):
            for message in messages:
                if message.seq > self.last:
                    self._print(message)
            self.last = max(self.last, upto)  # what a reset took away is not waited for

    def _print(self, message: Message) -> None:
        self.last = message.seq
        if self.as_json:
            print_json(message.as_json(), indent=None)
        else:
            print_message(message.as_json())
