"""The job for Kubernetes: valid, and consistent with the image and the program."""

import json
import shutil
import subprocess

import kubernetes_validate
import pytest
import yaml

from t2t_keras.input_pipeline.records.manifest import verify_records
from t2t_keras.training import strategy
from tests.forked import REPOSITORY
from tests.in_process import run_program
from tests.runs.small_runs import read_files
from tests.system.test_gateway_image import copied_files, read_steps

FOLDER = REPOSITORY / "examples/cluster"
# The first release in which the policy of failed pods is stable, and the newest known.
RELEASES = ("1.31", kubernetes_validate.latest_version())


@pytest.fixture(scope="module")
def resources():
    """The resources by kind."""
    documents = yaml.safe_load_all((FOLDER / "train.yaml").read_text())
    return {document["kind"]: document for document in documents}


@pytest.fixture
def pod(resources):
    return resources["Job"]["spec"]["template"]["spec"]


@pytest.fixture
def container(pod):
    (container,) = pod["containers"]
    return container


@pytest.mark.parametrize("release", RELEASES)
def test_kubernetes_accepts_the_resources(resources, release):
    for resource in resources.values():
        kubernetes_validate.validate(resource, release, strict=True)


def test_each_pod_is_a_worker_that_the_others_find(
    resources, pod, container, monkeypatch
):
    job, service = resources["Job"], resources["Service"]
    name, count = job["metadata"]["name"], job["spec"]["completions"]
    assert (job["spec"]["completionMode"], job["spec"]["parallelism"]) == (
        "Indexed",
        count,
    )
    # A pod has a name of its own only in a service without an address.
    assert service["spec"]["clusterIP"] == "None"
    assert pod["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["selector"] == {"job-name": name}
    (port,) = (each["containerPort"] for each in container["ports"])
    assert [each["port"] for each in service["spec"]["ports"]] == [port]
    # Kubernetes replaces names of variables that come before.
    index, tf_config = container["env"][:2]
    assert index["valueFrom"]["fieldRef"]["fieldPath"] == (
        "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    )
    for number in range(count):
        text = tf_config["value"].replace(f"$({index['name']})", str(number))
        assert json.loads(text)["cluster"] == {
            "worker": [f"{name}-{i}.{pod['subdomain']}:{port}" for i in range(count)]
        }
        assert json.loads(text)["task"] == {"type": "worker", "index": number}
        monkeypatch.setenv(tf_config["name"], text)
        assert strategy.num_workers() == count


def test_the_job_ends_with_its_first_worker(resources):
    """Others may end in any way while that scores and exports."""
    policy = resources["Job"]["spec"]["successPolicy"]
    assert policy == {"rules": [{"succeededIndexes": "0"}]}


def test_a_pod_that_stops_early_is_no_failure(resources, pod, container):
    rules = resources["Job"]["spec"]["podFailurePolicy"]["rules"]
    assert {rule["action"] for rule in rules} == {"Ignore"}
    (exit_codes,) = (rule["onExitCodes"] for rule in rules if "onExitCodes" in rule)
    # That of SIGTERM, see docs/failures.md.
    assert exit_codes["values"] == [143]
    assert exit_codes["containerName"] == container["name"]
    # What Kubernetes demands for such a policy.
    assert pod["restartPolicy"] == "Never"


def test_the_program_takes_the_arguments(container, pod, tmp_path, monkeypatch):
    monkeypatch.chdir(REPOSITORY)
    folder = container["volumeMounts"][0]["mountPath"]
    arguments = [
        each.replace(f"={folder}/", f"={tmp_path}/") for each in container["args"]
    ]
    done = run_program("train", *arguments)
    assert done.status == 2
    assert f"{tmp_path}/wmt14.en-de" in done.stderr  # it is not there
    mounted = [each["name"] for each in container["volumeMounts"]]
    assert mounted == [each["name"] for each in pod["volumes"]]


def test_the_image_has_what_the_job_names(container, pod):
    steps = read_steps(FOLDER / "Dockerfile")
    found = dict(steps)
    copied = copied_files(steps)
    assert all((REPOSITORY / source).exists() for source in copied)
    assert copied >= {"pyproject.toml", "README.md", "LICENSE", "t2t_keras", "configs"}
    assert found["ENTRYPOINT"] == '["t2t-train"]'
    context = pod["securityContext"]
    assert found["USER"] == f"{context['runAsUser']}:{context['runAsGroup']}"
    name = container["image"].removesuffix(":latest")
    assert f"-t {name} .\n" in (FOLDER / "Dockerfile").read_text()


# --- Preparation of records


@pytest.fixture(scope="module")
def preparation_jobs():
    """The jobs that prepare records, by their step."""
    (document,) = yaml.safe_load_all((FOLDER / "prepare.yaml").read_text())
    return {job["metadata"]["labels"]["step"]: job for job in document["items"]}


@pytest.mark.parametrize("release", RELEASES)
def test_kubernetes_accepts_the_jobs_of_prepare(preparation_jobs, release):
    assert list(preparation_jobs) == ["begin", "parts", "join"]
    for step, job in preparation_jobs.items():
        kubernetes_validate.validate(job, release, strict=True)
        assert job["metadata"]["name"] == f"t2t-prepare-{step}"


def test_the_jobs_of_prepare_write_records(
    preparation_jobs, tmp_path, monkeypatch, config
):
    """With a shell, and the program in this process, in place of containers."""
    text = dict(
        zip(
            ("en", "de"),
            (config.data.train_source, config.data.train_target),
            strict=True,
        )
    )
    for code, (path,) in text.items():
        shutil.copy(path, tmp_path / f"train.{code}")
    parts = preparation_jobs["parts"]["spec"]
    assert parts["completionMode"] == "Indexed"
    assert parts["parallelism"] == parts["completions"]
    calls = {"begin": [{}], "join": [{}]}
    calls["parts"] = [
        {"JOB_COMPLETION_INDEX": str(index)} for index in range(parts["completions"])
    ]
    for step, job in preparation_jobs.items():
        (container,) = job["spec"]["template"]["spec"]["containers"]
        environment = {each["name"]: each["value"] for each in container["env"]}
        for own in calls[step]:
            # The shell prints what it would start.
            shell, option, script, *names = container["command"]
            script = script.replace("exec t2t-prepare", "printf '%s\\n'")
            done = subprocess.run(
                [shell, option, script, *names, *container["args"]],
                env=environment | own,
                capture_output=True,
                text=True,
                check=True,
            )
            arguments = [
                each.replace("=/shared/", f"={tmp_path}/")
                for each in done.stdout.splitlines()
            ]
            more = ("--vocabulary_size=280", "--pairs_per_shard=7", "--workers=1")
            ran = run_program("prepare", *arguments, *more)
            assert ran.status == 0, ran.stderr
    manifest = verify_records(tmp_path / "records")
    assert len(manifest.shards) == 9
    whole = tmp_path / "whole"
    flags = [each for each in arguments if each.startswith("--train_")]
    ran = run_program("prepare", f"--output={whole}", *flags, *more)
    assert ran.status == 0, ran.stderr
    assert read_files(whole) == read_files(tmp_path / "records")
