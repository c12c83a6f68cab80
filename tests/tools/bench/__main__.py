"""`python -m tests.tools.bench [B1 B8 …]`: measure, and print each figure beside its budget."""

import sys

from tests.tools.bench import gateway, growth, peers, remote, screen, startup, store, turns
from tests.tools.bench.table import Figure, print_table

BENCHES = {
    "B1": startup.measure_start,
    "B1-remote": remote.measure_start,
    "B2": startup.measure_memory,
    "B2-remote": remote.measure_memory,
    "B3": gateway.measure_start,
    "B4": gateway.measure_reads,
    "B6": gateway.measure_appends,
    "B7": turns.measure_turns,
    "B7-wire": gateway.measure_turns,
    "exchanges": turns.measure_exchanges,
    "B8": store.measure_appends,
    "B9": screen.measure_busy_list,
    "B10": screen.measure_stream,
    "B11": screen.measure_open,
    "B12": gateway.measure_followers,
    "B13": growth.measure_growth,
}
LONG = {"B13-long": growth.measure_growth_long, "peers": peers.measure_peers}
"""Those that take many minutes or other programs; only when named."""


def main() -> None:
    """Run the benches that were named, or all."""
    wanted = sys.argv[1:] or list(BENCHES)
    known = BENCHES | LONG
    unknown = [name for name in wanted if name not in known]
    if unknown:
        sys.exit(f"there is no bench {', '.join(unknown)}: use any of {', '.join(known)}")
    figures: list[Figure] = []
    for name in wanted:
        print(f"{name} …", file=sys.stderr, flush=True)
        figures += known[name]()
    print_table(figures)


if __name__ == "__main__":
    main()
