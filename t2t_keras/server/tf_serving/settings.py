"""Settings of the development server, checked before TensorFlow is imported."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from t2t_keras.errors import UserError
from t2t_keras.files.paths import check_readable_by_tensorflow


@dataclass(frozen=True)
class ServerSettings:
    """Settings of a server: its models, its port and its limits.

    Fields are named as the flags of `tensorflow_model_server`, and mean the same;
    `python -m t2t_keras.serve --help` describes each. As there, some are ignored beside
    others: see `ignored`. Three are not TensorFlow Serving's:

    Attributes:
        host: Address to listen on.
        max_rows: Maximum number of rows of a Predict request.
        max_body_bytes: Largest body of a request over HTTP.

    Raises:
        UserError: If there is neither `model_base_path` nor `model_config_file`, or a
            setting lacks another that it needs.
    """

    model_base_path: str = ""
    model_name: str = "default"
    model_config_file: str = ""
    model_config_file_poll_wait_seconds: float = 0.0
    port: int = 8500
    host: str = "127.0.0.1"
    grpc_socket_path: str = ""
    rest_api_port: int = 0
    rest_api_timeout_in_ms: int = 30_000
    rest_api_enable_cors_support: bool = False
    max_body_bytes: int = 16 * 2**20
    monitoring_config_file: str = ""
    enable_batching: bool = False
    batching_parameters_file: str = ""
    enable_per_model_batching_parameters: bool = False
    grpc_max_threads: int = 128
    max_rows: int = 1024
    grpc_channel_arguments: str = ""
    ssl_config_file: str = ""
    enable_grpc_healthcheck_service: bool = False
    file_system_poll_wait_seconds: float = 1.0
    max_num_load_retries: int = 5
    load_retry_interval_micros: int = 60_000_000
    allow_version_labels_for_unavailable_models: bool = False
    enable_model_warmup: bool = True
    num_request_iterations_for_warmup: int = 1
    xla_cpu_compilation_enabled: bool = False
    xla_gpu_compilation_enabled: bool = False
    saved_model_tags: str = "serve"
    tensorflow_session_config_file: str = ""
    per_process_gpu_memory_fraction: float = 0.0
    tensorflow_session_parallelism: int = 0
    tensorflow_intra_op_parallelism: int = 0
    tensorflow_inter_op_parallelism: int = 0

    def __post_init__(self) -> None:
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
