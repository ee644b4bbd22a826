"""Exists because builtin pins no commit, so that two machines may build two different STREAMs."""

from spack.package import *
from spack_repo.builtin.packages.stream.package import Stream as BuiltinStream


class Stream(BuiltinStream):
    __doc__ = BuiltinStream.__doc__

    version("5.10-2025", commit="6703f7504a38a8da96b353cadafa64d3c2d7a2d3", preferred=True)

    sanity_check_is_file = ["bin/stream_c.exe"]

    def edit(self, spec, prefix):
        super().edit(spec, prefix)
        # Static arrays beyond 2 GiB need the large memory model.
        elements = spec.variants["stream_array_size"].value
        if elements != "none" and int(elements) * 24 > 2**31 - 2**26:
            filter_file("^(CFLAGS = .*)", r"\1 -mcmodel=large -fno-pie -no-pie", "Makefile")

    def build(self, spec, prefix):
        make("stream_c.exe")

    def install(self, spec, prefix):
        mkdirp(prefix.bin)
        install("stream_c.exe", prefix.bin)

    def test_validates(self):
        """the arrays validate"""
        output = which(join_path(self.prefix.bin, "stream_c.exe"))(output=str.split)
        check_outputs("Solution Validates", output)
