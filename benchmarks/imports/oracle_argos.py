"""Installs a package of Argos Translate and translates: for `benchmarks.imports`.

    python oracle_argos.py PACKAGE SOURCE TARGET LINES OUTPUT.json

SOURCE and TARGET are codes of languages. Only argostranslate is needed. Its packages
and settings are below HOME. No network is: a package that needed a download would fail.
"""

import json
import pathlib
import socket
import sys


def refuse(*_: object) -> None:
    """Raises `OSError` in place of a connection."""
    raise OSError("a package must need no network")


def main(
    package: str, source: str, target: str, lines: pathlib.Path, output: pathlib.Path
) -> None:
    """Writes the translation of each line, and of all lines as one paragraph."""
    socket.socket.connect = refuse  # type: ignore[method-assign]
    import argostranslate.package
    import argostranslate.translate

    argostranslate.package.install_from_path(pathlib.Path(package))
    texts = lines.read_text("utf-8").splitlines()
    translation = argostranslate.translate.get_translation_from_codes(source, target)
    results = {
        "lines": [translation.translate(text) for text in texts],
        "paragraph": translation.translate(" ".join(texts)),
    }
    output.write_text(json.dumps(results), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:4], *map(pathlib.Path, sys.argv[4:]))
