"""A microscope for speculative decoding: the engine, its records and their analysis."""
