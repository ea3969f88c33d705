"""Names of collections and annotators: readable and typeable."""

from __future__ import annotations

from sortnet.errors import StoreError

LONGEST_NAME = 200


def checked_name(what: str, name: str) -> str:
    """Return the name, if it can be read and typed.

    Raises:
        StoreError: if it is empty, too long, or has characters that cannot be printed.

    >>> checked_name("annotator", "ana")
    'ana'
    """
    if not is_name(name):
        raise StoreError(
            f"{what} {name[:40]!r}: a name has 1 to {LONGEST_NAME} printable characters, "
            "and no space at its ends"
        )
    return name


def is_name(name: str) -> bool:
    return 0 < len(name) <= LONGEST_NAME and name == name.strip() and name.isprintable()
