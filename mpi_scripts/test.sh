#!/usr/bin/env bash
# Lint, unit tests, tests that start jobs, and the MPI tests at n = 1, 2 and 4, those of the exchange at n = 7 too and
# on a second MPI; makes the environments that are missing.
#
#   bash mpi_scripts/test.sh              everything; ends with one line "N passed, N failed, N skipped"
#   bash mpi_scripts/test.sh lint unit    only these parts, of: lint unit jobs mpi mpich
#
# Settings: those of setup.sh, and
#   HVD_GOSSIP_TEST_RANKS   the numbers of ranks of the MPI tests (default: "1 2 4")
#   HVD_GOSSIP_TEST_MPICH   0 to go without MPICH, for which an environment of its own is made (default: 1)
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
cd "$root" || exit 1
for part in "$@"; do
  case $part in lint|unit|jobs|mpi|mpich) ;; *)
    echo "unknown part '$part': expected lint, unit, jobs, mpi or mpich" >&2; exit 2 ;; esac
done
parts=${*:-lint unit jobs mpi mpich}
exchange=$(printf 'tests/mpi/test_%s.py ' dist_graph neighbor shared wire hierarchical)

bash "$here/setup.sh" || { echo "0 passed, 1 failed"; exit 1; }
# shellcheck disable=SC1091
HVD_GOSSIP_ONE_MACHINE=1 . "$here/env.sh"
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT

# check NAME COMMAND…: one check that passes or fails as a whole.
check() {
  local name=$1 status=0; shift
  printf '\n== %s: %s ==\n' "$name" "$*"
  "$@" || status=$?
  echo "$name $status" >>"$results/checks"
}
# mpirun gives its ranks a terminal also where there is none.
if [ -t 1 ]; then color=yes; else color=no; fi
# tests NAME COMMAND…: a pytest run, counted test by test from its junit file.
tests() {
  local name=$1; shift
  check "$name" "$@" --color="$color" -p no:cacheprovider --junitxml="$results/$name.xml"
}

case " $parts " in *" lint "*)
  check lint ruff check .
  check format ruff format --check .
  check types mypy ;;
esac
case " $parts " in *" unit "*) tests unit python -m pytest tests/unit hvd_gossip --doctest-modules ;; esac
case " $parts " in *" jobs "*) tests jobs python -m pytest tests/jobs ;; esac
case " $parts " in *" mpi "*)
  for n in ${HVD_GOSSIP_TEST_RANKS:-1 2 4}; do
    tests "mpi-n$n" mpirun -n "$n" python -m pytest tests/mpi
  done
  # shellcheck disable=SC2086
  tests mpi-n7 mpirun -n 7 python -m pytest $exchange ;;
esac
case " $parts " in *" mpich "*)
  if [ "${HVD_GOSSIP_TEST_MPICH:-1}" = 0 ]; then
    printf '\n== mpich: skipped, for HVD_GOSSIP_TEST_MPICH is 0 ==\n'
  else
    # The second environment goes without Horovod, which would have to be built once more.
    export HVD_GOSSIP_VENV=$root/.venv-mpich HVD_GOSSIP_MPI=mpich HVD_GOSSIP_HOROVOD=0
    check mpich-setup bash "$here/setup.sh"
    # shellcheck disable=SC1091
    deactivate; . "$here/env.sh"
    # shellcheck disable=SC2086
    tests mpich-n4 mpirun -n 4 python -m pytest $exchange tests/mpi/test_overlap.py tests/mpi/test_neighbor_operations.py
  fi ;;
esac
python "$here/count_results.py" "$results"
