"""Size and coupling of `t2t_keras`, as a Markdown table.

    python -m benchmarks.architecture
    python -m benchmarks.architecture --update    also train one update, half a minute

Imports are parsed from the source, including those inside functions, so that nothing
has to be imported.
"""

import argparse
import ast
import functools
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).parents[1]
PACKAGE = "t2t_keras"
PROGRAMS = ("average", "translate", "train")
# Importing a program must not load these.
HEAVY = ("grpc", "matplotlib", "sacremoses", "tensorflow")
COMPANIONS = ("parsing", "pictures", "reports", "server")

# Prints the files of the package in which a function runs between `start` and `stop`.
_TRACER = """
import sys, threading
from pathlib import Path
import tensorflow as tf
import t2t_keras
seen = set()
def record_file(frame, event, argument):
    # Not the code object's file: AutoGraph writes graph functions to temporary files.
    if event == "call" and frame.f_code.co_name != "<module>":
        seen.add(frame.f_globals.get("__file__"))
def profile_calls(function):
    def call(*arguments):
        sys.setprofile(record_file)
        return function(*arguments)
    return call
# Python did not start the threads of tf.data: threading.setprofile misses them.
def trace_callbacks(owner, name):
    original = getattr(owner, name)
    def patched(function, *arguments, **options):
        return original(profile_calls(function), *arguments, **options)
    setattr(owner, name, patched)
trace_callbacks(tf, "numpy_function")
trace_callbacks(tf.data.Dataset, "from_generator")
def start():
    threading.setprofile(record_file)
    sys.setprofile(record_file)
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
# Path of a sentence: text, subwords, token ids, batch, update of the weights.
_UPDATE = """
from t2t_keras.input_pipeline.batches.pipeline import TrainingBatches
from t2t_keras.input_pipeline.records.tokenized import tokenize_corpus
from t2t_keras.runs import models
from t2t_keras.runs.data import from_settings
from t2t_keras.runs.training import optimization
start()
corpus = from_settings.build_corpus(config.data)
vocabulary = from_settings.build_vocabulary(config.data, corpus)
pairs = tokenize_corpus(corpus.pairs("train"), vocabulary, config.data.max_length)
strategy = from_settings.build_batching_strategy(config.data, pairs)
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
# A whole training run: model directory, dev set, checkpoints and progress, too.
_TRAIN = """
from t2t_keras.runs.model_dir import ModelDir
from t2t_keras.runs.training.training_run import train
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


def find_modules(root: Path) -> dict[str, Path]:
    """Returns the modules and packages of `t2t_keras` by name."""
    modules = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts)
        modules[name.removesuffix(".__init__")] = path
    return modules


@functools.cache
def find_imports(path: Path, *, inside_functions: bool) -> frozenset[str]:
    """Returns the names that a file imports; `from a import b` gives a and a.b."""
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


def find_reachable(
    start: str, modules: Mapping[str, Path], *, inside_functions: bool
) -> tuple[set[str], set[str]]:
    """Returns the modules and the third-party packages that a module reaches."""
    ours: set[str] = set()
    others: set[str] = set()
    todo = [start]
    while todo:
        name = todo.pop()
        if name in ours or name not in modules:
            continue
        ours.add(name)
        for each in find_imports(modules[name], inside_functions=inside_functions):
            top = each.split(".")[0]
            if top == PACKAGE:
                todo.append(each)
            elif top:
                others.add(top)
    return ours, others


def find_cycles(modules: Mapping[str, Path]) -> list[str]:
    """Returns the imports that are part of a cycle, as "module -> imported module"."""
    edges = []
    for name, path in modules.items():
        near = find_imports(path, inside_functions=True) & set(modules)
        for each in near - {name}:
            if name in find_reachable(each, modules, inside_functions=True)[0]:
                edges.append(f"{name} -> {each}")
    return edges


def trace_files(code: str) -> list[str]:
    """Returns the files in which a function runs while a value of `TRACED` runs.

    Raises:
        subprocess.CalledProcessError: If the code fails.
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


