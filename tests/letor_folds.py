"""Small folds of LETOR text, in which the first feature says the grade and the second nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def write_folds(folder: Path, *, folds: int = 2, queries: int = 6, docs: int = 8) -> Path:
    """Folds whose parts rotate, as those of LETOR: no fold has a query in two parts."""
    rng = np.random.default_rng(0)
    n_parts = max(3, folds)
    parts = []
    for part in range(n_parts):
        lines = []
        for query in range(queries):
            for doc in range(docs):
                grade = int(rng.integers(0, 3))
                x = grade + rng.normal(0, 0.4)
                line = f"{grade} qid:{10 * part + query} 1:{x:.4f} 2:{rng.random():.4f}"
                lines.append(f"{line} #docid = {part}.{query}.{doc}\n")
        parts.append("".join(lines))
    for k in range(folds):
        fold = folder / f"Fold{k + 1}"
        fold.mkdir(parents=True)
        (fold / "vali.txt").write_text(parts[k])
        (fold / "test.txt").write_text(parts[(k + 1) % n_parts])
        rest = [parts[j] for j in range(n_parts) if j not in (k, (k + 1) % n_parts)]
        (fold / "train.txt").write_text("".join(rest))
    return folder
