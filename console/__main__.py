"""The command `switchboard`."""

import signal
import sys

from console.cli.parser import run


def main() -> None:
    """Run the command line and leave with its exit code."""
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # before there was anything to stop
        code = 128 + signal.SIGINT
    sys.exit(code)


if __name__ == "__main__":
    main()
