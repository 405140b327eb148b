"""The calls of jobworkerp's README, with their JSON, by a client that knows only the address and uses reflection.

usage: readme.py HOST:PORT
"""

import json

from client import base, call, text

POLICY = {"type": "EXPONENTIAL", "interval": "1000", "max_interval": "60000", "max_retry": "3", "basis": "2"}

said = {}
# A worker that runs a command, and a job for it.
said["command"] = call(
    "WorkerService/Create",
    {"name": "ls", "type": "COMMAND", "operation": "ls", "next_workers": [], "retry_policy": POLICY},
)
said["enqueued"] = call("JobService/Enqueue", {"arg": base("/"), "worker_id": {"value": "1"}, "timeout": "360000"})
# A worker whose result is waited for.
said["listened to"] = call(
    "WorkerService/Create",
    {
        "name": "ListenSleepResultWorker",
        "type": "COMMAND",
        "operation": "sleep",
        "next_workers": [],
        "retry_policy": POLICY,
        "response_type": "LISTEN_AFTER",
        "store_success": True,
        "store_failure": True,
    },
)
job = call("JobService/Enqueue", {"arg": base("60"), "worker_id": {"value": "2"}, "timeout": "360000"})
heard = call("JobResultService/Listen", {"job_id": job["id"], "worker_id": {"value": "2"}, "timeout": "60000"})
said["heard"] = {"status": heard["data"].get("status", "SUCCESS"), "items": text(heard["data"]["output"]["items"])}
# A worker that answers directly, in a container.
said["docker"] = call(
    "WorkerService/Create",
    {
        "name": "docker",
        "type": "DOCKER",
        "operation": '{"FromImage":"busybox:latest"}',
        "response_type": "DIRECT",
        "next_workers": [{"value": "1"}],
    },
)
ran = call(
    "JobService/Enqueue",
    {"arg": base('{"Image":"busybox:latest","Cmd":["ls","-al","/"]}'), "worker_name": "docker"},
)
said["direct"] = text(ran["result"]["data"]["output"]["items"])
# A periodic worker.
said["periodic"] = call(
    "WorkerService/Create",
    {"name": "periodic", "type": "COMMAND", "operation": "date", "periodic_interval": 3000, "channel": "nobody"},
)
call("JobService/Enqueue", {"worker_id": {"value": "4"}, "run_after_time": "1000"})
said["jobs"] = [job["data"]["worker_id"]["value"] for job in call("JobService/FindListByWorkerId", {"worker_id": {"value": "4"}})]
said["workers"] = [worker["data"]["name"] for worker in call("WorkerService/FindList", {})]
said["results"] = [result["data"]["worker_name"] for result in call("JobResultService/FindList", {})]
said["worker"] = call("WorkerService/Find", {"value": "2"})["data"]["data"]
print(json.dumps(said))
