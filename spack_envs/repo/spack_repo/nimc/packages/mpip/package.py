"""Exists because 3.5, the last release, does not compile with binutils 2.40; the mend is on git."""

from spack.package import *
from spack_repo.builtin.packages.mpip.package import Mpip as BuiltinMpip


class Mpip(BuiltinMpip):
    __doc__ = BuiltinMpip.__doc__

    git = "https://github.com/LLNL/mpiP.git"

    version("3.5-git", commit="8ff38c37777111543307fa40274caa96be8a916b", preferred=True)

    sanity_check_is_file = ["lib/libmpiP.so"]
