"""How long OpenMP's threads spin for work before they sleep.

A forward is hundreds of short parallel sections. Threads that sleep between them make a cycle half
as long again; threads that spin until work comes block each other for whole time slices as soon as
a browser or another process wants a core: measured on two cores, a cycle of 27 ms takes 600.
Threads that spin briefly cost a twentieth on a quiet machine and take 65 ms on a busy one.
"""

from __future__ import annotations

import os

SPINS = "2000"


def spin_briefly() -> None:
    """Set it for this process, where the user has not; before torch is imported."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
