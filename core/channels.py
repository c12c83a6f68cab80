"""What a channel is: a way out of the gateway, to people who are not at the console (architecture#exchanges)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class OutgoingText:
    """One text for one address.

    Attributes:
        delivery_id: The same at every attempt, for channels that can tell a repetition.
        to: The address on the channel; empty for its only one.
    """

    delivery_id: str
    to: str
    account_id: str | None
    text: str


class ChannelBusy(Exception):
    """The channel provably did nothing: it refused the connection, or said that it is too busy.

    Attributes:
        retry_after: Seconds it asked to wait, None when it did not say.
    """

    def __init__(self, sentence: str, retry_after: float | None = None) -> None:
        super().__init__(sentence)
        self.retry_after = retry_after


class Rejected(Exception):
    """The channel will not take this text, now or later; the message says why."""


class Channel(Protocol):
    """A configured channel."""

    async def deliver(self, outgoing: OutgoingText) -> None:
        """Hand a text over; when this returns, the channel has it.

        Raises:
            NotTaken: It provably did nothing; it may be tried again.
            Rejected: It refuses the text for good.
            Exception: Anything else: nobody knows whether it has it.
        """
        ...


Channels = Mapping[str, Channel]
"""The configured channels by name; `webchat` is not among them: there the transcript is the channel."""
