"""`python -m eagle3_viz`: the microscope without a browser."""

import sys

from eagle3_viz.cli.main import main
from eagle3_viz.spinning import spin_briefly

if __name__ == "__main__":
    spin_briefly()
    sys.exit(main())
