"""MQ2008 as in bench_mq2008, with settings tuned on each fold's validation part: `--tune`."""

from __future__ import annotations

from typing import Any

from bench_mq2008 import measured

from sortnet.experiments.tuning import tune


def run(quick: bool) -> list[dict[str, Any]]:
    grid = {"hidden": [(5,), (10,)]} if quick else None
    return measured(
        "--tune", lambda fold, config: tune(fold.train, fold.vali, config, grid=grid).config, quick
    )


def main() -> None:
    for line in run(quick=False):
        print(line)


if __name__ == "__main__":
    main()
