"""Counts in sentences."""


def counted(count: int, noun: str) -> str:
    """`count` and its noun, with the plural s where it is not one."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
