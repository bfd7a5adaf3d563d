"""Options of the client, checked without gRPC."""

import dataclasses

from t2t_keras.errors import UserError
from t2t_keras.files.lines import check_standard_input
from t2t_keras.settings.setting import Settings, setting


@dataclasses.dataclass(frozen=True)
class SearchOptions(Settings):
    """Settings of the search; None leaves one as it was exported.

    A server that joins requests into batches fills in no defaults. It takes the others
    only with `beam_size`.
    """

    beam_size: int | None = setting(
        None,
        "Beam size: hypotheses kept at each step of the search. Default: that of the "
        "export.",
        low=1,
        high=2**31 - 1,
    )
    alpha: float | None = setting(
        None,
        "Strength of the length penalty. Default: that of the export. A server that "
        "joins requests also needs --beam_size.",
        low=0,
    )
    max_length: int | None = setting(
        None,
        "Maximum number of tokens of a translation. Default: that of the export. A "
        "server that joins requests also needs --beam_size.",
        low=1,
        high=2**31 - 1,
    )


@dataclasses.dataclass(frozen=True)
class ClientOptions(Settings):
    """The server, its model, and the connection to it."""

    server: str | None = setting(
        None,
        "host:port of the server's gRPC service, or unix:PATH of its socket. Required.",
        required=True,
    )
    model_name: str = setting("translate", "Name of the model on the server.")
    source_language: str = setting(
        "",
        "Language to translate from, of a multilingual model, as a code such as en. "
        "Default: that of the export.",
    )
    target_language: str = setting(
        "",
        "Language to translate to, of a multilingual model, as a code such as de. "
        "Default: that of the export.",
    )
    model_version: int | None = setting(
        None, "Version number of the model. Default: the newest."
    )
    version_label: str = setting(
        "",
        "Label of the model's version, such as stable, instead of --model_version.",
    )
    timeout_seconds: float = setting(
        60.0, "Maximum time of a request in seconds, including retries."
    )
    retries: int = setting(
        6,
        "Maximum number of retries of a request when the server is busy or "
        "unreachable.",
        low=0,
    )
    ssl_ca_file: str | None = setting(
        None,
        "File of certificates (PEM) to verify the server with, for TLS. Default: a "
        "connection without TLS.",
        path=True,
    )
    ssl_cert_file: str | None = setting(
        None,
        "File of the client's own certificate (PEM), for a server that verifies its "
        "clients (client_verify). Needs --ssl_key_file and --ssl_ca_file.",
        path=True,
    )
    ssl_key_file: str | None = setting(
        None, "File of the private key (PEM) of --ssl_cert_file.", path=True
    )
    max_message_bytes: int = setting(
        64 * 2**20, "Maximum size of a request and of a response, in bytes."
    )


@dataclasses.dataclass(frozen=True)
class FileOptions(Settings):
    """Files to translate or score, and how to ask for it.

    Attributes:
        options: Settings of the search.

    Raises:
        UserError: If a number is below 1, or two of them exclude each other.
    """

    input: str = setting(
        "-",
        "File to translate: UTF-8, plain, .gz, .xz, .bz2 or .zst, one sentence a line; "
        "- for standard input.",
        path=True,
    )
    output: str = setting(
        "-",
        "File for the translations or scores, replaced if it exists; - for standard "
        "output.",
        path=True,
    )
    target: str | None = setting(
        None,
        "File of translations of --input, line by line. They are scored, and nothing "
        "is translated.",
        path=True,
    )
    n_best: int = setting(1, "Number of translations of each line.", low=1)
    scores: bool = setting(
        False, "Whether the score is written before each translation."
    )
    sample: bool = setting(
        False,
        "Whether translations are drawn from the model's distribution: --n_best "
        "samples of each line. The model must be exported with --sample.",
    )
    seed: int | None = setting(
        None,
        "Seed of the random numbers of --sample, from 0 to 2^31 - 1. Default: 1.",
        low=0,
        high=2**31 - 1,
    )
    prefix: str | None = setting(
        None,
        "Beginnings of the translations: a file with one for each line of --input, or "
        "the word column if each line has one after a tab. An empty one forces "
        "nothing. The model must be exported with --prefix.",
        path=True,
    )
    protect: bool = setting(
        False,
        "Whether placeholders, tags, URLs and e-mail addresses of a line come back "
        "unchanged and once each: {name}, %s, {{x}}, <1>, https://example.com.",
    )
    glossary: str | None = setting(
        None,
        "File of terms that translations must have: on each line a source term, a tab "
        "and a target term. The model must be exported with --terms.",
        path=True,
    )
    options: SearchOptions = dataclasses.field(default_factory=SearchOptions)
    signature: str = setting(
        "",
        "Signature to call instead of serving_default, with the same inputs and "
        "outputs.",
    )
    batch_size: int = setting(32, "Maximum number of lines in a request.", low=1)
    concurrency: int = setting(4, "Number of requests at a time.", low=1)
    lines_at_once: int = setting(
        1024,
        "Number of lines that are read, sorted by length, and translated together. Set "
        "this and --concurrency to 1 for interactive use.",
        low=1,
    )

    def check(self) -> None:
        given = self.given_flags()
        if self.protect and (self.target or self.prefix is not None):
            raise UserError(
                "--protect may translate a line without its placeholders, so it takes "
                "neither --target nor --prefix. Leave one of them out."
            )
        if self.glossary is not None and set(given) - {"--n_best", "--glossary"}:
            raise UserError(
                "An export forces terms by a search with its own settings. Received: "
                f"{' and '.join(given)}. Leave out --glossary or the others."
            )
        if self.target and given:
            raise UserError(
                f"--target only scores; remove {' and '.join(given)}, or remove "
                "--target to translate."
            )
        if self.target == self.input:
            raise UserError(
                f"--input and --target are the same: {self.target}. Give the "
                "texts and their translations."
            )
        names = ("input", "target", "prefix", "glossary")
        check_standard_input([(name, getattr(self, name)) for name in names])
        if self.prefix is not None and given != ["--prefix"]:
            raise UserError(
                "An export with --prefix searches for one translation, with its own "
                f"settings. Received: {' and '.join(given)}. Leave out --prefix or the "
                "others."
            )
        if self.seed is not None and not self.sample:
            raise UserError("--seed is for --sample. Add --sample, or leave it out.")
        if self.sample and set(given) - {"--n_best", "--sample"}:
            raise UserError(
                "An export samples with its own settings. Received: "
                f"{' and '.join(given)}. Leave out --sample or the others."
            )
        if self.n_best > 1 and set(given) - {"--n_best", "--sample", "--glossary"}:
            raise UserError(
                "The n best are searched with the export's settings. Received: "
                f"{' and '.join(given)}. Leave out --n_best or the others."
            )

    def given_flags(self) -> list[str]:
        """Returns the flags that are set and apply only to translation."""
        flags = {
            "--n_best": self.n_best > 1,
            "--sample": self.sample,
            "--prefix": self.prefix is not None,
            "--glossary": self.glossary is not None,
            "--signature": bool(self.signature),
            "--beam_size": self.options.beam_size is not None,
            "--alpha": self.options.alpha is not None,
            "--max_length": self.options.max_length is not None,
        }
        return [flag for flag, is_given in flags.items() if is_given]
