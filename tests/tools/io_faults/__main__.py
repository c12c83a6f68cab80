"""`python -m tests.tools.io_faults [--count 2000] [--seed N]`: more failing calls than the suite tries."""

import argparse
import json
import random
import sys

from tests.tools.io_faults.trials import WAYS, run, series


def main() -> int:
    """Try what the command line asks for, and print what was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.tools.io_faults")
    parser.add_argument("--count", type=int, default=200, help="failing calls to try (default: 200)")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31), help="of the choice")
    parser.add_argument("--inside", nargs=2, type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.inside:
        print(json.dumps(series(*chosen.inside)))
        return 0
    found = run(chosen.count, chosen.seed)
    print(*found["problems"], sep="\n")
    print(f"{found['tried']} of {found['calls']} calls in {len(WAYS)} ways, seed {found['seed']}:", end=" ")
    print(f"{len(found['problems'])} problems")
    return 1 if found["problems"] else 0


if __name__ == "__main__":
    sys.exit(main())
