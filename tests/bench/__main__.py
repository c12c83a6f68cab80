"""`python -m tests.bench [B1 B8 …]`: measure, and print each figure beside its budget."""

import sys

from tests.bench import screen, startup, store
from tests.bench.table import Figure, print_table

BENCHES = {
    "B1": startup.measure_start,
    "B2": startup.measure_memory,
    "B8": store.measure_appends,
    "B9": screen.measure_busy_list,
    "B10": screen.measure_stream,
    "B11": screen.measure_open,
}


def main() -> None:
    """Run the benches that were named, or all."""
    wanted = sys.argv[1:] or list(BENCHES)
    unknown = [name for name in wanted if name not in BENCHES]
    if unknown:
        sys.exit(f"there is no bench {', '.join(unknown)}: use any of {', '.join(BENCHES)}")
    figures: list[Figure] = []
    for name in wanted:
        print(f"{name} …", file=sys.stderr, flush=True)
        figures += BENCHES[name]()
    print_table(figures)


if __name__ == "__main__":
    main()
