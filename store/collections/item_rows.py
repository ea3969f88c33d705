"""Read and write the items of a collection, and the pairs that annotators may be asked about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import bindparam, func, select, update

from sortnet.core import F32, F64, I64
from sortnet.errors import DataError, StoreError
from sortnet.items import Items
from sortnet.items.update import all_grouped, columns_of, places_of, refuse_changed, root_of
from store.collections.collection_rows import CollectionRows, with_criteria
from store.database.schema import (
    AllowedPairRow,
    CollectionRow,
    ItemRow,
    JudgementRow,
    LeaseRow,
    upsert,
)

_LAST = select(func.max(ItemRow.number)).where(ItemRow.collection == bindparam("of"))
# Columns of a stored item that change if the item is added again.
_REPLACED_COLUMNS = ("text", "image", "audio", "features", "group_name", "context", "shown")


class ItemRows(CollectionRows):
    """Operations on the items of a collection; a criterion has the items of its collection."""

    def items(self) -> Items:
        """Read all items, in the order of their numbers."""
        query = select(ItemRow.__table__).where(ItemRow.collection == self.items_of)
        with self.transaction():
            rows = self.read(query.order_by(ItemRow.number))
            return _items_of_rows(self._collection_row(), rows)

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
        rows = self.read(query)
        return np.array([tuple(row) for row in rows], np.int64) if rows else None

    def allow_pairs(self, pairs: I64) -> None:
        """Add m pairs of items, (m, 2), that annotators may be asked about; earlier pairs stay."""
        keys = ["collection", "low", "high"]
        rows = [dict(zip(keys, (self.number, *pair), strict=True)) for pair in pairs.tolist()]
        self.insert(upsert(self.database.dialect, AllowedPairRow, keys, ["collection"]), rows)

    def insert_items(self, items: Items, *, replace: bool) -> dict[str, int]:
        """Add all items, or none after an error, and return {id: number} of all stored items.

        If all stored items are replaced, the new items may have other features and another folder.

        Args:
            items: the items.
            replace: whether items whose ids are stored replace the stored items. If False, they
                must have the same content.

        Raises:
            StoreError: on items that do not fit to the stored items, or that are in other groups
                than a stored pair allows.
        """
        with self.locked():
            collection = self._collection_row()
            stored_ids = list(self._item_groups())
            feature_names = list(items.feature_names)
            features, root = items.features, items.root
            try:
                number_of_id = places_of(stored_ids, items)
                if not replace:
                    refuse_changed(self.items(), items)
                if not {*stored_ids} <= {*items.ids}:
                    feature_names = collection.feature_names
                    features = features[:, columns_of(feature_names, items)]
                    stored_root = None if collection.root is None else Path(collection.root)
                    root = root_of(stored_root, items)
                self._write_items(items, number_of_id, features)
                groups = all_grouped(list(self._item_groups().values()), items.source)
            except DataError as error:
                raise StoreError(f"collection {self.name!r}: {error}") from None
            change = update(CollectionRow).where(CollectionRow.number == self.number)
            facts = {"feature_names": feature_names, "source": items.source}
            self.write(change.values(root=str(root) if root else collection.root, **facts))
            if groups is not None:
                self._refuse_separated_pairs(items.source)
                self._take_back_separated_questions(groups)
            return number_of_id

    def _write_items(
        self, items: Items, number_of_id: Mapping[str, int], features: F32 | F64
    ) -> None:
        """Insert items, or replace stored items with the same numbers."""
        no_values = (None,) * len(items)
        little_endian = features.astype(features.dtype.newbyteorder("<"))
        columns = {
            "number": [number_of_id[id] for id in items.ids],
            "id": items.ids,
            "text": items.texts,
            "image": items.images,
            "audio": items.audio,
            "features": [row.tobytes() for row in np.ascontiguousarray(little_endian)],
            "group_name": items.groups or no_values,
            "context": items.contexts or no_values,
            "shown": items.shown or no_values,
        }
        rows = [
            {"collection": self.number, **dict(zip(columns, values, strict=True))}
            for values in zip(*columns.values(), strict=True)
        ]
        replaced = list(_REPLACED_COLUMNS)
        if items.shown is None:
            # Stored items keep their shown columns if the new items have none.
            replaced.remove("shown")
        self.insert(
            upsert(self.database.dialect, ItemRow, ["collection", "number"], replaced), rows
        )

    def _collection_row(self) -> Any:
        """Read the row of the collection that has the items."""
        query = select(CollectionRow.__table__).where(CollectionRow.number == self.items_of)
        return self.read(query)[0]

    def _item_groups(self) -> dict[str, str | None]:
        """Return {id: group} of all items, in the order of their numbers."""
        query = select(ItemRow.id, ItemRow.group_name).where(ItemRow.collection == self.items_of)
        return {row.id: row.group_name for row in self.read(query.order_by(ItemRow.number))}

    def count_items(self) -> int:
        """Count the items, which are numbered from 0; the next new item gets this number."""
        last = self.read_value(_LAST, of=self.items_of)
        return 0 if last is None else int(last) + 1

    def _refuse_separated_pairs(self, source: str) -> None:
        """Refuse groups that separate two items of a judged question or of an allowed pair.

        Args:
            source: the file of the items, for messages.

        Raises:
            StoreError: on the first such pair.
        """
        is_searched = JudgementRow.collection.in_(with_criteria(self.number))
        judged = [row.items for row in self.read(select(JudgementRow.items).where(is_searched))]
        allowed = self.allowed_pairs()
        listed = [] if allowed is None else allowed.tolist()
        ids, groups = zip(*self._item_groups().items(), strict=True)
        for adjective, questions in (("judged", judged), ("listed", listed)):
            for first, *other_items in questions:
                for other in other_items:
                    if groups[first] != groups[other]:
                        raise StoreError(
                            f"collection {self.name!r}: {source}: {ids[first]!r} and "
                            f"{ids[other]!r} are a {adjective} pair, so they stay in one group"
                        )

    def _take_back_separated_questions(self, groups: Sequence[str]) -> None:
        """Close the leases of open questions about items that are in different groups."""
        is_searched = LeaseRow.collection.in_(with_criteria(self.number)) & LeaseRow.open
        rows = self.read(select(LeaseRow.number, LeaseRow.items).where(is_searched))
        separated = [row.number for row in rows if len({groups[k] for k in row.items}) > 1]
        if separated:
            self.write(update(LeaseRow).where(LeaseRow.number.in_(separated)).values(open=False))


def _features_of_bytes(stored: bytes, n_features: int) -> F32 | F64:
    """Read the features of an item: little-endian float32, or float64 in twice as many bytes."""
    is_double = len(stored) == 8 * n_features != 0  # without features both sizes are 0
    values = np.frombuffer(stored, "<f8" if is_double else "<f4")
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
