"""Preparation of records by Apache Beam: each shard is written by some worker of it.

The workers need this package, and must see the text and the folder of the records under
the names that this process has for them.
"""

import functools
import re
import shlex
from pathlib import Path
from typing import Any

from t2t_keras.errors import UserError, require_extra
from t2t_keras.files.remote import as_path, is_url
from t2t_keras.input_pipeline.records.manifest import Manifest
from t2t_keras.runs.data import preparation, remote_preparation
from t2t_keras.settings.data_config import DataConfig


def prepare_on_beam(
    config: DataConfig,
    folder: Path,
    options: str,
    *,
    pairs_per_shard: int | None = None,
    keep_text: bool = False,
) -> Manifest:
    """Writes records as `preparation.prepare` does, and the same, by Apache Beam.

    The text is counted, and the vocabulary learned, in this process, which also joins
    the shards.

    Args:
        config: Corpus and tokenization settings.
        folder: Directory of the records, on an object store or not; created if missing.
        options: Options of the pipeline as on a command line, such as
            "--runner=DirectRunner --direct_num_workers=4".
        pairs_per_shard: Lines of text in a shard. Default: that of existing records,
            or 500,000.
        keep_text: Whether records keep the text of their pairs.

    Raises:
        UserError: As `preparation.prepare`; or if the options name no runner.
    """
    require_extra("--beam", "beam")
    # Only for this task: its import takes seconds.
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    arguments = shlex.split(options)
    # Of other options, only the runner can tell whether it knows them.
    if not any(re.match("--runner(=|$)", each) for each in arguments):
        raise UserError(
            "--beam must name a runner, such as --runner=DirectRunner for this "
            f"machine. Received: {options}"
        )
    steps: Any = remote_preparation if is_url(folder) else preparation
    spec = steps.begin(
        config, folder, pairs_per_shard=pairs_per_shard, keep_text=keep_text
    )
    write = functools.partial(write_shard, config, str(folder))
    with beam.Pipeline(options=PipelineOptions(arguments)) as pipeline:
        numbers = pipeline | beam.Create(range(spec.num_shards))
        # Without it, the shards of one `Create` would be one worker's.
        _ = numbers | beam.Reshuffle() | beam.Map(write)
    return steps.join(config, folder)


def write_shard(config: DataConfig, folder: str, shard: int) -> int:
    """Writes a shard unless it is complete, and returns its number."""
    path = as_path(folder)
    steps: Any = remote_preparation if is_url(path) else preparation
    steps.write_some(config, path, [shard], workers=0)
    return shard
