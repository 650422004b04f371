"""A server whose answers the test dictates."""

import http.server
import socket
import threading


class CannedServer(http.server.ThreadingHTTPServer):
    """A server that sends the given answers and keeps the requests: None hangs up, and the last answer is repeated."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), []
        super().__init__(("127.0.0.1", 0), _Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    def _answer(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        server = self.server
        server.asked.append(f"{self.command} {self.path.partition('?')[0]}")
        answer = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
        if answer is None:
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        status, body, *headers = answer
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for header in headers:
            self.send_header(*header)
        self.end_headers()
        self.wfile.write(body)

    def __getattr__(self, name):
        if name.startswith("do_"):
            return self._answer
        raise AttributeError(name)

    def log_message(self, format, *args):
        pass
