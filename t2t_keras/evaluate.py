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

import dataclasses
import json
from types import MappingProxyType

from t2t_keras.errors import UserError
from t2t_keras.evaluation.scoring_settings import ScoringSettings
from t2t_keras.runs.translation import ensembles
from t2t_keras.settings import program
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.settings.flags import check_use, define_flags
from t2t_keras.settings.model_options import ABOUT_HEADS, SearchModelOptions
from t2t_keras.settings.setting import Settings, setting

# What the program is used for: the scores of a model, of files, or of alignments.
_OF_MODELS, _OF_FILES, _OF_ALIGNMENTS = "models", "files", "alignments"


@dataclasses.dataclass(frozen=True)
class EvaluateOptions(Settings):
    """What is scored, and where the results go."""

    split: str = setting(
        "test",
        "Split of the run's corpus to score.",
        choices=("train", "dev", "test"),
        uses=(_OF_MODELS, _OF_ALIGNMENTS),
    )
    source: tuple[str, ...] = setting(
        (),
        "Files to translate instead of --split, comma-separated, one sentence a line. "
        "A file with both sides also holds the references: .tsv, .jsonl, .parquet, "
        ".tmx, .zip of OPUS; for a parser, a .mrg file holds trees.",
        path=True,
        uses=(_OF_MODELS, _OF_ALIGNMENTS),
    )
    reference: tuple[str, ...] = setting(
        (),
        "Files of the reference translations of --source or --hypotheses, line by "
        "line, comma-separated, read one after another. With --hypotheses, a .mrg file "
        "holds trees.",
        path=True,
    )
    output: str | None = setting(
        None,
        "File for the translations. Default: one below MODEL_DIR/translations, "
        "or none with --source.",
        path=True,
        uses=(_OF_MODELS,),
    )
    cutoff_length: int | None = setting(
        None,
        "Maximum length of a sentence in EVALB's second summary of a parser, in words "
        "and punctuation marks. Default: 40.",
        low=1,
        uses=(_OF_MODELS, _OF_FILES),
    )
    hypotheses: tuple[str, ...] = setting(
        (),
        "File of a system's translations to score instead of a model, or - for "
        "standard input. Several systems are compared with the first.",
        repeated=True,
        path=True,
        uses=(_OF_FILES,),
    )
    extra_reference: tuple[str, ...] = setting(
        (),
        "File of further references of --hypotheses, line by line.",
        repeated=True,
        path=True,
        uses=(_OF_FILES,),
    )
    alignments: str | None = setting(
        None,
        "File of word alignments in Pharaoh format, 0-0 1-2, a line for each pair. "
        "Without --model_dir it is scored; with it, the links of the model between "
        "--source and --reference are written to it.",
        path=True,
        uses=(_OF_ALIGNMENTS,),
    )
    gold_alignments: str | None = setting(
        None,
        "File of the gold word alignments to score with, in Pharaoh format: 0-0 is a "
        "sure link, 0p0 or 0?0 a possible one.",
        path=True,
        uses=(_OF_ALIGNMENTS,),
    )
    alignment_heads: str | None = setting(None, ABOUT_HEADS, uses=(_OF_ALIGNMENTS,))
    json: bool = setting(
        False,
        "Whether the scores of --hypotheses or of alignments are printed as JSON.",
        uses=(_OF_FILES, _OF_ALIGNMENTS),
    )

    @property
    def use(self) -> str:
        """What is scored."""
        if self.alignments or self.gold_alignments:
            return _OF_ALIGNMENTS
        return _OF_FILES if self.hypotheses else _OF_MODELS

    def check(self) -> None:
        from t2t_keras.input_pipeline.corpora.parallel_text import check_both_sides

        if self.alignment_heads and self.use == _OF_MODELS:
            raise UserError("--alignment_heads is for --alignments. Add that.")
        check_use(_FLAGS, self.use, _NOT_FOR[self.use])
        if self.use != _OF_FILES:
            check_both_sides(self.source, self.reference)


