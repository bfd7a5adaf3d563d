"""Code examples of docs/api.md and of docstrings, executed."""

import doctest
import importlib
import re

import pytest

from tests.forked import REPOSITORY, run_python
from tests.interop.m2m100_files import OPTIONS, write_m2m100
from tests.interop.marian_files import POST, write_marian
from tests.interop.small_models import first_layers, small_weights
from tests.interop.tokenizer_files import write_spm_pair
from tests.runs.random_model import random_lines

# In place of the page's data and model, which take long.
SMALL = """
    dataset="", train_source="train.txt", train_target="train.txt",
    dev_source="dev.txt", dev_target="dev.txt", vocabulary_size=290, jit_compile=False,
    num_layers=1, d_model=32, d_ff=32,
"""


def code_blocks() -> list[str]:
    text = (REPOSITORY / "docs/api.md").read_text(encoding="utf-8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
def test_the_code_of_the_page_runs(tmp_path) -> None:
    opus = first_layers(small_weights(POST, added=(0,)))
    write_spm_pair(write_marian(tmp_path / "opus-mt-en-de", opus))
    write_m2m100(tmp_path / "m2m100_418M", first_layers(small_weights(OPTIONS)))
    program = tmp_path / "program.py"
    code = "\n".join(code_blocks())
    assert code.count("train_steps=20,") == 1
    code = code.replace("train_steps=20,", f"train_steps=20, {SMALL}")
    program.write_text(code, encoding="utf-8")
    for name, count in (("train", 200), ("dev", 5)):
        text = "".join(f"{line}\n" for line in random_lines(count, seed=count))
        (tmp_path / f"{name}.txt").write_text(text, encoding="utf-8")
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
