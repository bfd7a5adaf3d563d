"""GPU kit: what is written here computes the same under JAX, and is measured there."""

import argparse
import dataclasses
import importlib.metadata
import importlib.util
import json
import re
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from keras import ops

from benchmarks.gpu import programs, report, run, write
from benchmarks.gpu.hlo import Module
from benchmarks.gpu.initial_values import draw_value, mix
from benchmarks.gpu.kernel_kinds import KernelKinds
from benchmarks.gpu.manifest import Argument, Manifest, load_manifest, save_program
from benchmarks.gpu.processes import Ended
from benchmarks.gpu.recording import sum_times
from benchmarks.gpu.results import ATTENTION, OURS, RESULTS_FILE, Results, read
from benchmarks.product_step import load_config
from t2t_keras.model import dropout
from tests.forked import run_python
from tests.with_jax import run_with_jax

# A learning rate that rises by 0.001 per update: a weight that is not updated, or a
# moment passed back as another's, shows in the next loss.
TRAINING = {"precision": "float32", "warmup_steps": 20}


def make_program(name: str, **settings) -> programs.Program:
    config = load_config("tiny", **TRAINING)
    data = dataclasses.replace(config.data, vocabulary_size=101)
    return programs.Program(
        name=name,
        config_name="tiny",
        config=dataclasses.replace(config, data=data),
        rows=3,
        source_length=18,
        target_length=33,
        **settings,
    )


def measure(folder, *arguments: str) -> dict:
    """Returns what `benchmarks.gpu.measure` finds out about the program in a folder."""
    path = folder.with_suffix(".jsonl")
    module = "benchmarks.gpu.measure"
    options = [f"--program={folder}", f"--out={path}", "--platform=cpu", *arguments]
    done = run_with_jax("-m", module, *options)
    assert done.returncode == 0, done.stderr
    return read([path])[load_manifest(folder).name, OURS]


def check_variables(manifest, program) -> None:
    """Checks that every variable of an update goes in and comes out."""
    states = {one.name: one for one in manifest.arguments if one.is_state}
    step = programs.build_drawn_step(program)
    trained = step.model.trainable_variables
    counts = 2  # updates, and those that applied
    assert len(states) == 3 * len(trained) + counts
    variables = [*trained, *step.optimizer.variables]
    assert {v.path: tuple(v.shape) for v in variables if v.path in states} == {
        name: one.shape for name, one in states.items()
    }
    replaced = [one for one in manifest.results if one.replaces is not None]
    assert [manifest.arguments[one.replaces].name for one in replaced] == list(states)
    assert [one.name for one in replaced] == list(states)
    outputs = [one.name for one in manifest.results if one.replaces is None]
    assert outputs == ["loss_sum", "log_loss_sum", "token_count", "gradient_norm"]


@pytest.mark.slow
def test_updates_under_jax_are_our_own(tmp_path) -> None:
    program = make_program("update", device="gpu", checked=True)
    manifest = programs.write_update(program, tmp_path / "update")
    check_variables(manifest, program)
    figures = measure(tmp_path / "update", "--runs=2", "--profile=0")
    step = programs.build_drawn_step(program)
    batch = programs.make_batch(program)
    sums = [step.stepper.train(batch) for _ in range(5)]
    losses = [float(one.losses.loss_sum / one.losses.token_count) for one in sums]
    assert losses[0] == pytest.approx(manifest.expected["loss"], rel=1e-6)
    assert figures["loss"] == pytest.approx(losses[0], rel=1e-5)
    assert figures["loss_difference"] == pytest.approx(0, abs=1e-5)
    norm = float(sums[0].gradient_norm)
    assert figures["gradient_norm"] == pytest.approx(norm, rel=1e-5)
    # The last of five updates.
    assert figures["last_loss"] == pytest.approx(losses[-1], rel=2e-4)
    assert losses[-1] < 0.99 * losses[0]


