"""A supervisor with a clock that is set, by the file of the data folder that its run is in. It is run as a program."""

import sys
from pathlib import Path

from fairlead.adapters.local import supervisor
from tests.faults import clocks

if __name__ == "__main__":
    clocks.shift(Path(sys.argv[1]).parent.parent / clocks.NAME)
    sys.exit(supervisor.main())
