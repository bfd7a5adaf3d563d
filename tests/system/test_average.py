"""The average program: checkpoint selection by flags, and refused flags."""

import json

import pytest

from tests.in_process import run_program


@pytest.fixture
def average(own_short_run):
    flag = f"--model_dir={own_short_run.path}"
    return lambda *arguments: run_program("average", flag, *arguments)


# The run kept the checkpoints of steps 15, 30, 45 and 60.
@pytest.mark.parametrize(
    ("arguments", "steps"),
    [
        (["--last=3"], [30, 45, 60]),
        (["--from_step=30"], [30, 45, 60]),
        (["--to_step=30"], [15, 30]),
        (["--from_step=16", "--to_step=59"], [30, 45]),
        (["--to_step=45", "--last=2"], [30, 45]),
        (["--from_step=15", "--last=1"], [60]),
    ],
)
def test_flags_select_checkpoints(average, own_short_run, arguments, steps):
    replaced = own_short_run.run_card()["averaged"]["steps"]
    done = average(*arguments)
    target = own_short_run.averaged / f"step-{steps[-1]}"
    step_list = ", ".join(map(str, steps))
    is_replaced = steps[-1] == replaced[-1] and steps != replaced
    assert done.status == 0
    notice = f"replaced the average of steps {', '.join(map(str, replaced))}\n"
    assert done.stderr.startswith(notice) if is_replaced else done.stderr == ""
    assert done.stdout == (
        f"averaged {len(steps)} checkpoints, steps {step_list}, into {target}\n"
        "From now on translate, evaluate and export use it.\n"
    )
    state = json.loads((target / "state.json").read_text())["state"]
    assert (state["step"], state["averaged"]) == (steps[-1], steps)
    assert state["position"] is None  # training cannot resume from an average
    assert own_short_run.run_card()["averaged"] == {"steps": steps}


def test_the_best_are_averaged_and_used_from_then_on(average, own_short_run):
    average("--to_step=30")
    assert own_short_run.find_checkpoint("averaged").name == "step-30"
    (best,) = own_short_run.rank_best("dev_loss")
    done = average("--best=1")
    assert done.status == 0
    assert done.stderr.startswith(f"the best 1 by dev_loss: steps {best.step}\n")
    found = own_short_run.find_checkpoint("averaged")
    assert found == own_short_run.averaged / f"step-{best.step}"
    refused = average("--best=1", "--last=2")
    assert refused.status == 2
    assert "--best selects checkpoints by their score" in refused.stderr


def test_scores_of_a_replaced_average_are_removed(average, own_short_run):
    replaced = own_short_run.run_card()["averaged"]["steps"]
    assert len(replaced) > 1 and replaced[-1] == 60
    others = {"test checkpoints/step-60": {}, "test averaged/step-6": {}}
    own = {"dev averaged/step-60": {}, "test averaged/step-60 beam 1 alpha 0": {}}
    own_short_run.update_run_card({"scores": {**others, **own}})
    same = average(f"--last={len(replaced)}")
    assert (same.status, same.stderr) == (0, "")
    assert own_short_run.run_card()["scores"] == {**others, **own}
    done = average("--last=1")
    assert sorted(done.stderr.splitlines()) == [
        "removed the scores of 'dev averaged/step-60' from the run card",
        "removed the scores of 'test averaged/step-60 beam 1 alpha 0' from the run "
        "card",
        f"replaced the average of steps {', '.join(map(str, replaced))}",
    ]
    assert own_short_run.run_card()["scores"] == others


REFUSED = (
    ((), "Give the checkpoints: --last, --best, or --from_step and --to_step."),
    (
        ("--last=5",),
        "There are 4 checkpoints from step 0 to 60, expected 5. The run has these: "
        "[15, 30, 45, 60]. Keep more of them with --keep_checkpoints.",
    ),
    (("--from_step=61",), "There are 0 checkpoints from step 61 to 60, expe"),
    (("--to_step=30", "--last=3"), "There are 2 checkpoints from step 0 to 30"),
)


def test_bad_flags_are_refused(average, own_short_run):
    state = own_short_run.averaged / "step-60/state.json"
    before = state.read_bytes()
    for arguments, message in REFUSED:
        done = average(*arguments)
        assert (done.status, done.output) == (2, b""), (arguments, done.stderr)
        assert done.stderr.startswith("error: "), (arguments, done.stderr)
        assert message in done.stderr, (arguments, done.stderr)
        assert state.read_bytes() == before, arguments


def test_a_run_without_checkpoints(average, own_short_run):
    own_short_run.checkpoints.rename(own_short_run.path / "elsewhere")
    done = average("--last=1")
    assert done.status == 2
    assert "The run has these: none." in done.stderr


def test_a_damaged_checkpoint_is_named(average, own_short_run):
    path = own_short_run.checkpoints / "step-45" / "weights.data-00000-of-00001"
    path.write_bytes(path.read_bytes()[:-1])
    done = average("--last=3")
    assert done.status == 2
    assert f"The checkpoint {path.parent} is damaged: {path.name} has changed" in (
        done.stderr
    )
    assert not list(own_short_run.averaged.glob(".*"))