@pytest.mark.slow
def test_the_whole_kit_runs_on_a_cpu(tmp_path, capfd) -> None:
    sizes = ["--vocabulary_size=101", "--rows=5", "--length=6", "--packed_length=33"]
    sizes += ["--configs=tiny", "--checked_rows=3", "--searches=3x5"]
    sizes += ["--only=update|check-tiny-float32|search-tiny-b|packed-tiny-b"]
    folder = tmp_path / "programs"
    done = run_python("-m", "benchmarks.gpu.write", f"--out={folder}", *sizes)
    assert done.returncode == 0, done.stderr.decode()
    names = [path.name for path in sorted((tmp_path / "programs").iterdir())]
    assert names == [
        "00-update-tiny-bfloat16",
        "01-search-tiny-bfloat16-3x5",
        "02-check-tiny-float32",
        "03-update-tiny-float32",
        "04-packed-tiny-bfloat16",
    ]
    # What cannot be compiled costs nothing but its own line.
    *good, damaged = names
    (tmp_path / "programs" / damaged / "program.mlir.gz").write_bytes(b"")
    options = [f"--dir={tmp_path / 'programs'}", f"--out={tmp_path / 'results'}"]
    options += ["--runs=2", "--minutes=5", "--peers=0"]
    done = run_with_jax("-m", "benchmarks.gpu.run", *options)
    assert done.returncode == 0, done.stderr
    measured = read([tmp_path / "results" / RESULTS_FILE])
    assert measured[damaged, OURS]["error"]
    assert "complete" not in measured[damaged, OURS]
    for name in good:
        figures = measured[name, OURS]
        assert figures["complete"]
        assert figures["tokens_per_second"] > 0
        assert "profile_error" not in figures
        assert ("longest_kernels" in figures) == ("check" not in name)
        for output in figures["expected"]:
            limit = 1e-5 if "float32" in name else 3e-2
            assert abs(figures[f"{output}_difference"]) < limit, (name, output)
    assert len(measured[names[0], OURS]["longest_kernels"]) == 10
    assert measured[names[0], OURS]["seconds_by_kind"]["matrix products"] > 0
    assert measured[names[0], f"{ATTENTION}, xla"]["attention_seconds"] > 0
    # A CPU has no cuDNN.
    assert measured[names[0], f"{ATTENTION}, cudnn"]["error"]
    # A second call finds all but one done, and has no time for that.
    done = run_with_jax("-m", "benchmarks.gpu.run", *options, "--minutes=0")
    assert sorted(done.stdout.splitlines()) == sorted(
        [
            *(f"{name} by t2t_keras: complete already" for name in good),
            *(f"{name} by {ATTENTION}: complete already" for name in names[:4:3]),
            f"{damaged} by t2t_keras: not started, 0 s are left",
        ]
    )
    capfd.readouterr()
    report.main([str(tmp_path / "results")])
    tables = capfd.readouterr().out
    for name in names:
        assert (f"| {name} | t2t_keras |" in tables) == ("check" not in name)
    assert "| 00-update-tiny-bfloat16 | float32, same card |" in tables
    assert f"| 00-update-tiny-bfloat16 | {ATTENTION}, xla |" in tables


@pytest.mark.slow
def test_values_are_the_same_wherever_they_are_drawn() -> None:
    script = (
        "import jax, zlib; jax.config.update('jax_enable_x64', True)\n"
        "import jax.numpy as jnp, numpy as np\n"
        "from benchmarks.gpu.initial_values import draw_value\n"
        "from benchmarks.gpu.manifest import Argument\n"
        "one = Argument('a/b', (7, 311), 'float32', True, std=0.3)\n"
        "print(zlib.crc32(np.asarray(draw_value(one, jnp)).tobytes()))\n"
        "print(zlib.crc32(draw_value(one).tobytes()))\n"
    )
    done = run_with_jax("-c", script)
    by_jax, by_numpy = done.stdout.split()
    assert by_jax == by_numpy


def test_drawn_values_have_their_deviation_and_no_pattern() -> None:
    one = Argument("embedding", (300, 211), "float32", is_state=True, std=0.25)
    values = draw_value(one)
    assert values.shape == (300, 211) and values.dtype == np.float32
    assert values.std() == pytest.approx(0.25, rel=0.01)
    assert abs(values.mean()) < 0.004
    shifted = np.corrcoef(values[:, :-1].ravel(), values[:, 1:].ravel())[0, 1]
    assert abs(shifted) < 0.02
    other = draw_value(dataclasses.replace(one, name="output"))
    assert abs(np.corrcoef(values.ravel(), other.ravel())[0, 1]) < 0.02
    constant = Argument("norm", (5,), "int64", is_state=True, constant=3.0)
    np.testing.assert_array_equal(draw_value(constant), np.full(5, 3))


