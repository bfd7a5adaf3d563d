"""Options of every program that uses a trained model: which, and with which others."""

import dataclasses

from t2t_keras.settings.setting import Settings, setting

ABOUT_HEADS = (
    "Heads of the cross-attention whose mean aligns words, comma-separated: "
    "LAYER:HEAD, or LAYER for all of its heads, both from 1. Default: the head that "
    "--guided_alignment has trained in this run, or else all heads of the decoder's "
    "last layer, or of the last but one if it has more than four."
)
"""Help of --alignment_heads."""


@dataclasses.dataclass(frozen=True)
class ModelOptions(Settings):
    """The model that a program uses."""

    model_dir: str | None = setting(
        None,
        "Directory of a training run. Required.",
        path=True,
        model_folder=True,
        required=True,
    )
    checkpoint: str = setting(
        "averaged",
        "Checkpoint to use: averaged (the average written at the end of training, "
        "or else the latest), latest, best, a step number, or the folder of a "
        "checkpoint.",
        path=True,
        model_folder=True,
    )


@dataclasses.dataclass(frozen=True)
class SearchModelOptions(ModelOptions):
    """The model that a program translates with, those that it does so with, and between
    which languages.

    The fields are the arguments of `ensembles.load`.
    """

    shortlist: str | None = setting(
        None,
        "Lexicon of likely translations, from t2t_keras.prepare --shortlist. The "
        "search considers these alone, which is faster with a large vocabulary. "
        "Default: none, for all of the vocabulary.",
        path=True,
    )
    shortlist_size: int | None = setting(
        None,
        "Number of tokens that --shortlist leaves for a sentence. Default: 1,000.",
        low=4,
    )
    ensemble_with: tuple[str, ...] = setting(
        (),
        "Model directory of another run of the same vocabulary, whose averaged or "
        "latest checkpoint translates together with --model_dir by the mean of their "
        "probabilities; or the folder of a checkpoint.",
        repeated=True,
        path=True,
        model_folder=True,
    )
    source_language: str | None = setting(
        None,
        "Language to translate from, of a multilingual model, as a code such as en. "
        "Default: that of the run.",
    )
    target_language: str | None = setting(
        None,
        "Language to translate to, of a multilingual model, as a code such as de. "
        "Default: that of the run.",
    )
