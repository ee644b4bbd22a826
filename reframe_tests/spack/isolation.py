"""Runs Spack apart from the user's configuration and caches."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from records.errors import MachineError
from records.files import user_name
from records.programs import FILE_SYSTEM_ROOT
from reframe_tests.spack.failures import reason_in
from reframe_tests.spack.folders import SpackLayout, spack_setup_command


def isolated_environment(layout: SpackLayout, environ: dict[str, str]) -> dict[str, str]:
    """Return the variables for Spack: its user scope and caches are under the layout's root.

    This Python's virtual environment and the user's conda environment are removed. Otherwise,
    builds would find the MPI of the wheels, or take conda's tools and libraries for the host's.
    LOGNAME is set, since mpiP's build needs it and batch jobs and containers often lack it.
    SLURM_CONF names the layout's own file: Spack asks Slurm's programs for their version, which
    they print only if they find a configuration.
    """
    inherited = {
        name: value
        for name, value in environ.items()
        if not name.startswith("SPACK_") and name not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    prefixes = [environ.get("CONDA_PREFIX"), sys.prefix if sys.prefix != sys.base_prefix else None]
    # PATH may name these folders by links.
    removed = {Path(prefix, "bin").resolve() for prefix in prefixes if prefix}
    folders = inherited.get("PATH", os.defpath).split(":")
    inherited["PATH"] = ":".join(
        folder for folder in folders if Path(folder).resolve() not in removed
    )
    return {
        "LOGNAME": user_name(os.getuid()),
        **inherited,
        "SLURM_CONF": str(layout.slurm_conf),
        "SPACK_PYTHON": sys.executable,
        "SPACK_USER_CONFIG_PATH": str(layout.config),
        "SPACK_SYSTEM_CONFIG_PATH": str(layout.root / "no-system-scope"),
        "SPACK_USER_CACHE_PATH": str(layout.root / "cache"),
    }


def spack(
    layout: SpackLayout,
    spack_root: Path,
    *words: str,
    log_name: str,
    watch: Callable[[str], None] | None = None,
) -> str:
    """Run a command of the Spack in `spack_root` and return its standard output.

    `watch` gets each line of this output. The log also has the errors that are printed. Raises
    MachineError.
    """
    path = layout.log(log_name)
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [str(spack_root / "bin" / "spack"), "--color", "never", *words]
    if not Path(command[0]).is_file():
        raise MachineError(
            f"{command[0]}: no such file; `{spack_setup_command(layout.machine)}` clones Spack"
        )
    printed: list[str] = []
    with path.open("a") as file:
        file.write(f"$ spack {' '.join(words)}\n")
        file.flush()
        output_start_b = file.tell()
        environ = isolated_environment(layout, dict(os.environ))
        with subprocess.Popen(
            command,
            cwd=FILE_SYSTEM_ROOT,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=file,
            errors="replace",
        ) as process:
            assert process.stdout
            for line in process.stdout:
                printed.append(line)
                if watch:
                    watch(line)
                file.write(line)
                file.flush()
    if process.returncode != 0:
        with path.open("rb") as log_file:
            log_file.seek(output_start_b)
            reason = reason_in(log_file.read().decode(errors="replace"))
        raise MachineError(f"{log_name}: Spack failed: {reason} (log: {path})")
    return "".join(printed)
