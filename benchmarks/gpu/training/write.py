"""Writes trainings to the end, one for each seed, to run without TensorFlow.

    python -m benchmarks.gpu.training.write --flagfile=configs/multi30k.flags \\
        --train_source=train.en --train_target=train.de \\
        --dev_source=val.en --dev_target=val.de \\
        --seeds=1,2,3 --out=DIR --name=04-training-multi30k

Settings, text, vocabulary and batches are those of `python -m t2t_keras.train` with the
same flags. Two things differ from it: weights start from other random numbers of the
same deviation (uniform ones, hashed from their names and the seed), which take no room;
and the loss of the dev set is summed in batches of one shape, which changes its last
digits.
"""

from pathlib import Path

from absl import flags

from t2t_keras.errors import UserError
from t2t_keras.settings.config import ExperimentConfig, make_paths_absolute
from t2t_keras.settings.data_config import DataConfig
from t2t_keras.settings.flags import (
    accept_model_dir,
    config_from_flags,
    define_config_flags,
)
from t2t_keras.settings.model_config import ModelConfig
from t2t_keras.settings.program import log, require_flag, run
from t2t_keras.settings.training_config import TrainingConfig

_OUT = flags.DEFINE_string("out", None, "Folder to write to. Required.")
_NAME = flags.DEFINE_string(
    "name",
    "04-training",
    "First part of the folders' names, before target language and seed. "
    "benchmarks.gpu.run takes folders in the order of their names.",
)
_SEEDS = flags.DEFINE_list("seeds", None, "Seeds of the trainings. Default: --seed.")
_DEVICE = flags.DEFINE_enum(
    "device", "gpu", ["cpu", "gpu"], "Device whose choices the step has."
)
_UPDATES = flags.DEFINE_integer(
    "updates_per_run",
    10,
    "Most updates of one run of the program. Fewer are taken where they do not divide "
    "--train_steps, --log_steps, --eval_steps and --save_steps.",
    lower_bound=1,
)
define_config_flags()
accept_model_dir()


def main() -> None:
    """Writes the trainings of the flags."""
    from benchmarks.gpu.training.writing import Plan, write_trainings

    config = make_paths_absolute(_check())
    out, name = Path(_OUT.value), f"{_NAME.value}-{config.data.target_language}"
    plan = Plan(config, _seeds(config), out, name, _DEVICE.value, _UPDATES.value)
    write_trainings(plan, log)
    files = [path for path in out.glob(f"{name}-*/**/*") if path.is_file()]
    size = sum(path.stat().st_size for path in files) / 2**20
    log(f"{out}: {size:.1f} MiB of {name}")


def _check() -> ExperimentConfig:
    """Returns the settings; raises `UserError` if they ask for what is missing here."""
    require_flag("out")
    config = config_from_flags()
    _seeds(config)
    unused = (
        (config.model, ModelConfig, ("decoder_start",)),
        (config.data, DataConfig, ("subword_sampling",)),
        (
            config.training,
            TrainingConfig,
            (
                "cpu_devices",
                "ema_decay",
                "freeze",
                "guided_alignment",
                "init_from",
                "max_tokens_per_replica",
                "on_nonfinite",
                "patience",
                "strategy",
                "tf32",
            ),
        ),
    )
    for section, defaults, names in unused:
        for name in names:
            value = getattr(section, name)
            if value != getattr(defaults, name):
                raise UserError(f"--{name}={value} is not for this program. Omit it.")
    if config.data.batching != "pack" or not config.training.save_steps:
        raise UserError(
            "--batching must be pack, for one shape of batches, and --save_steps above "
            f"0. Received: --batching={config.data.batching} "
            f"--save_steps={config.training.save_steps}"
        )
    return config


def _seeds(config: ExperimentConfig) -> list[int]:
    seeds = _SEEDS.value or [str(config.training.seed)]
    if not all(map(str.isdecimal, seeds)) or len(set(seeds)) < len(seeds):
        raise UserError(
            f"--seeds must be different numbers, such as 1,2,3. Received: {seeds}"
        )
    return [int(seed) for seed in seeds]


if __name__ == "__main__":
    run(main, __doc__ or "", with_config=True, check=_check)
