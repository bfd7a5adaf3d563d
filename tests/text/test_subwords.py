import collections
import fcntl
import hashlib
import io
import itertools
import random
import re
import subprocess
import sys
import time

import pytest
import sentencepiece

from t2t_keras.errors import UserError
from t2t_keras.files.signals import STOP_SIGNALS
from t2t_keras.text import subwords
from t2t_keras.text.subword_vocabulary import SubwordVocabulary
from t2t_keras.text.subwords import learn_subwords

MODEL_TYPES = ("bpe", "unigram")


LEARNER = """
import hashlib, sys
from t2t_keras.text import subwords

lines = sys.stdin.read().split("\\n")
sys.stderr.write("@")
for subwords.MAX_LINES in (100, 100_000):
    for model_type in ("bpe", "unigram"):
        model = subwords.learn_subwords(
            lines, vocabulary_size=300, model_type=model_type
        )
        print(hashlib.sha256(model).hexdigest())
sys.stderr.write("@")
"""


def test_another_process_learns_the_same_without_output(lines, monkeypatch):
    here = []
    for max_lines in (100, 100_000):
        monkeypatch.setattr(subwords, "MAX_LINES", max_lines)
        for model_type in MODEL_TYPES:
            model = learn_subwords(lines, vocabulary_size=300, model_type=model_type)
            here.append(hashlib.sha256(model).hexdigest())
    there = subprocess.run(
        [sys.executable, "-c", LEARNER],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        check=True,
    )
    assert there.stdout.split() == here
    assert len(set(here)) == 4
    log = there.stderr.split("@")[1]
    # Only Abseil prints one line, that it has not been initialized.
    assert [line for line in log.splitlines() if "InitializeLog" not in line] == []


def test_every_line_has_the_same_chance_to_be_learned_from(monkeypatch):
    monkeypatch.setattr(subwords, "MAX_LINES", 300)
    learned_from = []
    monkeypatch.setattr(
        subwords,
        "_run_learner",
        lambda lines, options: learned_from.extend(lines) or b"",
    )
    numbers = map(str, range(1500))
    learn_subwords(numbers, vocabulary_size=300, model_type="unigram")
    assert len(learned_from) == len(set(learned_from)) == 300
    by_fifth = collections.Counter(int(line) // 300 for line in learned_from)
    # The expected count of each is 60, with standard deviation 7.
    assert set(by_fifth) == set(range(5))
    assert all(35 < count < 85 for count in by_fifth.values())


def test_lines_are_normalized_and_empty_ones_passed_over(lines):
    clean = learn_subwords(lines, vocabulary_size=300)
    rough = [f"\u3000{line}\r\n".replace(" ", "\t ").encode() for line in lines]
    rough[5:5] = [b"", b" \xc2\xa0\r\n"]
    assert learn_subwords(rough, vocabulary_size=300) == clean


def test_learning_from_counts_of_words_is_learning_from_the_lines(lines):
    """Of SentencePiece, in every byte of the model."""
    symbols = ["<2de>", "ee"]
    texts = [*lines, "ß" * 200, "<2de> the tree", "tree<2de>"] * 2
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        model_type="bpe",
        vocab_size=340,
        character_coverage=0.99,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        pad_id=0,
        eos_id=1,
        unk_id=2,
        bos_id=-1,
        max_sentence_length=1 << 24,
        minloglevel=2,
        user_defined_symbols=symbols,
    )
    learned = learn_subwords(
        texts, vocabulary_size=340, character_coverage=0.99, user_symbols=symbols
    )
    assert learned == model.getvalue()


def test_long_lines_are_learned_from(lines):
    long_line = " ".join(["Donaudampfschiff"] * 400)
    assert len(long_line) > 4192  # SentencePiece's own limit
    model = learn_subwords([*lines, long_line], vocabulary_size=340)
    without = learn_subwords(lines, vocabulary_size=340)
    assert len(SubwordVocabulary(model).encode("Donaudampfschiff")) <= 4
    assert len(SubwordVocabulary(without).encode("Donaudampfschiff")) > 10


def test_the_model_is_what_the_record_says(bpe_model):
    processor = sentencepiece.SentencePieceProcessor(model_proto=bpe_model)
    special = [processor.id_to_piece(i) for i in range(3)]
    assert special == ["<pad>", "</s>", "<unk>"]
    assert processor.bos_id() == -1
    assert processor.is_byte(3) and processor.is_byte(258)
    assert processor.id_to_piece(3 + 0x41) == "<0x41>"
    # Identity: neither NFKC nor the removal of repeated spaces.
    assert processor.decode(processor.encode("ﬁ  ½")) == "ﬁ  ½"


def merge_counts(words: collections.Counter, pieces: list[str]) -> list[tuple]:
    """Counts the adjacent halves of each piece, and the most frequent adjacent pair.

    Like BPE, merges the halves of a piece everywhere before the next piece.
    """
    parts_by_word = {word: list(word) for word in words}
    counts = []
    for piece in pieces:
        pairs = collections.Counter()
        for word, count in words.items():
            for pair in itertools.pairwise(parts_by_word[word]):
                pairs[pair] += count
        own = [pair for pair in pairs if "".join(pair) == piece]
        merged = max(own, key=pairs.__getitem__, default=("", ""))
        counts.append((pairs[merged], max(pairs.values())))
        for word, parts in parts_by_word.items():
            joined = []
            for part in parts:
                if joined and (joined[-1], part) == merged:
                    joined[-1] += part
                else:
                    joined.append(part)
            parts_by_word[word] = joined
    return counts


