"""Measurements of the engine and of the pages, and what comes out of them."""