def test_the_hash_is_that_of_dropout() -> None:
    # Else a program of full size has the hashes of all positions as a constant.
    words = np.random.default_rng(6).integers(0, 2**32, 101, dtype="uint32")
    expected = ops.convert_to_numpy(dropout.mix(ops.convert_to_tensor(words)))
    np.testing.assert_array_equal(mix(words), expected)


MODULE = """
HloModule step

%fused_bits (param_0: f32[4,8], param_1: bf16[6,8], param_2: s32[4]) -> f32[4,8] {
  %param_1 = bf16[6,8]{1,0} parameter(1)
  %param_2 = s32[4]{0} parameter(2)
  %rows = bf16[4,8]{1,0} gather(%param_1, %param_2), offset_dims={1}
  %param_0 = f32[4,8]{1,0} parameter(0)
  %wide = f32[4,8]{1,0} convert(%rows), metadata={op_name="a/norm_1/moments/mean"}
  ROOT %sum = f32[4,8]{1,0} add(%param_0, %wide)
}

%body (state: (s32[], f32[4,8])) -> (s32[], f32[4,8]) {
  %state = (s32[], f32[4,8]{1,0}) parameter(0)
  %old = f32[4,8]{1,0} get-tuple-element(%state), index=1
  %i = s32[] get-tuple-element(%state), index=0
  %soft = f32[4,8]{1,0} exponential(%old), metadata={op_name="step/while/Exp"}
  ROOT %next = (s32[], f32[4,8]{1,0}) tuple(%i, %soft)
}

ENTRY %main (a: f32[4,8], b: bf16[6,8], c: s32[4]) -> f32[4,8] {
  %a = f32[4,8]{1,0} parameter(0)
  %b = bf16[6,8]{1,0} parameter(1)
  %c = s32[4]{0} parameter(2)
  %bits.1 = f32[4,8]{1,0} fusion(%a, %b, %c), kind=kLoop, calls=%fused_bits
  %gemm = (f32[4,4]{1,0}, s8[512]{0}) custom-call(%bits.1, %a), CUBLAS
  %turned = f32[4,4]{0,1} transpose(%gemm#0), dimensions={1,0}
  %loop = (s32[], f32[4,8]{1,0}) while(%gemm), body=%body, FIVE_TURNS
  ROOT %out = f32[4,8]{1,0} get-tuple-element(%loop), index=1
}
""".replace("CUBLAS", 'custom_call_target="__cublas$lt$matmul"').replace(
    "FIVE_TURNS", 'backend_config={"known_trip_count":{"n":"5"}}'
)


def test_the_traffic_of_kernels_is_what_they_read_and_write() -> None:
    kernels = {one.name: (one.runs, one.bytes) for one in Module(MODULE).list_kernels()}
    matrix = 4 * 8 * 4
    assert kernels == {
        # Four rows of a table of six, of two bytes.
        "bits.1": (1, 2 * matrix + 4 * 8 * 2 + 4 * 4),
        # Without the workspace.
        "gemm": (1, 4 * 4 * 4 + 2 * matrix),
        "turned": (1, 2 * 4 * 4 * 4),
        "soft": (5, 2 * matrix),
    }


DOT = """
%inner (x: bf16[7,5], y: bf16[5,3]) -> f32[7,3] {
  %x = bf16[7,5]{1,0} parameter(0)
  %y = bf16[5,3]{1,0} parameter(1)
  ROOT %d = f32[7,3]{1,0} dot(%x, %y), lhs_contracting_dims={1}
}

%outer (p: bf16[7,5], q: bf16[5,3], r: f32[9,7,3]) -> f32[9,7,3] {
  %p = bf16[7,5]{1,0} parameter(0)
  %q = bf16[5,3]{1,0} parameter(1)
  %r = f32[9,7,3]{2,1,0} parameter(2)
  %zero = s32[] constant(0)
  %n = f32[7,3]{1,0} fusion(%p, %q), kind=kCustom, calls=%inner
  %one = f32[1,7,3]{2,1,0} bitcast(%n)
  ROOT %u = f32[9,7,3]{2,1,0} dynamic-update-slice(%r, %one, %zero, %zero, %zero)
}

ENTRY %main (p: bf16[7,5], q: bf16[5,3], r: f32[9,7,3]) -> f32[9,7,3] {
  %p = bf16[7,5]{1,0} parameter(0)
  %q = bf16[5,3]{1,0} parameter(1)
  %r = f32[9,7,3]{2,1,0} parameter(2)
  ROOT %out = f32[9,7,3]{2,1,0} fusion(%p, %q, %r), kind=kCustom, calls=%outer
}
"""


