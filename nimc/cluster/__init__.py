"""A cluster: doctor, both files of a new machine, origins, scripts of remedies."""
