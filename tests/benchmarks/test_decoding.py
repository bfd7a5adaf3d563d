"""Benchmark of decoding: our program does the work of CTranslate2."""

import ctranslate2
import pytest

from benchmarks.decoding import export_ours, measured, ours, write

# A model that takes two seconds instead of minutes. All sizes differ.
SMALL = (
    ("VOCABULARY", 67),
    ("LAYERS", 2),
    ("WIDTH", 24),
    ("INNER", 40),
    ("HEADS", 3),
)


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Folder of a small model, as written by `write`."""
    for name, size in SMALL:
        monkeypatch.setattr(measured, name, size)
    monkeypatch.setattr("sys.argv", ["write", f"--model={tmp_path}"])
    write.main()
    return tmp_path


def by_ctranslate2(folder, sentences):
    translator = ctranslate2.Translator(str(folder / "ctranslate2_float32"))
    found = translator.translate_batch(
        [list(map(str, sentence)) for sentence in sentences],
        beam_size=measured.BEAM,
        length_penalty=measured.ALPHA,
        max_decoding_length=measured.LENGTH,
        min_decoding_length=measured.LENGTH,
    )
    return [[int(piece) for piece in one.hypotheses[0]] for one in found]


@pytest.mark.slow
def test_ours_finds_what_ctranslate2_finds(small, monkeypatch):
    monkeypatch.setattr("sys.argv", ["export", f"--to={small}/saved"])
    export_ours.main()
    sentences = measured.sentences(9)
    expected = by_ctranslate2(small, sentences)
    with ours.open_translator(f"{small}/saved", threads=1, at_once=1) as translate:
        found = translate(sentences)
    assert {len(ids) for ids in found} == {measured.LENGTH}
    # Our search must end at the limit, which can change the best hypothesis.
    assert sum(a[:18] == b[:18] for a, b in zip(found, expected, strict=True)) >= 8
    assert len({tuple(ids) for ids in found}) > 3
    for ids in found:
        assert ids[-1] == measured.EOS
        assert not {0, measured.EOS} & set(ids[:-1])
