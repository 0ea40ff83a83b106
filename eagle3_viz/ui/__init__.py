"""Parts of the pages that are more than layout: their state and their controls."""
