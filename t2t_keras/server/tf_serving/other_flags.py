"""Flags of TensorFlow Serving that this server accepts or refuses without an effect.

They are those of tensorflow_serving/model_servers/main.cc. With the flags of
`ServerSettings` and --version they are all 48 of July 2026.
"""

from types import MappingProxyType
from typing import NamedTuple

from absl import flags

from t2t_keras.errors import UserError

# They belong to the program that defines them by calling the function.
flags.disclaim_key_flags()


class OtherFlag(NamedTuple):
    """A flag without an effect.

    Attributes:
        kind: Type of its value.
        supported: Whether a command line with it works the same.
        reason: Why it has no effect, a phrase.
    """

    kind: type[bool] | type[int] | type[str]
    supported: bool
    reason: str


_EVERY_CALLER = "requests of all protocols share the threads of --grpc_max_threads"
_TFLITE = "models of TensorFlow Lite are not served"

OTHER_FLAGS = MappingProxyType(
    {
        "rest_api_num_threads": OtherFlag(int, True, _EVERY_CALLER),
        "num_load_threads": OtherFlag(
            int, True, "versions are loaded one at a time, in a thread of their own"
        ),
        "num_unload_threads": OtherFlag(
            int, True, "each version is unloaded in a thread of its own"
        ),
        "flush_filesystem_caches": OtherFlag(
            bool, True, "caches of the file system are left to the system"
        ),
        "remove_unused_fields_from_bundle_metagraph": OtherFlag(
            bool, True, "no such fields are kept"
        ),
        "enable_signature_method_name_check": OtherFlag(
            bool, True, "Classify and Regress, which it concerns, are not run"
        ),
        "skip_initialize_tpu": OtherFlag(bool, True, "TPUs are not used"),
        "num_tflite_pools": OtherFlag(int, True, _TFLITE),
        "num_tflite_interpreters_per_pool": OtherFlag(int, True, _TFLITE),
        "enable_profiler": OtherFlag(
            bool, True, "there is no profiler service; use TensorFlow's own tools"
        ),
        "prefer_tflite_model": OtherFlag(bool, False, _TFLITE),
        "use_alts_credentials": OtherFlag(
            bool, False, "ALTS exists in Google's cloud only; use --ssl_config_file"
        ),
        "platform_config_file": OtherFlag(
            str, False, "the platform is TensorFlow; use --enable_batching and others"
        ),
        "thread_pool_factory_config_file": OtherFlag(
            str, False, "use --tensorflow_inter_op_parallelism"
        ),
        "mixed_precision": OtherFlag(str, False, "use export --precision=bfloat16"),
        "enable_serialization_as_tensor_content": OtherFlag(
            bool, False, "clients read the fields of a type"
        ),
    }
)


def define_other_flags() -> None:
    """Defines the flags, for the program that calls it."""
    define = {
        bool: flags.DEFINE_bool,
        int: flags.DEFINE_integer,
        str: flags.DEFINE_string,
    }
    for name, flag in OTHER_FLAGS.items():
        effect = "Has no effect here" if flag.supported else "Is not supported here"
        define[flag.kind](name, None, f"{effect}: {flag.reason}.")


def check_other_flags() -> list[str]:
    """Returns a line for each of the flags that was given.

    Raises:
        UserError: If one is not supported, and was not given its default.
    """
    lines = []
    for name, flag in OTHER_FLAGS.items():
        if flags.FLAGS[name].value and not flag.supported:
            raise UserError(f"--{name} is not supported here: {flag.reason}.")
        if flags.FLAGS[name].present:
            lines.append(f"--{name} has no effect here: {flag.reason}")
    return lines
