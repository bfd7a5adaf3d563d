"""Writes records of a corpus: token ids on disk, which training opens instantly.

    python -m t2t_keras.prepare --flagfile=configs/base.flags --download \\
        --output=records/wmt14.en-de
    python -m t2t_keras.train --flagfile=configs/base.flags --model_dir=runs/base \\
        --records=records/wmt14.en-de
    python -m t2t_keras.prepare --output=records/wmt14.en-de --verify
    python -m t2t_keras.prepare --flagfile=… --output=… --vocabulary_only
    python -m t2t_keras.prepare --flagfile=… --output=… --part=3/16
    python -m t2t_keras.prepare --flagfile=… --output=… --join
    python -m t2t_keras.prepare --flagfile=… --output=… --report
    python -m t2t_keras.prepare --shortlist=ende.shortlist --alignments=train.align \\
        --train_source=train.en --train_target=train.de \\
        --vocabulary_file=runs/base/vocabulary.model
    python -m t2t_keras.prepare --temperature=5 --train_source=train.en \\
        --train_target=train.de --mixture=more.en:more.de:1,other.tsv:1

The vocabulary is learned, or loaded from --vocabulary_file. The folder also contains
it and the dev and test sets. After a stop or a kill, complete shards are kept, and the
same command writes the missing ones. Several processes or hosts may each write a part,
after --vocabulary_only and before --join, with the same result. Flagfiles for training
can be used; settings of model and training are ignored. With --report the folder also
gets report.txt and report.html, about the text. With --shortlist no records are
written, but a file for t2t_keras.export --shortlist: which subwords translate which.
With --temperature nothing is written: the --mixture with rates by temperature is
printed, for t2t_keras.train.
"""

import dataclasses
import re
from pathlib import Path
from typing import Any

from t2t_keras.errors import MissingPackage, UserError, require_extra
from t2t_keras.files.remote import as_path, check_supported, is_url
from t2t_keras.files.signals import Interrupted
from t2t_keras.settings import program
from t2t_keras.settings.config import make_paths_absolute
from t2t_keras.settings.data_config import DataConfig
from t2t_keras.settings.flags import (
    accept_model_dir,
    check_use,
    config_from_flags,
    define_config_flags,
    define_flags,
)
from t2t_keras.settings.setting import Settings, marked, setting, settings_of

_OF_RECORDS, _OF_SHORTLISTS, _OF_RATES = "records", "shortlists", "rates"


@dataclasses.dataclass(frozen=True)
class PrepareOptions(Settings):
    """What is written, or verified, and how."""

    output: str | None = setting(
        None,
        "Folder of the records, created if missing, or a URL such as "
        "s3://bucket/records. Required without --shortlist and --temperature.",
        path=True,
        uses=(_OF_RECORDS,),
    )
    workers: int | None = setting(
        None,
        "Number of processes that tokenize. Default: one for each core.",
        low=1,
        uses=(_OF_RECORDS,),
    )
    pairs_per_shard: int | None = setting(
        None,
        "Number of sentence pairs in a shard. Default: 500,000. A process keeps one "
        "shard in memory, which is lost if the process is killed.",
        low=1,
        uses=(_OF_RECORDS,),
    )
    keep_text: bool = setting(
        False,
        "Whether the records also contain the text of their pairs, which "
        "train --subword_sampling needs.",
        uses=(_OF_RECORDS,),
    )
    vocabulary_only: bool = setting(
        False,
        "Whether to write only the vocabulary, after counting the lines of the text: "
        "the first step of a preparation in parts.",
        uses=(_OF_RECORDS,),
    )
    part: str | None = setting(
        None,
        "Part to write after --vocabulary_only, as i/n, with i from 1 to n: 3/16 is "
        "the third of 16. Parts may run at the same time, on any hosts that share the "
        "folder.",
        uses=(_OF_RECORDS,),
    )
    join: bool = setting(
        False,
        "Whether to join the parts, once all are written.",
        uses=(_OF_RECORDS,),
    )
    beam: str | None = setting(
        None,
        "Options of an Apache Beam pipeline that writes the records on its workers, "
        "such as '--runner=FlinkRunner --flink_master=host:8081'. They must see the "
        "text and --output under the same names.",
        uses=(_OF_RECORDS,),
    )
    verify: bool = setting(
        False,
        "Whether to read existing records and check every hash, without writing any.",
        uses=(_OF_RECORDS,),
    )
    report: bool = setting(
        False,
        "Whether to write report.txt and report.html into --output and to print the "
        "text, once the records are finished: counts, lengths, scripts, frequent "
        "pairs, and examples. For records that are finished already, nothing else is "
        "written.",
        uses=(_OF_RECORDS,),
    )
    shortlist: str | None = setting(
        None,
        "File to write instead of records: which subwords of --vocabulary_file "
        "translate which, counted in --train_source and --train_target, for a faster "
        "search.",
        path=True,
    )
    alignments: str | None = setting(
        None,
        "File with the word alignment of each line of the training text in Pharaoh "
        "format, for --shortlist.",
        path=True,
        uses=(_OF_SHORTLISTS,),
    )
    temperature: float | None = setting(
        None,
        "Temperature T, from 1: prints --mixture with the rates at which each corpus "
        "is seen in proportion to the T-th root of its size, instead of writing "
        "records. 1 is in proportion to the sizes; published for many languages: 5. "
        "The rates given in --mixture do not matter.",
        low=1,
    )

    def check(self) -> None:
        if self.temperature is not None:
            if self.shortlist:
                raise UserError(
                    "--temperature and --shortlist are for different tasks. Leave one "
                    "out."
                )
            reason = "is not for --temperature, which only prints rates. Leave one out."
            check_use([_OPTIONS], _OF_RATES, reason)
        elif self.shortlist:
            reason = "is for records. Leave out --shortlist."
            check_use([_OPTIONS], _OF_SHORTLISTS, reason)
            self.require("alignments")
        else:
            check_use([_OPTIONS], _OF_RECORDS, "is for --shortlist. Add that.")
            self.require("output")
            steps = ("vocabulary_only", "part", "join", "verify", "beam")
            given = [f"--{name}" for name in steps if getattr(self, name)]
            if len(given) > 1:
                raise UserError(
                    f"{' and '.join(given)} are different steps. Give one of them."
                )
            finish_none = {"--vocabulary_only", "--part", "--verify"} & {*given}
            if self.report and finish_none:
                raise UserError(
                    f"--report is about finished records, and {finish_none.pop()} "
                    "finishes none. Give it with --join, or alone."
                )
            if self.report and is_url(self.require("output")):
                raise UserError(
                    "--report is written to a folder, not to an object store. Leave it "
                    f"out, or copy the records. Received: {self.output}"
                )
            self.part_numbers()

    def part_numbers(self) -> tuple[int, int] | None:
        """Returns the number of --part, from 1, and of all parts; None without it.

        Raises:
            UserError: If it is not i/n with i from 1 to n.
        """
        if self.part is None:
            return None
        match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", self.part)
        number, parts = map(int, match.groups()) if match else (0, 0)
        if not 1 <= number <= parts:
            raise UserError(
                "--part must be i/n, with i from 1 to n: 3/16 is the third of 16. "
                f"Received: {self.part}"
            )
        return number, parts


