"""Imports go down: a file imports its own floor or a lower one, without cycles, and MPI is named in one folder."""

from __future__ import annotations

import ast
import graphlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

import hvd_gossip

PACKAGE = "hvd_gossip"
FLOORS = {
    **dict.fromkeys(("", "graphs", "dispersion", "matrix_mixer", "mixing", "pictures", "specification"), 0),
    "comm": 1,
    "algorithms": 2,
    **dict.fromkeys(("torch", "tasks", "models", "sim"), 3),
    "train": 4,
    **dict.fromkeys(("bench", "dbench"), 5),
    **dict.fromkeys(("cli", "__main__", "doctor", "graph_report"), 6),
}


class Source(NamedTuple):
    """The text of a module, and whether it is the __init__ of a package."""

    text: str
    is_package: bool = False


def modules(root: Path) -> dict[str, Source]:
    """Every module below the folder of a package, by its full name."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = (root.name, *path.relative_to(root).with_suffix("").parts)
        is_package = parts[-1] == "__init__"
        found[".".join(parts[:-1] if is_package else parts)] = Source(path.read_text(), is_package)
    return found


def statements(name: str, source: Source) -> Iterator[tuple[str, str]]:
    """Module and name of each import anywhere in the text, the name empty for a plain import."""
    for node in ast.walk(ast.parse(source.text)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = name.split(".")
            above = parts[: len(parts) - node.level + source.is_package] if node.level else []
            yield from ((".".join([*above, *filter(None, [node.module])]), alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
            yield from ((str(text.value), "") for text in node.args[:1] if isinstance(text, ast.Constant))


def imports(found: Mapping[str, Source]) -> dict[str, set[str]]:
    """What each module imports, by full name; `from package import module` means the module."""
    edges: dict[str, set[str]] = {}
    for name, source in found.items():
        pairs = list(statements(name, source))
        edges[name] = {f"{base}.{part}" if f"{base}.{part}" in found else base for base, part in pairs}
    return edges


def floor(name: str) -> int:
    """The floor of a module; KeyError where none is settled."""
    return FLOORS[name.partition(".")[2].partition(".")[0]]


def inside(name: str) -> bool:
    """Whether this is a module of the package."""
    return name == PACKAGE or name.startswith(f"{PACKAGE}.")


def upward(edges: Mapping[str, set[str]]) -> list[tuple[str, str]]:
    """Imports of a higher floor."""
    return [(a, b) for a, others in edges.items() for b in sorted(others) if inside(b) and floor(b) > floor(a)]


def cycle(edges: Mapping[str, set[str]]) -> list[str] | None:
    """The modules of an import cycle, or None."""
    try:
        graphlib.TopologicalSorter({a: {b for b in others if inside(b)} for a, others in edges.items()}).prepare()
    except graphlib.CycleError as error:
        return error.args[1]
    return None


def reached(edges: Mapping[str, set[str]], start: str) -> set[str]:
    """Everything that a module or the modules of a package import, directly or not."""
    seen: set[str] = set()
    waiting = [name for name in edges if name == start or name.startswith(f"{start}.")]
    while waiting:
        new = edges.get(waiting.pop(), set()) - seen
        seen |= new
        waiting.extend(new)
    return seen


def naming(edges: Mapping[str, set[str]], *libraries: str) -> list[str]:
    """The modules that import one of the libraries."""
    return [a for a, others in edges.items() if any(b.partition(".")[0] in libraries for b in others)]


@pytest.fixture(scope="module")
def edges() -> dict[str, set[str]]:
    return imports(modules(Path(hvd_gossip.__file__).parent))


def test_the_whole_package_is_read(edges: dict[str, set[str]]) -> None:
    assert {"hvd_gossip", "hvd_gossip.graphs", "hvd_gossip.graphs.static", "hvd_gossip.cli"} <= edges.keys()
    assert "hvd_gossip.graphs.topology" in edges["hvd_gossip.graphs.static"]


def test_every_module_has_a_floor(edges: dict[str, set[str]]) -> None:
    assert {name for name in edges if name.partition(".")[2].partition(".")[0] not in FLOORS} == set()


def test_no_import_goes_up(edges: dict[str, set[str]]) -> None:
    assert upward(edges) == []


def test_no_import_cycle(edges: dict[str, set[str]]) -> None:
    assert cycle(edges) is None


def test_only_comm_names_mpi4py_or_horovod(edges: dict[str, set[str]]) -> None:
    named = naming(edges, "mpi4py", "horovod")
    assert [name for name in named if not name.startswith("hvd_gossip.comm.")] == []
    assert "hvd_gossip.comm.mpi" in named


def test_graphs_import_no_torch(edges: dict[str, set[str]]) -> None:
    libraries = {name.partition(".")[0] for name in reached(edges, "hvd_gossip.graphs")}
    assert "torch" not in libraries
    assert {"numpy", "networkx"} <= libraries


def made_up(**texts: str) -> dict[str, set[str]]:
    """Imports of a made-up package; `__` in a keyword stands for a dot, a trailing `__` for a package."""
    return imports(
        {
            f"hvd_gossip.{key.rstrip('_').replace('__', '.')}": Source(text, key.endswith("__"))
            for key, text in texts.items()
        }
    )


@pytest.mark.parametrize(
    "text",
    [
        "import hvd_gossip.comm.world",
        "from hvd_gossip.comm import world",
        "from hvd_gossip.comm.world import World",
        "def f():\n    if True:\n        from hvd_gossip.comm import world",
        "import typing\nif typing.TYPE_CHECKING:\n    import hvd_gossip.comm.world as w",
        "from ..comm import world",
        "import importlib\nimportlib.import_module('hvd_gossip.comm.world')",
    ],
)
def test_checker_finds_an_upward_import(text: str) -> None:
    edges = made_up(graphs__static=text, comm__="", comm__world="")
    assert upward(edges) == [("hvd_gossip.graphs.static", "hvd_gossip.comm.world")]


def test_checker_lets_downward_and_level_imports_pass() -> None:
    edges = made_up(
        comm__="", comm__world="from hvd_gossip import graphs\nfrom . import mpi", comm__mpi="", graphs__=""
    )
    assert edges["hvd_gossip.comm.world"] == {"hvd_gossip.graphs", "hvd_gossip.comm.mpi"}
    assert upward(edges) == []
    assert cycle(edges) is None


def test_checker_finds_a_cycle() -> None:
    edges = made_up(
        sim__="",
        sim__a="from hvd_gossip.sim import b",
        sim__b="def f():\n    from .c import g",
        sim__c="from . import a",
    )
    assert set(cycle(edges) or ()) == {"hvd_gossip.sim.a", "hvd_gossip.sim.b", "hvd_gossip.sim.c"}


def test_checker_follows_imports_and_finds_libraries() -> None:
    edges = made_up(
        graphs__="from hvd_gossip import mixing", mixing="import torch.nn", comm__mpi="from mpi4py import MPI"
    )
    assert "torch.nn" in reached(edges, "hvd_gossip.graphs")
    assert naming(edges, "mpi4py", "horovod") == ["hvd_gossip.comm.mpi"]


@pytest.mark.parametrize("name", ["hvd_gossip", "hvd_gossip.torch", "hvd_gossip.train.loop", "hvd_gossip.cli"])
def test_importing_starts_neither_mpi_nor_horovod(name: str) -> None:
    code = f"import sys, json, {name}; print(json.dumps(sorted(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True).stdout
    loaded = set(json.loads(shown))
    assert name in loaded
    assert not {module for module in loaded if module == "mpi4py.MPI" or module.partition(".")[0] == "horovod"}
    if name == "hvd_gossip":
        assert "torch" not in loaded