def measure_source(modules: Mapping[str, Path]) -> Iterator[tuple[str, object]]:
    """Yields the name and value of each measure that is taken from the source."""
    at_root = [name for name in modules if name.count(".") == 1]
    packages = {path.parent for path in modules.values()}
    own = [name for name in at_root if (modules[name].name != "__init__.py")]
    lines = sum(path.read_text().count("\n") for path in modules.values())
    yield "lines of `t2t_keras`", f"{lines:,}"
    yield "modules", sum(path.name != "__init__.py" for path in modules.values())
    yield "packages", len(packages)
    yield "modules in `t2t_keras/` itself", len(own)
    yield "import cycles", ", ".join(find_cycles(modules)) or 0
    for program in PROGRAMS:
        name = f"{PACKAGE}.{program}"
        whole, _ = find_reachable(name, modules, inside_functions=True)
        start, others = find_reachable(name, modules, inside_functions=False)
        companions = {each.split(".")[1] for each in start if "." in each}
        loaded = {*others & set(HEAVY), *companions & set(COMPANIONS)}
        yield f"modules that `{program}` reaches", len(whole)
        yield f"of these at import of `{program}`", len(start)
        yield f"heavy packages at import of `{program}`", ", ".join(loaded) or "none"
    yield "rooms of `runs/`, and imports among them", _describe_rooms(modules)
    yield "hard dependencies", len(_hard_dependencies(ROOT))
    for what, find in REPETITIONS.items():
        found = [name for name, path in modules.items() for _ in find(name, path)]
        yield what, f"{len(found)}, in {len({*found})} modules" if found else 0
    for what, matches in OPERATIONS.items():
        yield f"modules that {what}", ", ".join(find_users(modules, matches))


def find_rooms(
    modules: Mapping[str, Path], package: str
) -> tuple[set[str], set[tuple[str, str]]]:
    """Returns the modules and packages in a package, and the imports among them."""
    depth = package.count(".") + 2

    def room(name: str) -> str:
        return ".".join(name.split(".")[:depth])

    inside = {name for name in modules if name.startswith(f"{package}.")}
    edges = {
        (room(name), room(each))
        for name in inside
        for each in find_imports(modules[name], inside_functions=True) & inside
    }
    return {room(name) for name in inside}, {
        edge for edge in edges if edge[0] != edge[1]
    }


def _describe_rooms(modules: Mapping[str, Path]) -> str:
    rooms, edges = find_rooms(modules, f"{PACKAGE}.runs")
    return f"{len(rooms)}, {len(edges)}"


def _hard_dependencies(root: Path) -> list[str]:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return project["dependencies"]


def setting_names(modules: Mapping[str, Path]) -> frozenset[str]:
    """Returns the names of the settings: fields that `setting(...)` declares."""
    names = set()
    for name, path in modules.items():
        for node in _nodes(path) if name.startswith(f"{PACKAGE}.settings") else ():
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                called = node.value.func if isinstance(node.value, ast.Call) else None
                if isinstance(called, ast.Name) and called.id == "setting":
                    names.add(node.target.id)
    return frozenset(names)


def find_setting_tuples(name: str, path: Path) -> Iterator[int]:
    """Yields the line of each module-level collection of names of settings.

    Definitions of flags may have some. Other toolkits, in `interop`, have settings of
    the same names.
    """
    settings = setting_names(find_modules(ROOT))
    if name.startswith((f"{PACKAGE}.settings", f"{PACKAGE}.interop")):
        return
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            if ast.unparse(node.value).startswith("define_flags("):
                continue
            texts = [
                each.value
                for each in ast.walk(node.value)
                if isinstance(each, ast.Constant) and isinstance(each.value, str)
            ]
            if len(texts) > 1 and sum(text in settings for text in texts) > 1:
                yield node.lineno


