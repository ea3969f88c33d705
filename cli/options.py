"""Options shared by commands, and the settings of a run with the defaults of `Config`."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from sortnet.config import LARGEST_SEED, Config, Setting, parse_sizes, settings_of
from sortnet.data import default_cache_dir
from sortnet.errors import ComparatorError
from sortnet.files import refuse_output
from sortnet.history import GONE_COMMANDS, GONE_SETTINGS

if TYPE_CHECKING:
    from sortnet.preference.goal import Goal

LARGEST_TOP = 10**6

C = TypeVar("C", bound=Callable[..., Any])


class Whole(click.IntRange):
    """An integer in a range that fits into arrays and databases."""

    def __init__(self, least: int, most: int | None = None, *, largest: int = 2**31 - 1) -> None:
        super().__init__(least, most)
        self.largest = largest

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        number: int = super().convert(value, param, ctx)
        if number > self.largest:
            self.fail(f"{value} is larger than {self.largest}", param, ctx)
        return number


class Real(click.FloatRange):
    """A finite number in a range: click itself accepts NaN in every range."""

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return number


class GoalType(click.ParamType):  # type: ignore[type-arg]
    """A share of pairs that may be in the wrong order, or "top K", or "top K, W wrong"."""

    name = "goal"
    _TOP = re.compile(r"top\s*(\d{1,9})(?:\s*,?\s*(\d+)\s*wrong)?", re.IGNORECASE)

    def convert(self, value: Any, param: Any, ctx: Any) -> Goal:
        from sortnet.preference.goal import WRONG, Goal

        if isinstance(value, Goal):
            return value
        top_goal = self._TOP.fullmatch(value.strip())
        if top_goal is not None:
            top, wrong = int(top_goal[1]), top_goal[2]
            is_allowed = 0 < top <= LARGEST_TOP
            if is_allowed and wrong is None:
                return Goal(WRONG, top)
            if is_allowed and 2 * int(wrong) <= top:
                # Not 0, as a decision of 0 means the default.
                return Goal(max(int(wrong), 0.5) / top, top)
        else:
            with suppress(ValueError):
                if 0 < float(value) < 0.5:
                    return Goal(float(value))
        self.fail(
            f"{value!r} is neither a share of pairs above 0 and below 0.5 nor such as 'top 10' "
            "or 'top 10, 2 wrong'",
            param,
            ctx,
        )


SEED = Whole(0, largest=LARGEST_SEED)


def units(value: Any) -> tuple[int, ...]:
    """Sizes of layers as typed: 20 or 32,20,5."""
    try:
        return parse_sizes(str(value))
    except ComparatorError:
        fault = f"{value!r} is not a list of layer sizes such as 20 or 32,20,5"
        raise click.BadParameter(fault) from None


SETTINGS = settings_of(Config)
# Settings that are seldom changed: they have no option of their own, but `--set NAME=VALUE`.
RARE = (
    "units",
    "tau",
    "dropout",
    "max_stale",
    "loss",
    "pair_weight",
    "query_pairs",
    "keep",
    "patience",
    "optimizer",
    "schedule",
    "lr_decay",
    "lr_decay_epochs",
    "momentum",
    "precision",
)


def settings_options(command: C) -> C:
    """Add the settings of a run as options, with the defaults of `Config`."""
    # The option that is added last comes first in the help.
    for setting in reversed(SETTINGS.values()):
        if setting.name not in RARE:
            command = _setting_option(setting)(command)
    for name in (*GONE_SETTINGS, *RARE):
        if name == "patience":  # a judge has an option of this name, which refuses the setting
            continue
        command = click.option(
            f"--{name.replace('_', '-')}", hidden=True, expose_value=False, callback=_refuse_gone,
            help="It is gone.",
        )(command)  # fmt: skip
    return command


def _setting_option(setting: Setting) -> Callable[[C], C]:
    """The option of a setting."""
    value_type: Any = setting.values
    if setting.joined:
        value_type = str  # words joined by +, which the settings check
    elif setting.choices:
        value_type = click.Choice(setting.choices)
    elif not isinstance(value_type, type):
        value_type = units
    option = f"--{setting.name.replace('_', '-')}"
    return click.option(
        option, setting.name, type=value_type, default=setting.default, help=setting.help
    )


def _refuse_gone(ctx: click.Context, parameter: click.Parameter, value: str | None) -> None:
    """Refuse an option that an earlier version had, and say what to type in its place."""
    if value is not None:
        name = str(parameter.name)
        instead = GONE_SETTINGS.get(name, f"--set {name}={value}")
        raise click.UsageError(f"--{name.replace('_', '-')} is gone: {instead}")


def refuse_gone(ctx: click.Context, name: str) -> None:
    """Refuse a command that an earlier version had, and say what to type in its place."""
    *_, group = ctx.command_path.split()
    instead = GONE_COMMANDS.get(name if ctx.parent is None else f"{group} {name}")
    if instead is not None:
        raise click.UsageError(f"{name} is gone: {instead}", ctx)


def typed_settings(ctx: click.Context) -> dict[str, Any]:
    """The settings given on the command line, without defaults."""
    default = click.core.ParameterSource.DEFAULT
    return {
        name: ctx.params[name]
        for name in SETTINGS
        if name in ctx.params and ctx.get_parameter_source(name) != default
    }


def is_typed(ctx: click.Context, name: str) -> bool:
    """Whether a parameter was given on the command line, not by the environment or as default."""
    return ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE


def command_line(ctx: click.Context) -> str:
    """The command line, without passwords."""
    from store.database.engine import without_passwords

    return shlex.join(["sortnet", *map(without_passwords, ctx.find_root().obj or ())])


def _names_of(kind: str) -> Callable[..., list[CompletionItem]]:
    """Shell completion by the names of files (`file`) or folders (`dir`)."""
    return lambda ctx, param, incomplete: [CompletionItem(incomplete, type=kind)]


# Shell completion of file names; the names are not validated.
files = _names_of("file")
folders = _names_of("dir")


def output_option(*names: str, inputs: Sequence[str] = (), **options: Any) -> Callable[[C], C]:
    """An option for an output file, checked before any work is done.

    Args:
        inputs: parameters with files that the command reads: the output may be none of them.
    """
    name = click.Option(names).name or ""

    def add(command: C) -> C:
        @wraps(command)
        def checked(*args: Any, **values: Any) -> Any:
            if values[name] is not None:
                input_files: list[Any] = []
                for parameter in inputs:
                    value = values[parameter] or ()
                    input_files += [value] if isinstance(value, str) else value
                refuse_output(values[name], *input_files)
            return command(*args, **values)

        # Applied below click's own decorators, so that all add to the same command.
        return click.option(*names, shell_complete=files, metavar="FILE", **options)(checked)  # type: ignore[return-value]

    return add


# The value of `cache` is the folder of the cache, or None.
data_option = click.option(
    "--cache/--no-cache",
    default=False,
    callback=lambda ctx, parameter, cache: default_cache_dir() if cache else None,
    help="Cache the parsed data in the user's cache folder for the next read.",
)
threads_option = click.option(
    "--threads", type=Whole(1), help="Number of threads; default and maximum: all cores."
)
json_option = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON document on stdout, with all notes.",
)
store_option = click.option(
    "--store",
    metavar="URL",
    envvar="SORTNET_STORE",
    show_envvar=True,
    help="Store: a file or postgresql://...; default: sortnet.db in the user's data folder.",
)


def store_and_json(command: C) -> C:
    """Add `--store` and `--json`."""
    return store_option(json_option(command))


lease_option = click.option(
    "--lease",
    type=Real(1, 86400),
    default=600.0,
    help="Seconds for which a pair is reserved for the annotator it was shown to.",
)
