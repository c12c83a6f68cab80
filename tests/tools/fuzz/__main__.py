"""`python -m tests.tools.fuzz [--count 20000] [--seed N]`: the long form of the fuzzer."""

import argparse
import asyncio
import random
import sys
import tempfile
from pathlib import Path

from tests.tools.fuzz.fuzzer import fuzz_server


def main() -> int:
    """Run the long form."""
    parser = argparse.ArgumentParser(description="Fuzz a real server.")
    parser.add_argument("--count", type=int, default=20_000, help="requests")
    parser.add_argument("--seed", type=int, default=random.getrandbits(24), help="gives the same requests again")
    parser.add_argument("--refusals", action="store_true", help="print what was refused, and how often")
    asked = parser.parse_args()
    print(f"seed {asked.seed}")
    with tempfile.TemporaryDirectory() as folder:
        report = asyncio.run(fuzz_server(Path(folder) / "state", asked.count, asked.seed))
    if asked.refusals:
        print(*(f"{count:5} {words}" for words, count in sorted(report.refused.items())), sep="\n")
    print(*report.lines(), sep="\n")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
