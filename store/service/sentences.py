"""Sentences about the distance of a session from its goal: page, terminal, lists and report."""

from __future__ import annotations

from math import ceil

from sortnet.files import Record, plain
from sortnet.messages import count
from sortnet.preference.stopping import ENOUGH_CHECKS, SURE, Goal, Remaining, Standing


def goal_in_words(goal: Goal) -> str:
    """Write a goal in words.

    >>> goal_in_words(Goal()), goal_in_words(Goal(0.1, top=10))
    ('at most 10% of the pairs in the wrong order', 'the top 10, at most 1 of them wrong')
    """
    if not goal.top:
        return f"at most {100 * goal.wrong:.3g}% of the pairs in the wrong order"
    return f"the top {goal.top}, at most {goal.allowed(goal.top)} of them wrong"


def expected_errors(goal: Goal, wrong: float) -> str:
    """Say which share is expected to be wrong.

    >>> expected_errors(Goal(top=10), 0.12)
    '12% of the top 10 are expected not to belong there'
    """
    if goal.top:
        return f"{wrong:.0%} of the top {goal.top} are expected not to belong there"
    return f"{wrong:.0%} of the pairs are expected to be in the wrong order"


def answers_left(remaining: Remaining) -> str:
    """Say how many answers are left, and for whom; empty if the number is not known.

    >>> answers_left(Remaining(Goal(), Standing.ASKING, 0.2, fewest=63, most=142, n_annotators=2))
    '60 to 150 left for all annotators'
    """
    if remaining.stop or not remaining.most:
        return ""
    if remaining.standing is Standing.UNCHECKED:
        return f"{_range_left(remaining)} left to check the ranking"
    return f"{_range_left(remaining)} left{_for_whom(remaining)}"


def _range_left(remaining: Remaining) -> str:
    return range_in_words(remaining.fewest, remaining.most)


def _for_whom(remaining: Remaining) -> str:
    """Say that the answers of all annotators count, if there are several."""
    return " for all annotators" if remaining.n_annotators > 1 else ""


def range_in_words(fewest: int | None, most: int | None) -> str:
    """Write a range of numbers, rounded outwards; empty if it is not known.

    >>> range_in_words(63, 142), range_in_words(7, 7), range_in_words(None, None)
    ('60 to 150', '7', '')
    """
    if fewest is None or most is None:
        return ""
    step_of_low, step_of_high = _rounding_step(fewest), _rounding_step(most)
    low = fewest // step_of_low * step_of_low
    high = ceil(most / step_of_high) * step_of_high
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _rounding_step(number: int) -> int:
    """Return the step for rounding a number: about a tenth of the number, 1 below 20."""
    if number < 20:
        return 1
    return 5 if number < 100 else int(10 ** (len(str(number)) - 2))


def why(remaining: Remaining) -> str:
    """Say how far the ranking is from its goal, how many answers it still needs, and what to do."""
    goal = remaining.goal
    match remaining.standing:
        case Standing.ALL_TOP:
            return f"all items are of the top {goal.top}"
        case Standing.REACHED:
            return f"the goal is reached, {goal_in_words(goal)}"
        case Standing.CONTRADICTED:
            kind = _kind_of_check(remaining)
            return (
                f"the goal seems to be reached, but the {kind} answers contradict the ranking: "
                "keep answering"
            )
        case Standing.UNCHECKED:
            n_checks = f"{remaining.check.n} of {ENOUGH_CHECKS} {_kind_of_check(remaining)} answers"
            left = f"{_range_left(remaining)} answers left"
            if not remaining.most:
                left = "more annotators are needed"
            return f"the goal seems to be reached, and {n_checks} are there to check it: {left}"
        case Standing.NEAR_TIES:
            return f"{_distance(remaining)}: {_near_ties(remaining)}"
        case Standing.SHORT:
            questions = count(remaining.n_free, "question")
            return f"{_distance(remaining)}: more annotators are needed, {questions} left for these"
    numbers = _range_left(remaining)
    if not numbers:
        return _distance(remaining)
    return f"{_distance(remaining)}: {numbers} answers left{_for_whom(remaining)}"


