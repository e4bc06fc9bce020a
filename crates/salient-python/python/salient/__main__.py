"""The command line: `python -m salient` is the program `salient`."""

from __future__ import annotations

import signal
import sys

from salient import _salient


def main() -> int:
    """Run the command line on the arguments of this process, and give its exit code."""
    # An interrupt ends the program, as it ends the binary, and does not wait until Python runs again.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _salient.command_line(["salient", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
