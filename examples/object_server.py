#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""examples/object_server.py: an object store in memory, and a program that uses it.

usage: object_server.py PROGRAM [ARGUMENT ...]     runs the program with the server's URL behind its
                                                   arguments, and ends with its status
"""
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

OBJECTS: dict[str, bytes] = {}
LOCK = threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # connections stay
    disable_nagle_algorithm = True

    def answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with LOCK:
            OBJECTS[self.path] = body
        self.answer(201)

    def do_GET(self) -> None:
        with LOCK:
            if self.path.endswith("/"):
                below = [f"{path.removeprefix(self.path)} {len(body)}\n"
                         for path, body in OBJECTS.items() if path.startswith(self.path)]
                found = "".join(below).encode()
            else:
                found = OBJECTS.get(self.path)
        self.answer(404 if found is None else 200, found or b"")

    def do_DELETE(self) -> None:
        with LOCK:
            gone = OBJECTS.pop(self.path, None)
        self.answer(404 if gone is None else 204)

    def log_message(self, *_: object) -> None:
        pass


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    return subprocess.run([*sys.argv[1:], url], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
