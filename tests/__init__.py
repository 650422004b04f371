"""The tests: folders mirror the rooms of `src`, or are one of the few that cross rooms."""
