"""The checks, one per file, and the mixin that runs any workload under its treatments."""
