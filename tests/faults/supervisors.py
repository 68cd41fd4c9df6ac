"""A supervisor that uses the clock file in its run's data folder. Runs as a program."""

import sys
from pathlib import Path

from fairlead.adapters.local import supervisor
from tests.faults import clocks

if __name__ == "__main__":
    clocks.use_clock_file(Path(sys.argv[1]).parent.parent / clocks.FILE_NAME)
    sys.exit(supervisor.main())
