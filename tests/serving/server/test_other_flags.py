"""Flags of TensorFlow Serving: the page about the embedded server knows all of them."""

import dataclasses
import re
from pathlib import Path

from t2t_keras.serving.server.other_flags import OTHER_FLAGS
from t2t_keras.serving.server.settings import ServerSettings

PAGE = Path(__file__).parents[3] / "docs" / "embedded_server.md"
OWN = frozenset({"host", "max_rows", "max_body_bytes"})


def test_the_page_lists_each_flag_with_its_status():
    section = PAGE.read_text().partition("## Flags of TensorFlow Serving")[2]
    section = section.partition("\n## ")[0]
    implemented = section.partition("- **Implemented:**")[2].partition("- **Not")[0]
    names = set(re.findall(r"`(\w+)`", implemented))
    settings = {field.name for field in dataclasses.fields(ServerSettings)}
    assert names == settings - OWN | {"version"}
    rows = dict(
        re.findall(r"^\| `(\w+)` \| (no effect|not supported): ", section, re.M)
    )
    assert rows == {
        name: "no effect" if flag.supported else "not supported"
        for name, flag in OTHER_FLAGS.items()
    }
    # As many as main.cc defines.
    assert len(names) + len(rows) == 48
