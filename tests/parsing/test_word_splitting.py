import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.parsing.task import split_words, split_words_in_graph

WHOLE = ("n't", "'s", "'ve", "'ll", "cannot ", "can", "not", "...", "--", "''", "``",
         "-LRB-", "U.S.", "\u2028")  # fmt: skip
TRICKY = st.lists(
    st.sampled_from([*"abSn1 ,:;.'\"()[]{}!?%$#-`“”\u2018\u2019…—&/\t\x00é", *WHOLE]),
    max_size=14,
).map("".join)


def split_in_graph(texts: list[str]) -> list[str]:
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    return [
        text.decode() for text in split_words_in_graph(tf.constant(encoded)).numpy()
    ]


SPLIT_BY_HAND = (
    ("The dog sleeps.", "The dog sleeps ."),
    ("Don't! It's John's, isn't it?", "Do n't ! It 's John 's , is n't it ?"),
    ("They'll say we've won; I'd go, I'm sure.",
     "They 'll say we 've won ; I 'd go , I 'm sure ."),
    ('He said: "Go (now)."', "He said : `` Go -LRB- now -RRB- . ''"),
    ("“Stop,” she said — “or else…”", "`` Stop , '' she said -- `` or else ... ''"),
    ("It cost $1,250.50, or US$5 at 10:30.",
     "It cost $ 1,250.50 , or US$ 5 at 10:30 ."),
    ("Up 3.5%, not 4%.", "Up 3.5 % , not 4 % ."),
    ("A 5%-owned unit, 5%)", "A 5%-owned unit , 5 % -RRB-"),
    ("The dogs' bowl cannot move.", "The dogs ' bowl can not move ."),
    ("Mr. Smith of Acme Inc. left", "Mr. Smith of Acme Inc. left"),
    ("AT&T's well-known 1/2", "AT&T 's well-known 1/2"),
    ("a,b , c,1", "a , b , c , 1"),
    (",5 :x", ", 5 : x"),
    (",,a:::b,,1", ", , a : : : b , , 1"),
    ("[a] {b}", "-LSB- a -RSB- -LCB- b -RCB-"),
    ("I'd've said", "I 'd 've said"),
    ("the dogs'.", "the dogs ' ."),
    ("9%%%, .%n't", "9 % % % , . % n't"),
    ("No --- really--- no", "No --- really --- no"),
    ("", ""),
    (" \n", ""),
    (".", "."),
)  # fmt: skip


def test_examples():
    for text, words in SPLIT_BY_HAND:
        assert split_words(text) == words, repr(text)
        assert split_in_graph([text]) == [words], repr(text)
        assert split_words(words) == words, repr(text)


@given(TRICKY | st.text(max_size=25))
def test_split_text_is_not_split_again(text):
    once = split_words(text)
    assert split_words(once) == once
    assert once == " ".join(once.split())
    assert not set(once) & set('()[]{}"“”')


@given(st.lists(TRICKY | st.text(max_size=25), min_size=1, max_size=12))
def test_the_graph_splits_the_same(texts):
    assert split_in_graph(texts) == [split_words(text) for text in texts]
