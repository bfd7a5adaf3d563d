"""Which files are written, and what a corpus is summed up to."""

import pytest

from t2t_keras.attention.head_statistics import HeadSums
from t2t_keras.attention.pictures import summarize, write_pictures, write_summary
from t2t_keras.attention.request import KINDS, Choice
from t2t_keras.attention.sentence_attention import Attention
from t2t_keras.attention.words import merge_sentence_words
from t2t_keras.errors import UserError
from t2t_keras.runs.sentence_maps import SentenceMaps
from tests.attention.made_up import made_up

ALL = ("lines", "heat_maps", "page", "summary")


def test_kinds_are_those_of_the_maps() -> None:
    assert KINDS == SentenceMaps._fields


def names(paths) -> list[str]:
    return [path.name for path in paths]


def test_all_pictures_of_a_sentence(tmp_path) -> None:
    folder = tmp_path / "new" / "pictures"
    written = write_pictures([made_up()], ALL, Choice(), folder)
    assert names(written) == [
        "lines-encoder-layer2.svg",
        "lines-decoder-layer2.svg",
        "lines-memory-layer2.svg",
        "heat-maps-encoder.svg",
        "heat-maps-decoder.svg",
        "heat-maps-memory.svg",
        "attention.html",
    ]
    assert sorted(folder.iterdir()) == sorted(written)
    text = written[1].read_text()
    assert "Decoder self-attention, layer 2" in text
    assert ">▁app</text>" not in text and ">pfel</text>" in text


def test_what_is_chosen_is_drawn(tmp_path) -> None:
    choice = Choice(["memory"], 1, [2], ["Äpfel"], True, "svg")
    written = write_pictures(
        [made_up(), made_up()], ("lines", "heat_maps"), choice, tmp_path
    )
    assert names(written) == [
        "1-lines-memory-layer1.svg",
        "1-heat-maps-memory-layer1.svg",
        "2-lines-memory-layer1.svg",
        "2-heat-maps-memory-layer1.svg",
    ]
    text = written[0].read_text()
    assert 'id="head-2"' in text and 'id="head-1"' not in text
    assert 'id="box-2-0"' in text
    assert ">apples</text>" in text
    assert "layer 1, head 3" in written[1].read_text()
    assert "layer 2" not in written[1].read_text()


def test_a_word_is_looked_for_in_every_kind_and_missed_if_in_none(tmp_path) -> None:
    written = write_pictures([made_up()], ("lines",), Choice(words=["app"]), tmp_path)
    assert names(written) == ["lines-encoder-layer2.svg"]
    written = write_pictures([made_up()], ("lines",), Choice(words=["pfel"]), tmp_path)
    assert names(written) == ["lines-decoder-layer2.svg", "lines-memory-layer2.svg"]
    with pytest.raises(UserError, match="There is no word 'pear'"):
        write_pictures([made_up()], ("lines",), Choice(words=["pear"]), tmp_path)


def test_the_page_has_words_and_subwords_whatever_figures_show(tmp_path) -> None:
    pages = []
    for merge in (False, True):
        choice = Choice(["decoder"], merge_subwords=merge)
        (page,) = write_pictures([made_up()], ("page",), choice, tmp_path)
        pages.append(page.read_text())
    assert pages[0] == pages[1]
    assert '"kind":"decoder"' in pages[0]


def test_a_folder_that_cannot_be(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot be made: .* Give another --output"):
        write_pictures([made_up()], ("page",), Choice(), tmp_path / "file" / "a")


def made_up_attention() -> Attention:
    """An attention whose maps follow from the length of the source."""

    def maps(sources, targets):
        for source in sources:
            yield made_up(seed=len(source)), source == "long"

    return Attention(str, lambda texts: ["" for _ in texts], maps, None)


def test_a_corpus_is_summed_up_without_its_empty_lines(tmp_path) -> None:
    heads, cut = summarize(made_up_attention(), ["a", "", "long", " "], ["b"] * 4)
    assert cut == 1
    sums = HeadSums()
    sums.add(made_up(seed=1))
    sums.add(made_up(seed=4))
    assert heads == sums.means()
    written = write_summary(heads, "two sentences", tmp_path / "new", "png")
    assert names(written) == ["heads.tsv", "heads.md", "heads.png"]
    assert written[0].read_text().count("\n") == 1 + len(heads)
    assert (
        written[1]
        .read_text()
        .startswith("# What each head does\n\ntwo sentences\n\n## ")
    )
    assert written[2].read_bytes().startswith(b"\x89PNG")


def test_a_corpus_of_nothing() -> None:
    with pytest.raises(UserError, match="There is no sentence to look at"):
        summarize(made_up_attention(), ["", " "], ["a", "b"])


def test_words_are_merged_for_figures_alone() -> None:
    # The summary is of subwords: merging would hide what a head does within a word.
    maps = made_up()
    sums = HeadSums()
    sums.add(maps)
    merged = HeadSums()
    merged.add(merge_sentence_words(maps))
    heads, _ = summarize(
        Attention(str, lambda texts: [], lambda *_: iter([(maps, False)]), None),
        ["a"],
        ["b"],
    )
    assert heads == sums.means() != merged.means()
