"""What every other package uses: units, errors, tables of text, files, child processes."""
