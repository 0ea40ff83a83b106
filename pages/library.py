"""Library: the traces that ship and those saved here; add, find, open, name, export, delete."""

from __future__ import annotations

from eagle3_viz.library import place
from eagle3_viz.ui import library_entry, library_list, library_upload

library = place.shared()
listing = library.listing()
library_list.introduce(library, listing)
chosen = library_list.choose(listing.entries)
if chosen is not None:
    library_entry.draw(library, chosen)
library_upload.draw(library)
