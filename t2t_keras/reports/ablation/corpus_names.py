"""Display names of corpora in reports."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from t2t_keras.settings.config import DataConfig

# What a run card calls every corpus that has no name of its own.
_UNNAMED = "text files"
_MOST_FILES = 4


def corpus_name(card: Mapping[str, Any], data: DataConfig) -> str:
    """Returns the name of what a run was trained on; of files, their names.

    Args:
        card: The run's card.
        data: Its settings.
    """
    name = card.get("corpus", {}).get("name", "unknown corpus")
    files = file_names([*data.train_source, *data.train_target])
    return files if name == _UNNAMED and files else name


def file_names(paths: Sequence[str]) -> str:
    """Returns names of files, not where they lie; of many, the first ones.

    >>> file_names(["/texts/train.en", "text/train.de"])
    'train.en, train.de'
    """
    names = list(dict.fromkeys(os.path.basename(path) for path in paths))
    more = len(names) - _MOST_FILES
    rest = f" and {more} more" if more > 0 else ""
    return ", ".join(names[:_MOST_FILES]) + rest
