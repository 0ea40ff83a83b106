"""The default draft tree: the one that measured costs and known acceptance make fastest."""
