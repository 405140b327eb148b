#!/usr/bin/env python3
"""A producer for Lakh in Python.

    pip install grpcio grpcio-tools
    crore serve &
    python3 examples/lakh/worker.py greet &
    python3 examples/lakh/client.py greet Ada                  # now, with half a minute for the report
    python3 examples/lakh/client.py greet Ada --delay 5        # in five seconds
    python3 examples/lakh/client.py greet Ada --reserve 0      # done when it is handed over
    python3 examples/lakh/client.py --dead                     # the jobs that are dead

A job that was taken is on the disk. The id is the producer's own: whoever sends a job twice with one id has
sent one job.
"""

import argparse
import uuid
from pathlib import Path

import grpc
from google.protobuf import duration_pb2, empty_pb2

PROTO = Path(__file__).resolve().parents[2] / "crates" / "crore-wire" / "proto"


def jobs(options):
    for _ in range(options.times):
        job = lakh.Job(id=options.id or uuid.uuid4().hex, name=options.name, args=options.args)
        if options.delay:
            job.delayed.CopyFrom(seconds(options.delay))
        else:
            job.immediate.CopyFrom(empty_pb2.Empty())
        if options.reserve:
            job.reservation_time.CopyFrom(seconds(options.reserve))
        print("sending", job.id, flush=True)
        yield job


def seconds(number):
    return duration_pb2.Duration(seconds=int(number), nanos=round(number % 1 * 1e9))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", nargs="?", help="what is to be done")
    parser.add_argument("args", nargs="*", help="with what")
    parser.add_argument("--server", default="127.0.0.1:9000")
    parser.add_argument("--id", help="the job's id; a fresh one unless it is given")
    parser.add_argument("--times", type=int, default=1, help="how many such jobs")
    parser.add_argument("--delay", type=float, default=0, help="seconds until it may start")
    parser.add_argument("--reserve", type=float, default=30, help="seconds for the report; 0: none is expected")
    parser.add_argument("--dead", action="store_true", help="show the jobs that are dead")
    options = parser.parse_args()
    with grpc.insecure_channel(options.server) as channel:
        stub = services.LakhStub(channel)
        if options.dead:
            for job in stub.GetDeadJobs(empty_pb2.Empty(), timeout=30).jobs:
                print("dead", job.name, job.id, *job.args)
        elif options.name:
            # The names of all jobs in this call, separated by semicolons.
            names = [("job_names", options.name)]
            stub.Work(jobs(options), metadata=names, timeout=60)
            print("taken", flush=True)
        else:
            parser.error("say what is to be done")


if __name__ == "__main__":
    import sys

    sys.path.insert(0, str(PROTO))
    # Makes the messages from the file as it is; a project of your own would have them made once.
    lakh, services = grpc.protos_and_services("lakh.proto")
    main()
