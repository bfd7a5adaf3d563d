"""Size and coupling of `t2t_keras`, as a Markdown table.

    python -m benchmarks.architecture
    python -m benchmarks.architecture --update    also train one update, half a minute

Imports are read from the source, those inside functions included: nothing has to be
imported to count them.
"""

import argparse
import ast
import functools
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).parents[1]
PACKAGE = "t2t_keras"
PROGRAMS = ("average", "translate", "train")
# Not to be loaded by importing a program.
HEAVY = ("grpc", "matplotlib", "sacremoses", "tensorflow")
COMPANIONS = ("parsing", "attention", "reports")

# Prints each file of the package in which a function runs between `start` and `stop`.
_TRACER = """
import sys, threading
from pathlib import Path
import tensorflow as tf
import t2t_keras
seen = set()
def note(frame, event, argument):
    # Not the file of the code: AutoGraph writes the functions of a graph to others.
    if event == "call" and frame.f_code.co_name != "<module>":
        seen.add(frame.f_globals.get("__file__"))
def traced(function):
    def call(*arguments):
        sys.setprofile(note)
        return function(*arguments)
    return call
# The threads of tf.data are not Python's: threading.setprofile does not reach them.
def trace_functions_of(owner, name):
    original = getattr(owner, name)
    def patched(function, *arguments, **options):
        return original(traced(function), *arguments, **options)
    setattr(owner, name, patched)
trace_functions_of(tf, "numpy_function")
trace_functions_of(tf.data.Dataset, "from_generator")
def start():
    threading.setprofile(note)
    sys.setprofile(note)
def stop():
    sys.setprofile(None)
    threading.setprofile(None)
    package = Path(t2t_keras.__file__).parent
    for name in sorted(filter(None, seen)):
        if Path(name).is_relative_to(package):
            print("ran:", Path(name).relative_to(package))
from t2t_keras.settings.flags import config_from_arguments
config = config_from_arguments(sys.argv[2:], source="the benchmark")
"""
# The way of a sentence: text, subwords, token ids, a batch, the update of the weights.
_UPDATE = """
from t2t_keras.input_pipeline.batches.pipeline import TrainingBatches
from t2t_keras.input_pipeline.records.tokenized import tokenize_corpus
from t2t_keras.runs import corpora, models, optimization
start()
corpus = corpora.build_corpus(config.data)
vocabulary = corpora.build_vocabulary(config.data, corpus)
pairs = tokenize_corpus(corpus.pairs("train"), vocabulary, config.data.max_length)
strategy = corpora.build_batching_strategy(config.data, pairs)
batches = TrainingBatches(pairs, strategy, seed=config.training.seed)
model = models.build_model(config, vocabulary.size)
stepper = optimization.build_stepper(
    config.training, model, optimization.build_optimizer(config, model),
    tf.distribute.get_strategy())
for batch, _ in batches:
    stepper.train(batch)
    break
stop()
"""
# The same and all that surrounds it: model directory, dev set, checkpoints, progress.
_TRAIN = """
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.training_run import train
start()
train(config, ModelDir(sys.argv[1]))
stop()
"""
TRACED: Mapping[str, str] = MappingProxyType(
    {
        "one update from text": _UPDATE,
        "`train` of one update, with evaluation and checkpoints": _TRAIN,
    }
)


def modules_of(root: Path) -> dict[str, Path]:
    """Returns the modules and packages of `t2t_keras` by name."""
    found = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


@functools.cache
def imports_of(path: Path, *, inside_functions: bool) -> frozenset[str]:
    """Returns every name that a file imports; of `from a import b`, a and a.b."""
    names: set[str] = set()
    todo: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while todo:
        for child in ast.iter_child_nodes(todo.pop()):
            if isinstance(child, ast.Import):
                names |= {alias.name for alias in child.names}
            elif isinstance(child, ast.ImportFrom):
                module = child.module or ""
                names |= {module} | {f"{module}.{alias.name}" for alias in child.names}
            is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            if inside_functions or not is_function:
                todo.append(child)
    return frozenset(names)


def reached(
    start: str, modules: Mapping[str, Path], *, inside_functions: bool
) -> tuple[set[str], set[str]]:
    """Returns the modules of ours that a module reaches, and other packages' names."""
    ours: set[str] = set()
    others: set[str] = set()
    todo = [start]
    while todo:
        name = todo.pop()
        if name in ours or name not in modules:
            continue
        ours.add(name)
        for each in imports_of(modules[name], inside_functions=inside_functions):
            top = each.split(".")[0]
            if top == PACKAGE:
                todo.append(each)
            elif top:
                others.add(top)
    return ours, others


def cycles(modules: Mapping[str, Path]) -> list[str]:
    """Returns the modules that reach themselves through imports."""
    found = []
    for name, path in modules.items():
        near = imports_of(path, inside_functions=True) & set(modules)
        for each in near - {name}:
            if name in reached(each, modules, inside_functions=True)[0]:
                found.append(f"{name} -> {each}")
    return found


