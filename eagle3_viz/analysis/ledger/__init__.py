"""One run in the words and formulas of other projects."""
