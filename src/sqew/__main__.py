"""`python -m sqew`, the same as `sqew`."""

from sqew.cli.main import main

if __name__ == "__main__":
    main()
