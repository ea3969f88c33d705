"""Result of `sortnet show`: the model in a folder."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from cli.printing.results import Result, Step
from cli.printing.runs import scaling_lines
from sortnet.messages import printable
from store.report.kept_models import kept_model
from store.report.origins import from_which


def model_result(facts: dict[str, Any], notes: Sequence[str] = ()) -> Result:
    """Make the result with a line for each fact about a model.

    The next step is to evaluate the model.

    Args:
        facts: the facts, as `store.report.run_facts.model_facts` returns them.
        notes: sentences that are printed on stderr.
    """
    from sortnet.tables.rows import listed

    value = {name: fact for name, fact in facts.items() if name != "features"}
    folder = facts["model"]
    config = facts["config"]
    info = facts["info"]  # the facts that training has stored in the folder
    step = Step(shlex.join(["sortnet", "evaluate", folder, "TEST"]), is_in_text=True)
    lines = [f"model    {folder}, a ranker of kind {facts['kind']}"]
    if "run" in info:
        lines.append(f"run      {info['run']}")
    if info.get("from"):
        lines.append(f"from     {from_which(info['from'])}")
    if "kept" in info:
        lines.append(f"kept     {kept_model(info['kept'])}")
    elif "quality" in info:
        lines.append(f"quality  {config['quality']} {float(info['quality']):.4f} on validation")
    names = listed(map(printable, facts["features"] or ()))
    lines.append(f"features {facts['n_features']}: {names}")
    lines += [*scaling_lines(config), f"next     {step.command}"]
    return Result("model", value, text=lines, notes=notes, next=step)
