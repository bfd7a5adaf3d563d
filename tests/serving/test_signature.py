"""The names that other people's programs hold us to."""

import ast
import inspect

from t2t_keras import signature


def test_the_contract_is_what_clients_were_promised():
    """To change a line here is to break every client there is."""
    names = {name: value for name, value in vars(signature).items() if name.isupper()}
    assert names == {
        "TRANSLATE": "serving_default",
        "TRANSLATE_IDS": "translate_ids",
        "TEXT": "text",
        "TRANSLATION": "translation",
        "SCORE": "score",
        "INPUT_IDS": "input_ids",
        "OUTPUT_IDS": "output_ids",
        "OUTPUT_LENGTH": "output_length",
    }


def test_no_output_is_named_as_a_server_s_bytes():
    """Over REST, a name that ends so is sent in base64."""
    assert not signature.TRANSLATION.endswith("_bytes")


def test_a_client_need_not_import_anything_else():
    tree = ast.parse(inspect.getsource(signature))
    imports = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
    assert imports == []
