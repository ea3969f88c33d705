"""The items of a collection in the database, and the pairs of them that may be asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import bindparam, func, select, update
from sqlalchemy.orm import aliased

from sortnet.core import F32, I64
from sortnet.errors import DataError, StoreError
from sortnet.items import Items
from sortnet.items.update import all_grouped, columns_of, places_of, root_of
from store.collections.collection_rows import CollectionRows, with_criteria
from store.database.schema import (
    AllowedPairRow,
    CollectionRow,
    ItemRow,
    JudgementItemRow,
    JudgementRow,
    LeaseItemRow,
    LeaseRow,
    upsert,
)

FEATURE = np.dtype("<f4")  # in the database, whatever the machine's byte order
# Statements of every answer are built once: that takes longer than to run them.
_LAST = select(func.max(ItemRow.number)).where(ItemRow.collection == bindparam("of"))
_REPLACED = ("text", "image", "audio", "features", "group_name", "context", "shown")


class ItemRows(CollectionRows):
    """The items of a collection; those of a criterion are its collection's."""

    def items(self) -> Items:
        """All items, in the order of their numbers."""
        of_collection = select(ItemRow.__table__).where(ItemRow.collection == self.items_of)
        with self.transaction() as connection:
            about = self._about()
            rows = connection.execute(of_collection.order_by(ItemRow.number)).all()
            return _items_of(about, rows)

    def allowed_pairs(self) -> I64 | None:
        """(m, 2) the only pairs that may be asked, the lower number first; None if all may."""
        pairs = select(AllowedPairRow.low, AllowedPairRow.high)
        pairs = pairs.where(AllowedPairRow.collection == self.items_of)
        with self.transaction() as connection:
            rows = connection.execute(pairs.order_by(AllowedPairRow.low, AllowedPairRow.high)).all()
            return np.array([tuple(row) for row in rows], np.int64) if rows else None

    def allow_pairs(self, pairs: I64) -> None:
        """Add pairs that may be asked; known ones stay."""
        keys = ["collection", "low", "high"]
        insert = upsert(self.database.dialect, AllowedPairRow, keys, ["collection"])
        rows = [dict(zip(keys, (self.number, *pair), strict=True)) for pair in pairs.tolist()]
        if rows:
            with self.locked() as connection:
                connection.execute(insert, rows)

    def insert_items(self, items: Items, *, replace: bool) -> None:
        """Add items, replacing known ones if `replace`, all or none."""
        with self.locked() as connection:
            about = self._about()
            stored_ids = list(self._item_groups())
            n_replaced = len({*stored_ids} & {*items.ids})
            facts = {"feature_names": list(items.feature_names), "source": items.source}
            features, root = items.features, items.root
            try:
                numbers = places_of(stored_ids, items, update=replace)
                if n_replaced < len(stored_ids):
                    features = features[:, columns_of(about.feature_names, items)]
                    facts["feature_names"] = about.feature_names
                    root = root_of(None if about.root is None else Path(about.root), items)
            except DataError as error:
                raise StoreError(f"collection {self.name!r}: {error}") from None
            facts["root"] = about.root if root is None else str(root)
            change = update(CollectionRow).where(CollectionRow.number == self.number)
            connection.execute(change.values(**facts))
            # Items of a file with none of the columns that are shown keep what they have.
            replaced = tuple(
                name for name in _REPLACED if name != "shown" or items.shown is not None
            )
            insert = upsert(self.database.dialect, ItemRow, ["collection", "number"], replaced)
            if rows := _rows(self.number, items, features, numbers):
                connection.execute(insert, rows)
            self._refuse_mixed(items.source)

    def _about(self) -> Any:
        """The row of the collection that has the items."""
        collection = select(CollectionRow.__table__).where(CollectionRow.number == self.items_of)
        with self.transaction() as connection:
            return connection.execute(collection).one()

    def _item_groups(self) -> dict[str, str | None]:
        """{id: group} of all items, in the order of their numbers, from 0."""
        items = select(ItemRow.id, ItemRow.group_name).where(ItemRow.collection == self.items_of)
        with self.transaction() as connection:
            rows = connection.execute(items.order_by(ItemRow.number)).all()
        return {row.id: row.group_name for row in rows}

    def _next_item(self) -> int:
        """The number that the next item gets: the count, as no single item is ever removed."""
        with self.transaction() as connection:
            last = connection.execute(_LAST, {"of": self.items_of}).scalar()
        return 0 if last is None else int(last) + 1

    def _refuse_mixed(self, source: str) -> None:
        """Refuse groups that divide judged or listed pairs, or that only some items have."""
        counts = select(func.count(), func.count(ItemRow.group_name))
        with self.locked() as connection:
            of_collection = counts.where(ItemRow.collection == self.number)
            n, grouped = connection.execute(of_collection).one()
            try:
                all_grouped(["", None] if 0 < grouped < n else [], source)
            except DataError as error:
                raise StoreError(f"collection {self.name!r}: {error}") from None
            if not grouped:
                return
            together = {
                _across(JudgementRow, self.number): "judged",
                _across_sets(JudgementItemRow, self.number): "judged",
                _across(AllowedPairRow, self.number): "listed",
            }
            for pairs, how in together.items():
                ids = connection.execute(pairs.limit(1)).first()
                if ids is not None:
                    fault = f"{ids[0]!r} and {ids[1]!r} are a {how} pair, so they stay in one group"
                    raise StoreError(f"collection {self.name!r}: {source}: {fault}")
            # Questions that were asked under other groups are withdrawn.
            of_pairs = _across(LeaseRow, self.number).with_only_columns(LeaseRow.number)
            for numbers in (of_pairs, _across_sets(LeaseItemRow, self.number)):
                withdrawn = update(LeaseRow).where(LeaseRow.number.in_(numbers))
                connection.execute(withdrawn.values(open=False))


