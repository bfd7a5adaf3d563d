from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.parsing.linearization import linearize, repair_tree, tree_words
from t2t_keras.parsing.trees import Tree, read_trees
from tests.parsing.random_trees import TREES, deep_tree
from tests.parsing.test_punctuation import MARKS
from tests.parsing.test_tag_matching import slow_alignment

JUNK = st.lists(
    st.sampled_from(
        [
            "(S",
            "(NP",
            "(VP",
            ")S",
            ")NP",
            ")",
            "(",
            "DT",
            "NN",
            "VBZ",
            ",",
            ",",
            ".",
            "``",
            "-LRB-",
            "N(N",
            "V)",
            "(N)(",
            "()",
        ]
    ),
    max_size=14,
).map(" ".join)
SENTENCES = st.lists(
    st.sampled_from(["a", "b", "größer", "(", ".", "-LRB-", ",", ",", "--", "'"]),
    max_size=7,
)
# Words of realistic sentences with their tags.
TAGGED = st.sampled_from(
    [
        "a/DT",
        "b/NN",
        "c/VBZ",
        "d/IN",
        ",/,",
        ",/,",
        "--/:",
        ";/:",
        "!/.",
        "``/``",
        "'/POS",
    ]
)


@st.composite
def damaged_symbols(draw):
    """Draws a sentence and its symbols, some of them missing, added or changed."""
    pairs = [pair.rsplit("/", 1) for pair in draw(st.lists(TAGGED, max_size=14))]
    symbols = [tag for _, tag in pairs]
    strays = ["(NP", ")NP", "(S", ")S", ",", ":", ".", "NN", "DT"]
    for _ in range(draw(st.integers(0, 6))):
        symbols.insert(
            draw(st.integers(0, len(symbols))), draw(st.sampled_from(strays))
        )
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(symbols)))
        symbols[at : at + 1] = draw(st.sampled_from([[], ["NN"], [","]]))
    return " ".join(symbols), [word for word, _ in pairs]


def slow_tags(parts: list[str], words: list[str]) -> tuple[list[str], list[int]]:
    """Returns the tag of each word, and the position of its symbol."""
    at = [i for i, part in enumerate(parts) if part[0] not in "()"]
    tags = [parts[i].replace("(", "").replace(")", "") for i in at]
    treebank = [{"(": "-LRB-", ")": "-RRB-"}.get(word, word) for word in words]
    marks = {word: mark for mark in MARKS for word in MARKS[mark].split()}
    kinds = [marks.get(word, "NN") for word in treebank]
    tag_kinds = [tag if tag in MARKS else "NN" for tag in tags]
    alignment = slow_alignment(tuple(tag_kinds), tuple(kinds))
    given_at = [at[tag] for tag in alignment if tag is not None]
    labels, places = [], []
    for word, tag in enumerate(alignment):
        before = [at[tag] for tag in alignment[: word + 1] if tag is not None]
        after = [at[tag] for tag in alignment[word:] if tag is not None]
        if not after:
            places.append(len(parts))
        else:
            places.append(before[-1] if before else given_at[0])
        keeps = tag is not None and (
            len(tags) == len(words) or tag_kinds[tag] == kinds[word]
        )
        labels.append(tags[tag] if keeps else kinds[word])
    return labels, places


def slow_repair(symbols: str, words: list[str]):
    """Returns the repaired tree as nested tuples, by spans: no stack, no walk."""
    parts = symbols.split()
    tags, places = slow_tags(parts, words)
    spans = []  # (first word, end, order, label) of every constituent with a word
    for i, part in enumerate(parts):
        if part[0] != "(":
            continue
        end = len(parts)
        for j in range(i + 1, len(parts) + 1):
            inside = parts[i + 1 : j]
            if sum(p[0] == ")" for p in inside) > sum(p[0] == "(" for p in inside):
                end = j - 1
                break
        closed = end < len(parts)
        first = sum(place < i for place in places)
        last = sum(place < end for place in places) if closed else len(words)
        if first < last:
            spans.append(
                (first, last, i, part.replace("(", "").replace(")", "") or "X")
            )
    outer = [
        a
        for a in spans
        if not any(b[2] < a[2] and b[0] <= a[0] and a[1] <= b[1] for b in spans)
    ]
    root = (0, len(words), -1, "TOP")
    if len(outer) == 1:
        spans.remove(outer[0])
        root = (0, len(words), -1, outer[0][3])
    return _nested(root, spans, tags, words)


def _nested(span, spans, tags, words):
    inner = [s for s in spans if s[2] > span[2] and span[0] <= s[0] and s[1] <= span[1]]
    children, position = [], span[0]
    while position < span[1]:
        here = [s for s in inner if s[0] == position]
        if here:
            child = min(here, key=lambda s: s[2])
            children.append(_nested(child, inner, tags, words))
            inner = [s for s in inner if s[0] >= child[1]]
            position = child[1]
        else:
            children.append((tags[position], words[position]))
            position += 1
    return (span[3], children)


