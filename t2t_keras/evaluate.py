"""Scores a trained model: sacreBLEU, chrF, the paper's BLEU, perplexity.

    python -m t2t_keras.evaluate --model_dir=runs/tiny
    python -m t2t_keras.evaluate --model_dir=runs/tiny --source=news.en \\
        --reference=news.de --checkpoint=best --beam_size=8

Without files the test split of the run's own corpus is translated. Each score comes
with its signature. The tokenized BLEU is the paper's metric, which reads about a
point higher than sacreBLEU and is to be compared with the paper alone.
"""

import sys
from pathlib import Path

from absl import flags

from t2t_keras import program
from t2t_keras.errors import UserError

_OWN = (
    "model_dir",
    "checkpoint",
    "split",
    "source",
    "reference",
    "output",
    "beam_size",
    "alpha",
)
_MODEL_DIR = flags.DEFINE_string("model_dir", None, "Directory of a run. Required.")
_CHECKPOINT = flags.DEFINE_string(
    "checkpoint",
    "averaged",
    "Which weights: averaged (the mean made at the end of training, or else the "
    "latest), latest, best, a step number, or a checkpoint's folder.",
)
_SPLIT = flags.DEFINE_enum(
    "split", "test", ["train", "dev", "test"], "Which split of the run's corpus."
)
_SOURCE = flags.DEFINE_list(
    "source", [], "Files to translate instead, one sentence a line, plain or .gz."
)
_REFERENCE = flags.DEFINE_list("reference", [], "What --source should become.")
_OUTPUT = flags.DEFINE_string(
    "output",
    None,
    "File for the translations; below MODEL_DIR/translations if not given.",
)
_BEAM_SIZE = flags.DEFINE_integer(
    "beam_size", None, "Hypotheses that live at a time; as in the run if not given."
)
_ALPHA = flags.DEFINE_float(
    "alpha", None, "Strength of the length penalty; as in the run if not given."
)


def main() -> int:
    """Translates and scores; returns the exit status."""
    from t2t_keras import experiment, finish, scoring
    from t2t_keras.input_pipeline.corpora import open_corpus
    from t2t_keras.model_dir import ModelDir, write_text

    model_dir = ModelDir(program.required("model_dir"))
    if bool(_SOURCE.value) != bool(_REFERENCE.value) and not _holds_both(_SOURCE.value):
        raise UserError("--source and --reference belong together; one is missing.")
    config = model_dir.config()
    split = _SPLIT.value
    if _SOURCE.value:
        files = {"test": (_SOURCE.value, _REFERENCE.value)}
        corpus, split = open_corpus(files=files), "test"
    else:
        corpus = experiment.build_corpus(config.data, (split,))
    test_set = scoring.read_split(corpus, split)
    for warning in test_set.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    trained = experiment.load_trained(model_dir, _CHECKPOINT.value)
    decoding = program.decoding_of(config, _BEAM_SIZE, _ALPHA)
    with program.progress_bar(len(test_set.source), "sentences") as bar:
        report = scoring.score(trained, test_set, decoding, bar.update)
    if _OUTPUT.value:
        lines = [line.text for line in report.translations]
        write_text(Path(_OUTPUT.value), "".join(f"{line}\n" for line in lines))
    elif not _SOURCE.value:
        finish.keep(model_dir, report)
    print(report.describe())
    return 0


def _holds_both(sources: list[str]) -> bool:
    return bool(sources) and all(".tsv" in Path(path).suffixes for path in sources)


if __name__ == "__main__":
    program.run(main, __doc__ or "", _OWN)
