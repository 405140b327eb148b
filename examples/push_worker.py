#!/usr/bin/env python3
"""A push worker in Python: crore posts jobs to it, and it reports their outcome.

    pip install msgpack
    crore serve &
    python3 examples/push_worker.py --server http://127.0.0.1:9000 --port 8080 &
    curl -s http://127.0.0.1:9000/job -H 'content-type: application/json' \
        -d '{"name": "add", "argument": {"a": 1, "b": 2}, "keep_result": true}'
    curl -s http://127.0.0.1:9000/job/1/polling -H 'accept: application/json'

It needs only the standard library and msgpack. The worker accepts a job at once (202) and runs it on a thread; a
worker with short jobs may respond 200 with the report instead.
"""

import argparse
import base64
import hashlib
import hmac
import signal
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import msgpack


def add(a, b):
    return a + b


def nap(seconds):
    time.sleep(seconds)
    return "well rested"


def fail(message="as you wish"):
    raise RuntimeError(message)


HANDLERS = {"add": add, "nap": nap, "fail": fail}


class Worker:
    """Registers with a server, accepts its jobs, and reports on them."""

    def __init__(self, server, max_jobs, port, secret=None):
        self.server, self.max_jobs, self.secret = server.rstrip("/"), max_jobs, secret
        self.http = ThreadingHTTPServer(("127.0.0.1", port), self.handler())
        self.id = None

    def call(self, method, path, body=None):
        """Calls the server, and returns the body of its response."""
        headers = {"content-type": "application/msgpack", "worker-id": self.id or ""}
        data = None if body is None else msgpack.packb(body)
        request = urllib.request.Request(self.server + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            raw = answer.read()
        return msgpack.unpackb(raw) if raw else None

    def register(self):
        port = self.http.server_address[1]
        worker = {"name": "python", "max_jobs": self.max_jobs, "url": f"http://127.0.0.1:{port}"}
        self.id = self.call("POST", "/worker", worker)["worker_id"]
        return self.id

    def work(self, job):
        """Runs a job and reports. The report repeats the delivery number, so that the server does not take a
        late report for one about a newer delivery."""
        report = {"job_id": job["job_id"], "delivery": job["delivery"]}
        try:
            result = HANDLERS[job["name"]](**job["argument"])
            report |= {"type": "success", "result": result}
        except Exception as error:  # Every failure is reported.
            report |= {
                "type": "failure",
                "reason": "other",
                "should_retry": not isinstance(error, TypeError),
                "message": str(error),
                "error": {"class": type(error).__name__},
            }
        try:
            self.call("POST", "/done", report)
        except OSError as error:
            # The server delivers the job again when its lease ends.
            print(f"job {job['job_id']} could not be reported: {error}", flush=True)

    def is_signed(self, headers, body):
        """Whether a request was signed with our secret within the last five minutes."""
        if self.secret is None:
            return True
        stamp, said = headers.get("webhook-timestamp", "0"), headers.get("webhook-signature", "")
        signed = f"{headers.get('webhook-id')}.{stamp}.".encode() + body
        key = base64.b64decode(self.secret.removeprefix("whsec_"))
        right = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        is_fresh = abs(time.time() - int(stamp)) < 300
        return is_fresh and any(hmac.compare_digest(right, one) for one in said.split(" "))

    def handler(worker):
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                if self.path != "/worker-job":
                    self.answer(405)
                elif not worker.is_signed(self.headers, body):
                    self.answer(400)
                else:
                    job = msgpack.unpackb(body)
                    if job["name"] not in HANDLERS:
                        self.answer(404)
                    else:
                        self.answer(202)
                        threading.Thread(target=worker.work, args=(job,), daemon=True).start()

            def answer(self, status):
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        return Handler

    def run(self):
        thread = threading.Thread(target=self.http.serve_forever)
        thread.start()
        print(f"worker {self.register()} is ready", flush=True)
        stop = threading.Event()
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, lambda *_: stop.set())
        stop.wait()
        self.call("DELETE", "/worker")
        self.http.shutdown()
        thread.join()


if __name__ == "__main__":
    words = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    words.add_argument("--server", default="http://127.0.0.1:9000")
    words.add_argument("--port", type=int, default=8080)
    words.add_argument("--max-jobs", type=int, default=4)
    words.add_argument("--secret", help="the webhook secret of the server, whsec_…")
    said = words.parse_args()
    Worker(said.server, said.max_jobs, said.port, said.secret).run()
