"""Reader of translation models of Hugging Face transformers, by their architecture."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.interop.imported_model import ImportedModel
from t2t_keras.interop.transformers.folder import read_json
from t2t_keras.interop.transformers.m2m100_reader import read_m2m100
from t2t_keras.interop.transformers.marian_reader import read_marian_mt

_ARCHITECTURES: Mapping[str, str] = MappingProxyType(
    {"marian": "MarianMT", "m2m_100": "M2M100 and NLLB"}
)


def read_transformers(
    path: Path, languages: tuple[str | None, str | None] = (None, None)
) -> ImportedModel:
    """Returns a model of MarianMT, M2M100 or NLLB.

    Args:
        path: A folder as `save_pretrained` writes it, or as a hub has it: config.json,
            the weights, and the tokenizer's files.
        languages: Codes of source and target language of a request that names none,
            for a multilingual model. Default: those of the tokenizer's settings.

    Raises:
        UserError: If a file is missing or damaged, files do not belong together, or
            this project has no such architecture.
    """
    config: Mapping[str, Any] = read_json(path / "config.json")
    kind = config.get("model_type")
    if kind == "marian":
        return read_marian_mt(path, config)
    if kind == "m2m_100":
        return read_m2m100(path, config, languages)
    known = ", ".join(f"{name} ({about})" for name, about in _ARCHITECTURES.items())
    raise UserError(
        f"{path} cannot be imported: it has another architecture. Expected model_type "
        f"{known}. Received: {kind}"
    )
