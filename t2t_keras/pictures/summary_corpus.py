"""Sentences for the summary of heads: a file's, or the dev set of a run."""

import itertools
from collections.abc import Sequence

from t2t_keras.errors import UserError
from t2t_keras.files.lines import open_input
from t2t_keras.files.text_checks import CountedLines
from t2t_keras.pictures.request import PictureRequest
from t2t_keras.pictures.sentence_attention import AttentionModel
from t2t_keras.runs.data import from_settings
from t2t_keras.runs.translation import scoring


def read_summary_corpus(
    model: AttentionModel, request: PictureRequest
) -> tuple[Sequence[str], Sequence[str]]:
    """Returns the sentences to summarize and their translations.

    Raises:
        UserError: If a file cannot be used, the numbers of lines differ, or there
            is neither a file nor a run.
    """
    attention, most = model.attention, request.sentences
    if request.input:
        sources = [
            attention.source(line) for line in _lines(request.input, "input", most)
        ]
        if not request.input_translation:
            return sources, attention.translate(sources)
        targets = _lines(request.input_translation, "input_translation", most)
        if len(sources) != len(targets):
            raise UserError(
                f"{request.input} has {len(sources)} lines, but "
                f"{request.input_translation} has {len(targets)}, of the first "
                f"{most}. They belong together line by line."
            )
        return sources, targets
    if model.model_dir is None:
        raise UserError("An export has no dev set: give --input, a file of sentences.")
    config = model.model_dir.config()
    dev = scoring.read_split(from_settings.build_corpus(config.data, ("dev",)), "dev")
    sources = [text.decode(errors="replace") for text in dev.source]
    return sources[:most], dev.references[:most]


def _lines(path: str, flag: str, most: int) -> list[str]:
    with open_input(path, flag) as lines:
        counted = CountedLines(itertools.islice(lines, most), path)
        return [line.decode(errors="replace") for line in counted]
