"""Sizes that no shape function can tell."""


def unknown_size() -> int:
    """A size that only the data tells, such as the number of nonzero elements.

    Imported, it is a size that stays unknown; as plain Python it is -1.
    """
    return -1
