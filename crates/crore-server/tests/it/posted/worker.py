"""A push worker whose reaction to a job is named by the job. Arguments: the server's port, and optionally `tough`."""

import http.client
import http.server
import json
import os
import sys
import threading
import time

SERVER = ("127.0.0.1", int(sys.argv[1]))
TOUGH = "tough" in sys.argv
METADATA = "http://169.254.169.254/latest/meta-data"


def unpack(data, at=0):
    """Decodes a MessagePack value, of the types that crore's jobs use; returns the value and its end."""
    head = data[at]
    at += 1
    if head < 0x80:
        return head, at
    if head in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[head], at
    if 0xCC <= head <= 0xCF:
        size = 1 << (head - 0xCC)
        return int.from_bytes(data[at:at + size], "big"), at + size
    if 0xA0 <= head < 0xC0 or 0xD9 <= head <= 0xDB:
        size = head & 0x1F
        if head >= 0xD9:
            wide = 1 << (head - 0xD9)
            size, at = int.from_bytes(data[at:at + wide], "big"), at + wide
        return data[at:at + size].decode(), at + size
    if 0x80 <= head < 0x90:
        value = {}
        for _ in range(head & 0x0F):
            key, at = unpack(data, at)
            value[key], at = unpack(data, at)
        return value, at
    raise ValueError(f"unexpected byte {head:#x}")


def call(path, body, headers=()):
    connection = http.client.HTTPConnection(*SERVER)
    headers = {"content-type": "application/json", **dict(headers)}
    connection.request("POST", path, json.dumps(body), headers)
    answer = connection.getresponse()
    return answer.status, answer.read()


def report(job):
    time.sleep(0.05)
    body = {"job_id": job["job_id"], "delivery": job["delivery"], "type": "success", "result": job["argument"]}
    for _ in range(2):
        status, answer = call("/done", body, {"worker-id": OWN_ID})
        assert status == 204, (status, answer)


class Worker(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        job, _ = unpack(self.rfile.read(int(self.headers["content-length"])))
        assert self.path == "/worker-job" and self.headers["crore-delivery"] == job["delivery"]
        name = "good" if TOUGH and job["name"] == "die" else job["name"]
        if name == "good":
            self.say(200, json.dumps({"type": "success", "result": job["argument"]}), "application/json")
        elif name == "later":
            self.say(202)
            threading.Thread(target=report, args=(job,)).start()
        elif name == "die":
            os._exit(1)
        elif name == "hang":
            time.sleep(30)
        elif name == "garbage":
            self.say(200, "<html>It works!</html>", "text/html")
        elif name == "redirect":
            self.say(302, location=METADATA)
        else:
            self.say(404)

    def say(self, status, body="", kind="text/plain", location=None):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        if location:
            self.send_header("location", location)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Worker)
server.daemon_threads = True
status, answer = call("/worker", {"name": "python", "max_jobs": 4, "port": server.server_port})
assert status == 201, (status, answer)
OWN_ID = json.loads(answer)["worker_id"]
print("ready", flush=True)
server.serve_forever()
