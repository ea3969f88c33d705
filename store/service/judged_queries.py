"""Make queries, or a file, from the judgements of a collection and its annotators' weights."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO, Any, NamedTuple

import numpy as np

from sortnet.core import Progress, Queries
from sortnet.data.divide import hold_out_documents
from sortnet.errors import DataError
from sortnet.items import Describer, Items
from sortnet.preference.comparisons import Comparisons
from store.collections.collection import Collection
from store.collections.judgement_files import FORMS_OF_PAIRS, ExportForm, export_judgements
from store.service.labelling import new_session

PREFIX = "collection:"
_SOURCE = re.compile(rf"{PREFIX}(?P<name>.+?)(?:#(?P<events>[0-9]+))?", re.DOTALL)


@dataclass(frozen=True)
class Source:
    """The source of a run's training data: a collection, and the number of its last judgement used.

    Attributes:
        name: name of the collection.
        events: the number of the last judgement that counts; None: all judgements count.

    >>> str(Source("essays", 120)), Source.parse("collection:essays#120")
    ('collection:essays#120', Source(name='essays', events=120))
    """

    name: str
    events: int | None = None

    def __str__(self) -> str:
        if self.events is None:
            return f"{PREFIX}{self.name}"
        return f"{PREFIX}{self.name}#{self.events}"

    @classmethod
    def parse(cls, text: str) -> Source | None:
        """Read a text such as `collection:essays#120`; None if the text names a file."""
        match = _SOURCE.fullmatch(text)
        if match is None:
            return None
        if match["events"] is None:
            return cls(match["name"])
        return cls(match["name"], int(match["events"]))


class JudgedData(NamedTuple):
    """The training and the validation part of a collection's judgements.

    Attributes:
        train: the training part.
        vali: the validation part.
        facts: a hash of the items and of the answers that count. Computed weights and features are
            left out of the hash, because their last bits depend on the threads and the machine.
    """

    train: Queries
    vali: Queries
    facts: str

    def fingerprint(self, part: Queries) -> str:
        """Hash a part of the data, so that a resumed run notices if its data has changed."""
        return _hash(self.facts, part.offsets, part.rows)


def read_judged(
    collection: Collection,
    events: int | None = None,
    *,
    seed: int = 0,
    as_before: Mapping[str, Sequence[str]] | None = None,
    describer: Describer | None = None,
    progress: Progress = lambda text: None,
) -> JudgedData:
    """Read the judgements of a collection as queries, in a training and a validation part.

    Each group of items becomes a query. The weight of a judgement is the reliability of its
    annotator; the answers of an annotator who mostly says the opposite are reversed. The
    comparisons from an answer about more than two items weigh less than the same number of answers
    about pairs, because they all follow from one answer.

    Args:
        events: number of the last judgement that counts; None: all judgements count.
        seed: decides which documents are held out.
        as_before: names of the queries or documents that an earlier run held out; None: they are
            drawn.
        describer: computes the features as for an earlier model; None: a new describer is fitted.

    Raises:
        DataError: if there are no judgements, no features, or too few judgements for two parts.

    Cost: a replay of the judgements, and one fit of the annotators' reliability.
    """
    progress(f"reading collection {collection.name}")
    with collection.transaction():
        stored_items = collection.items()
        judgements = collection.judgements()
        if events is not None:
            judgements = judgements.where(judgements.number <= events)
        session = new_session(collection, stored_items)
    session.replay(judgements)
    progress("weighing the annotators")
    votes, weights = session.weighted()
    if describer is None:
        columns = collection.settings.get("columns")
        n_items = len(stored_items)
        margin = votes.weight * (2 * votes.target - 1)
        won = np.bincount(votes.left, margin, n_items).astype(np.float64)
        net_wins = won - np.bincount(votes.right, margin, n_items)
        describer, items = Describer.fit_apply(
            stored_items,
            columns=columns,
            deviations=net_wins,
            progress=progress,
        )
    else:
        items = describer.apply(stored_items, progress=progress)
    last_number = judgements[-1].number if len(judgements) else 0
    source = Source(collection.name, last_number)
    if not items.feature_names:
        raise DataError(
            f"{source.name}: the items have no features to learn from: sortnet items add --update "
            "--describe computes some of texts and images"
        )
    dates = (collection.settings.get("columns") or {}).get("dates") or ()
    queries = replace(_queries(items, votes, weights, source, dates), describer=describer)
    train, vali = hold_out_documents(queries, seed=seed, as_before=as_before)
    return JudgedData(train, vali, _hash_facts(stored_items, votes))


def annotator_weights(collection: Collection) -> dict[str, float]:
    """Return {annotator: weight of the annotator's answers}; the average weight is 1.

    A weight is negative if the annotator mostly says the opposite. Excluded annotators, and
    annotators who never said which item is better, are left out.
    """
    with collection.transaction():
        session = new_session(collection, collection.items())
        session.replay(collection.judgements())
    _, weights = session.weighted()
    return weights


def write_judgements(
    collection: Collection,
    file: IO[str],
    form: ExportForm,
    *,
    prompt: str = "",
    for_spreadsheets: bool = True,
) -> int:
    """Write the judgements of a collection to a file.

    Args:
        form: name of the format; formats in `FORMS_OF_PAIRS` weigh each pair by the annotators'
            reliability, which takes a fit.
        prompt: the prompt of every record in formats for preference tuning. If empty, the context
            or the name of the items' group.
        for_spreadsheets: whether texts of `csv` that a spreadsheet would run as formulas get an
            apostrophe.

    Returns:
        The number of judgements, or of pairs, that were written.
    """
    with collection.transaction():  # the weights are of the judgements that are written
        weights = annotator_weights(collection) if form in FORMS_OF_PAIRS else None
        return export_judgements(
            collection,
            file,
            form,
            prompt=prompt,
            weights=weights,
            for_spreadsheets=for_spreadsheets,
        )


def _hash_facts(items: Items, votes: Comparisons) -> str:
    """Hash the stored items, and the votes of the annotators who are not excluded."""
    columns = [items.ids, items.groups, items.texts, items.images, items.feature_names]
    answers = [votes.left, votes.right, votes.target, votes.annotator, votes.weight]
    return _hash(*columns, items.features, *answers)


def _hash(*values: Any) -> str:
    """Hash arrays by their bytes, and other values by their `repr`, in hexadecimal."""
    digest = hashlib.sha256()
    for value in values:
        if isinstance(value, np.ndarray):
            digest.update(np.ascontiguousarray(value).tobytes())
        else:
            digest.update(f"{value!r};".encode())
    return digest.hexdigest()


def _queries(
    items: Items,
    votes: Comparisons,
    weights: Mapping[str, float],
    source: Source,
    dates: Sequence[str],
) -> Queries:
    """Make queries with the items as documents, and the weighted votes as soft judgements.

    A soft judgement is the probability that the left document is better.

    Args:
        weights: {annotator: weight of the annotator's answers}, in the order in which
            `votes.annotator` numbers the annotators.
        source: the source of the queries, for messages.
        dates: the names of the features that are dates.

    Raises:
        DataError: if there are no votes.
    """
    if not len(votes):
        raise DataError(
            f"{source.name}: nobody has said yet which of two items is better, excluded annotators "
            f"aside: sortnet label {shlex.quote(source.name)}"
        )
    queries = Queries.from_arrays(
        items.features,
        qid=items.groups,
        docids=items.ids,
        feature_names=items.feature_names,
        source=str(source),
        dates=dates,
    )
    # The weight of each vote's annotator; it is negative if the annotator mostly says the opposite.
    signed_weight = np.array([*weights.values()])[votes.annotator]
    target = np.where(signed_weight < 0, 1 - votes.target, votes.target)
    weight = np.abs(signed_weight) * votes.weight
    return queries.with_judgements(votes.left, votes.right, soft=target, weight=weight)
