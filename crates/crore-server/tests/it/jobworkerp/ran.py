"""The calls of jobworkerp's README with real commands: results, retries and timeouts.

usage: ran.py HOST:PORT
"""

import json

from client import base, call, text

POLICY = {"type": "EXPONENTIAL", "interval": "1000", "max_interval": "60000", "max_retry": "3", "basis": "2"}
KEPT = {"store_success": True, "store_failure": True}


def create(name, operation, **more):
    fields = {"name": name, "type": "COMMAND", "operation": operation, "next_workers": [], "retry_policy": POLICY}
    return call("WorkerService/Create", {**fields, **more})["id"]


def listen(job, worker):
    return call("JobResultService/Listen", {"job_id": job["id"], "worker_id": worker, "timeout": "60000"})["data"]


said = {}
ls = create("ls", "ls", response_type="DIRECT")
ran = call("JobService/Enqueue", {"arg": base("/"), "worker_id": ls, "timeout": "360000"})["result"]["data"]
said["direct"] = {"status": ran.get("status", "SUCCESS"), "items": text(ran["output"]["items"])}

sleep = create("sleep", "sleep", response_type="LISTEN_AFTER", **KEPT)
job = call("JobService/Enqueue", {"arg": base("0.2"), "worker_id": sleep, "timeout": "360000"})
said["listened"] = [listen(job, sleep).get("status", "SUCCESS") for _ in range(2)]

job = call("JobService/Enqueue", {"arg": base("30"), "worker_id": sleep, "timeout": "1000"})
late = listen(job, sleep)
said["late"] = {"status": late["status"], "items": text(late["output"]["items"])}
rows = [row["data"] for row in call("JobResultService/FindListByJobId", {"job_id": job["id"]})]
rows.sort(key=lambda row: int(row["start_time"]))
said["tried"] = [int(after["start_time"]) - int(before["end_time"]) for before, after in zip(rows, rows[1:])]
said["texts"] = sorted({item for row in rows for item in text(row["output"]["items"])})

chained = create("count", "wc", response_type="LISTEN_AFTER", **KEPT)
first = create("echo", "echo", next_workers=[chained])
call("JobService/Enqueue", {"arg": base("/etc/hostname"), "worker_id": first})
again = create("date", "date", periodic_interval=3000, **KEPT)
call("JobService/Enqueue", {"worker_id": again, "run_after_time": "1000"})
said["ids"] = [int(one["value"]) for one in (ls, sleep, chained, first, again)]
print(json.dumps(said))
