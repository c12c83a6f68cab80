"""What a dead process left behind: runs it had started end as `interrupted`, or begin again; queued ones go on; a
delivery that was under way is `unknown` (architecture#recovery)."""

from core.config.settings import Settings
from core.model.runs import Run
from core.runtime.runs.completion import end_run
from core.store import deliveries, runs
from core.store.database import Tx
from core.store.runs import End

INTERRUPTED = "The run was interrupted: switchboard stopped while it was at work. Send the message again to repeat it."
NOT_KNOWN = "switchboard stopped while it was being sent: only the channel knows whether it arrived"


def recover(tx: Tx, settings: Settings) -> list[Run]:
    """Put right what was under way, and return the runs that are queued now, in the order of their acceptance."""
    for run in runs.live(tx.db):
        if run.state == "running":
            end_run(tx, run, End("interrupted", error=INTERRUPTED, died=True), settings)
    for delivery in deliveries.in_state(tx.db, "sending"):
        deliveries.move(tx, delivery.delivery_id, "unknown", NOT_KNOWN)
    return runs.live(tx.db)