def _items_of(about: Any, rows: Any) -> Items:
    """The items in the rows of a collection, whose own row is `about`."""
    joined = np.frombuffer(b"".join(row.features for row in rows), FEATURE)
    return Items(
        ids=tuple(row.id for row in rows),
        texts=tuple(row.text for row in rows),
        images=tuple(row.image for row in rows),
        audio=tuple(row.audio for row in rows),
        features=joined.reshape(len(rows), len(about.feature_names)).astype(np.float32),
        feature_names=tuple(about.feature_names),
        root=None if about.root is None else Path(about.root),
        source=about.source,
        groups=all_grouped([row.group_name for row in rows], about.source),
        contexts=tuple(row.context for row in rows) if any(row.context for row in rows) else None,
        shown=tuple(row.shown for row in rows) if any(row.shown for row in rows) else None,
    )


def _across(row: Any, collection: int) -> Any:
    """The ids of both items of the rows' pairs whose items are of two groups; also of criteria."""
    first, second = aliased(ItemRow), aliased(ItemRow)
    left, right = (row.low, row.high) if row is AllowedPairRow else (row.left, row.right)
    pairs = select(first.id, second.id).select_from(row)
    pairs = pairs.where(row.collection.in_(with_criteria(collection)))
    pairs = pairs.join(first, (first.collection == collection) & (first.number == left))
    pairs = pairs.join(second, (second.collection == collection) & (second.number == right))
    return pairs.where(first.group_name != second.group_name)


def _across_sets(row: Any, collection: int) -> Any:
    """The ids of two items of one set that are of two groups; also of criteria.

    Args:
        row: of the sets' items, those of judgements or of leases.
    """
    first, second = aliased(ItemRow), aliased(ItemRow)
    one, other = aliased(row), aliased(row)
    these = with_criteria(collection)
    if row is JudgementItemRow:
        in_collection = one.collection.in_(these)
        of_one_set = (one.collection == other.collection) & (one.number == other.number)
    else:
        leases = select(LeaseRow.number).where(LeaseRow.collection.in_(these), LeaseRow.open)
        in_collection = one.lease.in_(leases)
        of_one_set = one.lease == other.lease
    pairs = select(first.id, second.id).select_from(one).where(in_collection)
    pairs = pairs.join(other, of_one_set & (one.place < other.place))
    pairs = pairs.join(first, (first.collection == collection) & (first.number == one.item))
    pairs = pairs.join(second, (second.collection == collection) & (second.number == other.item))
    if row is LeaseItemRow:
        pairs = pairs.with_only_columns(one.lease)
    return pairs.where(first.group_name != second.group_name)


def _rows(
    collection: int, items: Items, features: F32, numbers: dict[str, int]
) -> list[dict[str, Any]]:
    """Rows of the items, by the number of each id."""
    features_of = (row.tobytes() for row in np.ascontiguousarray(features, FEATURE))
    media = items.texts, items.images, items.audio
    optional = (items.groups, items.contexts, items.shown)
    more = (values or (None,) * len(items) for values in optional)
    columns = zip(items.ids, *media, features_of, *more, strict=True)
    common = {"collection": collection}
    return [
        common | {"number": numbers[row[0]]} | dict(zip(("id", *_REPLACED), row, strict=True))
        for row in columns
    ]
