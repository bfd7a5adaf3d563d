"""English clauses and sentences as constituency trees."""

from collections.abc import Sequence

from grammar_ende.derivation import (
    Announcement,
    Clause,
    Coordination,
    Existence,
    Nominal,
    NounPhrase,
    RelativeClause,
    Request,
    Role,
    Sentence,
    Statement,
    Subordination,
    Tense,
    WhQuestion,
    YesNoQuestion,
)
from grammar_ende.english_inflection import starts_with_auxiliary, verb_chain
from grammar_ende.english_phrases import (
    nominal_tree,
    oblique_tree,
    preposition_leaves,
    quality_tree,
    time_tree,
)
from grammar_ende.lexicon.entries import Phrase, Pronoun
from grammar_ende.origins import phrase_tree, respelled, unaligned, within
from grammar_ende.trees import Tree, leaf, node

_PLEASE = node("INTJ", *within("please", [leaf("UH", "please")]))


def sentence_tree(sentence: Sentence) -> Tree:
    """Returns the tree of a whole sentence, its first word capitalised."""
    return _capitalised(_sentence(sentence))


def _sentence(sentence: Sentence) -> Tree:
    stop, question_mark = leaf(".", "."), leaf(".", "?")
    if isinstance(sentence, Statement):
        return node("S", *_clause(sentence.clause), stop)
    if isinstance(sentence, YesNoQuestion):
        return node("SQ", *_inverted(sentence.clause), question_mark)
    if isinstance(sentence, WhQuestion):
        return _wh_question(sentence)
    if isinstance(sentence, Existence):
        return _existence(sentence)
    if isinstance(sentence, Request):
        return node("S", _PLEASE, *_imperative(sentence.clause), stop)
    if isinstance(sentence, Announcement):
        content = _bar(sentence.conjunction, sentence.clause)
        [opening] = within("opening", [phrase_tree(sentence.opening)])
        return node("S", *_extended(opening.children, content), stop)
    if isinstance(sentence, Coordination):
        comma = leaf(",", ",") if "but" in sentence.conjunction.en else None
        first = node("S", *within("first", _clause(sentence.first)))
        second = node("S", *within("second", _clause(sentence.second)))
        joint = phrase_tree(sentence.conjunction)
        return node("S", first, comma, joint, second, stop)
    return _subordination(sentence)


def _subordination(sentence: Subordination) -> Tree:
    subordinate = _bar(sentence.conjunction, sentence.subordinate)
    main, stop = within("main", _clause(sentence.main)), leaf(".", ".")
    if sentence.is_fronted:
        return node("S", subordinate, leaf(",", ","), *main, stop)
    return node("S", *_extended(main, subordinate), stop)


def _extended(parts: Sequence[Tree], clause: Tree) -> list[Tree]:
    """Returns the parts of a clause, the last of them extended by another clause."""
    *before, verb_phrase = parts
    return [*before, Tree(verb_phrase.label, (*verb_phrase.children, clause))]


def _clause(clause: Clause) -> list[Tree]:
    """Returns the parts of a finite clause: time in front, subject, adverb, verb."""
    parts = within("subject", [_nominal(clause.subject, is_subject=True)])
    if clause.fronts_time and clause.time is not None:
        parts = [*within("time", [time_tree(clause.time)]), *parts]
    return [*parts, *_predicate(clause)]


def _predicate(clause: Clause) -> list[Tree]:
    chain = verb_chain(clause, needs_auxiliary=clause.is_negated)
    adverb = _adverb(clause)
    negation = within("negation", [leaf("RB", "not")]) if clause.is_negated else []
    if starts_with_auxiliary(chain):
        rest = _nested(chain[1:], clause)
        return [node("VP", chain[0], *negation, *adverb, *rest)]
    return [*adverb, *_nested(chain, clause)]


def _adverb(clause: Clause) -> list[Tree]:
    if clause.adverb is None:
        return []
    return within("adverb", [phrase_tree(clause.adverb)])


def _nested(chain: list[Tree], clause: Clause) -> list[Tree]:
    """Returns the verb phrase of the chain, one level a verb; bare after its last."""
    if not chain:
        return _complements(clause)
    first, *rest = chain
    if first.label == "TO":
        return [node("S", node("VP", first, *_nested(rest, clause)))]
    return [node("VP", first, *_nested(rest, clause))]


def _inverted(clause: Clause) -> list[Tree]:
    """Returns the parts of a question: auxiliary, subject, adverb, verb phrase."""
    first, *rest = verb_chain(clause, needs_auxiliary=True)
    subject = within("subject", [_nominal(clause.subject, is_subject=True)])
    please = [_PLEASE] if clause.asks_politely else []
    return [first, *subject, *please, *_adverb(clause), *_nested(rest, clause)]


def _imperative(clause: Clause) -> list[Tree]:
    inner = _nested(within("verb", [leaf("VB", clause.verb.en)]), clause)
    if clause.is_negated:
        do, negation = leaf("VB", "do"), leaf("RB", "not")
        return [node("VP", *unaligned([do]), *within("negation", [negation]), *inner)]
    return inner


