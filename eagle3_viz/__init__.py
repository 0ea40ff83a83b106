"""A microscope for speculative decoding: the engine, its records and their analysis."""

from eagle3_viz import hub_kernels

__version__ = "0.1.0"

hub_kernels.keep_unavailable()
