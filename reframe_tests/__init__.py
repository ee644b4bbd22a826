"""What is run: one check a file, on one mixin that gives any workload its arms."""
