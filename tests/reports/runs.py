"""Model directories with the files of a finished run that reports read."""

import json
from pathlib import Path
from types import MappingProxyType
from typing import Any

from t2t_keras.reports.run_summary import RunSummary, read_run
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.settings.config import ExperimentConfig
from t2t_keras.settings.data_config import DataConfig
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.settings.model_config import ModelConfig
from t2t_keras.settings.training_config import TrainingConfig

_COST = MappingProxyType(
    {
        "hours": 12.0,
        "devices": 8,
        "flops": 2.5e18,
        "flops_per_second": 5.787e13,
        "ceiling_flops_per_second": None,
        "paper_estimate_flops": None,
    }
)
MODEL = ModelConfig(num_layers=2, d_model=16, d_ff=24, num_heads=2)


def build_score(**values: Any) -> dict[str, Any]:
    """Scores in the form of a run card; `values` replace or add fields."""
    return {
        "checkpoint": "averaged/step-40",
        "step": 40,
        "sentences": 1234,
        "bleu": 27.64,
        "bleu_signature": "BLEU|tok:13a",
        "chrf": 51.5,
        "chrf_signature": "chrF2|nc:6",
        "perplexity": 4.567,
        "decoding": {"beam_size": 4, "alpha": 0.6, "extra_length": 50},
        "tokenized_bleu": 28.15,
        "tokenized_bleu_signature": "multi-bleu|compounds:split",
        **values,
    }


def build_card(corpus: str, **fields: Any) -> dict[str, Any]:
    """Run card of a finished run; `fields` replace or add fields."""
    return {
        "started": "2026-01-02T03:04:05Z",
        "versions": {"tensorflow": "2.21.0"},
        "seed": 7,
        "corpus": {"name": corpus, "pairs": 4500, "padding_share": 0.125},
        "vocabulary": {"size": 300, "sha256": "ab" * 32},
        "training_cost": {"step": 40, **_COST},
        "averaged": {"steps": [20, 30, 40]},
        "scores": {"test averaged/step-40": build_score()},
        **fields,
    }


def write_scored_run(
    folder: Path, config: ExperimentConfig, **fields: Any
) -> RunSummary:
    """Writes a run that is trained to the end, averaged, and scored.

    Args:
        folder: Folder of the run.
        config: Settings of the run.
        fields: Fields that replace those of the run card.
    """
    steps, averaged = config.training.train_steps, config.training.average_checkpoints
    score = build_score(
        checkpoint=f"averaged/step-{steps}",
        step=steps,
        decoding=config.decoding.as_dict(),
    )
    card = {
        "training_cost": {"step": steps, **_COST},
        "averaged": {"steps": [steps - i for i in reversed(range(averaged))]},
        "scores": {f"test averaged/step-{steps}": score},
        "vocabulary": {"size": config.data.vocabulary_size},
    }
    corpus = config.data.dataset or "text files"
    return write_run(folder, corpus, config=config, **{**card, **fields})


def papers_base() -> ExperimentConfig:
    """Settings of the paper's base model for English to German."""
    return ExperimentConfig(
        DataConfig(dataset="wmt14_translate/de-en", vocabulary_size=37_000),
        ModelConfig(
            num_layers=6, d_model=512, d_ff=2048, num_heads=8, dropout_rate=0.1
        ),
        TrainingConfig(
            100_000,
            4000,
            label_smoothing=0.1,
            average_checkpoints=5,
        ),
        DecodingConfig(4, 0.6, 50),
    )


def papers_parser() -> ExperimentConfig:
    """Settings of the paper's parser trained on WSJ only (section 6.3)."""
    return ExperimentConfig(
        DataConfig(
            target_language="tree",
            train_source=(
                "/ldc/wsj/0[2-9]/*.mrg",
                "/ldc/wsj/1*/*.mrg",
                "/ldc/wsj/20/*.mrg",
                "/ldc/wsj/21/*.mrg",
            ),
            test_source=("/ldc/wsj/23/*.mrg",),
            vocabulary_size=16_000,
        ),
        ModelConfig(
            num_layers=4, d_model=1024, d_ff=2048, num_heads=8, dropout_rate=0.2
        ),
        decoding=DecodingConfig(21, 0.3, 300),
    )


def write_run(
    folder: Path,
    corpus: str = "wmt14_translate/de-en",
    model: ModelConfig = MODEL,
    data: DataConfig | None = None,
    config: ExperimentConfig | None = None,
    **fields: Any,
) -> RunSummary:
    """Writes a run and reads it back."""
    place = ModelDir(folder)
    folder.mkdir(parents=True)
    config = config or ExperimentConfig(
        data or DataConfig(dataset="wmt14_translate/de-en"),
        model,
        TrainingConfig(train_steps=40),
    )
    place.write_config(config, "A run.")
    place.update_run_card(build_card(corpus, **fields))
    lines = [
        {"step": 10, "loss": 5.0, "learning_rate": 0.1, "target_tokens_per_second": 9},
        {"step": 20, "loss": 4.0, "learning_rate": 0.2, "target_tokens_per_second": 8},
        {"step": 20, "dev_loss": 3.5, "dev_bleu_greedy": 1.5},
    ]
    place.metrics_file.write_text("".join(f"{json.dumps(x)}\n" for x in lines))
    place.translations.mkdir()
    (place.translations / "test-averaged-step-40.txt").write_text("eins\nzwei\ndrei\n")
    return read_run(str(folder))