def nested(tree: Tree):
    if tree.word is not None:
        return (tree.label, tree.word)
    return (tree.label, [nested(child) for child in tree.children])


def test_linearize():
    (tree,) = read_trees(["(S (NP (DT the) (NN dog)) (VP (VBZ sleeps)) (. .))"])
    assert linearize(tree) == "(S (NP DT NN )NP (VP VBZ )VP . )S"
    assert tree_words(tree) == ["the", "dog", "sleeps", "."]


@given(TREES)
def test_a_linearized_tree_is_restored_exactly(tree):
    assert repair_tree(linearize(tree), tree_words(tree)) == tree


@given(st.tuples(JUNK, SENTENCES) | damaged_symbols())
def test_any_symbols_are_repaired_as_by_the_slow_reference(pair):
    symbols, words = pair
    tree = repair_tree(symbols, words)
    assert tree_words(tree) == words
    assert nested(tree) == slow_repair(symbols, words)
    if words:
        # A repaired tree is well-formed.
        assert repair_tree(linearize(tree), words) == tree


@given(st.text(max_size=30), SENTENCES)
def test_any_text_becomes_a_tree_over_the_words(symbols, words):
    assert tree_words(repair_tree(symbols, words)) == words


REPAIRED_BY_HAND = (
    ("", "", "(TOP)"),
    ("(S NN )S", "", "(TOP)"),
    ("", "a b", "(TOP (NN a) (NN b))"),
    ("DT", "a", "(TOP (DT a))"),
    # Unclosed brackets, and too many closing ones.
    ("(S (NP DT", "a", "(S (NP (DT a)))"),
    (")NP )S (S DT )S )S", "a", "(S (DT a))"),
    # The label of a closing bracket does not matter.
    ("(S (NP DT )VP VBZ )X", "a b", "(S (NP (DT a)) (VBZ b))"),
    # Too many tags, and too few: extra words go into the open constituent or the root.
    ("(S (NP DT NN NN )NP (VP VBZ )VP )S", "a b", "(S (NP (DT a) (NN b)))"),
    ("(S (NP DT", "a b c", "(S (NP (DT a) (NN b) (NN c)))"),
    ("(S (NP DT )NP )S", "a b", "(S (NP (DT a)) (NN b))"),
    ("(S (NP DT )NP )S", "a .", "(S (NP (DT a)) (. .))"),
    # A missing tag before a comma: the words after the comma stay in place.
    (
        "(S (S (NP DT )NP (VP VBZ )VP )S , (NP PRP )NP (VP VBD )VP . )S",
        "the dog barks , she said .",
        "(S (S (NP (DT the)) (VP (VBZ dog) (NN barks))) (, ,) (NP (PRP she)) "
        "(VP (VBD said)) (. .))",
    ),
    # A missing comma, and an extra one.
    (
        "(S (NP NN )NP (NP NN )NP . )S",
        "a , b .",
        "(S (NP (NN a) (, ,)) (NP (NN b)) (. .))",
    ),
    (
        "(S (NP NN , )NP (VP VB )VP . )S",
        "a b .",
        "(S (NP (NN a)) (VP (VB b)) (. .))",
    ),
    # A missing first mark is placed right before the next word.
    ("(S (S VB )S '' . )S", "`` a '' .", "(S (S (`` ``) (VB a)) ('' '') (. .))"),
    # A mark tagged as a noun, and another error.
    ("(S NN NN NN DT . )S", "a -- b !", "(S (NN a) (: --) (NN b) (. !))"),
    # As many tags as words: assigned in order, for any kinds.
    ("(S , NN )S", "a .", "(S (, a) (NN .))"),
    # Constituents without words.
    ("(S (NP )NP (VP (X )X VB )VP )S", "a", "(S (VP (VB a)))"),
    # Words outside of the only root, and several roots.
    ("DT (NP NN )NP .", "a b c", "(NP (DT a) (NN b) (. c))"),
    ("(NP NN )NP (VP VB )VP", "a b", "(TOP (NP (NN a)) (VP (VB b)))"),
    ("( NN )", "a", "(X (NN a))"),
    ("(S(NP D(T )) )S", "a", "(SNP (DT a))"),
    # A constituent over another with the same label.
    ("(NP (NP NN )NP )NP", "a", "(NP (NP (NN a)))"),
    ("(S -LRB- -RRB- )S", "( )", "(S (-LRB- -LRB-) (-RRB- -RRB-))"),
)


def test_examples():
    for symbols, words, expected in REPAIRED_BY_HAND:
        assert str(repair_tree(symbols, words.split())) == expected, (symbols, words)


def test_five_thousand_levels():
    tree = deep_tree(5_000)
    words = tree_words(tree)
    assert repair_tree(linearize(tree), words) == tree
    open_only = "(A " * 5_000 + "NN"
    assert repair_tree(open_only, ["a"]) == repair_tree(
        open_only + " )A" * 5_000, ["a"]
    )
