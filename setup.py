"""Packaging of hvd_gossip; `pip install .` gives everything decentralized, the extras add the rest."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(r'__version__ = "(.+)"', (HERE / "hvd_gossip" / "__init__.py").read_text())[1]

EXTRAS = {
    "horovod": ["horovod==0.28.1"],
    "tasks": ["scikit-learn>=1.3"],
    "plots": ["matplotlib>=3.8"],
    "optimal": ["cvxpy>=1.5"],
    "dev": [
        "hypothesis>=6.100",
        "mypy>=1.10",
        "pre-commit>=3.7",
        "pytest>=8.0",
        "pytest-timeout>=2.3",
        "ruff==0.15.0",
        "types-pyyaml",
    ],
}
EXTRAS["all"] = sorted({requirement for extra in EXTRAS.values() for requirement in extra})

setup(
    name="hvd_gossip",
    version=VERSION,
    description="Decentralized (gossip) data-parallel training of PyTorch models on MPI machines",
    long_description=(HERE / "README.rst").read_text(),
    long_description_content_type="text/x-rst",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.10",
    packages=find_packages(include=["hvd_gossip", "hvd_gossip.*"]),
    package_data={"hvd_gossip": ["py.typed"]},
    install_requires=[
        "jsonargparse[signatures]>=4.49",
        "mpi4py>=4.0",
        "networkx>=3.2",
        "numpy>=1.26",
        "pyyaml>=6.0",
        "rich>=13.0",
        "scipy>=1.11",
        "tensorboard>=2.15",
        "torch>=2.2",
    ],
    extras_require=EXTRAS,
    entry_points={"console_scripts": ["hvd-gossip = hvd_gossip.cli:main"]},
)
