// What a web page does: connect-web over gRPC-Web and fetch, with HTTP/1.1.
// usage: node page.mjs NODE_MODULES URL DESCRIPTORS

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [modules, url, descriptors] = process.argv.slice(2);
const require = createRequire(modules + "/");
const { createFileRegistry, fromBinary } = require("@bufbuild/protobuf");
const { FileDescriptorSetSchema } = require("@bufbuild/protobuf/wkt");
const { Code, ConnectError, createClient } = require("@connectrpc/connect");
const { createGrpcWebTransport } = require("@connectrpc/connect-web");

const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, readFileSync(descriptors)));
const transport = createGrpcWebTransport({ baseUrl: url });
const client = (name) => createClient(registry.getService(name), transport);
const [jobs, work, admin] = ["Jobs", "Work", "Admin"].map((name) => client("crore.v1." + name));

const payload = new TextEncoder().encode('{"to": 1}');
const pushed = await jobs.push({ jobs: [{ kind: "mail", payload }, { kind: "" }] });
const id = pushed.jobs[0].id;
const fetched = await work.fetch({ queues: ["mail"], n: 5, worker: "page" });
const reports = fetched.jobs.map((job) => ({
  id: job.id,
  delivery: job.delivery,
  outcome: { case: "done", value: {} },
}));
const finished = await work.finish({ jobs: reports });
const steps = [];
for await (const step of admin.actOnAll({ act: 3, queue: "mail" })) {
  steps.push(Number(step.done));
}
let refused;
try {
  await jobs.get({ which: { case: "id", value: id } });
} catch (error) {
  const said = ConnectError.from(error);
  const problem = said.findDetails(registry.getMessage("crore.v1.Problem"))[0];
  refused = { status: Code[said.code], code: problem?.code };
}
console.log(
  JSON.stringify({
    refused: pushed.refused,
    field: pushed.jobs[1].problem.field,
    fetched: fetched.jobs.map((job) => new TextDecoder().decode(job.payload)),
    verdicts: finished.jobs.map((one) => one.verdict),
    deleted: steps.at(-1),
    gone: refused,
  }),
);
