"""Descriptions of OpenNMT-tf's models: what they say, and code that is not executed."""

from pathlib import Path
from typing import Any

import pytest

from t2t_keras.errors import UserError
from t2t_keras.interop.opennmt_description import read_description

CLASS = """
import opennmt as onmt
from opennmt.models import catalog
import tensorflow as tf

class First(onmt.models.Transformer):
    '''A docstring.'''
    def __init__(self):
        '''Another.'''
        super(First, self).__init__(
            source_inputter=onmt.inputters.WordEmbedder(embedding_size=64),
            num_layers=(2, 3), num_units=64, num_heads=4, ffn_inner_dim=128,
            ffn_activation=tf.nn.gelu,
            share_embeddings=onmt.models.EmbeddingsSharingLevel.ALL)

    def auto_config(self, num_replicas=1):
        return super().auto_config(num_replicas)

class Second(First):
    def __init__(self):
        super().__init__(num_units=32, pre_norm=False)

class Third(catalog.TransformerBig):
    pass

"""


def described() -> tuple[tuple[str, str, dict[str, Any]], ...]:
    """Code, and the class and some of the arguments that it means."""
    big = {"num_units": 1024, "num_heads": 16, "ffn_inner_dim": 4096, "num_layers": 6}
    base = {"num_units": 512, "num_heads": 8, "ffn_inner_dim": 2048, "pre_norm": True}
    tiny = {"num_units": 64, "num_heads": 2, "ffn_inner_dim": 64, "num_layers": 2}
    from_catalog = "from opennmt import models\nmodel = lambda: "
    scaling = {**big, "pre_norm": False, "output_layer_bias": False, "dropout": 0.3}
    return (
        (
            f'{from_catalog}models.get_model_from_catalog("TransformerTiny")\n',
            "TransformerTiny",
            tiny,
        ),
        # As releases up to 2.5 wrote it.
        (
            "from opennmt.models import catalog\nmodel = catalog.TransformerBig\n",
            "TransformerBig",
            big,
        ),
        (
            f"{from_catalog}models.get_model_from_catalog(name='ScalingNmtEnDe')",
            "ScalingNmtEnDe",
            scaling,
        ),
        (
            "import opennmt\ndef model():\n    '''Builds it.'''\n"
            "    return opennmt.models.Transformer(None, None, 3, 8, num_heads=2)\n",
            "Transformer",
            {"num_layers": 3, "num_units": 8, "num_heads": 2, "ffn_inner_dim": 2048},
        ),
        ("from opennmt.models import Transformer as T\nmodel = T", "Transformer", base),
        (
            f"{CLASS}model = First\n",
            "Transformer",
            {
                "num_layers": (2, 3),
                "num_heads": 4,
                "ffn_inner_dim": 128,
                "ffn_activation": "tensorflow.nn.gelu",
                "pre_norm": True,
            },
        ),
        (
            f"{CLASS}model = lambda: Second()\n",
            "Transformer",
            {"num_layers": (2, 3), "num_units": 32, "pre_norm": False},
        ),
        (f"{CLASS}model = Third\n", "TransformerBig", big),
    )


@pytest.mark.parametrize("code, name, arguments", described())
def test_what_a_description_means(tmp_path, code, name, arguments) -> None:
    description = read_description(write(tmp_path, code))
    assert description.name == name
    assert {k: description.arguments[k] for k in arguments} == arguments
    assert description.may_end_sources == (name == "ScalingNmtEnDe")


def refused() -> tuple[tuple[str, str], ...]:
    """Code, and the message about it."""
    start = "import opennmt\nimport os\n"
    transformer = "opennmt.models.Transformer"
    touch = f"{start}os.mkdir('executed')\n"
    derived = f"{start}class A({transformer}):\n"
    return (
        ("", "must say `model = ...`"),
        ("model = (", "damaged, or not Python"),
        ("model = '\0'", "damaged, or not Python"),
        (f"{start}model = 3", "a model of OpenNMT-tf was expected. .* line 3: 3"),
        (f"{touch}model = os.mkdir", "a model of OpenNMT-tf was expected"),
        (
            "from opennmt import models\n"
            'model = lambda: models.get_model_from_catalog("GPT2Small")',
            "another architecture.* Received: GPT2Small",
        ),
        (f"{start}model = opennmt.models.LuongAttention", "Received: LuongAttention"),
        (
            f"{start}model = lambda: opennmt.models.get_model_from_catalog(name)",
            "needs its name",
        ),
        (
            f"{start}n = 4\nmodel = lambda: {transformer}(num_heads=n)",
            "arguments must be literals. Received in line 4: n",
        ),
        (
            f"{start}model = lambda: {transformer}(num_heads=os.getpid())",
            "arguments must be literals",
        ),
        (
            f"{start}model = lambda: {transformer}(heads=2)",
            "arguments must have a name",
        ),
        (f"{start}model = lambda: {transformer}(*range(6))", "must be literals"),
        (f"{start}model = lambda: {transformer}(**SETTINGS)", "must have a name"),
        (
            f"{start}def model(n):\n    n = 4\n    return {transformer}(num_heads=n)",
            "must return a model at once",
        ),
        (f"{derived}    def call(self, x): pass\nmodel = A", "changes more than"),
        (f"{derived}    num_heads = 2\nmodel = A", "changes more than arguments"),
        (
            f"{derived}    def __init__(self):\n        os.mkdir('executed')\n"
            "        super().__init__(num_heads=2)\nmodel = A",
            r"only super\(\).__init__\(...\) is understood",
        ),
        (
            f"{derived}    def __init__(self, n=2):\n"
            "        super().__init__(num_heads=n)\nmodel = A",
            "arguments must be literals",
        ),
        (f"{start}class A(B, C): pass\nmodel = A", "must have one base"),
        ("class A(A): pass\nmodel = A", "a model of OpenNMT-tf was expected"),
    )


@pytest.mark.parametrize("code, message", refused())
def test_other_code_is_refused_and_not_executed(
    tmp_path, monkeypatch, code, message
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message):
        read_description(write(tmp_path, code))
    assert not (tmp_path / "executed").exists()


def write(folder: Path, code: str) -> Path:
    (folder / "model_description.py").write_text(code)
    return folder / "model_description.py"
