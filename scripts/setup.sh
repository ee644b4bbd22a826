#!/bin/sh
# Makes .venv: requirements/base.lock, and the extras named as arguments (docs/benchmarks.md#dependencies).
# It says what it installs. If something is missing, it prints one line with the package to install.
set -eu
cd "$(dirname "$0")/.."

need() { # need WHAT DEBIAN RHEL
    echo "setup: $1 is missing: 'apt install $2' on Debian, 'dnf install $3' on RHEL;" \
        "on a cluster, load a module of it" >&2
    exit 3
}

for name in "$@"; do
    [ -f "requirements/$name.lock" ] || {
        echo "setup: no extra '$name': allowed are wheels, ucx, spack, dev, docs" >&2
        exit 2
    }
done

# Neither make nor Slurm's configuration can quote such a path, and venv refuses a colon.
checkout=$(pwd -P)
case $checkout in *[[:space:]:#%\$\"\']*)
    echo "setup: the checkout is in '$checkout': allowed are paths without spaces, quotes and any of :#%\$" >&2
    exit 2
    ;;
esac

suitable() { # suitable PYTHON...: prints the first one that is at least 3.10 and has venv
    for candidate in "$@"; do
        if "$candidate" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 10))' \
            2>/dev/null; then
            echo "$candidate"
            break
        fi
    done
}
if [ -n "${PYTHON:-}" ]; then
    python=$(suitable "$PYTHON")
else
    python=$(suitable python3 python3.14 python3.13 python3.12 python3.11 python3.10)
fi
[ -n "$python" ] ||
    need "Python 3.10 or newer with venv${PYTHON:+ (PYTHON is $PYTHON)}" python3-venv python3.11
command -v "${CC:-cc}" >/dev/null || need "a C compiler${CC:+ (CC is $CC)}" gcc gcc
echo 'int main(void){return 0;}' | "${CC:-cc}" -fopenmp -x c -o /dev/null - 2>/dev/null ||
    need "OpenMP for ${CC:-cc}, or the C library's headers," 'gcc libc6-dev' 'gcc glibc-devel'

# Modules may add packages of other versions of Python, and some sites let pip install into the home.
unset PYTHONPATH
PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1
export PIP_USER PIP_DISABLE_PIP_VERSION_CHECK
venv=.venv
# Programs in .venv name its folder: those of a copied checkout would run the code of the original.
folder=$(cat "$venv/.folder" 2>/dev/null) || folder=
rm -f "$venv/.ready"
# --clear: an earlier set-up may have been interrupted, or its Python removed or replaced.
{ [ "$folder" = "$checkout" ] && "$venv/bin/python" -c 'import pip' 2>/dev/null; } ||
    "$python" -m venv --clear "$venv"
echo "$checkout" >"$venv/.folder"
echo "setup: installs into $PWD/$venv; the first time takes a minute or two"
for name in base "$@"; do
    echo "setup: packages of $name: $(grep -c == "requirements/$name.lock")"
    "$venv/bin/python" -m pip install --quiet --require-hashes --only-binary=:all: --no-deps \
        -r "requirements/$name.lock" 2>"$venv/pip.log" || {
        sed -n 's/^WARNING: Retrying .* after connection broken by/setup: no connection:/p' \
            "$venv/pip.log" | tail -n 1 >&2
        grep -m 1 '^ERROR' "$venv/pip.log" >&2 || tail -n 1 "$venv/pip.log" >&2
        echo "setup: pip cannot install requirements/$name.lock ($venv/pip.log); proxies, a site's index," \
            "no network: docs/first-day.md#pip-at-a-site" >&2
        exit 3
    }
done
echo "setup: nimc, as $venv/bin/nimc"
"$venv/bin/python" -m pip install --quiet --no-deps --no-build-isolation --editable .
for folder in "$venv"/lib/python3*/site-packages; do
    cp scripts/pythonpath_last.pth "$folder"
done
# Builds the writer for a shared host with the MPI of the wheels; -B since the program contains the
# path of this checkout.
case " $* " in *' wheels '*)
    command -v make >/dev/null || need make make make
    MPICH_CC=${CC:-cc} make -s -B -C conductor/mpi_put MPICC="$PWD/$venv/bin/mpicc"
    ;;
esac
echo "$@" >"$venv/.ready" # make compares these extras with those that it needs
