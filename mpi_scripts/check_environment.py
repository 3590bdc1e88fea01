"""Print what the environment holds, and fail when torch, MPI or an installed Horovod cannot be imported together."""

import importlib.util

import torch
from mpi4py import MPI

print(f"[setup] torch {torch.__version__}, mpi4py with {MPI.Get_library_version().split(',')[0]}")
if importlib.util.find_spec("horovod") is None:
    print("[setup] Horovod is not installed: the centralized baseline runs on MPI's own allreduce")
else:
    import horovod
    import horovod.torch as hvd

    print(f"[setup] Horovod {horovod.__version__}, built with MPI: {bool(hvd.mpi_built())}")