def _distance(remaining: Remaining) -> str:
    """Write the distance from the goal in a short line."""
    goal = remaining.goal
    if goal.top:
        return f"the top {goal.top} is {remaining.sure:.0%} sure, the goal is {SURE:.0%}"
    # Shares are rounded to whole per cents. A share that misses the goal by less than 1 % has a
    # decimal, so that the goal never looks reached.
    misses_narrowly = goal.wrong < remaining.wrong < goal.wrong + 0.01
    share = f"{remaining.wrong:.1%}" if misses_narrowly else f"{remaining.wrong:.0%}"
    return f"{share} of the pairs may be in the wrong order, the goal is {100 * goal.wrong:.3g}%"


def _near_ties(remaining: Remaining) -> str:
    """Say which ranks cannot be told apart, and what to do."""
    ranks = remaining.near_ties
    assert ranks is not None
    of_group = " of a group" if remaining.groups else ""
    larger_top = ", a larger top" if remaining.goal.top else ""
    return (
        f"ranks {ranks.first:,} to {ranks.last:,}{of_group} can hardly be told apart by the "
        f"questions left: allow more wrong{larger_top}, ask more annotators, or take the ranking "
        "as it is"
    )


def _kind_of_check(remaining: Remaining) -> str:
    """Name the unseen answers that check the model."""
    return "left-out" if remaining.check.left_out else "hold-out"


def model_check(remaining: Remaining) -> str:
    """Say which share of unseen answers the model predicts."""
    check = remaining.check
    kind = _kind_of_check(remaining)
    if not check.n:
        return f"no {kind} answers yet to check the ranking"
    return (
        f"the ranking predicts {check.right:.0%} of {count(check.n, f'{kind} answer')} correctly, "
        f"{check.expected:.0%} were to be expected"
    )


def details(remaining: Remaining) -> list[str]:
    """Write further sentences on the distance from the goal, the groups and the models."""
    sentences = []
    errors = expected_errors(remaining.goal, remaining.wrong)
    if remaining.standing is Standing.ALL_TOP:
        sentences.append(why(remaining))
    elif remaining.goal.top:
        allowed = remaining.goal.allowed(remaining.goal.top)
        risk = f"more than {allowed} with a probability of {1 - remaining.sure:.0%}"
        sentences.append(f"{errors}, and {risk}")
    else:
        sentences.append(errors)
    n_reached = sum(standing.stop for standing in remaining.groups)
    n_groups = len(remaining.groups)
    if n_groups and n_reached == n_groups:
        sentences.append("all groups have reached the goal")
    elif n_groups:
        sentences.append(f"{n_reached} of {n_groups} groups have reached the goal")
    if remaining.only_models:
        sentences.append(
            "only models have answered: models can be wrong together, which is not in the "
            "intervals; 30 answers of people show it"
        )
    return sentences


def sets_apart(remaining: Remaining) -> str:
    """Warn if items of the same group are not connected by answers; empty if they all are."""
    apart = remaining.apart
    if apart is None:
        return ""
    items = f"{apart.n_items:,} items"
    if remaining.groups:
        items += f" of {count(apart.n_groups, 'group')}"
    order = "their order across sets is unknown"
    if remaining.features:
        order = "features alone decide their order across sets"
    # To link the k parts of a group takes k - 1 answers.
    links = count(apart.n_parts - apart.n_groups, "answer")
    return (
        f"{items} fall into {apart.n_parts:,} sets without any answer between the sets, so "
        f"{order}: keep answering, at least {links} must link the sets, and such pairs are asked "
        "early"
    )


def remaining_facts(remaining: Remaining) -> Record:
    """Return the distance from the goal as plain values for JSON, with the sentences about it."""
    check = remaining.check
    facts: Record = plain(
        {
            "questions": remaining.questions,
            "fewest": remaining.fewest,
            "most": remaining.most,
            "wrong": remaining.wrong,
            "reached": remaining.reached,
            "stop": remaining.stop,
            "standing": remaining.standing.name.lower().replace("_", "-"),
            "holdout_n": check.n,
            "holdout_right": check.right,
            "holdout_expected": check.expected,
            "left_out": check.left_out,
            "near_ties": None if remaining.near_ties is None else remaining.near_ties._asdict(),
            "why": why(remaining),
            "range_left": _range_left(remaining),
            "details": details(remaining),
            "checked": model_check(remaining),
            "apart": sets_apart(remaining),
        }
    )
    return facts
