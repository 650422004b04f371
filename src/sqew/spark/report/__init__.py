"""The report of `sqew spark analyse`: one self-contained HTML file."""
