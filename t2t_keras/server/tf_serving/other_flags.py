"""Flags of TensorFlow Serving that this server accepts or refuses without an effect.

They are those of tensorflow_serving/model_servers/main.cc. With the flags of
`ServerSettings` and --version they are all 48 of July 2026.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from t2t_keras.errors import UserError
from t2t_keras.settings.setting import Settings, setting, settings_of

_EVERY_CALLER = "requests of all protocols share the threads of --grpc_max_threads"
_TFLITE = "models of TensorFlow Lite are not served"


def _ignored(reason: str) -> Any:
    return setting(None, f"Has no effect here: {reason}.")


def _unsupported(reason: str) -> Any:
    return setting(None, f"Is not supported here: {reason}.")


@dataclass(frozen=True)
class IgnoredFlags(Settings):
    """Flags without an effect: a command line with them works the same."""

    rest_api_num_threads: int | None = _ignored(_EVERY_CALLER)
    num_load_threads: int | None = _ignored(
        "versions are loaded one at a time, in a thread of their own"
    )
    num_unload_threads: int | None = _ignored(
        "each version is unloaded in a thread of its own"
    )
    flush_filesystem_caches: bool | None = _ignored(
        "caches of the file system are left to the system"
    )
    remove_unused_fields_from_bundle_metagraph: bool | None = _ignored(
        "no such fields are kept"
    )
    enable_signature_method_name_check: bool | None = _ignored(
        "Classify and Regress, which it concerns, are not run"
    )
    skip_initialize_tpu: bool | None = _ignored("TPUs are not used")
    num_tflite_pools: int | None = _ignored(_TFLITE)
    num_tflite_interpreters_per_pool: int | None = _ignored(_TFLITE)
    enable_profiler: bool | None = _ignored(
        "there is no profiler service; use TensorFlow's own tools"
    )


@dataclass(frozen=True)
class UnsupportedFlags(Settings):
    """Flags that have an effect in TensorFlow Serving only."""

    prefer_tflite_model: bool | None = _unsupported(_TFLITE)
    use_alts_credentials: bool | None = _unsupported(
        "ALTS exists in Google's cloud only; use --ssl_config_file"
    )
    platform_config_file: str | None = _unsupported(
        "the platform is TensorFlow; use --enable_batching and others"
    )
    thread_pool_factory_config_file: str | None = _unsupported(
        "use --tensorflow_inter_op_parallelism"
    )
    mixed_precision: str | None = _unsupported(
        "use export --precision=bfloat16 or int8"
    )
    enable_serialization_as_tensor_content: bool | None = _unsupported(
        "clients read the fields of a type"
    )


def check_other_flags(
    ignored: Mapping[str, Any], unsupported: Mapping[str, Any]
) -> list[str]:
    """Returns a line for each of `IgnoredFlags` and `UnsupportedFlags` that was given.

    Raises:
        UserError: If one is not supported, and its value is not false.
    """
    settings = {**settings_of(IgnoredFlags), **settings_of(UnsupportedFlags)}
    lines = []
    for name, value in {**ignored, **unsupported}.items():
        about = settings[name].about.removesuffix(".")
        line = f"--{name} {about[0].lower()}{about[1:]}"
        if name in unsupported and value:
            raise UserError(f"{line}.")
        lines.append(line)
    return lines
