"""A client that knows only the address of crore: it discovers the services by reflection, and calls them.

usage: client.py HOST:PORT v1|v1alpha [TOKEN [CA KEY CERTIFICATE]]
"""

import json
import queue
import sys

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from grpc_reflection.v1alpha import reflection_pb2

address, version = sys.argv[1:3]
token = sys.argv[3] if len(sys.argv) > 3 else None
METADATA = [("authorization", "Bearer " + token)] if token else []
WAIT = 20


def connect():
    if len(sys.argv) > 4:
        ca, key, certificate = (open(path, "rb").read() for path in sys.argv[4:7])
        credentials = grpc.ssl_channel_credentials(ca, key, certificate)
        return grpc.secure_channel(address, credentials)
    return grpc.insecure_channel(address)


channel = connect()


def reflect(*requests):
    """Both versions of reflection have the same messages, but different paths."""
    call = channel.stream_stream(
        f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
        request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )
    return list(call(iter(requests), metadata=METADATA, timeout=WAIT))


Ask = reflection_pb2.ServerReflectionRequest
listed = reflect(Ask(list_services=""))[0].list_services_response.service
services = sorted(service.name for service in listed)

pool = descriptor_pool.DescriptorPool()
known = set()


def learn(file):
    """Adds a file after the files that it depends on."""
    if file.name in known:
        return
    known.add(file.name)
    for name in file.dependency:
        answer = reflect(Ask(file_by_filename=name))[0].file_descriptor_response
        learn(descriptor_pb2.FileDescriptorProto.FromString(answer.file_descriptor_proto[0]))
    pool.Add(file)


for service in services:
    answer = reflect(Ask(file_containing_symbol=service))[0].file_descriptor_response
    learn(descriptor_pb2.FileDescriptorProto.FromString(answer.file_descriptor_proto[0]))


def method(service, name):
    """A callable for a method, found by its name."""
    found = pool.FindServiceByName(service).methods_by_name[name]
    asks = message_factory.GetMessageClass(found.input_type)
    says = message_factory.GetMessageClass(found.output_type)
    file = descriptor_pb2.ServiceDescriptorProto()
    found.containing_service.CopyToProto(file)
    how = next(one for one in file.method if one.name == name)
    kind = ("stream" if how.client_streaming else "unary") + "_" + ("stream" if how.server_streaming else "unary")
    make = getattr(channel, kind)
    path = f"/{service}/{name}"
    call = make(path, request_serializer=asks.SerializeToString, response_deserializer=says.FromString)
    return call, asks


def ask(service, name, **fields):
    call, asks = method(service, name)
    answer = call(asks(**fields), metadata=METADATA, timeout=WAIT)
    return json_format.MessageToDict(answer, preserving_proto_field_name=True)


def work(incarnation, n):
    """Runs a number of jobs, and returns the deliveries and the results of the reports."""
    call, says = method("crore.v1.Work", "Stream")
    to_say = queue.Queue()
    to_say.put(says(hello={"queues": ["mail"], "slots": 2, "incarnation": incarnation}))
    hears = call(iter(to_say.get, None), metadata=METADATA, timeout=WAIT)
    jobs, verdicts = [], []
    for said in hears:
        for job in said.jobs:
            jobs.append({"id": job.id, "payload": job.payload.decode(), "attempt": job.attempt})
            report = {"id": job.id, "delivery": job.delivery, "done": {"result": b'"sent"'}}
            to_say.put(says(finish=[report]))
        verdicts.extend(finished.verdict for finished in said.finished)
        if len(verdicts) == n:
            break
    to_say.put(None)
    return {"jobs": jobs, "verdicts": verdicts}


def refused(call):
    try:
        call()
    except grpc.RpcError as error:
        details = dict(error.trailing_metadata()).get("grpc-status-details-bin", b"")
        return {"status": error.code().name, "message": error.details(), "details": details.hex()}
    return None


def pushed():
    jobs = [{"kind": "mail", "payload": b'{"to": %d}' % n, "keep_result_ms": 60000} for n in range(3)]
    return [job["id"] for job in ask("crore.v1.Jobs", "Push", jobs=jobs)["jobs"]]


said = {"services": services, "ids": pushed()}
first = int(said["ids"][0])
said["job"] = ask("crore.v1.Jobs", "Get", id=first)
said["worked"] = work("python", 3)
said["ended"] = ask("crore.v1.Jobs", "Wait", id=first, wait_ms=5000)
said["health"] = ask("grpc.health.v1.Health", "Check")
said["info"] = ask("crore.v1.Admin", "Info")
said["missing"] = refused(lambda: ask("crore.v1.Jobs", "Get", id=123456789))
said["unknown"] = refused(lambda: channel.unary_unary("/crore.v1.Jobs/No")(b"", metadata=METADATA, timeout=WAIT))
METADATA = []
said["nobody"] = refused(lambda: ask("crore.v1.Jobs", "Get", id=first))
print(json.dumps(said))
