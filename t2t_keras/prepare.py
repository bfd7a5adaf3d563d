"""Writes records of a corpus: token ids on disk, which training opens instantly.

    python -m t2t_keras.prepare --flagfile=configs/base.flags --download \\
        --output=records/wmt14.en-de
    python -m t2t_keras.train --flagfile=configs/base.flags --model_dir=runs/base \\
        --records=records/wmt14.en-de
    python -m t2t_keras.prepare --output=records/wmt14.en-de --verify
    python -m t2t_keras.prepare --shortlist=ende.shortlist --alignments=train.align \\
        --train_source=train.en --train_target=train.de \\
        --vocabulary_file=runs/base/vocabulary.model

The vocabulary is learned, or loaded from --vocabulary_file. The folder also contains
it and the dev and test sets. After a stop or a kill, complete shards are kept, and the
same command writes the missing ones. Flagfiles for training can be used; settings of
model and training are ignored. With --shortlist no records are written, but a file for
t2t_keras.export --shortlist: which subwords translate which.
"""

import dataclasses
from pathlib import Path

from absl import flags

from t2t_keras.files.signals import Interrupted
from t2t_keras.settings import program
from t2t_keras.settings.config import DataConfig
from t2t_keras.settings.flags import (
    accept_model_dir,
    config_from_flags,
    define_config_flags,
    make_paths_absolute,
)

# Settings of batches do not change the records, which have no alignments.
_UNUSED = (
    "records",
    "train_alignments",
    "subword_sampling",
    "batching",
    "max_shapes",
    "tokens_per_batch",
)
_DATA = tuple(
    field.name for field in dataclasses.fields(DataConfig) if field.name not in _UNUSED
)
_OUTPUT = flags.DEFINE_string(
    "output",
    None,
    "Folder of the records, created if missing. Required without --shortlist.",
)
_WORKERS = flags.DEFINE_integer(
    "workers",
    None,
    "Number of processes that tokenize. Default: one for each core.",
    1,
)
_PAIRS_PER_SHARD = flags.DEFINE_integer(
    "pairs_per_shard",
    None,
    "Number of sentence pairs in a shard. Default: 500,000. A process keeps one shard "
    "in memory, which is lost if the process is killed.",
    1,
)
_KEEP_TEXT = flags.DEFINE_bool(
    "keep_text",
    False,
    "Whether the records also contain the text of their pairs, which "
    "train --subword_sampling needs.",
)
_VERIFY = flags.DEFINE_bool(
    "verify",
    False,
    "Whether to read existing records and check every hash, without writing any.",
)
_SHORTLIST = flags.DEFINE_string(
    "shortlist",
    None,
    "File to write instead of records: which subwords of --vocabulary_file translate "
    "which, counted in --train_source and --train_target, for a faster search.",
)
_ALIGNMENTS = flags.DEFINE_string(
    "alignments",
    None,
    "File with the word alignment of each line of the training text in Pharaoh format, "
    "for --shortlist.",
)
# What --shortlist needs, and flags of records alone.
_OF_SHORTLISTS = ("train_source", "vocabulary_file", "alignments")
_OF_RECORDS = ("output", "workers", "pairs_per_shard", "keep_text", "verify")
accept_model_dir()
define_config_flags()


def main() -> int:
    """Prepares or verifies; returns the exit status."""
    from t2t_keras.input_pipeline.records.manifest import verify_records
    from t2t_keras.runs.data import preparation
    from t2t_keras.text.stored_vocabulary import load_vocabulary
    from t2t_keras.translation.lexicon import make_shortlist

    if _SHORTLIST.value:
        data = config_from_flags().data
        with program.progress_bar(None, "lines") as bar:
            about = make_shortlist(
                load_vocabulary(data.vocabulary_file or ""),
                (data.train_source, data.train_target),
                _ALIGNMENTS.value or "",
                _SHORTLIST.value,
                bar.reset,
                bar.update,
            )
        print(about)
        return 0
    folder = Path(program.require_flag("output"))
    if _VERIFY.value:
        manifest = verify_records(folder)
        print(f"{folder}: every hash is correct\n{preparation.describe(manifest)}")
        return 0
    try:
        manifest = preparation.prepare(
            make_paths_absolute(config_from_flags()).data,
            folder,
            pairs_per_shard=_PAIRS_PER_SHARD.value,
            workers=_WORKERS.value,
            keep_text=_KEEP_TEXT.value,
            log=program.log,
        )
    except Interrupted as stop:
        program.log(
            f"{stop}; finished shards are kept. The same command resumes from there."
        )
        return 128 + stop.signal_number
    print(preparation.describe(manifest))
    return 0


def _check() -> None:
    """Raises `UserError` if flags are invalid or incompatible."""
    if _SHORTLIST.value:
        program.refuse_flags(_OF_RECORDS, "is for records. Leave out --shortlist.")
    else:
        program.refuse_flags(("alignments",), "is for --shortlist. Add that.")
    for name in _OF_SHORTLISTS if _SHORTLIST.value else ("output",):
        program.require_flag(name)
    program.check_filters(config_from_flags())


if __name__ == "__main__":
    program.run(main, __doc__ or "", settings_used=_DATA, check=_check)
