"""Traces kept on disk under a name: the ones that ship with the program and those saved here."""
