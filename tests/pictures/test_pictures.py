"""Picture files of a sentence, and the head statistics of a corpus."""

import pytest

from t2t_keras.errors import UserError
from t2t_keras.model.sentence_maps import SentenceMaps
from t2t_keras.pictures.head_statistics import HeadSums
from t2t_keras.pictures.pictures import summarize, write_pictures, write_summary
from t2t_keras.pictures.request import KINDS, PictureRequest
from t2t_keras.pictures.sentence_attention import Attention
from t2t_keras.pictures.words import merge_sentence_words
from tests.pictures.random_maps import random_maps

ALL = ("lines", "heat_maps", "page", "summary")


def test_kinds_are_those_of_the_maps() -> None:
    assert KINDS == SentenceMaps._fields


def names(paths) -> list[str]:
    return [path.name for path in paths]


def test_all_pictures_of_a_sentence(tmp_path) -> None:
    folder = tmp_path / "new" / "pictures"
    paths = write_pictures([random_maps()], ALL, PictureRequest(), folder)
    assert names(paths) == [
        "lines-encoder-layer2.svg",
        "lines-decoder-layer2.svg",
        "lines-memory-layer2.svg",
        "heat-maps-encoder.svg",
        "heat-maps-decoder.svg",
        "heat-maps-memory.svg",
        "attention.html",
    ]
    assert sorted(folder.iterdir()) == sorted(paths)
    text = paths[1].read_text()
    assert "Decoder self-attention, layer 2" in text
    assert ">▁app</text>" not in text and ">pfel</text>" in text


def test_a_choice_of_kind_layer_heads_and_words_is_drawn(tmp_path) -> None:
    choice = PictureRequest(
        kind=["memory"], layer=1, heads=[2], words=["Äpfel"], merge_subwords=True
    )
    paths = write_pictures(
        [random_maps(), random_maps()], ("lines", "heat_maps"), choice, tmp_path
    )
    assert names(paths) == [
        "1-lines-memory-layer1.svg",
        "1-heat-maps-memory-layer1.svg",
        "2-lines-memory-layer1.svg",
        "2-heat-maps-memory-layer1.svg",
    ]
    text = paths[0].read_text()
    assert 'id="head-2"' in text and 'id="head-1"' not in text
    assert 'id="box-2-0"' in text
    assert ">apples</text>" in text
    assert "layer 1, head 3" in paths[1].read_text()
    assert "layer 2" not in paths[1].read_text()


def test_a_word_is_searched_in_every_kind_and_refused_if_in_none(tmp_path) -> None:
    paths = write_pictures(
        [random_maps()], ("lines",), PictureRequest(words=["app"]), tmp_path
    )
    assert names(paths) == ["lines-encoder-layer2.svg"]
    paths = write_pictures(
        [random_maps()], ("lines",), PictureRequest(words=["pfel"]), tmp_path
    )
    assert names(paths) == ["lines-decoder-layer2.svg", "lines-memory-layer2.svg"]
    with pytest.raises(UserError, match="There is no word 'pear'"):
        write_pictures(
            [random_maps()], ("lines",), PictureRequest(words=["pear"]), tmp_path
        )


def test_the_page_always_has_both_words_and_subwords(tmp_path) -> None:
    pages = []
    for merge in (False, True):
        choice = PictureRequest(kind=["decoder"], merge_subwords=merge)
        (page,) = write_pictures([random_maps()], ("page",), choice, tmp_path)
        pages.append(page.read_text())
    assert pages[0] == pages[1]
    assert '"kind":"decoder"' in pages[0]


def test_a_folder_that_cannot_be_created_is_refused(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot be made: .* Give another --output"):
        write_pictures(
            [random_maps()], ("page",), PictureRequest(), tmp_path / "file" / "a"
        )


def fake_attention() -> Attention:
    """Returns an attention whose maps depend on the length of the source."""

    def maps(sources, targets):
        for source in sources:
            yield random_maps(seed=len(source)), source == "long"

    return Attention(str, lambda texts: ["" for _ in texts], maps, None)


def test_a_corpus_is_summarized_without_its_empty_lines(tmp_path) -> None:
    heads, cut = summarize(fake_attention(), ["a", "", "long", " "], ["b"] * 4)
    assert cut == 1
    sums = HeadSums()
    sums.add(random_maps(seed=1))
    sums.add(random_maps(seed=4))
    assert heads == sums.means()
    paths = write_summary(heads, "two sentences", tmp_path / "new", "png")
    assert names(paths) == ["heads.tsv", "heads.md", "heads.png"]
    assert paths[0].read_text().count("\n") == 1 + len(heads)
    assert (
        paths[1].read_text().startswith("# What each head does\n\ntwo sentences\n\n## ")
    )
    assert paths[2].read_bytes().startswith(b"\x89PNG")


def test_an_empty_corpus_is_refused() -> None:
    with pytest.raises(UserError, match="There is no sentence to look at"):
        summarize(fake_attention(), ["", " "], ["a", "b"])


def test_subwords_are_not_merged_in_the_summary() -> None:
    # Merging would hide what a head does within a word.
    maps = random_maps()
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
