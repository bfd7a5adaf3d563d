"""Learning of the joint subword vocabulary (BPE or unigram) from the training text.

SentencePiece learns it, of source and target together (section 5.1 of the paper).
"""

import collections
import contextlib
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from typing import IO, Any, Literal, cast

from t2t_keras.errors import UserError
from t2t_keras.files.signals import undo_if_interrupted
from t2t_keras.text.normalization import normalize
from t2t_keras.text.sentencepiece_models import check_ties, without_input_format
from t2t_keras.text.vocabulary import EOS_ID, PAD_ID, UNK_ID

# SentencePiece holds the lines it learns from in memory, so a long text is sampled:
# four million lines, half of WMT14 EN-DE, take about a gigabyte here and several
# there. SentencePiece's own sampling differs from process to process.
MAX_LINES = 4_000_000

_SAMPLE_SEED = 1
_LINES_AT_ONCE = 4096
_NUM_FIXED_PIECES = 3 + 256
_MAX_LINE_BYTES = 1 << 24  # SentencePiece would silently skip lines over 4,192 bytes.
_TOO_LARGE = re.compile(r"size too high .*<= (\d+)")
_TOO_SMALL = re.compile(r"smaller than required_chars\. \d+ vs (\d+)")

# Program of the process that learns: lines in, a model or an error out.
_LEARNER = """
import io, json, sys
import sentencepiece
model = io.BytesIO()
try:
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(line[:-1] for line in sys.stdin.buffer),
        model_writer=model,
        **json.loads(sys.argv[1]),
    )
except RuntimeError as error:
    sys.exit("sentencepiece: " + str(error))
sys.stdout.buffer.write(model.getvalue())
"""


def learn_subwords(
    lines: Iterable[str | bytes],
    *,
    vocabulary_size: int,
    model_type: Literal["bpe", "unigram"] = "bpe",
    character_coverage: float = 0.9999,
    user_symbols: Sequence[str] = (),
) -> bytes:
    """Returns a SentencePiece model learned from lines of both languages.

    The same lines in the same order give the same bytes. Rare characters get
    no piece of their own and are spelled in bytes, so nothing is unknown.

    Args:
        lines: Raw text of both languages; normalized here, and empty lines skipped.
            If there are more than `MAX_LINES`, a sample is used.
        vocabulary_size: The exact number of ids, with the 3 special and 256
            byte ids. The paper has about 37,000 for English-German.
        model_type: "bpe" merges frequent pairs, as for the paper's
            English-German; "unigram" chooses pieces by the likelihood of the
            text, like the word pieces of its English-French (ADR 0009).
        character_coverage: Fraction of all characters, by count, that get a piece of
            their own. In (0, 1].
        user_symbols: Symbols that are always one piece, whatever is around them.

    Returns:
        The model file's bytes, for `SubwordVocabulary`.

    Raises:
        ValueError: If `character_coverage` is outside (0, 1], or `model_type` is
            unknown.
        UserError: If `lines` is one text, there is no text, or it cannot give
            `vocabulary_size` pieces; the message names a size that it can give. Or, for
            "unigram", if the installed SentencePiece breaks ties differently from
            TensorFlow Text.
    """
    if isinstance(lines, str | bytes):
        raise UserError(
            "lines must be a list or another iterable of texts. Received one text of "
            f"{len(lines)} characters; put it in a list, or split it into lines."
        )
    if model_type not in ("bpe", "unigram"):
        raise ValueError(
            f"model_type must be 'bpe' or 'unigram'. Received: {model_type!r}"
        )
    if not 0.0 < character_coverage <= 1.0:
        raise ValueError(
            f"character_coverage must be in (0, 1]. Received: {character_coverage}"
        )
    if model_type == "unigram":
        check_ties()
    num_fixed = _NUM_FIXED_PIECES + len(user_symbols)
    if vocabulary_size <= num_fixed:
        symbols = f", {len(user_symbols)} user symbols" if user_symbols else ""
        raise UserError(
            f"A vocabulary of {vocabulary_size} is too small: the 3 special ids"
            f"{symbols} and the 256 bytes alone take {num_fixed}. Use "
            f"--vocabulary_size={num_fixed + 1} at the very least; 8000 to 40000 is "
            "usual."
        )
    sample = _sample(line for line in map(normalize, lines) if line)
    num_lines = len(sample)
    if not num_lines:
        raise UserError(
            "No text to learn a vocabulary from: every line is empty. Check the "
            "training files."
        )
    options = {
        "model_type": model_type,
        "vocab_size": vocabulary_size,
        "character_coverage": character_coverage,
        "byte_fallback": True,
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "pad_id": PAD_ID,
        "eos_id": EOS_ID,
        "unk_id": UNK_ID,
        "bos_id": -1,
        "max_sentence_length": _MAX_LINE_BYTES,
        "minloglevel": 2,
    }
    if user_symbols:
        options["user_defined_symbols"] = list(user_symbols)
    if model_type == "bpe":
        # BPE learns from words and their counts. The model is the same, and
        # SentencePiece takes an eighth of the time to count text.
        options["input_format"] = "tsv"
        counts = _count_words(sample)
        sample = [f"{word}\t{count}" for word, count in counts.items()]
    try:
        return without_input_format(_run_learner(sample, options))
    except RuntimeError as error:
        raise _explain_error(error, vocabulary_size, num_lines) from error


