"""Scores a trained model: sacreBLEU, chrF, the paper's BLEU, perplexity, bracket F1.

    python -m t2t_keras.evaluate --model_dir=runs/tiny
    python -m t2t_keras.evaluate --model_dir=runs/tiny --source=news.en \\
        --reference=news.de --checkpoint=best --beam_size=8
    python -m t2t_keras.evaluate --model_dir=runs/parser --source=wsj_23.mrg

Without --source it translates the test split of the run's own corpus. Each score is
printed with its signature. Tokenized BLEU is the paper's metric; it is about a point
higher than sacreBLEU and comparable only with the paper. A parser's trees are scored by
labeled brackets instead, with the scores of EVALB.
"""

from pathlib import Path

from absl import flags

from t2t_keras.errors import UserError
from t2t_keras.settings import program

_MODEL = program.define_model_flags()
_SPLIT = flags.DEFINE_enum(
    "split",
    "test",
    ["train", "dev", "test"],
    "Split of the run's corpus to score.",
)
_SOURCE = flags.DEFINE_list(
    "source",
    [],
    "Files to translate instead of --split, comma-separated, plain or .gz, "
    "one sentence a line. A .tsv file also holds the references; for a parser, a "
    ".mrg file holds trees.",
)
_REFERENCE = flags.DEFINE_list(
    "reference",
    [],
    "Files of the reference translations of --source, line by line, comma-separated.",
)
_OUTPUT = flags.DEFINE_string(
    "output",
    None,
    "File for the translations. Default: one below MODEL_DIR/translations, "
    "or none with --source.",
)
_ASCII_QUOTES = flags.DEFINE_bool(
    "ascii_quotes",
    False,
    "Whether curly and low quotes are replaced by straight ones for tokenized BLEU, "
    "as in the paper's reference of newstest2014.",
)
_CUTOFF_LENGTH = flags.DEFINE_integer(
    "cutoff_length",
    None,
    "Maximum length of a sentence in EVALB's second summary of a parser, in words "
    "and punctuation marks. Default: 40.",
    lower_bound=1,
)


def main() -> int:
    """Translates and scores; returns the exit status."""
    from t2t_keras.files.atomic import write_text
    from t2t_keras.runs import models, scoring
    from t2t_keras.runs.model_dir import ModelDir

    model_dir = ModelDir(program.require_flag("model_dir"))
    config = model_dir.config()
    if not (_OUTPUT.value or _SOURCE.value):
        model_dir.check_writable()
    test_set = scoring.read_test_set(
        model_dir, _SPLIT.value, _SOURCE.value, _REFERENCE.value
    )
    for warning in test_set.warnings:
        program.log(f"warning: {warning}")
    trained = models.load_trained(model_dir, _MODEL.checkpoint.value)
    with program.progress_bar(len(test_set.source), "sentences") as bar:
        result = scoring.score(
            trained,
            test_set,
            _MODEL.decoding(config),
            ascii_quotes=_ASCII_QUOTES.value,
            cutoff_length=_CUTOFF_LENGTH.value,
            on_progress=bar.update,
        )
    if _OUTPUT.value:
        lines = [line.text for line in result.translations]
        write_text(Path(_OUTPUT.value), "".join(f"{line}\n" for line in lines))
    elif not _SOURCE.value:
        scoring.save(model_dir, result)
    print(result.describe())
    return 0


def _check() -> None:
    """Raises `UserError` if flags are missing or incompatible."""
    from t2t_keras.input_pipeline.corpora.parallel_text import holds_both_sides

    program.require_flag("model_dir")
    sources, references = _SOURCE.value, _REFERENCE.value
    complete = bool(sources) == bool(references)
    if not complete and not (sources and all(map(holds_both_sides, sources))):
        raise UserError("--source and --reference belong together; one is missing.")


if __name__ == "__main__":
    program.run(main, __doc__ or "", check=_check)
