"""membench's command line, fuzzed by a C program that is built here (`options_fuzz.c`)."""

import os
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "reframe_tests" / "src" / "membench"
_SANITIZED = ("-O1", "-g", "-std=c11", "-fopenmp", f"-I{SOURCE}",
              "-fsanitize=address,undefined", "-fno-sanitize-recover=all")  # fmt: skip


def build(folder: Path) -> Path:
    """The fuzzer, in a folder. Only membench's own code is traced."""
    sources = [SOURCE / f"{name}.c" for name in ("options", "topology", "order")]
    sources += sorted(SOURCE.glob("isa*.c"))
    parts = [("-fsanitize-coverage=trace-pc", sources), ("-Wall", [HERE / "options_fuzz.c"])]
    for flag, files in parts:
        subprocess.run(
            ["cc", *_SANITIZED, flag, "-c", *map(str, files)], cwd=folder, check=True, timeout=120
        )
    objects = [str(path) for path in sorted(folder.glob("*.o"))]
    program = folder / "options_fuzz"
    subprocess.run(
        ["cc", *_SANITIZED, "-Wl,--wrap=exit", "-o", str(program), *objects, "-lm"],
        check=True,
        timeout=120,
    )
    return program


def run(program: Path, lines: int, seed: int) -> tuple[int, str]:
    """Exit status; and how many lines were tried and kept, or what a sanitizer found."""
    report, found = program.with_name("report.txt"), program.with_name("sanitizer")
    logged = f"log_path={found}"
    done = subprocess.run(
        [str(program), str(lines), str(seed), str(report)],
        env={**os.environ, "ASAN_OPTIONS": logged, "UBSAN_OPTIONS": f"{logged}:print_stacktrace=1"},
    )
    files = [report, *program.parent.glob("sanitizer.*")]
    said = "".join(path.read_text(errors="replace") for path in files if path.exists())
    return done.returncode, said
