"""`python -m eagle3_viz`: the microscope without a browser."""

import sys

from eagle3_viz.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
