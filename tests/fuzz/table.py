"""Every parser of text that comes from outside, by name."""

from tests.fuzz import of_files, of_kernel, of_programs, of_slurm

_LISTS = (of_programs, of_kernel, of_slurm, of_files)
#: Name -> target.
TARGETS = {target.name: target for each in _LISTS for target in each.TARGETS}
