"""A jobworkerp client that knows only the server's address, its first argument, and uses reflection."""

import base64
import sys

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from grpc_reflection.v1alpha import reflection_pb2

WAIT = 20
channel = grpc.insecure_channel(sys.argv[1])
Ask = reflection_pb2.ServerReflectionRequest


def reflect(request):
    call = channel.stream_stream(
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        request_serializer=Ask.SerializeToString,
        response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
    )
    return next(iter(call(iter([request]), timeout=WAIT)))


pool = descriptor_pool.DescriptorPool()
files = set()


def learn(answer):
    file = descriptor_pb2.FileDescriptorProto.FromString(answer.file_descriptor_response.file_descriptor_proto[0])
    if file.name not in files:
        files.add(file.name)
        for name in file.dependency:
            learn(reflect(Ask(file_by_filename=name)))
        pool.Add(file)


def call(name, fields):
    """Calls a method with fields in JSON; returns one message, or all messages of a stream."""
    service, method = name.split("/")
    service = "jobworkerp.service." + service
    learn(reflect(Ask(file_containing_symbol=service)))
    found = pool.FindServiceByName(service).methods_by_name[method]
    asks = message_factory.GetMessageClass(found.input_type)
    says = message_factory.GetMessageClass(found.output_type)
    make = channel.unary_stream if found.server_streaming else channel.unary_unary
    caller = make(
        f"/{service}/{method}", request_serializer=asks.SerializeToString, response_deserializer=says.FromString
    )
    answer = caller(json_format.ParseDict(fields, asks()), timeout=WAIT)
    shown = lambda one: json_format.MessageToDict(one, preserving_proto_field_name=True)
    return [shown(one) for one in answer] if found.server_streaming else shown(answer)


def text(items):
    return [base64.b64decode(item).decode() for item in items]


def base(content):
    return base64.b64encode(content.encode()).decode()
