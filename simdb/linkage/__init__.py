"""From pairs to entities: which items are one, given how alike they are in pairs.

Pure functions over arrays: pairs in, who belongs together out. ``assignment`` gives each item of
one side at most one of the other; ``clusters`` has the ways to make groups of what pairs connect;
``entities`` makes those of all components, and makes anew only what later pairs touch. ``weights``
has the evidence that records match, ``chosen`` what it is worth for pairs chosen one to one.

All but those two know pairs by *weights*: the more alike two items are, the higher, at most 1, and
``least`` for two that are just within the bound. Of similarities these are the similarities
themselves; a distance d of at most D weighs 1 - d / 2D, so that ``least`` is 1/2.
"""
