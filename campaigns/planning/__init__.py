"""From a request to cases, blocks, nodes and ReFrame commands."""
