"""Served models: configurations, labels, watching folders, waiting and closing."""

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format
from tensorflow_serving.apis import model_pb2
from tensorflow_serving.config import model_server_config_pb2

from t2t_keras.server.tf_serving.configs import single_model
from t2t_keras.server.tf_serving.errors import ServingError
from t2t_keras.server.tf_serving.loading import Loader
from t2t_keras.server.tf_serving.models import Models, WatchOptions
from t2t_keras.server.tf_serving.versions import State
from tests.server.tf_serving.clients import QUICK, wait_until


@pytest.fixture
def make_models():
    all_models = []

    def make(options=QUICK):
        all_models.append(Models(Loader(), options))
        return all_models[-1]

    yield make
    for models in all_models:
        models.close()


def config(*models):
    """Returns a configuration of (name, base path, more fields in text format)."""
    text = "".join(
        f'config {{ name: "{name}" base_path: "{path}" model_platform: "tensorflow" '
        f"{rest} }}"
        for name, path, rest in models
    )
    return text_format.Parse(
        f"model_config_list {{ {text} }}", model_server_config_pb2.ModelServerConfig()
    )


def spec(name="m", **choice):
    message = model_pb2.ModelSpec(name=name)
    if "version" in choice:
        message.version.value = choice["version"]
    if "label" in choice:
        message.version_label = choice["label"]
    return message


def find_version(models, **choice):
    with models.use(spec(**choice)) as (number, _):
        return number


def refusal(call):
    with pytest.raises(ServingError) as caught:
        call()
    return caught.value.code.name, caught.value.message


def test_a_configuration_that_is_refused_changes_nothing(make_models, base):
    models = make_models()
    models.wait_until_available(models.configure(config(("m", base, ""))), 60)
    label = 'version_labels { key: "old" value: 1 }'
    wrong = config(("m", base, label), ("n", base, ""))
    assert refusal(lambda: models.configure(wrong)) == (
        "FAILED_PRECONDITION",
        "Request to assign label to version 1 of model m, which is not currently "
        "available for inference",
    )
    assert refusal(lambda: models.configure(config(("m", "here", ""))))[0] == (
        "INVALID_ARGUMENT"
    )
    assert models.describe() == "m version 2"
    assert find_version(models) == 2
    assert refusal(lambda: find_version(models, label="old"))[0] == "INVALID_ARGUMENT"
    assert refusal(lambda: models.versions(spec("n")))[0] == "NOT_FOUND"


def test_folders_are_watched(make_models, base, saved):
    models = make_models()
    models.wait_until_available(models.configure(single_model("m", str(base))), 60)
    models.start_watching()
    assert find_version(models) == 2
    shutil.copytree(saved / "3", base / ".3.tmp")
    (base / ".3.tmp").rename(base / "3")
    wait_until(lambda: models.describe() == "m version 3")
    shutil.rmtree(base / "3")
    wait_until(lambda: models.describe() == "m version 2")
    shutil.rmtree(base / "1")
    shutil.rmtree(base / "2")
    wait_until(lambda: models.describe() == "")
    assert [version.number for version in models.versions(spec())] == [3, 2]


def test_watching_can_be_disabled(make_models, base, saved):
    models = make_models(WatchOptions(poll_seconds=0))
    models.wait_until_available(models.configure(single_model("m", str(base))), 60)
    models.start_watching()
    shutil.copytree(saved / "3", base / "3")
    threading.Event().wait(0.3)
    assert models.describe() == "m version 2"


def test_very_many_problems_are_logged_in_few_lines(logged, make_models, tmp_path):
    missing = [(f"m{i}", tmp_path / f"missing{i}", "") for i in range(1500)]
    make_models().configure(config(*missing), starting=True)
    assert len(logged) == 21
    assert logged[-1] == "… and 1,480 more such problems"


