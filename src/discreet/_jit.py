"""How kernels are compiled: cached on disk where that is possible, uncached where it is not.

A kernel calls only kernels of its own file, because numba's cache looks no further than the file that holds the
function. Kernels of other files are passed to it as function pointers of a declared type (`numba.types.FunctionType`):
they are linked at run time, so a change of either file invalidates just that file's cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numba import njit

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["kernel"]


def kernel(signature: Any = None) -> Callable[[Callable[..., Any]], Any]:
    """Compiles a function in nopython mode: at once for ``signature``, else on the first call for its arguments."""

    def compile_(function: Callable[..., Any]) -> Any:
        try:
            return njit(signature, cache=True, error_model="numpy")(function)
        except RuntimeError as error:
            if "no locator available" not in str(error):
                raise
            return njit(signature, error_model="numpy")(function)  # no writable cache directory

    return compile_
