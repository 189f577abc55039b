#!/usr/bin/env python3
"""A worker in Python: it runs a command for each task, with the prompt on its
standard input, and completes the task with what the command prints.

usage: worker.py COMMAND [ARGUMENT]...
"""
import json, os, socket, subprocess, sys, threading, time, urllib.error, urllib.request, uuid

URL = os.environ.get("BLOOM_RUNTIME_URL", "http://127.0.0.1:5000") + "/api/runtime"
NAME = os.environ.get("BLOOM_WORKER_NAME", "python-" + socket.gethostname())
INSTANCE = str(uuid.uuid4())  # this process; a second one under the same name is refused
TTL = 60  # seconds that a lease holds without a heartbeat


class Refused(Exception):
    """The runtime said no. Anything else that goes wrong is worth another try."""


def call(path, body, timeout=30):
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), {
        "Content-Type": "application/json", "X-Runtime-API-Key": os.environ.get("BLOOM_API_KEY", "")})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as e:
        try:
            problem = json.load(e)
        except ValueError:
            problem = {}
        # Only an error with a code is the runtime's own; a proxy's page is not.
        if "code" in problem and e.code < 500 and e.code != 429:
            raise Refused(problem["error"]) from e
        raise


def persist(path, body):
    """Repeats a call until the runtime has answered it."""
    wait = 0.5
    while True:
        try:
            return call(path, body)
        except Refused:
            raise
        except (OSError, ValueError) as e:
            print(f"trying again in {wait} s: {e}", file=sys.stderr)
            time.sleep(wait)
            wait = min(wait * 2, 30)


def work(lease, task):
    began = time.monotonic()
    process = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    done = threading.Event()

    def heartbeat():
        while not done.wait(TTL / 3):
            try:
                if call(f"/llm-tasks/{task['id']}/heartbeat", {"lease_id": lease["id"]})["cancel_requested"]:
                    process.kill()
            except Refused:  # the lease is lost: another worker has the task
                process.kill()
            except (OSError, ValueError):
                pass  # the next one may get through

    threading.Thread(target=heartbeat, daemon=True).start()
    try:
        output, _ = process.communicate(task["prompt"], timeout=task["policy"]["timeout_sec"])
        result = {"status": "success", "output": output} if process.returncode == 0 else {
            "status": "error", "error_message": f"exit code {process.returncode}", "error_class": "crashed", "retryable": True}
    except subprocess.TimeoutExpired:
        process.kill()
        result = {"status": "error", "error_message": "timed out", "error_class": "timeout", "retryable": True}
    done.set()
    result |= {"lease_id": lease["id"], "metrics": {"duration_ms": int((time.monotonic() - began) * 1000)}}
    try:
        persist(f"/llm-tasks/{task['id']}/complete", result)
    except Refused as e:
        print(f"task {task['id']}: {e}", file=sys.stderr)


persist("/workers", {"name": NAME, "instance_id": INSTANCE, "capabilities": {"claude_cli": True, "max_concurrency": 1}})
while True:
    try:
        claim = call(f"/workers/{NAME}/claim", {"instance_id": INSTANCE, "max": 1, "wait_sec": 30, "held": [], "ttl_seconds": TTL}, timeout=60)
    except (OSError, ValueError) as e:
        print(f"cannot claim: {e}", file=sys.stderr)
        time.sleep(2)
        continue
    for taken in claim["leases"]:
        work(taken["lease"], taken["task"])