_OPTIONS = define_flags(PrepareOptions)
accept_model_dir()
define_config_flags()


def main() -> int:
    """Prepares or verifies; returns the exit status."""
    from t2t_keras.input_pipeline.records.manifest import MANIFEST_FILE
    from t2t_keras.runs.data import preparation, remote_preparation

    options = _OPTIONS.read()
    if options.shortlist:
        return _make_shortlist(options)
    if options.temperature is not None:
        return _print_rates(options.temperature)
    folder = as_path(options.require("output"))
    steps: Any = remote_preparation if is_url(folder) else preparation
    if options.verify:
        manifest = steps.verify(folder)
        print(f"{folder}: every hash is correct\n{preparation.describe(manifest)}")
        return 0
    data = make_paths_absolute(config_from_flags()).data
    how = {
        "pairs_per_shard": options.pairs_per_shard,
        "workers": options.workers,
        "keep_text": options.keep_text,
    }
    if options.report and (folder / MANIFEST_FILE).exists():
        return _write_report(data, folder)
    part = options.part_numbers()
    try:
        if options.vocabulary_only:
            print(steps.begin(data, folder, **how).describe())
            return 0
        if part is not None:
            shards = steps.write_part(data, folder, part, **how)
            print(f"part {options.part}: its {len(shards)} shards are written")
            return 0
        if options.join:
            manifest = steps.join(data, folder)
        elif options.beam is not None:
            from t2t_keras.runs.data.beam_preparation import prepare_on_beam

            del how["workers"]
            manifest = prepare_on_beam(data, folder, options.beam, **how)
        else:
            manifest = steps.prepare(data, folder, **how)
    except Interrupted as stop:
        program.log(
            f"{stop}; finished shards are kept. The same command resumes from there."
        )
        return 128 + stop.signal_number
    print(preparation.describe(manifest))
    return _write_report(data, folder) if options.report else 0


def _write_report(data: DataConfig, folder: Path) -> int:
    from t2t_keras.reports.corpus_page import write_corpus_report
    from t2t_keras.runs.data.corpus_report import read_corpus

    report = read_corpus(data, folder)
    html = not _missing_for_html()
    print(write_corpus_report(report, folder, html=html), end="")
    return 0


def _missing_for_html() -> str:
    """Returns what report.html needs and is not installed; nothing if all is."""
    try:
        require_extra("report.html", "report", "jinja2")
    except MissingPackage as missing:
        return str(missing)
    return ""


def _make_shortlist(options: PrepareOptions) -> int:
    from t2t_keras.text.stored_vocabulary import load_vocabulary
    from t2t_keras.translation.lexicon import make_shortlist

    data = config_from_flags().data
    with program.progress_bar(None, "lines") as bar:
        about = make_shortlist(
            load_vocabulary(data.require("vocabulary_file")),
            (data.train_source, data.train_target),
            options.require("alignments"),
            options.require("shortlist"),
            (data.source_language, data.target_language),
            data.columns,
            bar.reset,
            bar.update,
        )
    print(about)
    return 0


def _print_rates(temperature: float) -> int:
    from t2t_keras.runs.data.temperature import temperature_rates

    rates = temperature_rates(config_from_flags().data, temperature)
    print(f"{rates.table}\n{rates.flag}")
    return 0


def _check() -> None:
    """Raises `UserError` if flags are invalid or incompatible."""
    options, config = _OPTIONS.read(), config_from_flags()
    program.check_extras(config)
    if options.output and is_url(options.output):
        check_supported(options.output)
    for name in ("train_source", "vocabulary_file") if options.shortlist else ():
        config.data.require(name)
    if options.temperature is not None:
        config.data.require("mixture")
    if options.report:
        if not config.data.train_source and config.data.dataset is None:
            raise UserError(
                "--report shows pairs of the training text. Give --train_source and "
                "--train_target, or --dataset, as when the records were made."
            )
        if missing := _missing_for_html():
            program.log(f"warning: only report.txt will be written: {missing}")


if __name__ == "__main__":
    unused = marked(DataConfig, "batches_only")
    used = [name for name in settings_of(DataConfig) if name not in unused]
    program.run(main, __doc__ or "", settings_used=used, check=_check)
