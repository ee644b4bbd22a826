"""Both files of a new machine, filled from what can be asked (`nimc init`)."""
