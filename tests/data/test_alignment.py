"""Gold alignments of the bundled corpora, against links written by hand."""

import itertools
import re

import pytest
from business_ende import sample_sentences as letters
from grammar_ende import write_text
from grammar_ende.corpus import SEED, aligned_pairs, corpus_splits
from grammar_ende.lexicon.nouns import NOUNS
from grammar_ende.sample_sentences import draw_sentence

# A pair, and for each German word the English words that it translates.
_EVERYDAY = """
The actress has just brought back a beautiful bicycle.
Die Schauspielerin hat gerade ein schönes Fahrrad zurückgebracht.
The actress has just a beautiful bicycle. brought+back

Their son picked her up while it snowed.
Ihr Sohn holte sie ab, während es schneite.
Their son picked her up while it snowed.

She tries to pick up the car.
Sie versucht, das Auto abzuholen.
She tries the car. to+pick+up

In the morning a king closed the new museum door.
Am Morgen schloss ein König die neue Museumstür.
In+the morning closed a king the new museum+door.

The hungry cow will go to the river.
Die hungrige Kuh wird zum Fluss gehen.
The hungry cow will to+the river. go

These men like to put the white suitcase on the green table.
Diese Männer stellen den weißen Koffer gern auf den grünen Tisch.
These men put the white suitcase like on the green table.

The actress has not found a brown cow today.
Die Schauspielerin hat heute keine braune Kuh gefunden.
The actress has today. not+a brown cow found

When have the lazy farmers looked for my ball?
Wann haben die faulen Bauern meinen Ball gesucht?
When have the lazy farmers my ball? looked+for

Because these poor men do not feed the fox on Wednesday, the fox does not play.
Weil diese armen Männer den Fuchs am Mittwoch nicht füttern, spielt der Fuchs nicht.
Because these poor men the fox on Wednesday, not feed play. the fox not
"""
_LETTERS = """
The manufacturer's form has been submitted recently.
Das Formular des Herstellers ist kürzlich eingereicht worden.
manufacturer's form The manufacturer's has recently. submitted been

We would like to know whether the company's banks terminated our agreement on Friday.
Wir möchten wissen, ob die Banken der Firma unsere Vereinbarung am Freitag kündigten.
We would+like know whether company's banks the company's our agreement on Friday. terminated

Could you please offer him our discount?
Könnten Sie ihm bitte unseren Rabatt anbieten?
Could you him please our discount? offer

Please extend the license thoroughly.
Bitte verlängern Sie die Lizenz gründlich.
Please extend - the license thoroughly.

Your office is more modern than my branch.
Ihr Büro ist moderner als meine Filiale.
Your office is more+modern than my branch.
"""  # noqa: E501 - one sentence a line


def _links(aligned):
    """Returns the links as pairs of positions."""
    links = [link.split("-") for link in aligned.alignment.split()]
    return [(int(i), int(j)) for i, j in links]


@pytest.mark.parametrize(
    ("table", "draw"), [(_EVERYDAY, draw_sentence), (_LETTERS, letters.draw_sentence)]
)
def test_alignments_are_those_written_by_hand(table, draw):
    pairs = itertools.islice(aligned_pairs(SEED, draw), 2_000)
    known = {(each.pair.en, each.pair.de): each for each in pairs}
    for example in table.strip().split("\n\n"):
        en, de, expected = example.split("\n")
        aligned, words = known[en, de], en.split()
        sources = [[] for _ in de.split()]
        for i, j in _links(aligned):
            sources[j].append(words[i])
        assert [" ".join(each) or "-" for each in sources] == [
            each.replace("+", " ") for each in expected.split()
        ], en


def test_only_words_that_the_other_language_lacks_are_unaligned():
    lacking = {"to", "do", "does", "did"}
    # "by the end" is "bis Ende".
    cases = (draw_sentence, lacking), (letters.draw_sentence, {*lacking, "the"})
    for draw, lacking in cases:
        for aligned in itertools.islice(aligned_pairs(3, draw), 1_000):
            en, de = aligned.pair.en.split(), aligned.pair.de.split()
            links = _links(aligned)
            assert links == sorted(set(links))
            left = {en[i] for i in set(range(len(en))) - {i for i, _ in links}}
            assert {word.lower() for word in left} <= lacking, aligned
            right = {de[j] for j in set(range(len(de))) - {j for _, j in links}}
            added = {word.strip(",") for word in right}
            assert added <= {"Sie", "darauf", "können", "müssen"}, aligned


def test_nouns_are_aligned_as_in_the_dictionary():
    # An umlaut changes the middle of a plural. A compound has a word for each part.
    endings = {
        en: (noun.de.lower()[-2:], noun.de_plural.lower()[-2:])
        for noun in NOUNS
        for en in (noun.en, noun.en_plural)
    }
    seen = 0
    for aligned in itertools.islice(aligned_pairs(4), 1_000):
        en = re.sub("[,.?]|'s", "", aligned.pair.en).split()
        de = re.sub("[,.?]", "", aligned.pair.de).lower().split()
        links = _links(aligned)
        for i, word in enumerate(en):
            targets = [j for k, j in links if k == i]
            is_compound = sum(j in targets for _, j in links) > 1
            if word in endings and len(targets) == 1 and not is_compound:
                seen += 1
                assert any(end in de[targets[0]] for end in endings[word]), aligned
    assert seen > 1_000


def test_files_hold_the_corpus(tmp_path, monkeypatch):
    monkeypatch.setattr(letters, "SIZES", (30, 20, 10))
    assert write_text.main(["--corpus=business_ende", str(tmp_path / "new")]) == 0
    splits = corpus_splits(SEED, 30, 20, 10, draw=letters.draw_sentence)
    for name, pairs in splits._asdict().items():
        for ending in ("en", "de"):
            lines = "".join(f"{getattr(pair, ending)}\n" for pair in pairs)
            path = tmp_path / "new" / f"{name}.{ending}"
            assert path.read_bytes() == lines.encode()
        lines = (tmp_path / "new" / f"{name}.align").read_text().splitlines()
        assert len(lines) == len(pairs)
        assert all(re.fullmatch(r"\d+-\d+( \d+-\d+)*", line) for line in lines)
