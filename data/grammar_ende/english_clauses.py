"""English clauses and sentences as constituency trees."""

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
from grammar_ende.trees import Tree, leaf, node, read_tree

_PLEASE = node("INTJ", leaf("UH", "please"))


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
        *before, verb_phrase = read_tree(sentence.opening.en).children
        extended = Tree(verb_phrase.label, (*verb_phrase.children, content))
        return node("S", *before, extended, stop)
    if isinstance(sentence, Coordination):
        comma = leaf(",", ",") if "but" in sentence.conjunction.en else None
        first = node("S", *_clause(sentence.first))
        second = node("S", *_clause(sentence.second))
        return node("S", first, comma, read_tree(sentence.conjunction.en), second, stop)
    return _subordination(sentence)


def _subordination(sentence: Subordination) -> Tree:
    subordinate = _bar(sentence.conjunction, sentence.subordinate)
    stop = leaf(".", ".")
    if sentence.is_fronted:
        return node("S", subordinate, leaf(",", ","), *_clause(sentence.main), stop)
    *before, verb_phrase = _clause(sentence.main)
    extended = Tree(verb_phrase.label, (*verb_phrase.children, subordinate))
    return node("S", *before, extended, stop)


def _clause(clause: Clause) -> list[Tree]:
    """Returns the parts of a finite clause: time in front, subject, adverb, verb."""
    parts = [_nominal(clause.subject, is_subject=True)]
    if clause.fronts_time and clause.time is not None:
        parts.insert(0, time_tree(clause.time))
    return [*parts, *_predicate(clause)]


def _predicate(clause: Clause) -> list[Tree]:
    chain = verb_chain(clause, needs_auxiliary=clause.is_negated)
    adverb = read_tree(clause.adverb.en) if clause.adverb else None
    negation = leaf("RB", "not") if clause.is_negated else None
    if starts_with_auxiliary(chain):
        rest = _nested(chain[1:], clause)
        return [node("VP", chain[0], negation, adverb, *rest)]
    parts = [] if adverb is None else [adverb]
    return [*parts, *_nested(chain, clause)]


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
    parts = [first, _nominal(clause.subject, is_subject=True)]
    if clause.asks_politely:
        parts.append(_PLEASE)
    if clause.adverb is not None:
        parts.append(read_tree(clause.adverb.en))
    return [*parts, *_nested(rest, clause)]


def _imperative(clause: Clause) -> list[Tree]:
    verb = leaf("VB", clause.verb.en)
    if clause.is_negated:
        inner = _nested([verb], clause)
        return [node("VP", leaf("VB", "do"), leaf("RB", "not"), *inner)]
    return _nested([verb], clause)


def _complements(clause: Clause) -> list[Tree]:
    parts = _objects(clause)
    if clause.quality is not None:
        parts.append(quality_tree(clause.quality))
    if clause.oblique is not None:
        parts.append(oblique_tree(clause.oblique))
    if clause.manner is not None:
        parts.append(read_tree(clause.manner.en))
    for oblique in (clause.company, clause.place, clause.cause):
        if oblique is not None:
            parts.append(oblique_tree(oblique))
    if clause.time is not None and not clause.fronts_time:
        parts.append(time_tree(clause.time))
    if clause.content is not None:
        parts.append(_bar(*clause.content))
    if clause.infinitive is not None:
        verbs = [leaf("TO", "to"), leaf("VB", clause.infinitive.verb.en)]
        parts.extend(_nested(verbs, clause.infinitive))
    return parts


def _objects(clause: Clause) -> list[Tree]:
    direct, recipient, verb = clause.direct, clause.recipient, clause.verb
    objects = [_nominal(each) for each in (recipient, direct) if each is not None]
    if verb.en_preposition and objects:
        # "looks for the key", "explains the rule to the child"
        last = objects[0]
        opened = node("PP", *preposition_leaves(verb.en_preposition), last)
        objects = [*objects[1:], opened]
    particle = _particle(verb.en_particle)
    if particle is None:
        return objects
    if isinstance(direct, Pronoun):
        return [*objects, particle]
    return [particle, *objects]


def _particle(word: str) -> Tree | None:
    if not word:
        return None
    if word == "asleep":
        return node("ADJP", leaf("JJ", word))
    if word in ("back", "away"):
        return node("ADVP", leaf("RB", word))
    return node("PRT", leaf("RP", word))


def _bar(conjunction: Phrase, clause: Clause) -> Tree:
    return node("SBAR", read_tree(conjunction.en), node("S", *_clause(clause)))


def _nominal(nominal: Nominal, is_subject: bool = False) -> Tree:
    tree = nominal_tree(nominal, is_subject)
    if isinstance(nominal, NounPhrase) and nominal.relative is not None:
        return node("NP", tree, _relative(nominal, nominal.relative))
    return tree


def _relative(antecedent: NounPhrase, relative: RelativeClause) -> Tree:
    is_person = "person" in antecedent.noun.groups
    clause = relative.clause
    if relative.role is Role.SUBJECT:
        opening = leaf("WP", "who") if is_person else leaf("WDT", "that")
        rest = node("S", *_predicate(clause))
        return node("SBAR", node("WHNP", opening), rest)
    opening = leaf("WP", "whom") if is_person else leaf("WDT", "that")
    front = node("WHNP", opening)
    if relative.role is Role.OBLIQUE:
        preposition = preposition_leaves(clause.verb.en_preposition)
        front = node("WHPP", *preposition, front)
    return node("SBAR", front, node("S", *_clause(clause)))


def _wh_question(sentence: WhQuestion) -> Tree:
    clause, asked = sentence.clause, sentence.asked
    question_mark = leaf(".", "?")
    if sentence.role is Role.SUBJECT:
        front = node("WHNP", leaf("WP", "Who"))
        return node("SBARQ", front, node("SQ", *_predicate(clause)), question_mark)
    if isinstance(asked, NounPhrase):
        front = Tree("WHNP", nominal_tree(asked).children)
    elif asked is not None:
        front = read_tree(asked.en)
    else:
        raise ValueError(f"asked must be given for role {sentence.role}")
    return node("SBARQ", front, node("SQ", *_inverted(clause)), question_mark)


def _existence(sentence: Existence) -> Tree:
    is_past, plural = sentence.tense is Tense.PAST, sentence.nominal.is_plural
    if is_past:
        verb = leaf("VBD", "were" if plural else "was")
    else:
        verb = leaf("VBP", "are") if plural else leaf("VBZ", "is")
    there = node("NP", leaf("EX", "there"))
    rest = [nominal_tree(sentence.nominal), oblique_tree(sentence.place)]
    if sentence.is_question:
        return node("SQ", verb, there, *rest, leaf(".", "?"))
    return node("S", there, node("VP", verb, *rest), leaf(".", "."))


def _capitalised(tree: Tree) -> Tree:
    if tree.word:
        return leaf(tree.label, tree.word[0].upper() + tree.word[1:])
    first, *rest = tree.children
    return Tree(tree.label, (_capitalised(first), *rest))
