"""Error-prone operations, such as locking, are implemented in one module each."""

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