def test_products_inside_of_fusions_are_counted_and_updates_are_in_place() -> None:
    (kernel,) = Module(DOT).list_kernels()
    assert kernel.flops == 2 * 7 * 5 * 3
    assert kernel.bytes == 2 * (7 * 5 + 5 * 3) + 4 * 7 * 3


def test_kernels_have_the_kind_of_what_they_compute() -> None:
    kinds = KernelKinds(Module(MODULE), "update")
    named = {name: kinds.classify(name) for name in ("bits_1", "gemm", "soft")}
    assert named == {
        # A GPU's kernels have no dots in their names.
        "bits_1": "LayerNorm with residual and dropout",
        "gemm": "matrix products",
        "soft": "loss over the vocabulary",
    }
    assert kinds.classify("turned") == "transposes and copies"
    assert kinds.classify("nvjet_hsh_128x256_TNT") == "matrix products"
    assert kinds.is_container("loop") and not kinds.is_container("soft")
    assert KernelKinds(Module(MODULE), "search").classify("soft") == "other"


def make_recording(*lines: tuple[str, str, list]) -> SimpleNamespace:
    """Returns a recording, from plane and name of lines and their events."""
    return SimpleNamespace(
        planes=[
            SimpleNamespace(
                name=plane,
                lines=[
                    SimpleNamespace(
                        name=line,
                        events=[
                            SimpleNamespace(
                                name=name,
                                duration_ns=1e9 * seconds,
                                stats=[("hlo_op", op), ("n", 3)] if op else [],
                            )
                            for name, op, seconds in events
                        ],
                    )
                ],
            )
            for plane, line, events in lines
        ]
    )


def test_a_gpus_kernels_are_those_on_its_streams() -> None:
    kernels = [
        ("nvjet_hsh_128x256", "gemm", 3),
        ("bits_1", "bits.1", 5),
        # Of a CUDA graph.
        ("soft", "command_buffer.2", 7),
        ("bits_1", None, 11),
        ("cutlass_80", None, 13),
    ]
    recording = make_recording(
        ("/host:CPU", "XLA worker", [("gemm", None, 1)]),
        ("/device:GPU:0", "Stream #7(Kernel)", kernels),
        ("/device:GPU:0", "Stream #8(MemcpyD2D)", [("MemcpyD2D", None, 17)]),
        ("/device:GPU:0", "XLA Ops", [("gemm", None, 3)]),
    )
    kinds = KernelKinds(Module(MODULE), "update")
    assert sum_times(recording, kinds.is_known, "gpu") == {
        "gemm": 3,
        "bits.1": 5,
        "soft": 7,
        "bits_1": 11,
        "cutlass_80": 13,
        "MemcpyD2D": 17,
    }
    host = make_recording(("/host:CPU", "tf_XLAEigen", [("gemm", None, 1)]))
    assert sum_times(host, kinds.is_known, "cpu") == {"gemm": 1}
    with pytest.raises(RuntimeError, match=r"no kernels.*/host:CPU tf_XLAEigen"):
        sum_times(host, kinds.is_known, "gpu")


def test_results_that_are_cut_cost_one_line(tmp_path) -> None:
    results = Results(tmp_path / "new" / RESULTS_FILE, program="p", by=OURS)
    results.add(compile_seconds=3.0)
    with results.path.open("a") as file:
        file.write('{"program": "p", "by": "t2t_ke')
    results.add(run_seconds=0.5, compile_seconds=4.0)
    with results.path.open("a") as file:
        file.write('{"program": "p", "by": "t2t_keras", "run_sec')
    joined = read([results.path, tmp_path / "missing"])
    assert joined == {
        ("p", OURS): {
            "program": "p",
            "by": OURS,
            "compile_seconds": 4.0,
            "run_seconds": 0.5,
        }
    }


