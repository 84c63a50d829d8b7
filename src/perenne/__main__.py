"""`python -m perenne`: the command line, for where the script is not on the PATH."""

from __future__ import annotations

import sys

from perenne.surfaces.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
