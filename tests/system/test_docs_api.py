"""Code examples of docs/api.md and of docstrings, executed."""

import doctest
import importlib
import re

import pytest

from tests.forked import REPOSITORY, run_python
from tests.interop.marian_files import POST, write_marian
from tests.interop.small_models import small_weights
from tests.interop.tokenizer_files import write_spm_pair


def code_blocks() -> list[str]:
    text = (REPOSITORY / "docs/api.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_every_example_has_at_most_twenty_lines() -> None:
    blocks = code_blocks()
    assert len(blocks) >= 8
    for block in blocks:
        assert block.count("\n") <= 20, block


@pytest.mark.slow
def test_the_code_of_the_page_runs(tmp_path) -> None:
    folder = write_marian(tmp_path / "opus-mt-en-de", small_weights(POST, added=(0,)))
    write_spm_pair(folder)
    program = tmp_path / "program.py"
    program.write_text("\n".join(code_blocks()), encoding="utf-8")
    done = run_python(program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr.decode()
    assert b"step 20/20  loss " in done.stdout
    for path in ("runs/first/averaged/step-20", "model.keras", "exported"):
        assert (tmp_path / path).exists(), path


def test_the_examples_of_docstrings() -> None:
    num_modules = 0
    for path in sorted((REPOSITORY / "t2t_keras").rglob("*.py")):
        if ">>> " in path.read_text(encoding="utf-8"):
            name = ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)
            result = doctest.testmod(importlib.import_module(name))
            assert result.attempted and not result.failed, name
            num_modules += 1
    assert num_modules > 20