def traced_files(code: str) -> list[str]:
    """Returns the files in which a function runs while a piece of `TRACED` does.

    Raises:
        subprocess.CalledProcessError: If it fails.
    """
    flags = ["--flagfile=configs/tiny.flags", "--train_steps=1", "--nojit_compile"]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", _TRACER + code, f"{folder}/run", *flags],
            cwd=ROOT,
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    lines = done.stdout.splitlines()
    return [line.removeprefix("ran: ") for line in lines if line.startswith("ran: ")]


def rows(modules: Mapping[str, Path]) -> Iterator[tuple[str, object]]:
    """Yields what is measured from the source, and its value."""
    at_root = [name for name in modules if name.count(".") == 1]
    packages = {path.parent for path in modules.values()}
    own = [name for name in at_root if (modules[name].name != "__init__.py")]
    lines = sum(path.read_text().count("\n") for path in modules.values())
    yield "lines of `t2t_keras`", f"{lines:,}"
    yield "modules", sum(path.name != "__init__.py" for path in modules.values())
    yield "packages", len(packages)
    yield "modules in `t2t_keras/` itself", len(own)
    yield "import cycles", ", ".join(cycles(modules)) or 0
    for program in PROGRAMS:
        name = f"{PACKAGE}.{program}"
        whole, _ = reached(name, modules, inside_functions=True)
        start, others = reached(name, modules, inside_functions=False)
        companions = {each.split(".")[1] for each in start if "." in each}
        loaded = {*others & set(HEAVY), *companions & set(COMPANIONS)}
        yield f"modules that `{program}` reaches", len(whole)
        yield f"of these at import of `{program}`", len(start)
        yield f"heavy packages at import of `{program}`", ", ".join(loaded) or "none"
    for what, does in OPERATIONS.items():
        yield f"modules that {what}", ", ".join(users(modules, does))


def renames_files(node: ast.AST) -> bool:
    """Returns whether an expression gives a file another name."""
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func)
    # That of a string has two arguments, that of a dataclass has keywords.
    replaces_path = len(node.args) == 1 and not node.keywords
    return name.endswith((".rename", ".renames", "os.replace", "shutil.move")) or (
        name.endswith(".replace") and replaces_path
    )


def locks_files(node: ast.AST) -> bool:
    """Returns whether a statement imports a module that takes locks."""
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    if isinstance(node, ast.ImportFrom):
        names = [node.module or ""]
    return any(name.split(".")[0] in ("fcntl", "filelock") for name in names)


def sets_signal_handlers(node: ast.AST) -> bool:
    """Returns whether an expression sets the handler of a signal."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "signal.signal"


def hashes_files(node: ast.AST) -> bool:
    """Returns whether an expression hashes what is in a file."""
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func)
    reads = any(".read" in ast.unparse(each) for each in node.args)
    return name.endswith("file_digest") or (name.startswith("hashlib.") and reads)


def _fields(node: ast.AST) -> set[str]:
    """Returns the names of a class's annotated fields."""
    if not isinstance(node, ast.ClassDef):
        return set()
    each = (part.target for part in node.body if isinstance(part, ast.AnnAssign))
    return {target.id for target in each if isinstance(target, ast.Name)}


def defines_batch_shape(node: ast.AST) -> bool:
    """Returns whether a class has the rows and the lengths of a batch."""
    names = _fields(node)
    return "rows" in names and any(
        "bound" in name or "length" in name for name in names
    )


def defines_update_sums(node: ast.AST) -> bool:
    """Returns whether a class has the results of one update."""
    return "gradient_norm" in _fields(node)


# Each in one module of `t2t_keras`: tests/architecture/test_operations.py.
OPERATIONS: Mapping[str, Callable[[ast.AST], bool]] = MappingProxyType(
    {
        "rename files": renames_files,
        "lock files": locks_files,
        "set signal handlers": sets_signal_handlers,
        "hash files": hashes_files,
        "define the shape of a batch": defines_batch_shape,
        "define the sums of an update": defines_update_sums,
    }
)


def users(modules: Mapping[str, Path], does: Callable[[ast.AST], bool]) -> list[str]:
    """Returns the modules with a piece of code that does something."""
    return [
        name.removeprefix(f"{PACKAGE}.")
        for name, path in modules.items()
        if any(map(does, ast.walk(ast.parse(path.read_text(encoding="utf-8")))))
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--update", action="store_true", help="Trace one update.")
    chosen = parser.parse_args(argv)
    print("| measure | value |\n| --- | --- |")
    for what, value in rows(modules_of(ROOT)):
        print(f"| {what} | {value} |")
    if chosen.update:
        files = {what: traced_files(code) for what, code in TRACED.items()}
        for what, names in files.items():
            print(f"| files in which a function runs: {what} | {len(names)} |")
        for what, names in files.items():
            print(f"\n{what}:\n  " + "\n  ".join(names))


if __name__ == "__main__":
    main()
