"""`sortnet completion`: shell completion of commands, options, files and runs."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import (
    BashComplete,
    FishComplete,
    ShellComplete,
    ZshComplete,
)

from cli.output import put, say, write_output

SHELLS: dict[str, type[ShellComplete]] = {
    "bash": BashComplete,
    "zsh": ZshComplete,
    "fish": FishComplete,
}


@click.command(short_help="Print or install shell completion.")
@click.argument("shell", type=click.Choice(list(SHELLS)), required=False)
@click.option(
    "--install", is_flag=True, help="Install the completion where the shell looks for it."
)
@click.pass_context
def completion(ctx: click.Context, shell: str | None, install: bool) -> None:
    """Print or install shell completion of commands, options, files and runs.

    Without an argument, the shell is taken from $SHELL. To try it in this shell only:
    eval "$(sortnet completion bash)", and for fish: sortnet completion fish | source

    \b
    Examples:
      sortnet completion --install
      sortnet completion zsh > ~/.zfunc/_sortnet
    """
    shell = shell or _shell_of_user()
    script = _script(shell, ctx.find_root().command)
    if not install:
        put(script)
        return
    path = _place(shell)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_output(str(path), lambda file: file.write(script + "\n"))
    say(f"wrote {path}")
    say(_next_step(shell, path))


def _shell_of_user() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        known = ", ".join(SHELLS)
        raise click.UsageError(f"$SHELL is {name!r}: give one of {known}")
    return name


def _script(shell: str, command: click.Command) -> str:
    asked = SHELLS[shell](command, {}, "sortnet", "_SORTNET_COMPLETE")
    # Not source(): for bash it would start a bash to check its version.
    return (asked.source_template % asked.source_vars()).strip()


def _place(shell: str) -> Path:
    """Where the shell, or its completion package, looks for a user's completions."""
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return {
        "bash": data / "bash-completion" / "completions" / "sortnet",
        "zsh": data / "zsh" / "site-functions" / "_sortnet",
        "fish": config / "fish" / "completions" / "sortnet.fish",
    }[shell]


def _next_step(shell: str, path: Path) -> str:
    return {
        "bash": "next: open a new shell (needs the package bash-completion, which most systems "
        'have;\nwithout it, add to ~/.bashrc: eval "$(sortnet completion bash)")',
        "zsh": f"next: put into ~/.zshrc, before compinit is called: fpath=({path.parent} $fpath)",
        "fish": "next: open a new shell",
    }[shell]
