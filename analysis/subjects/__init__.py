"""One module for each subject of the report, such as NUMA, rails or writers."""
