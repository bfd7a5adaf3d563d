"""Conformance of the embedded server with TensorFlow Serving.

Each row of `contract` and of `model_contract`, and each test here, runs against the
embedded server, and against `tensorflow_model_server` if it is on PATH. Where the real
server answers differently, the table is wrong, and so is the embedded server.
"""

import functools
import re
import shutil
import subprocess
import time
from types import MappingProxyType

import grpc
import pytest

from t2t_keras.runs.training.workers import free_ports
from tests.forked import ForkedProcess
from tests.server.tf_serving import contract, model_contract
from tests.server.tf_serving.broken_versions import DAMAGES, break_graph
from tests.server.tf_serving.calls import (
    answering_version,
    outputs,
    refused,
    reload_with,
    spec,
    status,
    version_states,
)
from tests.server.tf_serving.clients import Client, refusal, wait_until
from tests.server.tf_serving.model_contract import FOLDERS, POLICIES

pytestmark = pytest.mark.slow

REFUSALS = MappingProxyType(contract.REFUSALS | model_contract.REFUSALS)
ANSWERS = MappingProxyType(contract.ANSWERS | model_contract.ANSWERS)
AVAILABLE, END = 30, 50
RETRY_SECONDS = 1.5
REAL = "tensorflow_model_server"


def start_real(*flags, **settings):
    """Returns a process of TensorFlow Serving with some flags."""
    return subprocess.Popen([REAL, *flags], **settings)


STARTS = MappingProxyType(
    {"embedded": functools.partial(ForkedProcess, "-m", "t2t_keras.serve")}
    | ({REAL: start_real} if shutil.which(REAL) else {})
)


def test_the_real_server_was_tested_too():
    """The only test here that may be skipped."""
    if REAL not in STARTS:
        pytest.skip(f"no {REAL} on PATH: only the embedded server was tested")


MODELS = """model_config_list {{ config {{
  name: "translate" base_path: "{base}" model_platform: "tensorflow"
  model_version_policy {{ specific {{ versions: 1 versions: 2 }} }}
  version_labels {{ key: "stable" value: 1 }}
}} }}"""


def flags(folder, port):
    return [
        f"--port={port}",
        f"--model_config_file={folder / 'models.config'}",
        "--max_num_load_retries=1",
        f"--load_retry_interval_micros={int(RETRY_SECONDS * 1e6)}",
        "--enable_grpc_healthcheck_service",
    ]


