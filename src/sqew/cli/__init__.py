"""The command line `sqew`, on a file. One module per group of commands; `main` is where it starts."""
