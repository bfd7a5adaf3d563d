"""Files of a run of OpenNMT-tf: checkpoint, description, configuration, vocabularies.

Source: OpenNMT-tf 2.32, opennmt/runner.py, opennmt/constants.py, opennmt/data/vocab.py,
opennmt/inputters/text_inputter.py and opennmt/tokenizers.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from t2t_keras.errors import UserError
from t2t_keras.interop.checkpoint_file import find_checkpoint
from t2t_keras.interop.imported_model import IdMap, read_pieces, read_yaml

DESCRIPTION = "model_description.py"
START, END = "<s>", "</s>"
_FIRST = ("<blank>", START, END)
_UNKNOWN = "<unk>"
_YAML = (".yml", ".yaml")
# Vocabularies of a folder without a configuration, as the documentation names them.
_VOCABULARIES = ("src-vocab.txt", "tgt-vocab.txt")
# Settings of pyonmttok that leave the segmentation to SentencePiece.
_SENTENCEPIECE_ALONE = (
    "mode",
    "sp_model_path",
    "sp_nbest_size",
    "sp_alpha",
    "spacer_annotate",
)


class RunFiles(NamedTuple):
    """What a run of OpenNMT-tf has.

    Attributes:
        checkpoint: Files of the checkpoint without their endings.
        folder: Folder of the checkpoint.
        config_file: The configuration; None without one.
        config: Its content; {} without one.
    """

    checkpoint: Path
    folder: Path
    config_file: Path | None
    config: Mapping[str, Any]

    @property
    def folders(self) -> list[Path]:
        """Folders that files may be in: the run's, and that above averages."""
        places = [self.folder]
        if self.config_file is not None:
            places.append(self.config_file.parent)
        if (self.folder.parent / "checkpoint").is_file():
            places.append(self.folder.parent)
        return list(dict.fromkeys(places))

    def find(self, name: str, advice: str = "Copy it there.") -> Path:
        """Returns the path of a file of the configuration, perhaps elsewhere by now.

        Raises:
            UserError: If there is none.
        """
        # A file at its path goes before one that was copied elsewhere.
        for each in (name, Path(name).name):
            for folder in self.folders:
                if (folder / each).is_file():
                    return folder / each
        raise UserError(
            f"{self.folder} has no file {Path(name).name}, which the model needs. "
            f"{advice}"
        )

    def data(self, side: str, name: str) -> Any:
        """Returns a setting of "source", "target" or all text; None without one."""
        settings = self.config.get("data") or {}
        found = settings.get(f"{side}_{name}")
        return settings.get(name) if found is None else found


def find_run(path: Path) -> RunFiles:
    """Returns the files of a run.

    Args:
        path: Folder of the checkpoint; or the configuration, a YAML file that names
            that folder as model_dir; or a checkpoint's file `.index`.

    Raises:
        UserError: If there is no checkpoint, several, or several configurations.
    """
    if path.suffix in _YAML:
        config = read_yaml(path)
        folder = _model_dir(path, config)
        return RunFiles(_checkpoint(folder), folder, path, config)
    folder = path if path.is_dir() else path.parent
    if path.is_dir():
        checkpoint = _checkpoint(path)
    elif path.suffix == ".index":
        checkpoint = path.with_suffix("")
    else:
        raise UserError(
            f"--input={path} must be the folder of a run of OpenNMT-tf, its "
            "configuration .yml, or a checkpoint's file .index."
        )
    alone = RunFiles(checkpoint, folder, None, {})
    for place in alone.folders:
        found = {
            file: content
            for file in sorted(place.glob("*.y*ml"))
            if file.suffix in _YAML and "data" in (content := _try_yaml(file))
        }
        if len(found) > 1:
            names = ", ".join(file.name for file in found)
            raise UserError(
                f"{place} has several configurations: {names}. Give the path of one."
            )
        for file, content in found.items():
            return alone._replace(config_file=file, config=content)
    return alone


def _model_dir(path: Path, config: Mapping[str, Any]) -> Path:
    """Returns the folder of the checkpoints that a configuration names."""
    name = str(config.get("model_dir") or "")
    if name:
        for folder in (path.parent / name, path.parent / Path(name).name):
            if folder.is_dir():
                return folder
    raise UserError(
        f"{path} must name the folder of the checkpoint as model_dir, and the folder "
        f"must exist. Received: {name or None}. Or give that folder as --input, with a "
        "copy of the configuration."
    )


def _checkpoint(folder: Path) -> Path:
    if (folder / "saved_model.pb").is_file():
        raise UserError(
            f"{folder} is an exported model. Give the folder of the checkpoint that it "
            f"was exported from, with {DESCRIPTION} and ckpt-*.index."
        )
    return find_checkpoint(folder)


