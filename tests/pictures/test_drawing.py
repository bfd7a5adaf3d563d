"""Common parts of figures: labels, checks of layers and heads, atomic files."""

import pytest
from matplotlib.figure import Figure

from t2t_keras.errors import UserError
from t2t_keras.pictures.drawing import (
    check_heads,
    check_layer,
    save_figure,
    text_settings,
)


def figure_with(text: str) -> Figure:
    figure = Figure(figsize=(2, 1))
    figure.text(0.1, 0.5, text, **text_settings())
    return figure


@pytest.mark.parametrize(
    ("suffix", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG"), ("pdf", b"%PDF")]
)
def test_the_suffix_sets_the_format_and_files_are_reproducible(
    tmp_path, suffix, start
) -> None:
    first, second = tmp_path / f"a.{suffix}", tmp_path / f"b.{suffix}"
    for path in (first, second):
        save_figure(figure_with("$x"), path)
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes().startswith(start)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_dollar_is_no_formula_and_a_missing_glyph_no_warning(tmp_path) -> None:
    path = tmp_path / "a.svg"
    save_figure(figure_with("$x^2$ <b> \U00013000"), path)
    assert ">$x^2$ &lt;b&gt; \U00013000</text>" in path.read_text()


def test_a_failure_leaves_the_old_file_and_no_other(tmp_path, monkeypatch) -> None:
    path = tmp_path / "a.svg"
    path.write_text("old")

    def full(self, file, **_):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", full)
    with pytest.raises(UserError, match=r"a\.svg cannot be written: No space left"):
        save_figure(figure_with("a"), path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("check", "chosen", "message"),
    [
        (check_layer, 0, "There is no layer 0: the model has 4"),
        (check_layer, 5, "There is no layer 5: the model has 4"),
        (check_heads, [1, 5], "There is no head 5: a layer has 4"),
        (check_heads, [0], "no head 0"),
        (check_heads, [], "No head"),
    ],
)
def test_missing_layers_and_heads_are_refused(check, chosen, message: str) -> None:
    with pytest.raises(UserError, match=message):
        check(chosen, 4)
