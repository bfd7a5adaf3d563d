"""Commands of docs/alignments.md, executed."""

import re

from tests.forked import REPOSITORY
from tests.system.test_docs_evaluation import run

PAGE = (REPOSITORY / "docs/alignments.md").read_text(encoding="utf-8")


def test_the_commands_without_a_model_print_what_the_page_shows(tmp_path):
    [(command, expected)] = re.findall(
        r"^```bash\n(.*?)^```\n\n```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL
    )
    printed = run(["bash", "-e", "-c", command], tmp_path)
    assert printed == expected
