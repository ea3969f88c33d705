"""One thread for linear algebra on small matrices, on which more threads mostly wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run numpy's and scipy's products and factorisations in one thread; also a decorator.

    On a busy machine their threads take ten times the processor time that the work takes.

    Cost: a tenth of a millisecond.
    """
    with _libraries().limit(limits=1, user_api="blas"):
        yield


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()
