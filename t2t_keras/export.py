"""Exports a trained model for servers and other programs.

    python -m t2t_keras.export --model_dir=runs/tiny
    python -m t2t_keras.export --model_dir=runs/tiny --checkpoint=best --beam_size=8
    python -m t2t_keras.export --model_dir=runs/tiny --format=text --xla
    python -m t2t_keras.export --model_dir=runs/tiny --format=ctranslate2
    python -m t2t_keras.export --model_dir=runs/tiny --format=argos --quantization=int8
    python -m t2t_keras.export --model_dir=runs/tiny --format=transformers
    python -m t2t_keras.export --model_dir=runs/tiny --format=marian
    python -m t2t_keras.export --model_dir=runs/tiny --format=keras

Each export is a new version: a folder named by the next integer, as TensorFlow Serving
expects. Versions with text in and translations out are in MODEL_DIR/export, or in
MODEL_DIR/export_xla for servers that are started with XLA; those with token ids in and
out, without TensorFlow Text, in MODEL_DIR/export_ids; other formats in folders such as
MODEL_DIR/export_marian. docs/exports.md compares the formats.
"""

import dataclasses

from t2t_keras.decoding.settings import SamplingSettings
from t2t_keras.errors import UserError
from t2t_keras.runs.export.export_settings import (
    FORMATS,
    SAVED_MODELS,
    WITH_SEARCH,
    ExportSettings,
    check_license,
    check_one_model,
    check_packages,
)
from t2t_keras.runs.translation import ensembles
from t2t_keras.settings import program
from t2t_keras.settings.decoding_config import DecodingConfig
from t2t_keras.settings.flags import define_flags, read_if
from t2t_keras.settings.model_options import SearchModelOptions
from t2t_keras.settings.setting import Settings, setting


@dataclasses.dataclass(frozen=True)
class ExportOptions(Settings):
    """Formats of an export, and what single ones of them need."""

    format: tuple[str, ...] = setting(
        SAVED_MODELS,
        "Format to write; repeat the flag for several: text, a SavedModel with text in "
        "and out; ids, a SavedModel with token ids in and out; ctranslate2, a "
        "CTranslate2 model, whose search settings are chosen when it translates; "
        "argos, a package of Argos Translate and LibreTranslate; transformers, a "
        "MarianMT model of Hugging Face; marian, a model of Marian; keras, a file for "
        "keras.models.load_model.",
        choices=FORMATS,
        repeated=True,
    )
    sample: bool = setting(
        False,
        "Whether the text format has signature sample, which draws --n_best "
        "translations from the model's distribution.",
    )
    quantization: str = setting(
        "float32",
        "Storage type of the weights in CTranslate2 and Argos Translate.",
        choices=("float32", "float16", "int16", "int8", "int8_float32"),
    )
    allow_approximate: bool = setting(
        False,
        "Whether to write the nearest MarianMT model if transformers cannot compute "
        "this one exactly.",
    )
    license: str | None = setting(
        None,
        "License of the model in the card of a MarianMT model or of a package of Argos "
        "Translate, for example cc-by-4.0. Default: the card says that it is not "
        "known.",
    )

    def check(self) -> None:
        if self.sample and "text" not in self.format:
            raise UserError(f"--sample {_FOR_TEXT}")
        if self.allow_approximate and "transformers" not in self.format:
            raise UserError(
                "--allow_approximate is for --format=transformers. Add it, or leave "
                "the flag out."
            )
        if self.license is not None:
            if not {"transformers", "argos"} & {*self.format}:
                raise UserError(
                    "--license is for the cards of --format=transformers and argos. "
                    "Add one of them, or leave the flag out."
                )
            check_license(self.license)


_FOR_TEXT = "is for signatures that take text. Add --format=text, or leave it out."
_MODEL = define_flags(SearchModelOptions)
_SEARCH = define_flags(DecodingConfig, default_note="that of the run")
_OPTIONS = define_flags(ExportOptions)
_SETTINGS = define_flags(ExportSettings)
_SAMPLING = define_flags(SamplingSettings, without=("seed",))


def main() -> int:
    """Exports in each format; returns the exit status."""
    from t2t_keras.decoding.sampling import Sampling
    from t2t_keras.runs.export.formats import export_model
    from t2t_keras.runs.model_dir import ModelDir

    options, model = _OPTIONS.read(), _MODEL.read()
    model_dir = ModelDir(model.require("model_dir"))
    model_dir.check_writable()
    trained = ensembles.load(**dataclasses.asdict(model))
    settings = _read_settings(options, trained.config.decoding)
    if settings.sample is not None:
        sampling = Sampling(**dataclasses.asdict(settings.sample))
        settings = dataclasses.replace(settings, sample=sampling)
    if not {*WITH_SEARCH} & {*options.format}:
        for name in _SEARCH.given():
            program.log(
                f"warning: --{name} has no effect: settings of the search are chosen "
                "when this format is used."
            )
    for export_format in dict.fromkeys(options.format):
        version = export_model(
            trained,
            model_dir,
            export_format,
            settings,
            quantization=options.quantization,
            allow_approximate=options.allow_approximate,
            license_name=options.license,
        )
        print(f"exported step {trained.step:,} to {version}")
    return 0


def _read_settings(options: ExportOptions, decoding: DecodingConfig) -> ExportSettings:
    return _SETTINGS.read(
        decoding=decoding.override(**_SEARCH.given()),
        sample=read_if(options.sample, _SAMPLING, "sample"),
    )


def _check() -> None:
    """Raises `UserError` if flags are invalid or missing."""
    options, model = _OPTIONS.read(), _MODEL.read()
    for export_format in options.format:
        check_packages(export_format)
        check_one_model(export_format, model.ensemble_with, model.shortlist)
    settings = _read_settings(options, DecodingConfig())
    for flag in ("prefix", "terms"):
        if getattr(settings, flag) and "text" not in options.format:
            raise UserError(f"--{flag} {_FOR_TEXT}")
    settings.check_formats(options.format)
    ensembles.check(**dataclasses.asdict(model))


if __name__ == "__main__":
    program.run(main, __doc__ or "", check=_check)