def test_a_missing_base_path_unloads_nothing(logged, make_models, base):
    models = make_models()
    models.wait_until_available(models.configure(single_model("m", str(base))), 60)
    models.start_watching()
    base.rename(base.with_name("away"))
    wait_until(lambda: any("Could not find base path" in line for line in logged))
    assert find_version(models) == 2
    # It is logged once, not at every poll.
    threading.Event().wait(0.3)
    assert sum("Could not find base path" in line for line in logged) == 1


@pytest.mark.parametrize("folder_exists", [True, False])
def test_only_at_the_start_is_a_model_without_versions_waited_for(
    make_models, saved, tmp_path, folder_exists
):
    base = tmp_path / "empty"
    if folder_exists:
        base.mkdir()
    models = make_models()
    code, message = refusal(lambda: models.configure(single_model("m", str(base))))
    if folder_exists:
        assert code == "NOT_FOUND"
        assert message.startswith("No versions of servable m found under base path")
    else:
        assert code == "INVALID_ARGUMENT"
        assert message.startswith("Could not find base path")
    names = models.configure(single_model("m", str(base)), starting=True)
    assert names == ["m"]
    assert refusal(lambda: models.wait_until_available(names, 60))[0] == code
    waiting = refusal(lambda: models.wait_until_available(names, 0.3, patient=True))
    assert waiting[0] == "DEADLINE_EXCEEDED"
    models.start_watching()
    shutil.copytree(saved / "3", tmp_path / "copy" / "3")
    if folder_exists:
        base.rmdir()
    (tmp_path / "copy").rename(base)
    models.wait_until_available(names, 60, patient=True)
    assert find_version(models) == 3


def test_a_fault_of_one_folder_or_model_concerns_no_other(
    logged, make_models, base, saved, monkeypatch
):
    """A folder that may not be entered, and an error that nobody thought of."""
    is_file = Path.is_file

    def fail_sometimes(path):
        if path.parent.name == "9":
            raise PermissionError(13, "Permission denied")
        if path.parent.parent.name == "cursed":
            raise RuntimeError("cursed")
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", fail_sometimes)
    (base / "9").mkdir()
    shutil.copytree(base, base.with_name("cursed"))
    models = make_models()
    both = config(("cursed", base.with_name("cursed"), ""), ("m", base, ""))
    models.configure(both, starting=True)
    models.start_watching()
    models.wait_until_available(["m"], 60)
    assert find_version(models) == 2
    shutil.copytree(saved / "3", base / ".3.tmp")
    (base / ".3.tmp").rename(base / "3")
    wait_until(lambda: models.describe() == "m version 3")
    assert [line for line in logged if line.startswith(("m: ", "cursed: "))] == [
        "cursed: RuntimeError: cursed",
        f"m: {base / '9'} cannot be read: Permission denied. It is not served.",
    ]


def test_closing_waits_for_requests_and_then_cancels_them(make_models, base):
    """A request without a deadline must not keep a server from stopping."""
    entered = threading.Barrier(2)

    def ask(models, seconds):
        with models.use(spec()) as (_, servable):
            contract = servable.signatures["busy"]
            feeds = {contract.inputs["seconds"].name: np.array([seconds], np.float32)}
            entered.wait(60)
            return servable.run(feeds, [contract.outputs["done"].name], None)

    with ThreadPoolExecutor(1) as pool:
        for seconds, patience in ((0.3, 60.0), (1000.0, 0.3)):
            models = make_models()
            configured = models.configure(single_model("m", str(base)))
            models.wait_until_available(configured, 60)
            future = pool.submit(ask, models, seconds)
            entered.wait(60)
            models.close(patience)
            if seconds < patience:
                (done,) = future.result(60)
                assert done.tolist() == pytest.approx([seconds])
            else:
                with pytest.raises(ServingError) as caught:
                    future.result(60)
                assert caught.value.code.name in ("CANCELLED", "ABORTED")
            assert models.versions(spec())[0].state is State.END
