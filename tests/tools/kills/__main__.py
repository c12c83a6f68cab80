"""`python -m tests.tools.kills [--count 143] [--seconds N] [--seed N]`: the long form of the killing."""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.tools.kills.campaign import IDLE, PHASES, campaign


def main() -> int:
    """Run the long form from the command line."""
    parser = argparse.ArgumentParser(description="Kill a working runtime and look what is lost.")
    parser.add_argument("--count", type=int, default=20, help="kills of each phase, at least")
    parser.add_argument("--seconds", type=float, default=3600, help="stop after that long")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 100_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        report = campaign(Path(name), arguments.count, seed=arguments.seed, seconds=arguments.seconds, echo=True)
    print(f"\nseed {arguments.seed}\n{'phase':<28} kills")
    for phase in (*PHASES, IDLE):
        print(f"{phase:<28} {report.kills[phase]:>5}")
    print(f"{'all':<28} {report.kills.total():>5}\n")
    for what, number in sorted(report.counted.items()):
        print(f"{what:<28} {number:>5}")
    print(f"problems {len(report.problems)}", *report.problems[:20], sep="\n  ")
    return 1 if report.problems or any(report.kills[phase] < arguments.count for phase in PHASES) else 0


if __name__ == "__main__":
    sys.exit(main())
