"""Reading what people type: the tables of options as flags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from discreet.registry.options import Option

__all__ = ["Asking", "given", "noise_options", "run_options"]


class _WholeOrText(click.ParamType):  # type: ignore[type-arg, unused-ignore]
    name = "integer|text"

    def convert(self, value: Any, _parameter: click.Parameter | None, _context: click.Context | None) -> int | str:
        from discreet.envs.text import scalar

        read = scalar(value) if isinstance(value, str) else value
        return read if isinstance(read, (int, str)) else str(value)


def _flag(option: Option) -> click.Option:
    """Returns an option of a table as the command line has it; None if nobody gives it."""
    names = [option.flag, *([option.short] if option.short else [])]
    shown = option.unset or _shown(option.default)
    told = f"{option.help}  [default: {shown}]" if shown else option.help
    if option.types == (bool,):
        both = f"{option.flag}/--no-{option.flag.removeprefix('--')}"
        return click.Option([both if option.default else option.flag], is_flag=True, default=None, help=told)
    kinds: dict[tuple[type, ...], Any] = {(float,): float, (int,): int, (str,): str}
    return click.Option(names, type=kinds.get(option.types, _WholeOrText()), help=told)


def _shown(default: object) -> str:
    if default is None or default is False:
        return ""
    return "on" if default is True else f"{default:g}" if isinstance(default, float) else str(default)


class Asking(click.Command):
    """A command that also takes the options of a table.

    The table is read when the command is used or looked at: the start stays cheap, and what other packages have
    registered by then is there.
    """

    def __init__(self, *arguments: Any, asks: Callable[[], Iterable[Option]], **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self._asks = asks

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Returns all parameters: what it is about, then the table, then what else there is."""
        own = super().get_params(ctx)
        first = sum(isinstance(each, click.Argument) or each.name in ("agent", "trust") for each in own)
        asked = ctx.meta.setdefault(f"discreet.options.{self.name}", [])  # read once a call: it is asked for twice
        if not asked:
            asked += map(_flag, self._asks())
        return [*own[:first], *asked, *own[first:]]


def run_options() -> Iterable[Option]:
    """Returns all that trust models and agents take."""
    from discreet import agents
    from discreet.privacy.trust import options
    from discreet.registry.options import union

    return union([options(), agents.table()]).values()


def noise_options() -> Iterable[Option]:
    """Returns all that noise depends on."""
    from discreet import agents
    from discreet.privacy.trust import options
    from discreet.registry.options import union

    needed = {name: option for name, option in agents.table().items() if option.noise}
    return union([options(), needed]).values()


def given(options: dict[str, Any]) -> dict[str, Any]:
    """Returns what was really said."""
    return {key: value for key, value in options.items() if value is not None}
