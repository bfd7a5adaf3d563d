"""Scores a trained model, or files that any system wrote.

    python -m t2t_keras.evaluate --model_dir=runs/tiny
    python -m t2t_keras.evaluate --model_dir=runs/tiny --source=news.en \\
        --reference=news.de --checkpoint=best --beam_size=8
    python -m t2t_keras.evaluate --model_dir=runs/parser --source=wsj_23.mrg

    python -m t2t_keras.evaluate --hypotheses=out.de --reference=test.de
    python -m t2t_keras.evaluate --hypotheses=base.de --hypotheses=big.de \\
        --reference=test.de --paired_test=bootstrap

Without --source a model translates the test split of its own corpus. Each score is
printed with its signature. Tokenized BLEU is the paper's metric; it is about a point
higher than sacreBLEU and comparable only with the paper. A parser's trees are scored by
labeled brackets instead, with the scores of EVALB.

With --hypotheses no model is needed: the files are scored by sacreBLEU, chrF, TER and
tokenized BLEU, and trees by EVALB's rules.

    python -m t2t_keras.evaluate --alignments=out.align --gold_alignments=test.align
    python -m t2t_keras.evaluate --model_dir=runs/tiny --gold_alignments=test.align

These print the error rate of word alignments: of a file, or of a model that aligns the
sources with the references. docs/alignments.md explains them.
"""

import json

from absl import flags

from t2t_keras.runs.translation import ensembles
from t2t_keras.settings import program
from t2t_keras.settings.config import TOKENIZERS

