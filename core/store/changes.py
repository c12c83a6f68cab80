"""Everything durable that changed after a place in the order of changes, as the events that tell of it."""

from collections.abc import Collection

from core.model.events import Cursor, DeliveryChanged, DurableEvent, ExchangeChanged, RunChanged, SessionChanged
from core.store import deliveries, exchanges, gone, messages, runs, sessions
from core.store.database import Db


def since(db: Db, cursor: Cursor, watched: Collection[str] | None) -> list[DurableEvent]:
    """Return the changes after a cursor, in their order, as they stand at one moment.

    Messages are those of the sessions whose keys are `watched`; None for those of all.
    """
    with db:
        db.execute("BEGIN")
        events: list[DurableEvent] = [SessionChanged(s.rev, s) for s in sessions.changed_since(db, cursor)]
        events += [RunChanged(run.rev, run) for run in runs.changed_since(db, cursor)]
        events += [ExchangeChanged(each.rev, each) for each in exchanges.changed_since(db, cursor)]
        events += [DeliveryChanged(each.rev, each) for each in deliveries.changed_since(db, cursor)]
        events += gone.since(db, cursor)
        for key in sessions.keys_touched_since(db, cursor) if watched is None else watched:
            events += messages.since(db, key, cursor)
        return sorted(events, key=lambda event: event.rev)
