"""Error-prone operations, such as locking, are implemented in one module each."""

import ast

from benchmarks.architecture import OPERATIONS, find_modules, find_users
from tests.architecture.tree import ROOT

MODULES = (
    ("rename files", "files.atomic"),
    ("lock files", "files.locks"),
    ("set signal handlers", "files.signals"),
    ("hash files", "files.atomic"),
    ("read standard input and compressed text", "files.lines"),
    ("define the shape of a batch", "typing"),
    ("define the sums of an update", "training.update"),
)


def test_each_operation_is_in_one_module() -> None:
    modules = find_modules(ROOT)
    assert set(OPERATIONS) == {what for what, _ in MODULES}
    for what, module in MODULES:
        advice = f"only {module} may {what}; call a function there"
        assert find_users(modules, OPERATIONS[what]) == [module], advice


FOUND = (
    ("rename files", "path.rename(target)"),
    ("rename files", "os.rename(a, b)"),
    ("rename files", "os.replace(a, b)"),
    ("rename files", "Path(a).replace(b)"),
    ("rename files", "shutil.move(a, b)"),
    ("lock files", "import fcntl"),
    ("lock files", "def f():\n    from filelock import FileLock"),
    ("set signal handlers", "signal.signal(signal.SIGTERM, stop)"),
    ("hash files", "hashlib.file_digest(file, 'sha256')"),
    ("hash files", "hashlib.md5(path.read_bytes())"),
    ("define the shape of a batch", "class A:\n    rows: int\n    max_length: int"),
    ("define the sums of an update", "class A(B):\n    gradient_norm: float = 0.0"),
)
NOT_FOUND = (
    "'a'.replace('b', 'c')",
    "dataclasses.replace(config, seed=1)",
    "import file_locks, signal",
    "from t2t_keras.files.locks import lock_folder",
    "signal.raise_signal(signal.SIGTERM)",
    "hashlib.sha256(text.encode()).hexdigest()",
    "class A:\n    rows: int\n    columns: int\n    def length(self): return 1",
)


def test_every_form_of_an_operation_is_found_and_nothing_else() -> None:
    for what, code in FOUND:
        assert find_operations(code) == [what], code
    for code in NOT_FOUND:
        assert find_operations(code) == [], code


def find_operations(code: str) -> list[str]:
    nodes = list(ast.walk(ast.parse(code)))
    return [what for what, does in OPERATIONS.items() if any(map(does, nodes))]
