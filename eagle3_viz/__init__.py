"""A microscope for speculative decoding: the engine, its records and their analysis."""

from eagle3_viz import hub_kernels

hub_kernels.keep_unavailable()