def _sample(lines: Iterable[str]) -> list[str]:
    """Returns up to MAX_LINES of the lines, each with equal chance."""
    generator = random.Random(_SAMPLE_SEED)
    sample: list[str] = []
    for number, line in enumerate(lines):
        if number < MAX_LINES:
            sample.append(line)
        elif (place := generator.randrange(number + 1)) < MAX_LINES:
            sample[place] = line
    return sample


def _count_words(lines: list[str]) -> collections.Counter[str]:
    """Returns the number of times that each word occurs; empties the list."""
    counts: collections.Counter[str] = collections.Counter()
    while lines:
        counts.update(" ".join(lines[-_LINES_AT_ONCE:]).split(" "))
        del lines[-_LINES_AT_ONCE:]
    return counts


def _run_learner(lines: list[str], options: dict[str, Any]) -> bytes:
    """Returns SentencePiece's model of some lines; empties the list to free memory.

    A process of its own learns it. Learning is minutes of native code that holds
    Python's global lock, so this process could not handle signals meanwhile.

    Raises:
        RuntimeError: With SentencePiece's message, or that of its process.
    """
    # The same import path as here, without the working directory.
    path = os.pathsep.join(folder for folder in sys.path if folder)
    with (
        tempfile.TemporaryFile() as messages,
        subprocess.Popen(
            [sys.executable, "-P", "-c", _LEARNER, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=messages,
            env=os.environ | {"PYTHONPATH": path},
            # Ctrl-C in a terminal reaches this process alone, which ends the other.
            start_new_session=True,
        ) as process,
        undo_if_interrupted(process.kill),
    ):
        to_learner, from_learner = cast(IO, process.stdin), cast(IO, process.stdout)
        # If the process ends early, its message has the reason.
        with contextlib.suppress(BrokenPipeError), to_learner:
            while lines:
                to_learner.write(lines.pop().encode() + b"\n")
        model = from_learner.read()
        status = process.wait()
        messages.seek(0)
        output = messages.read().decode(errors="replace").strip()
    if status < 0:
        output = f"signal {-status} ended it. Is there enough memory?"
    if status:
        last = output.rpartition("\n")[2]  # a traceback may precede it
        raise RuntimeError(last.removeprefix("sentencepiece: "))
    return model


def _explain_error(
    error: RuntimeError, vocabulary_size: int, num_lines: int
) -> UserError:
    """Returns an error in terms of the flags for a message of SentencePiece."""
    message = str(error)
    if match := _TOO_LARGE.search(message):
        return UserError(
            f"A vocabulary of {vocabulary_size} is larger than the training text "
            f"allows: its {num_lines} lines give at most {match[1]} subwords. Use "
            f"--vocabulary_size={match[1]} or less, or more text."
        )
    if match := _TOO_SMALL.search(message):
        return UserError(
            f"A vocabulary of {vocabulary_size} is too small: the special ids, the "
            f"256 bytes and the characters of the training text need {match[1]}. Use "
            f"--vocabulary_size={match[1]} or more."
        )
    return UserError(
        f"SentencePiece could not learn a vocabulary of {vocabulary_size} from "
        f"{num_lines} lines: {message}"
    )