def find_hand_written_flags(name: str, path: Path) -> Iterator[int]:
    """Yields the line of each flag that a program defines itself."""
    if name.startswith(f"{PACKAGE}.settings"):
        return
    for node in _nodes(path):
        called = node.func if isinstance(node, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr.startswith("DEFINE_"):
            yield node.lineno


def find_log_parameters(name: str, path: Path) -> Iterator[int]:
    """Yields the line of each function that takes a function to log with.

    `Run` and its base do, for their users.
    """
    if name.startswith((f"{PACKAGE}.runs.run", f"{PACKAGE}.runs.translation.trained_")):
        return
    for node in _nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            parameters = (*node.args.args, *node.args.kwonlyargs)
            for each in parameters:
                is_file = ast.unparse(each.annotation or each) == "Path"
                if each.arg == "log" and not is_file:
                    yield node.lineno


def find_packed_literals(name: str, path: Path) -> Iterator[int]:
    """Yields the line of each literal that is unpacked where it stands.

    A dict of keyword arguments counts if they could be written as such: not if names
    are computed, or it replaces some of another dict.
    """
    for node in _nodes(path):
        if isinstance(node, ast.Starred) and isinstance(
            node.value, ast.Tuple | ast.List
        ):
            yield node.lineno
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if key is None and isinstance(value, ast.Dict) and value.keys:
                    yield node.lineno
        elif isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg is None and isinstance(keyword.value, ast.Dict):
                    keys = keyword.value.keys
                    if all(isinstance(key, ast.Constant) for key in keys):
                        yield node.lineno


# What is to be written once, or plainly; each finds its places in one module.
REPETITIONS: Mapping[str, Callable[[str, Path], Iterator[int]]] = MappingProxyType(
    {
        "collections of setting names outside `settings/`": find_setting_tuples,
        "flags defined by hand": find_hand_written_flags,
        "`log` parameters below `Run`": find_log_parameters,
        "literals unpacked in place": find_packed_literals,
    }
)


def renames_files(node: ast.AST) -> bool:
    """Returns whether an expression renames a file."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr not in ("rename", "renames", "replace", "move"):
        return False
    name = ast.unparse(node.func)
    # str.replace takes two arguments, dataclasses.replace takes keywords.
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
    called = node.func if isinstance(node, ast.Call) else None
    is_signal = isinstance(called, ast.Attribute) and called.attr == "signal"
    return is_signal and ast.unparse(called) == "signal.signal"


def hashes_files(node: ast.AST) -> bool:
    """Returns whether an expression hashes the contents of a file."""
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func)
    return name.endswith("file_digest") or (
        name.startswith("hashlib.")
        and any(".read" in ast.unparse(each) for each in node.args)
    )


def reads_text(node: ast.AST) -> bool:
    """Returns whether a node decompresses files, or is standard input."""
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    if isinstance(node, ast.ImportFrom):
        names = [node.module or ""]
    packers = bool({"bz2", "gzip", "lzma"}.intersection(names))
    return packers or (
        isinstance(node, ast.Attribute)
        and node.attr == "stdin"
        and ast.unparse(node) == "sys.stdin"
    )


def reads_zstd(node: ast.AST) -> bool:
    """Returns whether a statement imports the package that decompresses zstd."""
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    if isinstance(node, ast.ImportFrom):
        names = [node.module or ""]
    return any(name.split(".")[0] == "zstandard" for name in names)


def _fields(node: ast.AST) -> set[str]:
    """Returns the names of a class's annotated fields."""
    if not isinstance(node, ast.ClassDef):
        return set()
    each = (part.target for part in node.body if isinstance(part, ast.AnnAssign))
    return {target.id for target in each if isinstance(target, ast.Name)}


def defines_batch_shape(node: ast.AST) -> bool:
    """Returns whether a class has fields for the rows and lengths of a batch."""
    names = _fields(node)
    return "rows" in names and any(
        "bound" in name or "length" in name for name in names
    )


def defines_update_sums(node: ast.AST) -> bool:
    """Returns whether a class has fields for the results of one update."""
    return "gradient_norm" in _fields(node)


# Exactly one module of `t2t_keras` does each: tests/architecture/test_operations.py.
OPERATIONS: Mapping[str, Callable[[ast.AST], bool]] = MappingProxyType(
    {
        "rename files": renames_files,
        "lock files": locks_files,
        "set signal handlers": sets_signal_handlers,
        "hash files": hashes_files,
        "read standard input and compressed text": reads_text,
        "decompress zstd": reads_zstd,
        "define the shape of a batch": defines_batch_shape,
        "define the sums of an update": defines_update_sums,
    }
)


@functools.cache
def _nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def find_users(
    modules: Mapping[str, Path], matches: Callable[[ast.AST], bool]
) -> list[str]:
    """Returns the modules with a syntax node for which `matches` returns True."""
    return [
        name.removeprefix(f"{PACKAGE}.")
        for name, path in modules.items()
        if any(map(matches, _nodes(path)))
    ]


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--update", action="store_true", help="Trace one update.")
    args = parser.parse_args(argv)
    print("| measure | value |\n| --- | --- |")
    for what, value in measure_source(find_modules(ROOT)):
        print(f"| {what} | {value} |")
    if args.update:
        files = {what: trace_files(code) for what, code in TRACED.items()}
        for what, names in files.items():
            print(f"| files in which a function runs: {what} | {len(names)} |")
        for what, names in files.items():
            print(f"\n{what}:\n  " + "\n  ".join(names))


if __name__ == "__main__":
    main()
