#!/usr/bin/env python3
"""A Lakh worker in Python: it joins for the job names that it handles, and reports the outcome of each job.

    pip install grpcio grpcio-tools
    crore serve &
    python3 examples/lakh/worker.py greet &
    python3 examples/lakh/client.py greet Ada

The worker exits when the server shuts down, and reconnects when the connection breaks. The server gives the jobs
of a broken connection to other workers at once, without counting an attempt; a report that the worker sends for
such a job after it has reconnected still counts.
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
    """Runs a job, and returns its status."""
    try:
        HANDLERS[job.name](*job.args)
        return lakh.SUCCEEDED
    except Exception as error:
        print("failed", job.id, error, flush=True)
        return lakh.FAILED


def work(server, names, most):
    """Works until the server ends the stream; returns the number of jobs."""
    reports = queue.SimpleQueue()
    ran = 0
    with grpc.insecure_channel(server) as channel:
        # The stream sends each report that is put into the queue; None ends it.
        stream = services.LakhStub(channel).Join(iter(reports.get, None), metadata=[("job_names", ";".join(names))])
        print("joined", flush=True)
        for job in stream:
            status = run(job)
            # A job without a reservation needs no report.
            if job.HasField("reservation_time"):
                reports.put(lakh.JobResult(job_id=job.id, job_name=job.name, status=status))
            ran += 1
            if ran == most:
                reports.put(None)
                # Wait for the last report to be sent, then cancel: the stream would deliver more jobs.
                time.sleep(0.5)
                stream.cancel()
                break
        reports.put(None)
    return ran


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=sorted(HANDLERS), help="job names to handle")
    parser.add_argument("--server", default="127.0.0.1:9000")
    parser.add_argument("--jobs", type=int, help="exit after this many jobs")
    options = parser.parse_args()
    unknown = set(options.names) - set(HANDLERS)
    if unknown:
        parser.error(f"unknown job names: {', '.join(sorted(unknown))}")
    left = options.jobs
    while True:
        try:
            ran = work(options.server, options.names, left)
            print("ran", ran, flush=True)
            return
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE:
                sys.exit(f"{error.code().name}: {error.details()}")
            print("the server is unavailable; retrying", flush=True)
            time.sleep(1)


if __name__ == "__main__":
    sys.path.insert(0, str(PROTO))
    # Generates the messages at run time; a real project would generate them once.
    lakh, services = grpc.protos_and_services("lakh.proto")
    main()
