#!/usr/bin/env python3
"""A worker for Lakh in Python: it joins for the names that it knows, and reports how each job went.

    pip install grpcio grpcio-tools
    crore serve &
    python3 examples/lakh/worker.py greet &
    python3 examples/lakh/client.py greet Ada

It ends well when the server does, and comes back when the connection breaks. What it had by then is given to
others at once, and costs no attempt; if it reports such a job when it is back, that counts.
"""

import argparse
import queue
import sys
import time
from pathlib import Path

import grpc

PROTO = Path(__file__).resolve().parents[2] / "crates" / "crore-wire" / "proto"


def greet(*names):
    if not names:
        raise ValueError("nobody to greet")
    print("hello", *names, flush=True)


def nap(seconds="1"):
    time.sleep(float(seconds))


HANDLERS = {"greet": greet, "nap": nap}


def run(job):
    """Runs a job, and says how it went."""
    try:
        HANDLERS[job.name](*job.args)
        return lakh.SUCCEEDED
    except Exception as error:
        print("failed", job.id, error, flush=True)
        return lakh.FAILED


def work(server, names, most):
    """Works until the server ends the stream; gives how many jobs it ran."""
    reports = queue.SimpleQueue()
    ran = 0
    with grpc.insecure_channel(server) as channel:
        # Reports go out as they are put; None is the last.
        stream = services.LakhStub(channel).Join(iter(reports.get, None), metadata=[("job_names", ";".join(names))])
        print("joined", flush=True)
        for job in stream:
            status = run(job)
            # Of a job without a reservation no report is expected.
            if job.HasField("reservation_time"):
                reports.put(lakh.JobResult(job_id=job.id, job_name=job.name, status=status))
            ran += 1
            if ran == most:
                reports.put(None)
                # The last report is on its way; the stream would go on giving jobs.
                time.sleep(0.5)
                stream.cancel()
                break
        reports.put(None)
    return ran


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=sorted(HANDLERS), help="what it can do")
    parser.add_argument("--server", default="127.0.0.1:9000")
    parser.add_argument("--jobs", type=int, help="end after so many")
    options = parser.parse_args()
    unknown = set(options.names) - set(HANDLERS)
    if unknown:
        parser.error(f"it cannot {', '.join(sorted(unknown))}")
    left = options.jobs
    while True:
        try:
            ran = work(options.server, options.names, left)
            print("ran", ran, flush=True)
            return
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE:
                sys.exit(f"{error.code().name}: {error.details()}")
            print("the server is away; trying again", flush=True)
            time.sleep(1)


if __name__ == "__main__":
    sys.path.insert(0, str(PROTO))
    # Makes the messages from the file as it is; a project of your own would have them made once.
    lakh, services = grpc.protos_and_services("lakh.proto")
    main()
