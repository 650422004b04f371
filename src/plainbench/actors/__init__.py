"""Actors: generators, consumers and the application with its database."""