_MODEL = define_flags(
    SearchModelOptions,
    about={
        "model_dir": "Directory of a training run. Required without --hypotheses or "
        "--alignments.",
        "target_language": "Language to translate to, of a multilingual model, as a "
        "code such as de. Default: that of the run. Or code of the language of "
        "--hypotheses, for both BLEUs; or tree for trees. Default: the ending of "
        "--reference, such as de for test.de.",
    },
    uses={
        "model_dir": (_OF_MODELS, _OF_ALIGNMENTS),
        "checkpoint": (_OF_MODELS, _OF_ALIGNMENTS),
        "source_language": (_OF_MODELS, _OF_ALIGNMENTS),
        "target_language": (_OF_MODELS, _OF_FILES, _OF_ALIGNMENTS),
        "": (_OF_MODELS,),
    },
)
_SEARCH = define_flags(
    DecodingConfig, default_note="that of the run", uses={"": (_OF_MODELS,)}
)
_OPTIONS = define_flags(EvaluateOptions)
_SCORING = define_flags(ScoringSettings)
_FLAGS = (_MODEL, _SEARCH, _OPTIONS, _SCORING)
# What is said of flags that have no meaning for a use.
_NOT_FOR = MappingProxyType(
    {
        _OF_MODELS: "is for --hypotheses: the scores of a model are kept in its "
        "directory, all by the same settings. Write its translations with "
        "--output=FILE, and score these with --hypotheses=FILE.",
        _OF_FILES: "is for scores of a model, but --hypotheses are scored without one. "
        "Leave one out.",
        _OF_ALIGNMENTS: "is for translations, but --alignments and --gold_alignments "
        "score links between words. Leave it out.",
    }
)


def main() -> int:
    """Scores a model or files; returns the exit status."""
    options = _OPTIONS.read()
    if options.use == _OF_ALIGNMENTS:
        from t2t_keras.runs.translation.alignment_evaluation import evaluate_alignments

        values = _MODEL.values() | dataclasses.asdict(options)
        print(evaluate_alignments(values), end="")
    elif options.use == _OF_FILES:
        print(_score_files(options))
    else:
        print(_score_model(options))
    return 0


def _score_model(options: EvaluateOptions) -> str:
    from t2t_keras.runs.run import Run

    model = dataclasses.asdict(_MODEL.read())
    run = Run(model.pop("model_dir"), log=program.log).for_languages(
        model.pop("source_language"), model.pop("target_language")
    )
    with program.progress_bar(None, "sentences") as bar:
        scoring = _SCORING.read()
        return run.evaluate(
            options.source,
            options.reference,
            split=options.split,
            output=options.output,
            cutoff_length=options.cutoff_length,
            tokenize=scoring.tokenize,
            ascii_quotes=scoring.ascii_quotes,
            on_start=bar.reset,
            on_progress=bar.update,
            **model,
            **_SEARCH.given(),
        ).describe()


def _score_files(options: EvaluateOptions) -> str:
    from t2t_keras.runs.translation.file_scoring import ScoredFiles, score_files

    files = ScoredFiles(
        options.hypotheses,
        options.reference,
        options.extra_reference,
        _MODEL.values()["target_language"],
    )
    scoring = _SCORING.read()
    result = score_files(files, scoring, options.cutoff_length)
    if options.json:
        return json.dumps(result.as_dict(), ensure_ascii=False, indent=2)
    return result.describe()


def _check() -> None:
    """Raises `UserError` if flags are missing or incompatible."""
    options = _OPTIONS.read()
    if options.use == _OF_MODELS:
        ensembles.check(**dataclasses.asdict(_MODEL.read()))
        DecodingConfig().override(**_SEARCH.given())
    _SCORING.read()


if __name__ == "__main__":
    program.run(
        main,
        __doc__ or "",
        check=_check,
        with_tensorflow=lambda: bool(_MODEL.values()["model_dir"]),
    )
