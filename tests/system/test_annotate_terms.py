"""examples/annotate_terms.py: text with terms beside words."""

import re
import subprocess
import sys

from tests.forked import REPOSITORY

PROGRAM = REPOSITORY / "examples/annotate_terms.py"
MARKED = re.compile(r"<t> (\S+) <is> (\S+) </t>")


def annotate(*arguments, stdin: str = "") -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, PROGRAM, *arguments],
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def test_made_up_words_stand_in_both_texts(tmp_path):
    texts = {
        "source": ["“The dog” sleeps.", "no links", "a -", "one two three four"],
        "target": ["Der Hund schläft.", "keine", "b -", "eins zwei drei vier"],
        "align": ["0-0 1-1 2-2", "", "1-1", "0-0 0-1 1-2 2-2 3-3"],
    }
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(f"{x}\n" for x in lines), "utf-8")
    files = tmp_path / "source", tmp_path / "target"
    done = annotate(f"--align={tmp_path / 'align'}", *files)
    assert done.returncode == 0, done.stderr
    # Without a word that has one link, and is one, a pair is left out.
    first, last = (line.split("\t") for line in done.stdout.splitlines())
    for (source, target), number in ((first, 0), (last, 3)):
        found = MARKED.findall(source)
        assert 1 <= len(found) <= 2
        # Removing the marks gives the original source.
        assert MARKED.sub(r"\1", source) == texts["source"][number]
        words = texts["target"][number].split()
        changed = [i for i, x in enumerate(target.split()) if x != words[i]]
        assert {target.split()[i].strip(".") for i in changed} <= {x for _, x in found}
    # "four" alone has one link to a word that has no other.
    assert [word for word, _ in MARKED.findall(last[0])] == ["four"]
    again = annotate(f"--align={tmp_path / 'align'}", *files)
    other = annotate("--seed=2", f"--align={tmp_path / 'align'}", *files)
    assert done.stdout == again.stdout != other.stdout


def test_the_words_of_a_glossary_are_annotated(tmp_path):
    glossary = tmp_path / "glossary.tsv"
    glossary.write_bytes(b"\xef\xbb\xbfteacher\tDozent\r\nred\tpurpurn\n")
    lines = "\ufeffThe teacher, red teachers.\n\nNothing here\n"
    done = annotate(f"--glossary={glossary}", stdin=lines)
    assert done.stdout == (
        "The <t> teacher <is> Dozent </t>, <t> red <is> purpurn </t> teachers.\n"
        "\nNothing here\n"
    )


def test_no_files_are_an_error(tmp_path):
    done = annotate("--align=links", tmp_path / "source")
    assert done.returncode == 2
    assert "give --glossary, or --align and two files" in done.stderr
