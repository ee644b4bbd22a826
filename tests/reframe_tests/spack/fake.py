"""A short script that stands in for Spack."""

SPACK_STAND_IN = """#!/bin/sh
# This script notes each call, and answers the calls of nimc as Spack does.
here=$(cd "$(dirname "$0")/.." && pwd)
echo "$@" >> "$here/calls"
env | grep ^SPACK_ | sort > "$here/environment"
shift 2
case "$*" in
  --version) echo "1.1.0 (2e90720)" ;;
  *concretize*)
    [ ! -e "$here/broken" ] || { echo "==> Error: cannot be solved" >&2; exit 1; }
    echo '{"roots": [{"hash": "aaa", "spec": "stream"}]}' > "$2/spack.lock" ;;
  *install*)
    echo "==> Installing stream"
    log="$SPACK_USER_CONFIG_PATH/../logs/stream@1000.log"
    timeout 60 sh -c "until grep -q Installing '$log'; do sleep 0.02; done" \\
      || { echo "==> Error: the log does not grow while Spack works" >&2; exit 1; } ;;
  *find*)
    printf 'aaa\\tstream\\t5.10\\t%s\\tstream@5.10+openmp\\n' "$here"
    printf 'bbb\\tgmake\\t4.4\\t/usr\\tgmake@4.4\\n' ;;
esac
"""


def install(root, text=SPACK_STAND_IN):
    """Write a script that stands in for Spack to a folder; replace one that is already there."""
    path = root / "bin" / "spack"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def calls(root):
    path = root / "calls"
    return path.read_text().splitlines() if path.exists() else []
