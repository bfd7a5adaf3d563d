"""Export of a trained model as a MarianMT model of Hugging Face transformers."""

import logging
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.files.versions import new_version, next_version
from t2t_keras.interop.transformers.marian_writer import (
    check_expressible,
    find_differences,
    tokenizer_files,
    write_marian_mt,
)
from t2t_keras.interop.transformers.reader import read_transformers
from t2t_keras.runs import models
from t2t_keras.runs.export.comparison import measure_difference
from t2t_keras.runs.export.readable_card import hub_metadata, model_card
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.models import TrainedModel
from t2t_keras.settings.decoding_config import DecodingConfig

logger = logging.getLogger(__name__)

_USAGE = """\
It is a MarianMT model of Hugging Face transformers:

```python
from transformers import MarianMTModel, MarianTokenizer

folder = "."  # or the name of this repository
tokenizer = MarianTokenizer.from_pretrained(folder)
model = MarianMTModel.from_pretrained(folder)
inputs = tokenizer(["..."], return_tensors="pt", padding=True)
print(tokenizer.batch_decode(model.generate(**inputs), skip_special_tokens=True))
```"""

# A larger difference is no rounding, as a fraction of the largest logit.
_TOLERANCE = 0.01


def export_transformers(
    trained: TrainedModel,
    model_dir: ModelDir,
    decoding: DecodingConfig,
    *,
    allow_approximate: bool = False,
    license_name: str | None = None,
) -> Path:
    """Writes a new version, a MarianMTModel of transformers, and returns its directory.

    Before it gets its name, it is read again and compared with the model.

    Args:
        trained: The model.
        model_dir: Directory of its run, which gets the new version.
        decoding: Settings of the search, for generation_config.json.
        allow_approximate: Whether to write a model that MarianMT computes otherwise.
        license_name: License, for the model card; None if it is not known.

    Raises:
        UserError: If MarianMT has no such model; or it has only a similar one, and
            `allow_approximate` is false.
        OSError: If the version cannot be written.
    """
    # Weights are written, and logits compared, in float32.
    trained = models.cast_to_precision(trained, "float32")
    tokenizer_files(trained.vocabulary)  # raises before anything is written
    check_expressible(trained.model)
    differences = find_differences(trained.model)
    if differences and not allow_approximate:
        raise UserError(
            f"MarianMT of transformers {'; it '.join(differences)}. With "
            "--allow_approximate the nearest model is written, and the difference of "
            "its logits is measured."
        )
    for difference in differences:
        logger.warning(f"MarianMT {difference}")
    if decoding.length_penalty == "gnmt":
        logger.warning(
            "transformers has no GNMT length penalty: it divides by "
            f"length^{decoding.alpha:g}"
        )
    data = trained.config.data
    final = next_version(model_dir.export_transformers)
    with new_version(final) as folder:
        write_marian_mt(
            trained.model,
            trained.vocabulary,
            folder,
            decoding=decoding,
            languages=(data.source_language, data.target_language),
        )
        found = measure_difference(read_transformers(folder), trained)
        if not allow_approximate and found.largest > _TOLERANCE * max(1.0, found.logit):
            raise UserError(
                f"The written model's logits differ by {found.largest:.2g}, and the "
                f"largest is {found.logit:.3g}: layer normalization has another "
                "epsilon there. Use --allow_approximate to write it all the same."
            )
        card = hub_metadata(trained, model_dir, license_name)
        card += model_card(trained, model_dir, license_name, _USAGE)
        (folder / "README.md").write_text(card, "utf-8")
    logger.info(str(found))
    return final