def test_a_full_disk_is_named(tmp_path) -> None:
    (tmp_path / RESULTS_FILE).symlink_to("/dev/full")
    with pytest.raises(SystemExit, match=r"results\.jsonl\. Received: No space left"):
        Results(tmp_path / RESULTS_FILE, program="p", by=OURS).add(run_seconds=0.5)


def test_the_report_compares_peers_and_precisions() -> None:
    common = {"kind": "update", "config": "base", "rows": 2, "tokens": 1_000}
    common |= {"flops": 4e9, "commit": "abc1234", "peak_gigabytes": 1.5, "expected": {}}
    common |= {"best_run_seconds": 0.001, "compile_seconds": 7.0, "device": "Card X"}
    ours = {**common, "precision": "bfloat16", "run_seconds": 0.0025, "loss": 4.04}
    exact = {**common, "precision": "float32", "run_seconds": 0.008, "loss": 4.0}
    ours |= {"gradient_norm": 2.1, "ceiling": 4e12, "data_sheet": 1e13}
    ours |= {"unwaited_run_seconds": 0.002}
    peer = {"run_seconds": 0.003, "best_run_seconds": 0.0025, "compile_seconds": 9.0}
    joined = {
        ("", "machine"): {"date": "2030-01-02", "cards": ["Card X, 600.1, 80 GB"]},
        ("00-update", OURS): ours,
        ("00-update", "PyTorch compiled"): {**peer, "peak_gigabytes": 2.5},
        ("00-update", "PyTorch eager"): {"error": "out of |\nmemory"},
        ("01-update", OURS): {
            **exact,
            "gradient_norm": 2.0,
            "profile_error": "no recording",
            # Of an earlier call.
            "error": "killed",
            "complete": True,
        },
        ("02-check", OURS): {**ours, "expected": {"loss": 4}, "loss_difference": 0.01},
        ("03-check", OURS): {"error": "cut after 15 s"},
        ("04-training", OURS): {
            "kind": "training",
            "train_steps": 900,
            "step": 300,
            "seconds": 61.5,
            "dev_loss": 2.5,
            "averaged_dev_loss": 2.4,
            "compile_seconds": 9.2,
        },
    }
    text = report.make_report(joined)
    assert text.startswith("2030-01-02, commit abc1234, Card X, 600.1, 80 GB; ")
    lines = text.splitlines()
    first = (
        "| 00-update | t2t_keras | 2.00 | 2.50 (1.00) | 500,000 |  | 2 | 50% | 20% |"
    )
    assert f"{first} 1.50 | 7 |" in lines
    second = "| 00-update | PyTorch compiled | 3.00 |  | 333,333 | 1.50 | 1.33"
    assert f"{second} | 33% | 13% | 2.50 | 9 |" in lines
    failures = lines[lines.index("Failed:") :]
    assert "| 00-update | PyTorch eager | out of / memory |" in failures
    assert "| 03-check | t2t_keras | cut after 15 s |" in failures
    assert "| 01-update | t2t_keras | profile: no recording |" in failures
    assert "| 00-update | float32, same card | 1.0e-02 | 5.0e-02 |" in lines
    assert "| 02-check | float32, CPU | 1.0e-02 |  |" in lines
    assert not any(line.startswith("| 02-check | t2t_keras") for line in lines)
    assert "| 04-training | 300 of 900 | 61.5 | 2.5000 | 2.4000 | 9 |" in lines


@pytest.fixture
def tasks(tmp_path) -> list[run.Task]:
    """Tasks of an update and of its check."""
    program = make_program("", device="gpu")
    for name, expected in (("00-update", {}), ("01-check", {"loss": 4.0})):
        manifest = Manifest(
            **{field.name: None for field in dataclasses.fields(Manifest)}
        )
        manifest = dataclasses.replace(
            manifest,
            name=name,
            kind="update",
            precision="float32",
            expected=expected,
            arguments=(),
            results=(),
            packed=False,
            config=program.config_name,
        )
        save_program(tmp_path / name, manifest, "", {})
    args = argparse.Namespace(
        dir=tmp_path,
        out=tmp_path,
        only=re.compile(""),
        runs=20,
        peers=1,
        peer_seconds=60.0,
        most_seconds=180.0,
    )
    return list(run.list_tasks(args, tmp_path / RESULTS_FILE))


