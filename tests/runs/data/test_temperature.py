"""Rates of a mixture by temperature, against the formula and exhaustive search."""

import re
import shlex
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from t2t_keras.runs.data.temperature import rate_at, simplest_between
from t2t_keras.settings.training_text import parse_mixture_item
from tests.in_process import run_program
from tests.runs.small_runs import prepare_records


@given(st.fractions(0, 3, max_denominator=50), st.fractions(0, 1, max_denominator=50))
def test_the_simplest_fraction_has_the_smallest_denominator(low, width):
    high = low + width
    found = simplest_between(low, high) if low else None
    candidates = (
        Fraction(number, below)
        for below in range(1, 51)
        for number in range(4 * below + 1)
    )
    expected = next(each for each in candidates if low <= each <= high)
    assert found is None or (low <= found <= high)
    assert found is None or found.denominator == expected.denominator


@given(
    st.floats(1, 100),
    st.integers(1, 10**8),
    st.lists(st.integers(1, 10**8), min_size=1),
)
def test_shares_are_in_proportion_to_roots_of_sizes(temperature, main, sizes):
    rates = [1, *(rate_at(temperature, main, size) for size in sizes)]
    shares = [
        float(size * rate) for size, rate in zip([main, *sizes], rates, strict=True)
    ]
    roots = [size ** (1 / temperature) for size in (main, *sizes)]
    for share, root in zip(shares, roots, strict=True):
        assert share / shares[0] == pytest.approx(root / roots[0], rel=0.0101)


@pytest.mark.parametrize(
    ("temperature", "size", "rate"),
    [
        (1, 7, "1"),
        (2, 400, "5"),
        (5, 10_000, "1"),
        (2, 10**8, "1/100"),
        (2, 10, "63/2"),
        (1e9, 50, "200"),
    ],
)
def test_rates_have_few_digits(temperature, size, rate):
    assert rate_at(temperature, 10_000, size) == Fraction(rate)


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Runs `prepare --temperature` beside files of several sizes."""
    monkeypatch.chdir(tmp_path)
    for name, count in (("main", 1600), ("more", 100), ("other", 25), ("none", 0)):
        lines = [f"{i}" for i in range(count)]
        (tmp_path / f"{name}.en").write_text("".join(f"{x}\n" for x in [*lines, ""]))
        (tmp_path / f"{name}.de").write_text("".join(f"{x}\n" for x in [*lines, "a"]))
        pairs = (f"{x}\tz{x}\n{x}\t{x}\n" for x in lines)
        (tmp_path / f"{name}.tsv").write_text("".join(pairs))

    def run(*flags):
        before = sorted(tmp_path.iterdir())
        done = run_program("prepare", *flags)
        assert sorted(tmp_path.iterdir()) == before
        return done

    return run


MAIN = ("--train_source=main.en", "--train_target=main.de")


def test_the_program_prints_a_flag_that_can_be_pasted(ask):
    items = "more.en:more.de:7:<a>,other.tsv:1/3"
    done = ask("--temperature=2", *MAIN, f"--mixture={items}")
    assert done.status == 0, done.stderr
    *table, flag = done.lines
    # Lines with an empty side do not count. The shares are of 40, 10 and 50^(1/2).
    assert [line.split() for line in table[1:]] == [
        ["main", "corpus", "1,600", "91.4%", "1", "1,600", "70.1%"],
        ["more.en:more.de", "100", "5.7%", "4", "400", "17.5%"],
        ["other.tsv", "50", "2.9%", "17/3", "283", "12.4%"],
    ]
    (word,) = shlex.split(flag)
    assert word == "--mixture=more.en:more.de:4:<a>,other.tsv:17/3"
    items = word.partition("=")[2].split(",")
    assert [parse_mixture_item(item).tag for item in items] == ["<a>", ""]
    assert "1 of 101 lines have no text" in done.stderr


def test_filters_apply_and_records_count_all_their_pairs(ask, config, tmp_path):
    folder = prepare_records(config, tmp_path / "records")
    done = ask(
        "--temperature=2",
        "--train_source=main.tsv",
        f"--mixture=other.tsv:1,{folder}:1",
        "--filter=copied",
        "--rejected=rejected.txt",
        "--max_length=8",
    )
    assert done.status == 0, done.stderr
    sizes = [line.split()[-5] for line in done.lines[1:-1]]
    assert sizes == ["1,600", "25", "60"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--mixture=none.tsv:1",), r"no sentence pair in: none\.tsv\. Leave it out"),
        ((), "--mixture is required"),
        (("--mixture=other.tsv:1", "--output=x"), "--output is not for --temperature"),
        (("--mixture=other.tsv:1", "--verify"), "--verify is not for --temperature"),
        (("--mixture=other.tsv:1", "--shortlist=x"), "--temperature and --shortlist"),
        (("--mixture=other.tsv:1", "--temperature=0.5"), "must be at least 1"),
    ],
)
def test_what_gives_no_rates_is_refused(ask, flags, message):
    done = ask("--temperature=2", *MAIN, *flags)
    assert done.status == 2 and done.stdout == ""
    assert re.search(message, done.stderr), done.stderr


def test_a_rate_that_is_too_large_is_refused(ask, tmp_path):
    (tmp_path / "main.en").write_text("a\n" * 3000)
    (tmp_path / "main.de").write_text("a\n" * 3000)
    (tmp_path / "one.tsv").write_text("a\tb\n")
    done = ask("--temperature=1e6", *MAIN, "--mixture=one.tsv:1")
    assert done.status == 2
    assert "each pair of one.tsv 3,000 times; at most 1,000" in done.stderr
