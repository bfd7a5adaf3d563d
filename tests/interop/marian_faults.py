"""Faults of a folder with a Marian model: each returns the message about it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.interop.small_models import V

NPZ, VOCABULARY, DECODER = "model.npz", "vocab.yml", "decoder.yml"


class Executed:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def edit_arrays(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    with np.load(folder / NPZ) as archive:
        arrays = dict(archive)
    change(arrays)
    np.savez(folder / NPZ, **arrays)


def edit_text(folder: Path, name: str, old: str, new: str) -> None:
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new))


def truncated(folder: Path) -> str:
    content = (folder / NPZ).read_bytes()
    (folder / NPZ).write_bytes(content[:-300])
    return "model.npz is damaged or cut short"


def changed(folder: Path) -> str:
    content = bytearray((folder / NPZ).read_bytes())
    content[len(content) // 2] ^= 0xFF
    (folder / NPZ).write_bytes(bytes(content))
    return "model.npz is damaged or cut short"


def no_settings(folder: Path) -> str:
    edit_arrays(folder, lambda arrays: arrays.pop("special:model.yml"))
    return "not a model of Marian"


def not_finite(folder: Path) -> str:
    def put_nan(arrays: dict[str, Any]) -> None:
        arrays["Wemb"] = np.where(np.arange(12) == 3, np.nan, arrays["Wemb"])

    edit_arrays(folder, put_nan)
    return "Wemb in .* NaN or infinite"


def quantized(folder: Path) -> str:
    edit_arrays(folder, lambda each: each.update(Wemb=each["Wemb"].astype(np.int8)))
    return "type int8.*quantized"


def pickled(folder: Path) -> str:
    code = np.array([Executed(folder.parent / "executed")], dtype=object)
    edit_arrays(folder, lambda arrays: arrays.update(Wemb=code))
    return "model.npz is damaged .*allow_pickle"


def longer_vocabulary(folder: Path) -> str:
    with (folder / VOCABULARY).open("a") as file:
        file.write(f"more: {V - 1}\n")
    return f"has {V} pieces, and the model has {V - 1} rows"


def gap_in_the_ids(folder: Path) -> str:
    edit_text(folder, VOCABULARY, f": {V - 2}\n", f": {V}\n")
    return "without a gap"


def no_unknown(folder: Path) -> str:
    edit_text(folder, VOCABULARY, "<unk>", "UNK")
    return "must have <unk>"


def two_models(folder: Path) -> str:
    edit_text(folder, DECODER, "- model.npz", "- a\n- b")
    return "must name one model. Received: 2"


def two_files(folder: Path) -> str:
    (folder / DECODER).unlink()
    (folder / "other.npz").write_bytes((folder / NPZ).read_bytes())
    return "must have one Marian model.* Found: model.npz, other.npz"


def no_vocabulary(folder: Path) -> str:
    (folder / VOCABULARY).unlink()
    return "no file vocab.yml"


def one_spm(folder: Path) -> str:
    (folder / "source.spm").write_bytes(b"x")
    return "has source.spm, but no target.spm"


def damaged_spm(folder: Path) -> str:
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(b"x")
    return "source.spm .* cannot be read as a SentencePiece model"


def factors(folder: Path) -> str:
    edit_text(folder, DECODER, "vocab.yml", "vocab.fsv")
    (folder / VOCABULARY).rename(folder / "vocab.fsv")
    return "vocabulary of factors"


def no_model(folder: Path) -> str:
    for path in folder.iterdir():
        path.unlink()
    return "must have one Marian model.* Found: none"


FAULTS = (
    truncated,
    changed,
    no_settings,
    not_finite,
    quantized,
    pickled,
    longer_vocabulary,
    gap_in_the_ids,
    no_unknown,
    two_models,
    two_files,
    no_vocabulary,
    one_spm,
    damaged_spm,
    factors,
    no_model,
)
