"""What a dead process left behind: runs it had started end as `interrupted`; queued ones go on (DESIGN 5)."""

from pathlib import Path

from core.model.runs import Run
from core.runtime.ending import end_run
from core.store import runs
from core.store.database import Tx
from core.store.runs import End

INTERRUPTED = "The run was interrupted: switchboard stopped while it was at work. Send the message again to repeat it."


def recover(tx: Tx, directory: Path) -> list[Run]:
    """End the runs that were under way, and return the queued ones in the order of their acceptance."""
    left = runs.live(tx.db)
    for run in left:
        if run.state == "running":
            end_run(tx, run, End("interrupted", error=INTERRUPTED), directory)
    return [run for run in left if run.state == "queued"]
