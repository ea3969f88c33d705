"""The ranking and the answers as files."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING

from cli.printing.item_rankings import COLUMNS, ranking_frame, ranking_json
from cli.web.page_service import PageService
from store.collections.judgement_files import ExportForm, export_judgements

if TYPE_CHECKING:
    import pandas as pd


def _ranked(pages: PageService) -> pd.DataFrame:
    """The current ranking; empty before the first fit."""
    import pandas as pd

    if not pages.service.known:
        return pd.DataFrame(columns=list(COLUMNS))
    return ranking_frame(pages.service.ranking, pages.items.ids)


def _ranking_csv(pages: PageService) -> str:
    return str(_ranked(pages).to_csv(index=False, lineterminator="\n"))


def _ranking_json(pages: PageService) -> str:
    return ranking_json(_ranked(pages))


def _judged(form: ExportForm) -> Callable[[PageService], str]:
    def write(pages: PageService) -> str:
        text = io.StringIO(newline="")
        export_judgements(pages.collection, text, form)
        return text.getvalue()

    return write


# {file: (content type, writer of its content)}
EXPORTS: dict[str, tuple[str, Callable[[PageService], str]]] = {
    "ranking.csv": ("text/csv", _ranking_csv),
    "ranking.json": ("application/json", _ranking_json),
    "judgements.csv": ("text/csv", _judged("csv")),
    "judgements.jsonl": ("application/x-ndjson", _judged("jsonl")),
}
