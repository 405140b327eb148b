#!/usr/bin/env python3
"""A Lakh producer in Python.

    pip install grpcio grpcio-tools
    crore serve &
    python3 examples/lakh/worker.py greet &
    python3 examples/lakh/client.py greet Ada                  # now, with a reservation of 30 s
    python3 examples/lakh/client.py greet Ada --delay 5        # in five seconds
    python3 examples/lakh/client.py greet Ada --reserve 0      # done as soon as it is delivered
    python3 examples/lakh/client.py --dead                     # list the dead jobs

The server has synced a job to disk when it accepts it. The producer chooses the id: a job that is sent twice with
the same id is one job.
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
    parser.add_argument("name", nargs="?", help="name of the job")
    parser.add_argument("args", nargs="*", help="arguments of the job")
    parser.add_argument("--server", default="127.0.0.1:9000")
    parser.add_argument("--id", help="id of the job; random by default")
    parser.add_argument("--times", type=int, default=1, help="number of jobs to send")
    parser.add_argument("--delay", type=float, default=0, help="delay in seconds")
    parser.add_argument("--reserve", type=float, default=30, help="reservation in seconds; 0: no report is expected")
    parser.add_argument("--dead", action="store_true", help="list the dead jobs")
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
            parser.error("name a job, or use --dead")


if __name__ == "__main__":
    import sys

    sys.path.insert(0, str(PROTO))
    # Generates the messages at run time; a real project would generate them once.
    lakh, services = grpc.protos_and_services("lakh.proto")
    main()
