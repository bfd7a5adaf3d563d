"""The formats that can be imported."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from t2t_keras.errors import UserError, did_you_mean
from t2t_keras.interop.ctranslate2_model import read_ctranslate2
from t2t_keras.interop.imported_model import ImportedModel
from t2t_keras.interop.marian import read_marian
from t2t_keras.interop.transformers_marian import read_transformers

READERS: Mapping[str, Callable[[Path], ImportedModel]] = MappingProxyType(
    {
        "marian": read_marian,
        "transformers": read_transformers,
        "ctranslate2": read_ctranslate2,
    }
)


def read_model(source_format: str, path: Path) -> ImportedModel:
    """Returns a model of another toolkit.

    Args:
        source_format: A name in `READERS`.
        path: Folder or file of the model.

    Raises:
        UserError: If there is no such format, or the model cannot be imported.
    """
    if source_format not in READERS:
        raise UserError(
            f"--from must be one of {', '.join(READERS)}. Received: {source_format}."
            f"{did_you_mean(source_format, list(READERS))}"
        )
    return READERS[source_format](path)
