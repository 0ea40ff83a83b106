"""Losslessness on a real pair: a sampling test and a greedy comparison (MATH.md 5.2, 5.3)."""
