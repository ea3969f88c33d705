"""One thread for linear algebra on small matrices, and where its last bits must not vary."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run numpy's and scipy's products and factorisations in one thread; also a decorator.

    On a busy machine their threads take ten times the processor time that the work takes, and how
    many there are changes the last bits of a result.

    Cost: a tenth of a millisecond.
    """
    with _libraries().limit(limits=1, user_api="blas"):
        yield


@cache
def _libraries() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401  # has a library of its own, which must be there to be found

    return ThreadpoolController()
