"""Does a piece of work in a process of its own, which ends with it, so that what the work imports takes no memory here.

For what a process that lives for days needs once. It takes as long as starting Python, but the loop is free meanwhile.
"""

import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

from core.model.errors import Unavailable

P = ParamSpec("P")
T = TypeVar("T")
_CHILD: Final = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); from core.child_process import answer; answer()"
)


def in_child_process(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what a function returns in a process of its own; blocks until then.

    Args:
        work: A function of a module, which imports late what is heavy; what it is given and returns can be pickled.

    Raises:
        Unavailable: No process can be started, or it was ended.
        Exception: What the function raised.
    """
    asked = pickle.dumps(sys.path) + pickle.dumps((work, args, kwargs))
    try:
        done = subprocess.run(  # noqa: S603 - it is this program
            [sys.executable, "-P", "-c", _CHILD],  # -P: nothing is imported from the directory one happens to be in
            input=asked,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    except OSError as error:
        raise Unavailable(f"no process can be started ({error.strerror}): try again") from None
    if not done.stdout:
        raise Unavailable("a process of this program was ended before it had answered: try again")
    answer, failure = pickle.loads(done.stdout)  # noqa: S301 - it comes from ourselves
    if failure is not None:
        raise failure
    return answer


def answer() -> None:
    """Do the work that is asked for on stdin, and answer on stdout; the other end of `in_child_process`."""
    work, args, kwargs = pickle.load(sys.stdin.buffer)  # noqa: S301 - it comes from ourselves
    told: tuple[Any, Exception | None]
    try:
        told = work(*args, **kwargs), None
    except Exception as error:  # noqa: BLE001 - it is raised where the work was asked for
        told = None, error
    pickle.dump(told, sys.stdout.buffer)