def _complements(clause: Clause) -> list[Tree]:
    parts = _objects(clause)
    if clause.quality is not None:
        parts += within("quality", [quality_tree(clause.quality)])
    if clause.oblique is not None:
        parts += within("oblique", [oblique_tree(clause.oblique)])
    if clause.manner is not None:
        parts += within("manner", [phrase_tree(clause.manner)])
    for part in ("company", "place", "cause"):
        oblique = getattr(clause, part)
        if oblique is not None:
            parts += within(part, [oblique_tree(oblique)])
    if clause.time is not None and not clause.fronts_time:
        parts += within("time", [time_tree(clause.time)])
    if clause.content is not None:
        parts += within("content", [_bar(*clause.content)])
    if clause.infinitive is not None:
        to = within("to", [leaf("TO", "to")])
        verb = within("verb", [leaf("VB", clause.infinitive.verb.en)])
        parts += within("infinitive", _nested([*to, *verb], clause.infinitive))
    return parts


def _objects(clause: Clause) -> list[Tree]:
    direct, recipient, verb = clause.direct, clause.recipient, clause.verb
    objects: list[Tree] = []
    if recipient is not None:
        objects += within("recipient", [_nominal(recipient)])
    if direct is not None:
        objects += within("direct", [_nominal(direct)])
    if verb.en_preposition and objects:
        # "looks for the key", "explains the rule to the child"
        last = objects[0]
        opening = preposition_leaves(verb.en_preposition)
        # German says the first with the verb alone, the second with the dative.
        is_second = len(objects) > 1
        opening = unaligned(opening) if is_second else within("verb", opening)
        objects = [*objects[1:], node("PP", *opening, last)]
    particle = _particle(verb.en_particle)
    if particle is None:
        return objects
    part = "particle" if verb.de_prefix else "verb"
    if isinstance(direct, Pronoun):
        return [*objects, *within(part, [particle])]
    return [*within(part, [particle]), *objects]


def _particle(word: str) -> Tree | None:
    if not word:
        return None
    if word == "asleep":
        return node("ADJP", leaf("JJ", word))
    if word in ("back", "away"):
        return node("ADVP", leaf("RB", word))
    return node("PRT", leaf("RP", word))


def _bar(conjunction: Phrase, clause: Clause) -> Tree:
    opening = within("conjunction", [phrase_tree(conjunction)])
    return node("SBAR", *opening, node("S", *within("clause", _clause(clause))))


def _nominal(nominal: Nominal, is_subject: bool = False) -> Tree:
    tree = nominal_tree(nominal, is_subject)
    if isinstance(nominal, NounPhrase) and nominal.relative is not None:
        relative = within("relative", [_relative(nominal, nominal.relative)])
        return node("NP", tree, *relative)
    return tree


def _relative(antecedent: NounPhrase, relative: RelativeClause) -> Tree:
    is_person = "person" in antecedent.noun.groups
    clause = relative.clause
    if relative.role is Role.SUBJECT:
        opening = leaf("WP", "who") if is_person else leaf("WDT", "that")
        rest = node("S", *_predicate(clause))
        return node("SBAR", node("WHNP", *within("pronoun", [opening])), rest)
    opening = leaf("WP", "whom") if is_person else leaf("WDT", "that")
    front = node("WHNP", *within("pronoun", [opening]))
    if relative.role is Role.OBLIQUE:
        preposition = preposition_leaves(clause.verb.en_preposition)
        front = node("WHPP", *within("preposition", preposition), front)
    return node("SBAR", front, node("S", *_clause(clause)))


def _wh_question(sentence: WhQuestion) -> Tree:
    clause, asked = sentence.clause, sentence.asked
    question_mark = leaf(".", "?")
    if sentence.role is Role.SUBJECT:
        front = node("WHNP", *within("subject", [leaf("WP", "Who")]))
        return node("SBARQ", front, node("SQ", *_predicate(clause)), question_mark)
    if isinstance(asked, NounPhrase):
        front = Tree("WHNP", nominal_tree(asked).children)
    elif asked is not None:
        front = phrase_tree(asked)
    else:
        raise ValueError(f"asked must be given for role {sentence.role}")
    asked_for = within("asked", [front])
    return node("SBARQ", *asked_for, node("SQ", *_inverted(clause)), question_mark)


def _existence(sentence: Existence) -> Tree:
    is_past, plural = sentence.tense is Tense.PAST, sentence.nominal.is_plural
    if is_past:
        verb = leaf("VBD", "were" if plural else "was")
    else:
        verb = leaf("VBP", "are") if plural else leaf("VBZ", "is")
    [verb] = within("verb", [verb])
    there = node("NP", *within("there", [leaf("EX", "there")]))
    rest = [
        *within("nominal", [nominal_tree(sentence.nominal)]),
        *within("place", [oblique_tree(sentence.place)]),
    ]
    if sentence.is_question:
        return node("SQ", verb, there, *rest, leaf(".", "?"))
    return node("S", there, node("VP", verb, *rest), leaf(".", "."))


def _capitalised(tree: Tree) -> Tree:
    if tree.word:
        capitalised = tree.word[0].upper() + tree.word[1:]
        return leaf(tree.label, respelled(tree.word, capitalised))
    first, *rest = tree.children
    return Tree(tree.label, (_capitalised(first), *rest))
