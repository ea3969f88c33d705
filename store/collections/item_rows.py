"""Read and write the items of a collection, and the pairs that annotators may be asked about."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import bindparam, func, select, update

from sortnet.core import F32, F64, I64
from sortnet.errors import DataError, StoreError
from sortnet.items import Items
from sortnet.items.update import all_grouped, columns_of, places_of, root_of
from store.collections.collection_rows import CollectionRows, with_criteria
from store.database.schema import (
    AllowedPairRow,
    CollectionRow,
    ItemRow,
    JudgementRow,
    LeaseRow,
    upsert,
)

# A statement that runs at every answer is built once, because building it takes longer than running
# it.
_LAST = select(func.max(ItemRow.number)).where(ItemRow.collection == bindparam("of"))
# Columns of a stored item that change if the item is added again.
_REPLACED_COLUMNS = ("text", "image", "audio", "features", "group_name", "context", "shown")


class ItemRows(CollectionRows):
    """Operations on the items of a collection; a criterion has the items of its collection."""

    def items(self) -> Items:
        """Read all items, in the order of their numbers."""
        query = select(ItemRow.__table__).where(ItemRow.collection == self.items_of)
        with self.transaction() as connection:
            collection = self._collection_row()
            rows = connection.execute(query.order_by(ItemRow.number)).all()
            return _items_of_rows(collection, rows)

    def allowed_pairs(self) -> I64 | None:
        """Read the pairs of items that annotators may be asked about.

        Returns an array (m, 2) of the items' numbers, the lower number first; None if annotators
        may be asked about all pairs.
        """
        query = (
            select(AllowedPairRow.low, AllowedPairRow.high)
            .where(AllowedPairRow.collection == self.items_of)
            .order_by(AllowedPairRow.low, AllowedPairRow.high)
        )
        with self.transaction() as connection:
            rows = connection.execute(query).all()
        if not rows:
            return None
        return np.array([tuple(row) for row in rows], np.int64)

    def allow_pairs(self, pairs: I64) -> None:
        """Add m pairs of items, (m, 2), that annotators may be asked about; earlier pairs stay."""
        keys = ["collection", "low", "high"]
        insert = upsert(self.database.dialect, AllowedPairRow, keys, ["collection"])
        rows = [
            {"collection": self.number, "low": low, "high": high} for low, high in pairs.tolist()
        ]
        if rows:
            with self.locked() as connection:
                connection.execute(insert, rows)

    def insert_items(self, items: Items, *, replace: bool) -> dict[str, int]:
        """Add all items, or none after an error, and return {id: number} of all stored items.

        Args:
            items: the items.
            replace: whether items whose ids are stored replace the stored items. If False, they are
                refused.

        Raises:
            StoreError: on items that do not fit to the stored items, or that are in other groups
                than a stored pair allows.
        """
        with self.locked() as connection:
            collection = self._collection_row()
            stored_ids = list(self._item_groups())
            try:
                fitted = _fit_to_stored(items, collection, stored_ids, replace=replace)
            except DataError as error:
                raise StoreError(f"collection {self.name!r}: {error}") from None
            change = update(CollectionRow).where(CollectionRow.number == self.number)
            change = change.values(
                feature_names=fitted.feature_names,
                source=items.source,
                root=collection.root if fitted.root is None else str(fitted.root),
            )
            connection.execute(change)
            self._write_items(items, fitted)
            self._check_groups(items.source)
            return fitted.number_of_id

    def _write_items(self, items: Items, fitted: _FittedItems) -> None:
        """Insert items, or replace stored items with the same numbers."""
        rows = _rows_of_items(self.number, items, fitted)
        if not rows:
            return
        replaced = list(_REPLACED_COLUMNS)
        if items.shown is None:
            # Stored items keep their shown columns if the new items have none.
            replaced.remove("shown")
        insert = upsert(self.database.dialect, ItemRow, ["collection", "number"], replaced)
        with self.locked() as connection:
            connection.execute(insert, rows)

    def _collection_row(self) -> Any:
        """Read the row of the collection that has the items."""
        query = select(CollectionRow.__table__).where(CollectionRow.number == self.items_of)
        with self.transaction() as connection:
            return connection.execute(query).one()

    def _item_groups(self) -> dict[str, str | None]:
        """Return {id: group} of all items, in the order of their numbers."""
        query = select(ItemRow.id, ItemRow.group_name).where(ItemRow.collection == self.items_of)
        with self.transaction() as connection:
            rows = connection.execute(query.order_by(ItemRow.number)).all()
        return {row.id: row.group_name for row in rows}

    def _count_items(self) -> int:
        """Count the items, which are numbered from 0; the next new item gets this number."""
        with self.transaction() as connection:
            last = connection.execute(_LAST, {"of": self.items_of}).scalar()
        return 0 if last is None else int(last) + 1

    def _check_groups(self, source: str) -> None:
        """Check the groups of all items after items were added or replaced.

        Open questions about items that are in different groups now are taken back.

        Args:
            source: the file of the items, for messages.

        Raises:
            StoreError: if only some items have a group, or if groups separate two items of a judged
                pair or of an allowed pair.
        """
        try:
            groups = all_grouped(list(self._item_groups().values()), source)
        except DataError as error:
            raise StoreError(f"collection {self.name!r}: {error}") from None
        if groups is not None:
            self._refuse_separated_pairs(source)
            self._take_back_separated_questions()

    def _refuse_separated_pairs(self, source: str) -> None:
        """Refuse groups that separate two items of a judged question or of an allowed pair."""
        is_searched = JudgementRow.collection.in_(with_criteria(self.number))
        ids, groups = zip(*self._item_groups().items(), strict=True)
        with self.locked() as connection:
            judged = connection.execute(select(JudgementRow.items).where(is_searched)).scalars()
            allowed = self.allowed_pairs()
            listed = [] if allowed is None else allowed.tolist()
            for adjective, questions in (("judged", judged), ("listed", listed)):
                for first, *others in questions:
                    for other in others:
                        if groups[first] != groups[other]:
                            pair = f"{ids[first]!r} and {ids[other]!r} are a {adjective} pair"
                            raise StoreError(
                                f"collection {self.name!r}: {source}: {pair}, "
                                "so they stay in one group"
                            )

    def _take_back_separated_questions(self) -> None:
        """Close the leases of open questions about items that are in different groups."""
        is_searched = LeaseRow.collection.in_(with_criteria(self.number)) & LeaseRow.open
        groups = [*self._item_groups().values()]
        take_back = update(LeaseRow).where(LeaseRow.number == bindparam("lease"))
        with self.locked() as connection:
            rows = connection.execute(select(LeaseRow.number, LeaseRow.items).where(is_searched))
            separated = [
                {"lease": row.number} for row in rows if len({groups[k] for k in row.items}) > 1
            ]
            if separated:
                connection.execute(take_back.values(open=False), separated)


@dataclass(frozen=True, eq=False)
class _FittedItems:
    """The numbers, features and folder of new items, fitted to the stored items of a collection.

    Attributes:
        number_of_id: {id: number} of the stored items and the new items.
        feature_names: names of the features of all items in the collection.
        features: (n_items, n_features) features of the new items, in the order of the names.
        root: the folder of all images and sounds; None: the new items have none.
    """

    number_of_id: dict[str, int]
    feature_names: list[str]
    features: F32 | F64
    root: Path | None


def _fit_to_stored(
    items: Items, collection: Any, stored_ids: list[str], *, replace: bool
) -> _FittedItems:
    """Number new items, and fit their features and their folder to the stored items.

    If all stored items are replaced, the new items may have other features and another folder.

    Args:
        items: the new items.
        collection: the row of the collection.
        stored_ids: the ids of the stored items, in the order of their numbers.
        replace: whether items whose ids are stored replace the stored items.

    Raises:
        DataError: if the new items do not fit.
    """
    number_of_id = places_of(stored_ids, items, update=replace)
    if {*stored_ids} <= {*items.ids}:
        return _FittedItems(number_of_id, list(items.feature_names), items.features, items.root)
    feature_names = collection.feature_names
    features = items.features[:, columns_of(feature_names, items)]
    stored_root = None if collection.root is None else Path(collection.root)
    return _FittedItems(number_of_id, feature_names, features, root_of(stored_root, items))


def _features_of_bytes(stored: bytes, n_features: int) -> F32 | F64:
    """Read the features of an item: little-endian float32, or float64 in twice as many bytes."""
    is_double = len(stored) == 8 * n_features
    values = np.frombuffer(stored, "<f8" if is_double and n_features else "<f4")
    features: F32 | F64 = values.astype(values.dtype.newbyteorder("="))
    return features


def _items_of_rows(collection: Any, rows: Any) -> Items:
    """Make `Items` of rows; the row of the collection has the features' names and the source."""
    shape = len(rows), len(collection.feature_names)
    no_features = np.empty(0, np.float32)
    features_of_rows = [_features_of_bytes(row.features, shape[1]) for row in rows]
    features = np.concatenate([no_features, *features_of_rows])
    contexts = tuple(row.context for row in rows)
    shown = tuple(row.shown for row in rows)
    return Items(
        ids=tuple(row.id for row in rows),
        texts=tuple(row.text for row in rows),
        images=tuple(row.image for row in rows),
        audio=tuple(row.audio for row in rows),
        features=features.reshape(shape),
        feature_names=tuple(collection.feature_names),
        root=None if collection.root is None else Path(collection.root),
        source=collection.source,
        groups=all_grouped([row.group_name for row in rows], collection.source),
        contexts=contexts if any(contexts) else None,
        shown=shown if any(shown) else None,
    )


def _rows_of_items(collection: int, items: Items, fitted: _FittedItems) -> list[dict[str, Any]]:
    """Make a table row {column: value} for each item.

    Args:
        collection: the key of the collection.
        items: the items.
        fitted: the numbers and the features to store.
    """
    no_values = (None,) * len(items)
    features = fitted.features.astype(fitted.features.dtype.newbyteorder("<"))
    columns = {
        "id": items.ids,
        "text": items.texts,
        "image": items.images,
        "audio": items.audio,
        "features": [row.tobytes() for row in np.ascontiguousarray(features)],
        "group_name": items.groups or no_values,
        "context": items.contexts or no_values,
        "shown": items.shown or no_values,
    }
    rows: list[dict[str, Any]] = []
    for values in zip(*columns.values(), strict=True):
        row = dict(zip(columns, values, strict=True))
        rows.append({"collection": collection, "number": fitted.number_of_id[row["id"]], **row})
    return rows
