"""A trace collector: accepts OTLP (protobuf, decoded with OpenTelemetry's own messages) and Zipkin (JSON), and
prints each span as a line of JSON. The first line is its port."""

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer


def otlp(body):
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

    request = ExportTraceServiceRequest.FromString(body)
    # The request has no unknown fields.
    known = ExportTraceServiceRequest.FromString(body)
    known.DiscardUnknownFields()
    assert known.SerializeToString() == request.SerializeToString() and known.resource_spans
    for resource in request.resource_spans:
        names = {a.key: a.value.string_value for a in resource.resource.attributes}
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield {
                    "service": names["service.name"],
                    "trace": span.trace_id.hex(),
                    "id": span.span_id.hex(),
                    "parent": span.parent_span_id.hex() or None,
                    "name": span.name,
                    "kind": Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
                    "state": span.trace_state,
                    "links": [link.span_id.hex() for link in span.links],
                    "took": (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
                    "tags": {a.key: a.value.string_value for a in span.attributes},
                    "error": span.status.message if span.status.code == Status.STATUS_CODE_ERROR else None,
                }


def zipkin(body):
    for span in json.loads(body):
        assert span["timestamp"] > 0 and span["duration"] > 0
        yield {
            "service": span["localEndpoint"]["serviceName"],
            "trace": span["traceId"],
            "id": span["id"],
            "parent": span.get("parentId"),
            "name": span["name"],
            "kind": span.get("kind", "INTERNAL"),
            "tags": span["tags"],
            "error": span["tags"].get("error"),
        }


class Collector(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    READERS = {
        ("/v1/traces", "application/x-protobuf"): otlp,
        ("/api/v2/spans", "application/json"): zipkin,
    }

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        read = self.READERS.get((self.path, self.headers["content-type"]))
        for span in read(body) if read else []:
            print(json.dumps(span), flush=True)
        self.send_response(202 if read else 404)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = HTTPServer(("127.0.0.1", 0), Collector)
print(server.server_port, flush=True)
server.serve_forever()
