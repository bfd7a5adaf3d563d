"""Settings of the development server, checked before TensorFlow is imported."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.files.paths import check_readable_by_tensorflow
from t2t_keras.settings.setting import Settings, setting

# Uses of the program (`Setting.uses`): it serves models, or is a gateway to another
# server, where most settings have no meaning.
MODELS = "models"
GATEWAY = "gateway"
_BOTH = (MODELS, GATEWAY)


@dataclass(frozen=True)
class ServerSettings(Settings):
    """Settings of a server: its models, its port and its limits.

    Fields are named as the flags of `tensorflow_model_server`, and mean the same. As
    there, some are ignored beside others: see `ignored`. `host`, `max_rows`,
    `max_body_bytes` and `access_log` are not TensorFlow Serving's.

    Raises:
        UserError: If a value is invalid, there is neither `model_base_path` nor
            `model_config_file`, or a setting lacks another that it needs.
    """

    model_base_path: str = setting(
        "",
        "Directory of one model, with a folder for each version. Required, and used, "
        "only without --model_config_file.",
        path=True,
        uses=_BOTH,
    )
    model_name: str = setting(
        "default",
        "Name of the model in requests.",
        uses=_BOTH,
    )
    model_config_file: str = setting(
        "",
        "File with a text ModelServerConfig: several models, versions or labels. It "
        "replaces --model_base_path and --model_name.",
        path=True,
    )
    model_config_file_poll_wait_seconds: float = setting(
        0.0,
        "Seconds between two checks of --model_config_file for changes; 0 for never.",
        low=0,
    )
    port: int = setting(
        8500,
        "Port to listen on; 0 for any free port.",
        low=0,
        high=65_535,
    )
    host: str = setting(
        "127.0.0.1",
        "Address to listen on; 0.0.0.0 for all addresses of this machine, :: for those "
        "of IPv6 as well.",
        uses=_BOTH,
    )
    grpc_socket_path: str = setting(
        "",
        "Path of a Unix domain socket to listen on for gRPC as well.",
        path=True,
    )
    rest_api_port: int = setting(
        0,
        "Port of the REST API; 0 for none.",
        low=0,
        high=65_535,
    )
    rest_api_timeout_in_ms: int = setting(
        30_000,
        "Longest time of a request over REST, and of the arrival of its body, in "
        "milliseconds; 0 or less for no limit.",
    )
    rest_api_enable_cors_support: bool = setting(
        False,
        "Whether web pages of other hosts may use the REST API.",
    )
    max_body_bytes: int = setting(
        16 * 2**20,
        "Largest body of a request over HTTP, in bytes.",
        low=1,
        uses=_BOTH,
    )
    access_log: bool = setting(
        False,
        "Whether the log has a line for each request: interface, client, request, "
        "status and time.",
        uses=_BOTH,
    )
    monitoring_config_file: str = setting(
        "",
        "File with a text MonitoringConfig: metrics for Prometheus on the REST port. "
        "Ignored without --rest_api_port.",
        path=True,
    )
    enable_batching: bool = setting(
        False,
        "Whether requests that arrive together are joined into batches.",
    )
    batching_parameters_file: str = setting(
        "",
        "File with a text BatchingParameters: sizes and timeouts of batches. Default: "
        "those of TensorFlow Serving.",
        path=True,
    )
    enable_per_model_batching_parameters: bool = setting(
        False,
        "Whether --enable_batching reads sizes and timeouts of batches from a file of "
        "each version, batching_params.pbtxt, and only the number of threads from "
        "--batching_parameters_file. A version without the file is not batched.",
    )
    grpc_max_threads: int = setting(
        128,
        "Maximum number of Predict requests at a time; others get RESOURCE_EXHAUSTED.",
        low=1,
    )
    max_rows: int = setting(
        1024,
        "Maximum number of texts in a Predict request; a request with more gets "
        "INVALID_ARGUMENT. With --enable_batching, max_batch_size of the batching "
        "parameters applies if it is larger.",
        low=1,
    )
    grpc_channel_arguments: str = setting(
        "",
        "Settings of gRPC, comma-separated name=value, such as "
        "grpc.max_receive_message_length=4194304 (bytes).",
    )
    ssl_config_file: str = setting(
        "",
        "File with a text SSLConfig: keys for TLS. Default: connections without TLS.",
        path=True,
    )
    enable_grpc_healthcheck_service: bool = setting(
        False,
        "Whether health checks are answered: grpc.health.v1.Health.",
    )
    file_system_poll_wait_seconds: float = setting(
        1.0,
        "Seconds between two checks for new versions; 0 to check once, at the start.",
        low=0,
    )
    max_num_load_retries: int = setting(
        5,
        "Maximum number of retries after a version failed to load.",
        low=0,
    )
    load_retry_interval_micros: int = setting(
        60_000_000,
        "Microseconds between two attempts to load a version; 0 or less for no wait.",
    )
    allow_version_labels_for_unavailable_models: bool = setting(
        False,
        "Whether a new label may name a version that is not loaded. Required to start "
        "with a --model_config_file that has labels.",
    )
    enable_model_warmup: bool = setting(
        True,
        "Whether the warm-up requests of a version are run before it is served.",
    )
    num_request_iterations_for_warmup: int = setting(
        1,
        "Number of times that each warm-up request is run; 1 also if it is less.",
    )
    xla_cpu_compilation_enabled: bool = setting(
        False,
        "Whether XLA may compile. Without it, versions exported with --xla fail.",
    )
    xla_gpu_compilation_enabled: bool = setting(
        False,
        "Does what --xla_cpu_compilation_enabled does, here for all devices.",
    )
    saved_model_tags: str = setting(
        "serve",
        "Comma-separated tags of the graph to load from a SavedModel.",
    )
    tensorflow_session_config_file: str = setting(
        "",
        "File with a text ConfigProto of TensorFlow's sessions. Flags for threads and "
        "memory override it.",
        path=True,
    )
    per_process_gpu_memory_fraction: float = setting(
        0.0,
        "Share of a GPU's memory that is taken at the start, from 0 to 1; 0 to take it "
        "as needed.",
        low=0,
        high=1,
    )
    tensorflow_session_parallelism: int = setting(
        0,
        "Number of intra-op and inter-op threads; 0 for a choice that suits the "
        "machine.",
        low=0,
    )
    tensorflow_intra_op_parallelism: int = setting(
        0,
        "Number of intra-op threads; 0 for --tensorflow_session_parallelism.",
        low=0,
    )
    tensorflow_inter_op_parallelism: int = setting(
        0,
        "Number of requests that a model runs at a time, with a thread each; 0 for "
        "--tensorflow_session_parallelism or, if that is also 0, one for each core and "
        "at least 4.",
        low=0,
    )

    def check(self) -> None:
        if not self.model_base_path and not self.model_config_file:
            raise UserError(
                "Give --model_base_path, for one model, or --model_config_file."
            )
        if self.batching_parameters_file and not self.enable_batching:
            raise UserError("--batching_parameters_file needs --enable_batching.")
        if self.port and self.port == self.rest_api_port:
            raise UserError(
                "--port and --rest_api_port must be different. Received: "
                f"{self.port} twice."
            )

    def ignored(self) -> list[str]:
        """Returns a line for each setting that another one makes meaningless."""
        lines = []
        # The image of TensorFlow Serving gives a path and a name in any case.
        if self.model_config_file and self.model_base_path:
            lines.append(
                "--model_base_path and --model_name have no effect: "
                "--model_config_file lists the models"
            )
        if self.monitoring_config_file and not self.rest_api_port:
            lines.append(
                "--monitoring_config_file has no effect without --rest_api_port, where "
                "the metrics would be"
            )
        return lines

    def check_base_path(self) -> None:
        """Raises `UserError` if the model's directory is missing or is a run's.

        With a `model_config_file`, which replaces it, it may be anything.
        """
        if self.model_config_file:
            return
        path = Path(self.model_base_path).absolute()
        check_readable_by_tensorflow(path, "--model_base_path")
        if not path.is_dir():
            raise UserError(
                f"There is no directory {path} to serve from (--model_base_path). "
                "python -m t2t_keras.export makes one."
            )
        exports = exports_below(path)
        if exports != path:
            advice = f"Its exports are served with {base_path_flag(exports)}"
            if not exports.is_dir():
                run = shlex.quote(str(path))
                advice = f"python -m t2t_keras.export --model_dir={run} makes an export"
            raise UserError(f"{path} is the directory of a training run. {advice}.")


def exports_below(path: Path) -> Path:
    """Returns the folder of the versions: that of a training run, or else `path`."""
    return path / "export" if (path / "train.flags").is_file() else path


def base_path_flag(path: Path) -> str:
    """Returns --model_base_path for a folder, quoted for a shell."""
    return f"--model_base_path={shlex.quote(str(path))}"
