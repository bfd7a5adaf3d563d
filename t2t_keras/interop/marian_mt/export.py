"""Export of a trained model as a MarianMT model of Hugging Face transformers.

Source: transformers 5, models/marian; measured against transformers
(docs/transformers.md).
"""

import json
from collections.abc import Callable
from pathlib import Path

import safetensors.numpy

from t2t_keras.errors import UserError
from t2t_keras.interop.marian_mt.arrays import make_arrays
from t2t_keras.interop.marian_mt.check import measure_difference
from t2t_keras.interop.marian_mt.names import EPSILON
from t2t_keras.interop.marian_mt.settings import (
    generation_config,
    is_shared,
    model_config,
    number_ids,
    tokenizer_config,
    vocabularies,
)
from t2t_keras.model.transformer import Transformer
from t2t_keras.runs.exporting import cast_to_precision
from t2t_keras.runs.models import TrainedModel
from t2t_keras.serving.export.saved_model import new_version, next_version
from t2t_keras.settings.config import DecodingConfig
from t2t_keras.text.piece_vocabulary import PieceVocabulary
from t2t_keras.text.vocabulary import Vocabulary

# A larger difference is no rounding, as a fraction of the largest logit.
_TOLERANCE = 0.01


def export_transformers(
    trained: TrainedModel,
    base: Path,
    decoding: DecodingConfig,
    *,
    allow_approximate: bool = False,
    log: Callable[[str], object] = lambda _: None,
) -> Path:
    """Writes a new version: a folder that transformers loads as a MarianMTModel.

    Before it gets its name, it is read again and compared with the model.

    Args:
        trained: The model.
        base: Directory of the versions, each named by an integer.
        decoding: Settings of the search, for generation_config.json.
        allow_approximate: Whether to write a model that MarianMT computes otherwise.
        log: Called with warnings, and the largest difference of its logits on random
            sentences.

    Returns:
        The version's directory.

    Raises:
        UserError: If MarianMT has no such model; or it has only a similar one, and
            `allow_approximate` is false.
        OSError: If the version cannot be written.
    """
    # Weights are written, and logits compared, in float32.
    trained = cast_to_precision(trained, "float32")
    files = _tokenizer_files(trained.vocabulary)
    check_expressible(trained.model)
    differences = find_differences(trained.model)
    if differences and not allow_approximate:
        raise UserError(
            f"MarianMT of transformers {'; it '.join(differences)}. With "
            "--allow_approximate the nearest model is written, and the difference of "
            "its logits is measured."
        )
    for difference in differences:
        log(f"warning: MarianMT {difference}")
    if decoding.length_penalty == "gnmt":
        log(
            "warning: transformers has no GNMT length penalty: it divides by "
            f"length^{decoding.alpha:g}"
        )
    ids = number_ids(trained.model, trained.vocabulary)
    with new_version(final := next_version(base)) as temporary:
        for name, content in files.items():
            (temporary / name).write_bytes(content)
        for name, settings in {
            "config.json": model_config(trained.model, ids),
            "generation_config.json": generation_config(trained.model, ids, decoding),
            "tokenizer_config.json": tokenizer_config(
                trained.config, is_shared(trained.model)
            ),
            **vocabularies(trained.vocabulary, ids),
        }.items():
            content = json.dumps(settings, indent=2, ensure_ascii=False)
            (temporary / name).write_text(content, "utf-8")
        safetensors.numpy.save_file(
            make_arrays(trained.model, ids),
            temporary / "model.safetensors",
            metadata={"format": "pt"},  # without it transformers refuses the file
        )
        difference, largest = measure_difference(temporary, trained)
        if not allow_approximate and difference > _TOLERANCE * max(1.0, largest):
            raise UserError(
                f"The written model's logits differ by {difference:.2g}, and the "
                f"largest is {largest:.3g}: layer normalization has another epsilon "
                "there. Use --allow_approximate to write it all the same."
            )
    log(
        f"logits of random sentences differ by at most {difference:.1e}; the largest "
        f"is {largest:.1f}"
    )
    return final


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
    if sizes["position_layout"] == "halves_t2t" or sizes["first_position"]:
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


def _tokenizer_files(vocabulary: Vocabulary) -> dict[str, bytes]:
    """Returns source.spm and target.spm."""
    if not isinstance(vocabulary, PieceVocabulary):
        return dict.fromkeys(("source.spm", "target.spm"), vocabulary.to_bytes())
    files = vocabulary.tokenizer_files()
    if sorted(files) != ["source.spm", "target.spm"]:
        raise UserError(
            "MarianTokenizer of transformers splits text by SentencePiece models, and "
            "this model has none. Export it as a SavedModel."
        )
    return files
