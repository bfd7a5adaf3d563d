"""Figure of head statistics, compared with the statistics."""

import math

import numpy as np

from t2t_keras.pictures.drawing import save_figure
from t2t_keras.pictures.head_figure import SHOWN, head_figure
from t2t_keras.pictures.head_table import name_head
from tests.pictures.random_maps import H, R
from tests.pictures.test_head_table import measure_heads


def test_a_row_for_each_head_and_a_column_for_each_statistic(tmp_path) -> None:
    heads = measure_heads()
    heads[2] = heads[2]._replace(evenness=math.nan)
    figure = head_figure(heads, title="Title")
    assert figure.get_suptitle() == "Title"
    for number, axes in enumerate(figure.axes):
        of_kind = heads[number * R * H : (number + 1) * R * H]
        expected = [[getattr(facts, name) for name in SHOWN] for facts in of_kind]
        image = axes.images[0]
        assert image.get_gid() == of_kind[0].kind
        assert image.get_clim() == (0.0, 1.0)
        drawn = np.ma.filled(image.get_array(), np.nan)
        np.testing.assert_array_equal(drawn, expected)
        assert [text.get_text() for text in axes.get_xticklabels()] == list(SHOWN)
        assert [text.get_text() for text in axes.get_yticklabels()] == [
            f"{facts.layer}.{facts.head} {name_head(facts)}" for facts in of_kind
        ]
        texts = {text.get_position(): text.get_text() for text in axes.texts}
        for row, values in enumerate(expected):
            for column, value in enumerate(values):
                text = "-" if math.isnan(value) else f"{100 * value:.0f}"
                assert texts[column, row] == text
    save_figure(figure, tmp_path / "a.png")