def test_only_what_is_timed_has_peers_and_is_tuned(
    tasks, tmp_path, monkeypatch
) -> None:
    assert [(one.program, one.by) for one in tasks] == [
        ("00-update", OURS),
        ("00-update", "PyTorch"),
        ("00-update", ATTENTION),
        ("01-check", OURS),
    ]
    ours, peer, _, check = tasks
    assert ours.arguments[2:] == ("--runs=20",)
    assert peer.arguments[2:] == ("--runs=20", "--seconds=60.0")
    assert check.arguments[2:] == ("--runs=1", "--profile=0", "--full_float32")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: True)
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "9.8")
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setenv("XLA_FLAGS", "--xla_own=1")
    flags = [run.make_environment(one, has_gpu=True)["XLA_FLAGS"] for one in tasks]
    tuned, again, _, untuned = (one.split() for one in flags)
    folder = tuned[0].removeprefix("--xla_gpu_per_fusion_autotune_cache_dir=")
    # XLA needs the folder.
    assert (tmp_path / "xla_tuning-9.8").name in folder and Path(folder).is_dir()
    assert tuned == again and tuned[1:] == ["--xla_own=1"]
    assert untuned == ["--xla_own=1", "--xla_gpu_autotune_level=0"]
    assert run.make_environment(ours, has_gpu=False)["XLA_FLAGS"] == "--xla_own=1"


def test_what_failed_comes_last_and_may_not_fall_back_to_a_cpu(
    tasks, tmp_path, monkeypatch
) -> None:
    path = tmp_path / RESULTS_FILE
    Results(path, program="00-update", by=OURS).add(error="cut after 180 s")
    Results(path, program="00-update", by="PyTorch").add(complete=True)
    started = []

    def record(command, folder, environment, seconds):
        started.append((command[2:], seconds))
        return Ended(None, "slow compilation")

    monkeypatch.setattr(run, "run_process", record)
    monkeypatch.setattr(run, "describe_machine", lambda: {"cards": ["Card X"]})
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "9.8")
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: True)
    run.main([f"--dir={tmp_path}", f"--out={tmp_path}", "--most_seconds=25"])
    assert [(command[0], command[1].split("/")[-1]) for command, _ in started] == [
        ("benchmarks.gpu.attention", "00-update"),
        ("benchmarks.gpu.measure", "01-check"),
        ("benchmarks.gpu.measure", "00-update"),
    ]
    assert {command[-1] for command, _ in started} == {"--platform=gpu"}
    assert {seconds for _, seconds in started} == {25}
    known = read([path])
    assert known["01-check", OURS]["error"] == "cut after 25 s"
    assert known["01-check", OURS]["log"] == "slow compilation"


def test_bad_folders_and_sizes_are_named(tmp_path, capfd) -> None:
    with pytest.raises(SystemExit, match=r"There is no .*results\.jsonl"):
        report.main([str(tmp_path)])
    folders = f"--dir={tmp_path}", f"--out={tmp_path / 'new'}"
    with pytest.raises(SystemExit, match="must be a folder that benchmarks"):
        run.main(folders)
    assert not (tmp_path / "new").exists()
    with pytest.raises(SystemExit, match="2"):
        run.main([*folders, "--only=("])
    for flag, message in (
        ("--only=(", "expected a regular expression, not ("),
        ("--rows=0", "expected a number above 0, not 0"),
        ("--searches=32", "expected such as 32x25,1x25, not 32"),
        ("--searches=0x5", "expected a number above 0, not 0"),
        ("--configs=", "expected some of base, big"),
    ):
        with pytest.raises(SystemExit, match="2"):
            write.main([folders[1], flag])
        assert message in capfd.readouterr().err
    with pytest.raises(SystemExit, match="--only must match the name of a program"):
        write.main([folders[1], "--only=nothing"])
    (tmp_path / "manifest.json").write_text(json.dumps({"format": 1}))
    with pytest.raises(SystemExit, match=r"must be of format 2\. Received: 1"):
        load_manifest(tmp_path)
    (tmp_path / "manifest.json").write_text('{"format": 2, "name')
    with pytest.raises(SystemExit, match=r"must be JSON of benchmarks\.gpu\.write"):
        load_manifest(tmp_path)
