"""Prices of language models, from arguments or from a table that the user keeps."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sortnet.errors import SortNetError
from sortnet.files import refuse_irregular, shown, user_folder
from sortnet.judges.limits import check_number

LONGEST_CURRENCY = 10  # characters
_LARGEST_FILE = 1 << 20  # bytes
_KEYS_OF_MODEL = ("in", "out", "batch", "currency")
_KEYS_OF_TABLE = ("currency", "models")


@dataclass(frozen=True)
class Price:
    """Price of the tokens of a model: two numbers, or the table in which they are looked up.

    Attributes:
        price_in: price of a million tokens of prompts; None: not known.
        price_out: price of a million tokens of answers; None: not known.
        currency: currency of the price; None: not known, or as the table says.
        table: file of prices in TOML or JSON, which is read if neither price is known. If None, it
            is the user's own table, `~/.config/sortnet/prices.toml`, if this file exists.
        batch: share of the price that is paid in a batch, such as 0.5.

    Raises:
        SortNetError: on a number out of range, or a currency that cannot be a name.

    >>> Price(2.0, 8.0, currency="EUR").of(1_000_000, 500_000)
    6.0
    >>> Price().of(10, 10) is None
    True
    """

    price_in: float | None = None
    price_out: float | None = None
    currency: str | None = None
    table: str | None = None
    batch: float = 1.0

    def __post_init__(self) -> None:
        check_number("price_in", self.price_in)
        check_number("price_out", self.price_out)
        check_currency(self.currency)

    @property
    def is_known(self) -> bool:
        """Whether the price of prompts or of answers is known."""
        return self.price_in is not None or self.price_out is not None

    def of(self, tokens_in: int, tokens_out: int) -> float | None:
        """Return the cost of tokens of prompts and of answers; None if no price is known."""
        if not self.is_known:
            return None
        return (tokens_in * (self.price_in or 0) + tokens_out * (self.price_out or 0)) / 1e6

    def looked_up(self, model: str) -> Price:
        """Return this price if it is known, else the price of the model in the table.

        Raises:
            SortNetError: if the table cannot be used, or its prices have another currency than this
                price.
        """
        if self.is_known:
            return self
        price = price_in_table(model, self.table)
        if price is None:
            return self
        if price.currency is None:
            return replace(price, currency=self.currency)
        if self.currency not in (None, price.currency):
            table = self.table or default_prices_file()
            raise SortNetError(f"{table}: prices are in {price.currency}, not in {self.currency}")
        return price

    def in_batch(self) -> Price:
        """Return the reduced price in a batch: `price_in` and `price_out`, times `batch`."""
        if not self.is_known:
            return self
        return Price(
            (self.price_in or 0) * self.batch,
            (self.price_out or 0) * self.batch,
            currency=self.currency,
        )


def amount(cost: float, currency: str | None) -> str:
    """Format a cost with its currency, without an exponent.

    >>> amount(0.01234567, "EUR"), amount(2.0, None)
    ('0.01235 EUR', '2')
    >>> amount(7.305e-05, "EUR"), amount(123456.789, None)
    ('0.000073 EUR', '123,456.79')
    """
    if cost >= 1000:
        number = f"{cost:,.2f}"
    elif 0 < cost < 1e-4:
        number = np.format_float_positional(cost, precision=2, fractional=False, trim="-")
    else:
        number = f"{cost:.4g}"
    return f"{number} {currency}" if currency else number


def default_prices_file() -> Path:
    """Return the path of the user's own table, `~/.config/sortnet/prices.toml` by default.

    `$XDG_CONFIG_HOME` replaces `~/.config`.
    """
    folder = user_folder("XDG_CONFIG_HOME", ".config") or Path("~/.config")
    return folder / "sortnet" / "prices.toml"


def price_in_table(model: str, file: str | None = None) -> Price | None:
    """Look up the price of a model; None if the user's own table does not have the model.

    Args:
        file: table in TOML or JSON; None: the user's own table, which may be missing.

    Raises:
        SortNetError: if the file cannot be read or is no table of prices, or if a file was named
            and does not have the model.
    """
    path = default_prices_file() if file is None else Path(file)
    if file is None and not path.is_file():
        return None
    table = _table(path)
    models = table.get("models", {})
    if model in models:
        return _price(models[model], table.get("currency"), f"{path}: models, {shown(model)}")
    if file is None:
        return None
    names = ", ".join(map(shown, [*models][:10])) or "none"
    raise SortNetError(f"{path}: has no price of the model {shown(model)}; it has {names}")


def check_currency(currency: object, place: str = "currency") -> None:
    """Raise SortNetError unless a value is None or can be the name of a currency.

    Args:
        currency: the value.
        place: name of the argument, or file and key of the value, with which the message begins.

    Raises:
        SortNetError: if the value can be no currency.

    >>> check_currency("EUR")
    """
    if currency is None:
        return
    is_text = isinstance(currency, str) and currency.isprintable()
    if is_text and 0 < len(str(currency)) <= LONGEST_CURRENCY:
        return
    raise SortNetError(f"{place}: {shown(currency)} is no currency such as EUR")


def _table(path: Path) -> dict[str, Any]:
    """Read a table of prices, and check its keys and its currency, but not its prices.

    Raises:
        SortNetError: if the file cannot be read or is no table of prices.
    """
    is_json = path.suffix.lower() == ".json"
    try:
        refuse_irregular(path, most=_LARGEST_FILE, error=SortNetError)
        text = path.read_text("utf-8")
        table = json.loads(text) if is_json else tomllib.loads(text)
    except OSError as error:
        raise SortNetError(f"prices {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        kind = "JSON" if is_json else "TOML"
        raise SortNetError(f"prices {path}: is no {kind}: {error}") from None
    if not isinstance(table, dict) or not isinstance(table.get("models", {}), dict):
        raise SortNetError(f"prices {path}: has no table `models`")
    _refuse_unknown(table, _KEYS_OF_TABLE, f"prices {path}")
    check_currency(table.get("currency"), f"prices {path}: currency")
    return table


def _price(entry: object, currency: str | None, place: str) -> Price:
    """Read the price of a model from the entry of the model in a table.

    Args:
        entry: the entry, a dict with `in`, `out` or both.
        currency: currency of the whole table, which a currency of the entry replaces.
        place: file and key of the entry, with which a message begins.

    Raises:
        SortNetError: if the entry has no valid price.
    """
    if not isinstance(entry, Mapping):
        raise SortNetError(f"{place}: give `in` and `out`, prices of a million tokens")
    _refuse_unknown(entry, _KEYS_OF_MODEL, place)
    check_currency(entry.get("currency"), f"{place}: currency")
    for name in ("in", "out", "batch"):
        if not _is_none_or_price(entry.get(name)):
            raise SortNetError(f"{place}: {name} is {shown(entry[name])}, no number from 0")
    if entry.get("in") is None and entry.get("out") is None:
        raise SortNetError(f"{place}: give `in` and `out`, prices of a million tokens")
    return Price(
        price_in=entry.get("in"),
        price_out=entry.get("out"),
        currency=entry.get("currency", currency),
        batch=entry.get("batch", 1.0),
    )


def _is_none_or_price(value: Any) -> bool:
    """Whether a value is None, or a finite number from 0."""
    if value is None:
        return True
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value < math.inf


def _refuse_unknown(table: Mapping[str, Any], names: tuple[str, ...], place: str) -> None:
    """Raise SortNetError if a table has a key that is none of `names`."""
    for name in table:
        if name not in names:
            raise SortNetError(f"{place}: unknown {shown(name)}; known are {', '.join(names)}")
