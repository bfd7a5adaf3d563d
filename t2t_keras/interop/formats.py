"""Formats of other toolkits that can be read."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from t2t_keras.errors import UserError, did_you_mean, require_extra
from t2t_keras.interop.ctranslate2.reader import read_ctranslate2
from t2t_keras.interop.imported_model import ImportedModel
from t2t_keras.interop.marian.reader import read_marian
from t2t_keras.interop.opennmt_tf import read_opennmt_tf
from t2t_keras.interop.tensor2tensor import read_tensor2tensor
from t2t_keras.interop.transformers.reader import read_transformers

READERS: Mapping[str, Callable[..., ImportedModel]] = MappingProxyType(
    {
        "marian": read_marian,
        "transformers": read_transformers,
        "ctranslate2": read_ctranslate2,
        "opennmt_tf": read_opennmt_tf,
        "tensor2tensor": read_tensor2tensor,
    }
)


def read_model(
    source_format: str,
    path: Path,
    target_space_id: int | None = None,
    languages: tuple[str | None, str | None] = (None, None),
) -> ImportedModel:
    """Returns a model of another toolkit.

    Args:
        source_format: A name in `READERS`.
        path: Folder or file of the model.
        target_space_id: Of a problem of Tensor2Tensor. Default: 0.
        languages: Codes of source and target language, of which a multilingual model
            takes those of a request that names none.

    Raises:
        UserError: If there is no such format, the model cannot be imported, another
            format has no target spaces, or the extra `convert` is not installed.
    """
    require_extra("An import", "convert")
    if source_format not in READERS:
        raise UserError(
            f"--from must be one of {', '.join(READERS)}. Received: {source_format}."
            f"{did_you_mean(source_format, list(READERS))}"
        )
    if target_space_id is not None and source_format != "tensor2tensor":
        raise UserError(
            "--target_space_id is for --from=tensor2tensor. Leave it out. Received: "
            f"--from={source_format}"
        )
    options: dict[str, Any] = {}
    if target_space_id is not None:
        options["target_space"] = target_space_id
    if source_format == "transformers":
        options["languages"] = languages
    try:
        return READERS[source_format](path, **options)
    except UserError:
        raise
    except (
        LookupError,
        TypeError,
        AttributeError,
        ValueError,
        ArithmeticError,
        RecursionError,
        MemoryError,
    ) as error:
        raise UserError(
            f"A setting of {path} is missing, or of another kind than expected: "
            f"{error}. It is no model of {source_format}, or a damaged one."
        ) from error