_MODEL = program.define_model_flags(
    about_model_dir="Directory of a training run. Required without --hypotheses or "
    "--alignments."
)
program.define_search_model_flags()
flags.DEFINE_enum(
    "split",
    "test",
    ["train", "dev", "test"],
    "Split of the run's corpus to score.",
)
_SOURCE = flags.DEFINE_list(
    "source",
    [],
    "Files to translate instead of --split, comma-separated, one sentence a line. A "
    ".tsv file also holds the references; for a parser, a .mrg file holds trees.",
)
_REFERENCE = flags.DEFINE_list(
    "reference",
    [],
    "Files of the reference translations of --source or --hypotheses, line by line, "
    "comma-separated, read one after another. With --hypotheses, a .mrg file holds "
    "trees.",
)
flags.DEFINE_string(
    "output",
    None,
    "File for the translations. Default: one below MODEL_DIR/translations, "
    "or none with --source.",
)
flags.DEFINE_bool(
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
_HYPOTHESES = flags.DEFINE_multi_string(
    "hypotheses",
    [],
    # absl adds "; repeat this option to specify a list of values".
    "File of a system's translations to score instead of a model, or - for standard "
    "input. Several systems are compared with the first",
)
flags.DEFINE_multi_string(
    "extra_reference",
    [],
    "File of further references of --hypotheses, line by line",
)
flags.DEFINE_string(
    "target_language",
    None,
    "Code of the language of --hypotheses, for both BLEUs; or tree for trees. "
    "Default: the ending of --reference, such as de for test.de.",
)
flags.DEFINE_list(
    "metrics",
    [],
    "Metrics of --hypotheses, comma-separated: bleu, chrf, chrf++, ter, "
    "tokenized_bleu, t2t_bleu. Default: all but chrf++.",
)
flags.DEFINE_enum(
    "tokenize",
    None,
    TOKENIZERS,
    "Tokenizer of sacreBLEU. Default: that of the target language (zh for Chinese, "
    "ja-mecab for Japanese, ko-mecab for Korean, 13a for all others); a model has "
    "that of its training run.",
)
flags.DEFINE_bool(
    "lowercase", False, "Whether BLEU and chrF of --hypotheses ignore case."
)
flags.DEFINE_bool(
    "confidence",
    False,
    "Whether scores of --hypotheses have 95 % confidence intervals, by bootstrap.",
)
flags.DEFINE_enum(
    "paired_test",
    None,
    ["bootstrap", "randomization"],
    "Significance test of each of --hypotheses against the first.",
)
flags.DEFINE_integer(
    "resamples",
    None,
    "Number of bootstrap resamples, or of trials of the randomization test. Default: "
    "1,000, or 10,000 trials.",
    lower_bound=2,
)
_ALIGNMENTS = flags.DEFINE_string(
    "alignments",
    None,
    "File of word alignments in Pharaoh format, 0-0 1-2, a line for each pair. Without "
    "--model_dir it is scored; with it, the links of the model between --source and "
    "--reference are written to it.",
)
_GOLD_ALIGNMENTS = flags.DEFINE_string(
    "gold_alignments",
    None,
    "File of the gold word alignments to score with, in Pharaoh format: 0-0 is a sure "
    "link, 0p0 or 0?0 a possible one.",
)
flags.DEFINE_string("alignment_heads", None, program.ABOUT_HEADS)
_JSON = flags.DEFINE_bool(
    "json",
    False,
    "Whether the scores of --hypotheses or of alignments are printed as JSON.",
)


# Flags that the kinds of evaluation do not share.
_OF_MODELS = (
    *("checkpoint", "ensemble_with", "shortlist", "shortlist_size", *_MODEL.search),
    *("split", "source", "output"),
)
_OF_TEXT = (
    *("metrics", "tokenize", "lowercase", "confidence"),
    *("paired_test", "resamples"),
)
_OF_ALIGNMENTS = (
    *("alignments", "gold_alignments", "alignment_heads", "source", "reference"),
    *("model_dir", "checkpoint", "split", "json"),
)
_OF_FILES = (
    *("extra_reference", "target_language", "json"),
    *(name for name in _OF_TEXT if name != "tokenize"),
)
_OF_TRANSLATIONS = (
    *("hypotheses", "output", "ascii_quotes", "cutoff_length", *_MODEL.search),
    *("ensemble_with", "shortlist", "shortlist_size"),
    *("extra_reference", "target_language", *_OF_TEXT),
)
_OF_NO_FILES = ("model_dir", *_OF_MODELS, "alignment_heads")
_NO_MODEL = (
    "is for scores of a model, but --hypotheses are scored without one. Leave one out."
)
_NO_TRANSLATIONS = (
    "is for translations, but --alignments and --gold_alignments score links between "
    "words. Leave it out."
)
_NO_FILES = (
    "is for --hypotheses: the scores of a model are kept in its directory, all by the "
    "same settings. Write its translations with --output=FILE, and score these with "
    "--hypotheses=FILE."
)


def main() -> int:
    """Scores a model or files; returns the exit status."""
    if _ALIGNMENTS.value or _GOLD_ALIGNMENTS.value:
        from t2t_keras.runs.translation.alignment_evaluation import evaluate_alignments

        values = program.flag_values(_OF_ALIGNMENTS)
        print(evaluate_alignments(values, program.log), end="")
    else:
        print(_score_files() if _HYPOTHESES.value else _score_model())
    return 0


def _score_model() -> str:
    from t2t_keras.runs.run import Run

    run = Run(program.require_flag("model_dir"), log=program.log)
    with program.progress_bar(None, "sentences") as bar:
        names = (*_OF_MODELS, "reference", "ascii_quotes", "cutoff_length", "tokenize")
        options = program.flag_values(names)
        progress = {"on_start": bar.reset, "on_progress": bar.update}
        return run.evaluate(**options, **progress).describe()


def _score_files() -> str:
    from t2t_keras.runs.translation.file_scoring import ScoredFiles, score_files

    names = "hypotheses", "reference", "extra_reference", "target_language"
    files = ScoredFiles(*program.flag_values(names).values())
    options = program.flag_values((*_OF_TEXT, "ascii_quotes"))
    result = score_files(files, options, _CUTOFF_LENGTH.value, program.log)
    if _JSON.value:
        return json.dumps(result.as_dict(), ensure_ascii=False, indent=2)
    return result.describe()


def _check() -> None:
    """Raises `UserError` if flags are missing or incompatible."""
    from t2t_keras.input_pipeline.corpora.parallel_text import check_both_sides

    if _ALIGNMENTS.value or _GOLD_ALIGNMENTS.value:
        program.refuse_flags(_OF_TRANSLATIONS, _NO_TRANSLATIONS)
    elif _HYPOTHESES.value:
        return program.refuse_flags(_OF_NO_FILES, _NO_MODEL)
    else:
        program.refuse_flags(_OF_FILES, _NO_FILES)
        program.refuse_flags(("alignment_heads",), "is for --alignments. Add that.")
        ensembles.check(**program.search_model_values())
    check_both_sides(_SOURCE.value, _REFERENCE.value)


if __name__ == "__main__":
    program.run(
        main,
        __doc__ or "",
        check=_check,
        with_tensorflow=lambda: bool(_MODEL.model_dir.value),
    )
