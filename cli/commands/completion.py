"""`sortnet completion`: shell completion of commands, options, files and runs."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from cli.output import put, say, write_output

SHELLS = ("bash", "zsh", "fish")


@click.command(short_help="Print or install shell completion.")
@click.argument("shell", type=click.Choice(SHELLS), required=False)
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
    path, next_step = _place(shell)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_output(str(path), lambda file: file.write(script + "\n"))
    say(f"wrote {path}\nnext: {next_step}")


def _shell_of_user() -> str:
    name = Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise click.UsageError(f"$SHELL is {name!r}: give one of {', '.join(SHELLS)}")
    return name


def _script(shell: str, command: click.Command) -> str:
    kind = get_completion_class(shell)
    assert kind is not None, "click knows all of SHELLS"
    asked = kind(command, {}, "sortnet", "_SORTNET_COMPLETE")
    # Not source(): for bash it would start a bash to check its version.
    return (asked.source_template % asked.source_vars()).strip()


def _place(shell: str) -> tuple[Path, str]:
    """Where the shell, or its completion package, looks for completions, and the next step."""
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    if shell == "bash":
        return (
            data / "bash-completion" / "completions" / "sortnet",
            "open a new shell (needs the package bash-completion, which most systems have;\n"
            'without it, add to ~/.bashrc: eval "$(sortnet completion bash)")',
        )
    if shell == "zsh":
        folder = data / "zsh" / "site-functions"
        return (
            folder / "_sortnet",
            f"put into ~/.zshrc, before compinit is called: fpath=({folder} $fpath)",
        )
    return config / "fish" / "completions" / "sortnet.fish", "open a new shell"
