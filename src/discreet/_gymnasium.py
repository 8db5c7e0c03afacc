"""Registers our environments with Gymnasium without importing it.

Gymnasium finds an environment only after somebody has registered it, and registering imports Gymnasium. Importing
`discreet` must stay cheap, so this waits until somebody else imports it.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

__all__ = ["register_when_imported"]


class _Waiter(MetaPathFinder):
    """Sees the first import of Gymnasium, registers behind it, and is gone."""

    def __init__(self) -> None:
        self._asking = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "gymnasium" or self._asking:
            return None
        self._asking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asking = False
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                execute(module)
                _register()

            loader.exec_module = exec_module
        return spec


def _register() -> None:
    from discreet.envs.registration import register

    register()


def register_when_imported() -> None:
    """Registers at once if Gymnasium is there already, else as soon as it is."""
    if sys.modules.get("gymnasium") is not None:
        _register()
    else:
        sys.meta_path.insert(0, _Waiter())
