#!/bin/sh
# Pins every dependency with its hashes: requirements/base.lock, and what each extra adds to it.
# The index's URL is not written to the files. `make lock UPGRADE=1` takes newer versions.
set -eu

compile() { # compile NAME OPTION...
    name=$1
    shift
    uv pip compile --quiet --universal --python-version 3.10 --generate-hashes ${UPGRADE:+--upgrade} \
        --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' \
        -o "requirements/$name.lock" "$@" pyproject.toml
}

compile base --extra editable
in_base=$(sed -n 's/^\([A-Za-z0-9._-]*\)==.*/--no-emit-package \1/p' requirements/base.lock)
locked='--constraint requirements/base.lock'
for extra in wheels ucx spack dev docs; do
    # shellcheck disable=SC2086  # one word for each option
    compile "$extra" --extra "$extra" $locked $in_base
    locked="$locked --constraint requirements/$extra.lock" # all can be in one environment
done