def _try_yaml(path: Path) -> dict[str, Any]:
    """Returns the settings in a YAML file; {} if it has something else."""
    try:
        return read_yaml(path)
    except UserError:
        return {}


def read_vocabularies(
    run: RunFiles, rows: Sequence[int]
) -> tuple[tuple[IdMap, IdMap], list[Path]]:
    """Returns the ids of source and target, as many as `rows`, and their files.

    Raises:
        UserError: If a file is missing or damaged, or of another model.
    """
    maps, files = [], []
    for side, count, usual in zip(
        ("source", "target"), rows, _VOCABULARIES, strict=True
    ):
        name = run.data(side, "vocabulary")
        file = _find_usual(run, usual) if name is None else run.find(str(name))
        tokens = read_tokens(file)
        if len(tokens) + 1 != count:
            raise UserError(
                f"{file} has {len(tokens)} tokens, and the model has {count} rows for "
                "them and the unknown token. It is the vocabulary of another model."
            )
        maps.append(IdMap.from_pieces([*tokens, _UNKNOWN], pad=0, eos=2, unk=count - 1))
        files.append(file)
    names = {Path(str(run.data(side, "vocabulary"))) for side in ("source", "target")}
    if len(names) > len(set(files)):
        raise UserError(
            f"{run.config_file} names two vocabularies, and for both only {files[0]} "
            "was found. Copy each to where the configuration says."
        )
    source, target = maps
    if source == target:
        source = target
    return (source, target), list(dict.fromkeys(files))


def _find_usual(run: RunFiles, name: str) -> Path:
    """Returns the vocabulary of a side where no configuration names it."""
    for folder in run.folders:
        if (folder / name).is_file():
            return folder / name
        found = sorted(folder.glob("*.vocab"))
        if len(found) == 1:
            return found[0]
    raise UserError(
        f"{run.folder} must have the configuration of the run, a file .yml whose "
        "data has source_vocabulary and target_vocabulary; or "
        f"{' and '.join(_VOCABULARIES)}, or one file .vocab for both."
    )


def read_tokens(path: Path) -> list[str]:
    """Returns the tokens in a vocabulary, one a line, by id.

    Raises:
        UserError: If it cannot be read, is not UTF-8, or does not begin as all do.
    """
    tokens = [line.rstrip("\r") for line in read_pieces(path)]
    if tuple(tokens[:3]) != _FIRST:
        raise UserError(
            f"The vocabulary {path} must begin with {', '.join(_FIRST)}, one a line. "
            f"Received: {', '.join(tokens[:3])}"
        )
    return tokens


def find_tokenizers(run: RunFiles) -> tuple[list[Path] | None, list[str]]:
    """Returns the SentencePiece models of source and target, and warnings.

    [] if it has other tokenizers, so that lines are tokens between spaces; None if the
    configuration does not say.

    Raises:
        UserError: If one side alone has a SentencePiece model, or settings are damaged.
    """
    found, warnings = [], []
    is_said = False
    for side in ("source", "target"):
        kind, model = _tokenization(run, side)
        is_said |= kind is not None
        if model is not None:
            found.append(run.find(model))
        elif kind not in (None, "SpaceTokenizer"):
            warnings.append(
                f"the tokenizer of the {side}, {kind}, is not available here: lines "
                "are its tokens with spaces between"
            )
    if len(found) == 1:
        raise UserError(
            f"{run.config_file} has a SentencePiece model for one side alone, "
            f"{found[0].name}. Only two, or none, can be imported: remove "
            "source_tokenization or target_tokenization for lines of pieces."
        )
    return found if is_said else None, warnings


def _tokenization(run: RunFiles, side: str) -> tuple[str | None, str | None]:
    """Returns the kind of a side's tokenizer, and the name of its SentencePiece model.

    The setting is a mapping, the name of a YAML file with one, or one as JSON.
    """
    setting = run.data(side, "tokenization")
    if isinstance(setting, str) and not setting.lstrip().startswith("{"):
        setting = read_yaml(run.find(setting))
    elif isinstance(setting, str):
        try:
            setting = json.loads(setting)
        except ValueError as error:
            raise UserError(
                f"{side}_tokenization in {run.config_file} is damaged: {error}."
            ) from error
    if not setting:
        return None, None
    kind = setting.get("type")
    params = (setting.get("params") or {}) if kind else setting
    kind = kind or "OpenNMTTokenizer"
    if kind == "SentencePieceTokenizer":
        return kind, str(params["model"])
    is_alone = params.get("mode") == "none" and not _others(params)
    if kind == "OpenNMTTokenizer" and is_alone and params.get("sp_model_path"):
        return kind, str(params["sp_model_path"])
    return kind, None


def _others(params: Mapping[str, Any]) -> Sequence[str]:
    return [name for name in params if name not in _SENTENCEPIECE_ALONE]
