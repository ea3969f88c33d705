"""Settings of a training as users type them: as options of `sortnet train`, and by `--set`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from cli.judges.judge_options import DETAILS
from cli.options import with_options
from sortnet.config import (
    MACHINE,
    PRESETS,
    Config,
    Setting,
    Settings,
    parse_settings,
    settings_of,
)

C = TypeVar("C", bound=Callable[..., Any])

# Settings that have an option of their own, and the metavar of the option; `--set` sets the others.
OPTIONS = {
    "quality": "MEASURE",
    "comparator": "KIND",
    "scaling": "PARTS",
    "pairs": "WHICH",
    "max_iter": "N",
    "epochs": "N",
    "seed": "N",
    "judgements": "N",
}


# The only setting about this machine, which does not change what a ranker learns.
_THREADS = Setting(
    "threads", int, None, "Number of threads. Default and maximum: all cores.", MACHINE, least=1
)


def known_settings(settings: Settings) -> dict[str, Setting]:
    """List everything that `--set` takes for a kind of ranker: {name: setting}."""
    return {**settings_of(type(settings)), "threads": _THREADS}  # type: ignore[arg-type]


def _setting_option(name: str, metavar: str) -> Callable[[C], C]:
    """Make the option of a setting, with the first sentence about it and the allowed words."""
    setting = known_settings(Config())[name]
    is_word = setting.choices and not setting.joined
    default = "" if setting.default is None else f"; default: {setting.default}"
    values = f": {setting.allowed}" if setting.choices else default
    return click.option(
        f"--{name.replace('_', '-')}",
        name,
        metavar=metavar,
        type=click.Choice(setting.choices) if is_word else str,
        help=f"{setting.help.partition('. ')[0].rstrip('.')}{values}.",
    )


setting_options = with_options(
    *(_setting_option(name, metavar) for name, metavar in OPTIONS.items()),
    click.option(
        "--set",
        "extra",
        multiple=True,
        metavar="NAME=VALUE",
        help="Any other setting, such as committee=4, threads=1, or C=0.1 of ranksvm; "
        "sortnet settings [KIND] lists all.",
    ),
)


def typed_settings(ctx: click.Context, settings: Settings) -> tuple[dict[str, Any], int | None]:
    """Parse the settings that were typed: {name: value} of the ranker, and the number of threads.

    An option takes precedence over the preset, and `--set` takes precedence over an option.

    Args:
        ctx: context of `sortnet train`.
        settings: default settings of the kind of ranker.

    Raises:
        SortNetError: if a setting does not exist, or cannot have the value.
        click.BadParameter: if a text is no `NAME=VALUE`.
    """
    texts = {name: ctx.params[name] for name in OPTIONS if ctx.params[name] is not None}
    for assignment in ctx.params["extra"]:
        name, equals, text = assignment.partition("=")
        if not equals:
            raise click.BadParameter(f"--set takes NAME=VALUE, got {assignment[:60]!r}")
        texts[name.replace("-", "_")] = text
    values = parse_settings(settings.kind, known_settings(settings), texts)
    threads = values.pop("threads", None)
    preset = ctx.params["preset"]
    return (PRESETS[preset] | values if preset else values), threads


class TrainCommand(click.Command):
    """The command `train`: its help has sections, and an unknown option gets a hint at `--set`.

    Args:
        sections: {heading of the help: parameters below it}.
        more: arguments of `click.Command`.
    """

    def __init__(self, *, sections: Mapping[str, Sequence[str]], **more: Any) -> None:
        super().__init__(**more)
        self._sections = sections

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; tell how a setting that has no option is set."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name.lstrip("-").replace("-", "_")
            if name in known_settings(Config()):
                hint = f"give --set {name}=..."
            elif name in DETAILS:
                hint = f"write {name} = ... into the FILE.toml of --judge"
            else:
                raise
            raise click.UsageError(f"No such option '{error.option_name}': {hint}", ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under their headings."""
        options = {str(option.name): option for option in self.get_params(ctx)}
        for heading, names in self._sections.items():
            records = [options[name].get_help_record(ctx) for name in names]
            with formatter.section(heading):
                formatter.write_dl([record for record in records if record is not None])
