"""Writer of MarianMT models of Hugging Face transformers.

Source: transformers 5, models/marian; measured against transformers
(docs/transformers.md).
"""

import json
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.interop.transformers.marian_arrays import make_arrays
from t2t_keras.interop.transformers.marian_settings import (
    generation_config,
    is_shared,
    model_config,
    number_ids,
    tokenizer_config,
    vocabularies,
)
from t2t_keras.interop.transformers.names import EPSILON
from t2t_keras.model.transformer import Transformer
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.text.piece_vocabulary import PieceVocabulary
from t2t_keras.text.vocabulary import Vocabulary


def write_marian_mt(
    model: Transformer,
    vocabulary: Vocabulary,
    folder: Path,
    *,
    decoding: DecodingConfig,
    languages: tuple[str, str],
) -> None:
    """Writes the files that transformers loads as a MarianMTModel.

    Args:
        model: A model in float32, which `check_expressible` accepts.
        vocabulary: Its vocabulary, which `tokenizer_files` accepts.
        folder: An existing folder.
        decoding: Settings of the search, for generation_config.json.
        languages: Codes of source and target language.

    Raises:
        UserError: As `tokenizer_files`.
        OSError: If a file cannot be written.
    """
    from safetensors.numpy import save_file

    ids = number_ids(model, vocabulary)
    for name, content in tokenizer_files(vocabulary).items():
        (folder / name).write_bytes(content)
    for name, settings in {
        "config.json": model_config(model, ids),
        "generation_config.json": generation_config(model, ids, decoding),
        "tokenizer_config.json": tokenizer_config(languages, is_shared(model)),
        **vocabularies(vocabulary, ids),
    }.items():
        content = json.dumps(settings, indent=2, ensure_ascii=False)
        (folder / name).write_text(content, "utf-8")
    save_file(
        make_arrays(model, ids),
        folder / "model.safetensors",
        metadata={"format": "pt"},  # without it transformers refuses the file
    )


def check_expressible(model: Transformer) -> None:
    """Raises `UserError` if MarianMT has no model that is similar."""
    sizes = model.sizes
    width = sizes["d_model"] // sizes["num_heads"]
    for is_missing, name in (
        (sizes["normalization"] != "post", "normalization before sub-layers"),
        (sizes["learned_positions"] is not None, "learned positions"),
        (
            sizes["d_model"] % sizes["num_heads"],
            "d_model that is no multiple of num_heads",
        ),
        (
            max(sizes["d_k"], sizes["d_v"]) > width,
            "heads that are larger than d_model / num_heads",
        ),
    ):
        if is_missing:
            raise UserError(
                f"MarianMT of transformers has no {name}, which this model has. "
                "Export it as a SavedModel."
            )


def find_differences(model: Transformer) -> list[str]:
    """Returns what MarianMT computes otherwise, as ends of sentences about it."""
    sizes, found = model.sizes, []
    layouts = ("interleaved", "halves")
    if sizes["position_layout"] not in layouts or sizes["first_position"]:
        found.append(
            "has sinusoids of other wavelengths or another first position than "
            f"--position_layout={sizes['position_layout']} "
            f"--first_position={sizes['first_position']}"
        )
    if sizes["layer_norm_epsilon"] > EPSILON:
        found.append(
            f"has the epsilon {EPSILON:g} in layer normalization, not "
            f"{sizes['layer_norm_epsilon']:g}"
        )
    if not sizes["source_eos"]:
        found.append("reads the end of a source, and this model does not")
    if sizes["encoder_neighborhood"]:
        found.append(
            "attends to all of a source, not to --encoder_neighborhood="
            f"{sizes['encoder_neighborhood']}"
        )
    return found


def tokenizer_files(vocabulary: Vocabulary) -> dict[str, bytes]:
    """Returns source.spm and target.spm.

    Raises:
        UserError: If the vocabulary has no SentencePiece models.
    """
    if not isinstance(vocabulary, PieceVocabulary):
        return dict.fromkeys(("source.spm", "target.spm"), vocabulary.to_bytes())
    files = vocabulary.tokenizer_files()
    if sorted(files) != ["source.spm", "target.spm"]:
        raise UserError(
            "MarianTokenizer of transformers splits text by SentencePiece models, and "
            "this model has none. Export it as a SavedModel."
        )
    return files
