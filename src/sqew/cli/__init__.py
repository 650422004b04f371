"""The command line `sqew`, on a file or a server. One module per group of commands; `main` is the entry point."""
