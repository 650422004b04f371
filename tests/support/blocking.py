"""An `AsyncClient` for tests that don't wait."""

import inspect


class Blocking:
    """An `AsyncClient`, or a part of one, that is used like a `Client`: each call runs the loop until it is done."""

    def __init__(self, runner, client):
        self._runner, self._client = runner, client

    def __getattr__(self, name):
        method = getattr(self._client, name)
        if not callable(method):
            return Blocking(self._runner, method)

        def call(*given, **named):
            result = method(*given, **named)
            if inspect.isawaitable(result):
                return self._runner.run(result)
            return self._going_through(result) if inspect.isasyncgen(result) else result

        return call

    def _going_through(self, results):
        try:
            while True:
                try:
                    yield self._runner.run(anext(results))
                except StopAsyncIteration:
                    return
        finally:
            self._runner.run(results.aclose())
