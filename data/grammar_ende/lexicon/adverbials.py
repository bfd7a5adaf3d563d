"""Fixed adverbials: when, how often, in which manner; conjunctions; question words.

The English side is a constituency tree in brackets, the German side its words.
"""

from grammar_ende.lexicon.entries import Phrase

DAYS: tuple[Phrase, ...] = (
    Phrase("(PP (IN on) (NP (NNP Monday)))", "am Montag"),
    Phrase("(PP (IN on) (NP (NNP Tuesday)))", "am Dienstag"),
    Phrase("(PP (IN on) (NP (NNP Wednesday)))", "am Mittwoch"),
    Phrase("(PP (IN on) (NP (NNP Thursday)))", "am Donnerstag"),
    Phrase("(PP (IN on) (NP (NNP Friday)))", "am Freitag"),
    Phrase("(PP (IN on) (NP (NNP Saturday)))", "am Samstag"),
    Phrase("(PP (IN on) (NP (NNP Sunday)))", "am Sonntag"),
    Phrase("(PP (IN in) (NP (DT the) (NN morning)))", "am Morgen", "0-0 1-0 2-1"),
    Phrase("(PP (IN in) (NP (DT the) (NN evening)))", "am Abend", "0-0 1-0 2-1"),
)
PRESENT_TIMES: tuple[Phrase, ...] = (
    Phrase("(NP (NN today))", "heute"),
    Phrase("(ADVP (RB now))", "jetzt"),
    Phrase("(NP (DT every) (NN day))", "jeden Tag"),
    *DAYS,
)
PAST_TIMES: tuple[Phrase, ...] = (
    Phrase("(NP (NN yesterday))", "gestern"),
    Phrase("(NP (JJ last) (NN week))", "letzte Woche"),
    Phrase("(NP (JJ last) (NN year))", "letztes Jahr"),
    *DAYS,
)
FUTURE_TIMES: tuple[Phrase, ...] = (
    Phrase("(NP (NN tomorrow))", "morgen"),
    Phrase("(NP (JJ next) (NN week))", "nächste Woche"),
    Phrase("(NP (JJ next) (NN year))", "nächstes Jahr"),
    Phrase("(ADVP (RB soon))", "bald"),
    *DAYS,
)
PERFECT_TIMES: tuple[Phrase, ...] = (
    Phrase("(NP (NN today))", "heute"),
    Phrase("(NP (DT this) (NN week))", "diese Woche"),
)
# English noun, German dative plural, for "three days ago".
TIME_UNITS: tuple[tuple[str, str], ...] = (
    ("days", "Tagen"),
    ("weeks", "Wochen"),
    ("months", "Monaten"),
    ("years", "Jahren"),
)

FREQUENCIES: tuple[Phrase, ...] = (
    Phrase("(ADVP (RB often))", "oft"),
    Phrase("(ADVP (RB always))", "immer"),
    Phrase("(ADVP (RB sometimes))", "manchmal"),
    Phrase("(ADVP (RB never))", "nie"),
    Phrase("(ADVP (RB rarely))", "selten"),
)
PERFECT_ADVERBS: tuple[Phrase, ...] = (
    Phrase("(ADVP (RB already))", "schon"),
    Phrase("(ADVP (RB just))", "gerade"),
)
MANNERS: tuple[Phrase, ...] = (
    Phrase("(ADVP (RB slowly))", "langsam"),
    Phrase("(ADVP (RB quickly))", "schnell"),
    Phrase("(ADVP (RB quietly))", "leise"),
    Phrase("(ADVP (RB happily))", "fröhlich"),
    Phrase("(ADVP (RB carefully))", "vorsichtig"),
    Phrase("(ADVP (RB alone))", "allein"),
    Phrase("(ADVP (RB secretly))", "heimlich"),
    Phrase("(ADVP (RB patiently))", "geduldig"),
)
DEGREES: tuple[Phrase, ...] = (
    Phrase("(RB very)", "sehr"),
    Phrase("(RB too)", "zu"),
)

BECAUSE = Phrase("(IN because)", "weil")
ALTHOUGH = Phrase("(IN although)", "obwohl")
IF = Phrase("(IN if)", "wenn")
WHEN = Phrase("(WHADVP (WRB when))", "als")
WHILE = Phrase("(IN while)", "während")
BEFORE = Phrase("(IN before)", "bevor")
THAT = Phrase("(IN that)", "dass")
WHETHER = Phrase("(IN whether)", "ob")
AND = Phrase("(CC and)", "und")
BUT = Phrase("(CC but)", "aber")

WHOM_ACCUSATIVE = Phrase("(WHNP (WP Whom))", "wen")
WHOM_DATIVE = Phrase("(WHNP (WP Whom))", "wem")
WHAT = Phrase("(WHNP (WP What))", "was")
WHERE = Phrase("(WHADVP (WRB Where))", "wo")
WHERE_TO = Phrase("(WHADVP (WRB Where))", "wohin")
WHEN_ASKED = Phrase("(WHADVP (WRB When))", "wann")
WHY = Phrase("(WHADVP (WRB Why))", "warum")
