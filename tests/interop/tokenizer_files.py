"""Small SentencePiece models whose pieces are the words of `PIECES`."""

from pathlib import Path

from t2t_keras.text.sentencepiece_models import _encode_piece
from tests.interop.small_models import PIECES

_UNKNOWN, _NORMAL = 2, 1


def write_spm_pair(folder: Path) -> None:
    """Writes source.spm and target.spm; the words follow each other without a space."""
    words = [_encode_piece(piece, -float(i)) for i, piece in enumerate(PIECES[3:], 1)]
    special = [_encode_piece("<unk>", 0.0, _UNKNOWN), _encode_piece("\u2581", -0.5)]
    # Field 3 of the model, the normalizer: no space before the first word.
    no_prefix = b"\x1a\x02\x18\x00"
    for side in ("source", "target"):
        model = b"".join([*special, *words]) + no_prefix
        (folder / f"{side}.spm").write_bytes(model)
