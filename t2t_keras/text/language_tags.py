"""Languages of a multilingual model, and the pieces that mark their texts."""

import dataclasses
from collections.abc import Mapping

from t2t_keras.errors import UserError, did_you_mean
from t2t_keras.text.languages import base_language

# Languages that a message lists.
_SHOWN = 8


@dataclasses.dataclass(frozen=True)
class LanguageTags:
    """Languages of a multilingual model, and the pair of text that names none.

    A source begins with the piece of its language, and so does a target, as in M2M100
    and NLLB.

    Attributes:
        pieces: Piece of each language, by its code.
        source: Language of sources: a code as `find` takes it.
        target: The same of targets.

    Raises:
        UserError: If there is no such language.
    """

    pieces: Mapping[str, str]
    source: str
    target: str

    def __post_init__(self) -> None:
        for side in ("source", "target"):
            object.__setattr__(self, side, self.find(getattr(self, side), side))

    def find(self, code: str, side: str) -> str:
        """Returns the model's own code of a language: deu_Latn of de.

        Args:
            code: Code of the model, or of a language of which the model has one form.
            side: "source" or "target", for the message.

        Raises:
            UserError: If the model does not have the language, or several forms of it.
        """
        if code in self.pieces:
            return code
        wanted = code.replace("-", "_").lower()
        base, script = base_language(code), _script(wanted)
        found = [each for each in self.pieces if base_language(each) == base]
        same = [each for each in found if each.replace("-", "_").lower() == wanted]
        if script:
            found = [each for each in found if _script(each.lower()) == script]
        if len(same or found) == 1:
            return (same or found)[0]
        flag = f"--{side}_language"
        if found:
            raise UserError(
                f"{flag} must be one of {', '.join(found)}, which are all {base} of "
                f"this model. Received: {code}"
            )
        names = list(self.pieces)
        more = len(names) - _SHOWN
        raise UserError(
            f"{flag} must be a language of the model: {', '.join(names[:_SHOWN])}"
            f"{f' and {more} more' if more > 0 else ''}. Received: {code}."
            f"{did_you_mean(code, names)}"
        )

    def with_pair(self, source: str | None, target: str | None) -> "LanguageTags":
        """Returns the same languages with another pair; None for one of this pair.

        Raises:
            UserError: If there is no such language.
        """
        return LanguageTags(self.pieces, source or self.source, target or self.target)


def _script(code: str) -> str:
    """Returns the script of a code in lower case with "_", such as hans; "" without."""
    return next((part for part in code.split("_")[1:] if len(part) == 4), "")