@pytest.mark.parametrize("seed", range(3))
def test_bpe_merges_the_most_frequent_pair_again_and_again(seed):
    """Sennrich et al. 2016, algorithm 1; many words, some much more frequent."""
    generator = random.Random(seed)
    known = [
        "".join(generator.choices("abcdeäß", k=generator.randint(1, 7)))
        for _ in range(60)
    ]
    often = [1 / rank for rank in range(1, 61)]
    lines = [" ".join(generator.choices(known, often, k=9)) for _ in range(80)]
    words = collections.Counter("▁" + word for line in lines for word in line.split())

    def counts(model_type):
        model = learn_subwords(lines, vocabulary_size=307, model_type=model_type)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        pieces = [processor.id_to_piece(i) for i in range(259, 307)]
        return merge_counts(words, [piece for piece in pieces if len(piece) > 1])

    merges = counts("bpe")
    assert len(merges) == 40
    assert all(count == most for count, most in merges)
    assert any(count != most for count, most in counts("unigram"))


def test_coverage_decides_which_characters_get_a_piece(lines):
    text = [*lines * 5, "Ω"]
    all_covered = learn_subwords(text, vocabulary_size=320, character_coverage=1.0)
    most_covered = learn_subwords(text, vocabulary_size=320, character_coverage=0.999)
    assert len(SubwordVocabulary(all_covered).encode("Ω")) == 3  # space, Ω, end
    assert len(SubwordVocabulary(most_covered).encode("Ω")) == 4  # ... two bytes ...


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_a_size_the_text_cannot_give(lines, model_type):
    with pytest.raises(UserError, match="vocabulary of 9000 is larger") as caught:
        learn_subwords(lines, vocabulary_size=9000, model_type=model_type)
    largest = int(re.search(r"--vocabulary_size=(\d+) or less", str(caught.value))[1])
    learn_subwords(lines, vocabulary_size=largest, model_type=model_type)
    with pytest.raises(UserError, match=f"{largest + 1} is larger .*{largest} or less"):
        learn_subwords(lines, vocabulary_size=largest + 1, model_type=model_type)


@pytest.mark.parametrize("model_type", MODEL_TYPES)
def test_a_size_too_small_for_the_characters(lines, model_type):
    with pytest.raises(UserError, match="vocabulary of 270 is too small") as caught:
        learn_subwords(lines, vocabulary_size=270, model_type=model_type)
    least = int(re.search(r"--vocabulary_size=(\d+) or more", str(caught.value))[1])
    learn_subwords(lines, vocabulary_size=least, model_type=model_type)
    with pytest.raises(UserError, match=f"{least - 1} is too small"):
        learn_subwords(lines, vocabulary_size=least - 1, model_type=model_type)


@pytest.mark.parametrize("size", [-1, 0, 259])
def test_a_size_that_does_not_hold_the_bytes(lines, size):
    with pytest.raises(UserError, match=f"{size} is too small.*--vocabulary_size=260"):
        learn_subwords(lines, vocabulary_size=size)


def test_one_text_is_not_a_list_of_lines():
    for text in ("The dog", b"The dog"):
        with pytest.raises(UserError, match="one text of 7 characters; put it in a li"):
            learn_subwords(text, vocabulary_size=300)


def test_no_text():
    with pytest.raises(UserError, match="No text to learn a vocabulary from"):
        learn_subwords(["", "\u2028"], vocabulary_size=300)


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        ("import sys; sys.exit('noise\\nsentencepiece: out of luck')", ": out of luck"),
        ("import os; os.kill(os.getpid(), 9)", "signal 9 ended it. Is there enough"),
        ("import no_such_module", "No module named 'no_such_module'"),
    ],
)
def test_other_failures_are_passed_on(lines, monkeypatch, learner, message):
    """The learner fails before it reads; the lines exceed the buffer of a pipe."""
    monkeypatch.setattr(subwords, "_LEARNER", learner)
    with pytest.raises(UserError, match=rf"could not learn.*{message}") as caught:
        learn_subwords(lines * 100, vocabulary_size=300)
    assert "noise" not in str(caught.value)


WAITING = """
import fcntl, sys, time
with open({path!r}, "w") as locked:
    fcntl.flock(locked, fcntl.LOCK_EX)
    locked.write("locked")
    locked.flush()
    time.sleep(600)
"""
STOPPED = """
from t2t_keras.files.signals import end_program_on_signal
from t2t_keras.text import subwords

end_program_on_signal()
subwords._LEARNER = {learner!r}
subwords.learn_subwords(["a b c"], vocabulary_size=300)
"""


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_ends_the_program_and_its_learning_process(tmp_path, number):
    path = tmp_path / "lock"
    code = STOPPED.format(learner=WAITING.format(path=str(path)))
    with subprocess.Popen(
        [sys.executable, "-c", code], stderr=-1, text=True
    ) as process:
        while not (path.exists() and path.read_text()):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.01)
        process.send_signal(number)
        status, errors = process.wait(), process.stderr.read()
    assert (status, errors) == (128 + number, f"stopped by {number.name}\n")
    with path.open() as locked:  # waits if the learner still runs
        fcntl.flock(locked, fcntl.LOCK_EX)


def test_arguments_that_cannot_be_meant(lines):
    with pytest.raises(ValueError, match=r"in \(0, 1\]\. Received: 1\.5"):
        learn_subwords(lines, vocabulary_size=300, character_coverage=1.5)
    with pytest.raises(ValueError, match=r"'bpe' or 'unigram'\. Received: 'word'"):
        learn_subwords(lines, vocabulary_size=300, model_type="word")