@pytest.fixture(scope="module", params=sorted(STARTS))
def client(request, saved, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    shutil.copytree(saved, folder / "base")
    (folder / "models.config").write_text(MODELS.format(base=folder / "base"))
    (port,) = free_ports(1)
    lenient = "--allow_version_labels_for_unavailable_models"
    with (folder / "lines").open("w") as lines:
        process = STARTS[request.param](
            *flags(folder, port), lenient, stdout=lines, stderr=subprocess.STDOUT
        )
    client = Client(f"localhost:{port}")
    client.base = folder / "base"

    def ready():
        assert process.poll() is None, (folder / "lines").read_text()
        try:
            return client.states() == {2: "AVAILABLE", 1: "AVAILABLE"}
        except grpc.RpcError:
            return False

    try:
        wait_until(ready)
        yield client
    finally:
        client.channel.close()
        process.terminate()
        process.wait(60)


@pytest.mark.parametrize("row", REFUSALS)
def test_refusals(client, row):
    call, code, message = REFUSALS[row]
    actual = refusal(lambda: call(client))
    assert actual[0] == code, actual
    assert re.fullmatch(message, actual[1]), actual[1]


@pytest.mark.parametrize("row", ANSWERS)
def test_answers(client, row):
    call, expected = ANSWERS[row]
    assert call(client) == expected


def put(client, saved, folder, version, original="1", damage=None):
    """Adds a version atomically, in a folder beside that of "translate"."""
    unfinished = client.base.parent / "unfinished"
    shutil.copytree(saved / original, unfinished)
    if damage is not None:
        damage(unfinished)
    (client.base.parent / folder).mkdir(exist_ok=True)
    unfinished.rename(client.base.parent / folder / str(version))


def states(client, name):
    """Returns the state of each version of a model by number."""
    return {number: state for number, state, _ in version_states(name=name)(client)}


@pytest.fixture(scope="module")
def policies(client, saved):
    """The name and the folder of a model with versions and other subfolders."""
    for name, original in FOLDERS.items():
        put(client, saved, "policies", name, original)
    return {"name": "policies", "folder": "policies"}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_selects_versions(client, policies, policy):
    reload_with(policies | {"policy": policy})(client)

    def served():
        now = states(client, "policies")
        return {number: state for number, state in now.items() if state != END}

    wait_until(lambda: served() == dict.fromkeys(POLICIES[policy], AVAILABLE), served)
    newest = max(POLICIES[policy])
    answer = outputs(spec(name="policies"))(client)["translation"]
    assert answer == [b"v%d:a" % newest]


@pytest.fixture(scope="module")
def failed(client, saved):
    """Status of each version of a model, all but the first damaged; the served version.

    Other tests use other models.
    """
    put(client, saved, "failing", 1)
    model = {"name": "failing", "folder": "failing"}
    reload_with(model)(client)
    for version, damage in DAMAGES.items():
        put(client, saved, "failing", version, damage=damage.do)
    reload_with(model | {"policy": "all {}"})(client)
    expected = dict.fromkeys(DAMAGES, END) | {1: AVAILABLE}
    wait_until(
        lambda: states(client, "failing") == expected,
        lambda: states(client, "failing"),
    )
    statuses = status(name="failing")(client).model_version_status
    answering = answering_version(spec(name="failing"))(client)[1]
    return {each.version: each.status for each in statuses}, answering


@pytest.mark.parametrize("version", DAMAGES)
def test_the_status_of_a_damaged_version_has_its_error(client, failed, version):
    actual, damage = failed[0][version], DAMAGES[version]
    assert actual.error_code == damage.code or (actual.error_code and not damage.code)
    assert re.fullmatch(damage.message, actual.error_message), actual.error_message
    assert refused(spec(name="failing", version=version))(client) == (
        "NOT_FOUND",
        f"Servable not found for request: Specific(failing, {version})",
    )


def test_the_undamaged_version_is_served(failed):
    statuses, answering = failed
    assert statuses[1].error_code == 0
    assert answering == 1


def test_the_previous_version_is_served_until_a_newer_one_is_available(client, saved):
    put(client, saved, "life", 1)
    put(client, saved, "life", 2)
    model = {"name": "life", "folder": "life"}
    reload_with(model)(client)
    wait_until(lambda: states(client, "life") == {1: AVAILABLE, 2: AVAILABLE})
    put(client, saved, "life", 3, damage=break_graph)
    start, seen = time.monotonic(), set()
    reload_with(model | {"policy": "latest {}"})(client)

    def given_up():
        """Records the version's state and checks that another one answers."""
        newest, state, error = version_states(name="life")(client)[0]
        if newest == 3:
            seen.add((state, error != 0))
        assert answering_version(spec(name="life"))(client)[1] == 2
        return (END, True) in seen

    wait_until(given_up, lambda: seen)
    # Loading was retried, and the error was reported only after the last attempt.
    assert time.monotonic() - start >= RETRY_SECONDS
    assert {state for state, wrong in seen if wrong} == {END}
    # Only the newest of the old versions is kept in its place.
    replacement = {1: END, 2: AVAILABLE, 3: END}
    wait_until(lambda: states(client, "life") == replacement)

    put(client, saved, "life", 4)
    answers = []

    def newest_answers():
        answers.append(answering_version(spec(name="life"))(client)[1])
        return answers[-1] == 4

    wait_until(newest_answers)
    assert set(answers[:-1]) <= {2}
    replaced = {1: END, 2: END, 3: END, 4: AVAILABLE}
    wait_until(lambda: states(client, "life") == replaced)


def test_a_model_is_added_removed_and_added_again(client, saved):
    put(client, saved, "guest", 1)
    guest = {"name": "guest", "folder": "guest"}
    for _ in range(2):
        # The model is available as soon as the reload returns.
        assert reload_with(guest)(client).status.error_code == 0
        assert answering_version(spec(name="guest"))(client)[1] == 1
        reload_with()(client)
        wait_until(lambda: states(client, "guest") == {1: END})
        assert refused(spec(name="guest"))(client) == (
            "NOT_FOUND",
            "Servable not found for request: Latest(guest)",
        )
    assert answering_version(spec())(client)[1] == 2


def test_a_new_model_that_cannot_be_loaded(client, saved):
    put(client, saved, "hopeless", 1, damage=break_graph)
    hopeless = {"name": "hopeless", "folder": "hopeless"}
    code, message = refused(reload_with(hopeless, labels={"stable": 2}))(client)
    assert code == "UNKNOWN"
    assert message.startswith(
        "1 model(s) did not become available: {{{name: hopeless version: 1} due to "
    )
    assert states(client, "hopeless") == {1: END}
    # The other models of the list are served, with the labels of the list.
    assert answering_version(spec(label="stable"))(client)[1] == 2
    reload_with()(client)


def test_another_base_path(client, saved):
    """A loaded version is known by its number and not loaded again from elsewhere."""
    put(client, saved, "here", 1, original="1")
    put(client, saved, "elsewhere", 1, original="2")
    put(client, saved, "elsewhere", 2, original="3")
    mover = {"name": "mover", "policy": "all {}"}
    reload_with(mover | {"folder": "here"})(client)
    reload_with(mover | {"folder": "elsewhere"})(client)
    wait_until(lambda: states(client, "mover") == {1: AVAILABLE, 2: AVAILABLE})
    each = [outputs(spec(name="mover", version=n))(client) for n in (1, 2)]
    assert [answer["translation"] for answer in each] == [[b"v1:a"], [b"v3:a"]]


@pytest.mark.parametrize("command", sorted(STARTS))
def test_a_label_needs_a_flag_at_the_start(command, saved, tmp_path):
    """Without the flag, a label must name a version that is already loaded."""
    (tmp_path / "models.config").write_text(MODELS.format(base=saved))
    with STARTS[command](
        *flags(tmp_path, *free_ports(1)),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        output, _ = process.communicate(timeout=400)
    assert process.returncode != 0
    assert (
        "Request to assign label to version 1 of model translate, which is not "
        "currently available for inference"
    ) in output
