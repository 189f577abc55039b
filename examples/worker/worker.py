#!/usr/bin/env python3
"""A worker in Python: it runs a command for each task, with the prompt on its
standard input, and completes the task with what the command prints.

usage: worker.py COMMAND [ARGUMENT]...
"""
import http.client, json, os, socket, subprocess, sys, threading, time, urllib.error, urllib.request, uuid

URL = os.environ.get("BLOOM_RUNTIME_URL", "http://127.0.0.1:5000") + "/api/runtime"
NAME = os.environ.get("BLOOM_WORKER_NAME", "python-" + socket.gethostname())
INSTANCE = str(uuid.uuid4())  # this process; a second one under the same name is refused
TTL = 60  # seconds that a lease holds without a heartbeat
UNREACHABLE = (OSError, ValueError, http.client.HTTPException)  # no answer from the runtime: retry


class Refused(Exception):
    """The runtime refused the request."""


class Unknown(Refused):
    """The runtime does not know the object that the request names."""


def call(path, body, timeout=30):
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), {
        "Content-Type": "application/json", "X-Runtime-API-Key": os.environ.get("BLOOM_API_KEY", "")})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as e:
        problem = json.load(e) if e.headers.get_content_subtype() == "json" else {}
        # Only an error with a code is the runtime's own; a proxy's page is not.
        if "code" in problem and e.code < 500 and e.code != 429:
            raise (Unknown if e.code == 404 else Refused)(problem["error"]) from e
        raise


def persist(path, body):
    """Repeats a call until the runtime has answered it."""
    wait = 0.5
    while True:
        try:
            return call(path, body)
        except UNREACHABLE as e:
            print(f"{URL} is unreachable, retrying in {wait} s: {e}", file=sys.stderr)
            time.sleep(wait)
            wait = min(wait * 2, 30)


def work(lease, task):
    began, done = time.monotonic(), threading.Event()
    process = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def heartbeat():
        while not done.wait(TTL / 3):
            try:
                if call(f"/llm-tasks/{task['id']}/heartbeat", {"lease_id": lease["id"]})["cancel_requested"]:
                    process.kill()
            except Refused:  # the lease is lost: another worker has the task
                process.kill()
            except UNREACHABLE:
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


def main():
    while True:
        persist("/workers", {"name": NAME, "instance_id": INSTANCE, "capabilities": {"claude_cli": True, "max_concurrency": 1}})
        try:
            while True:
                claim = {"instance_id": INSTANCE, "max": 1, "wait_sec": 20, "held": [], "ttl_seconds": TTL}
                for taken in persist(f"/workers/{NAME}/claim", claim)["leases"]:
                    work(taken["lease"], taken["task"])
        except Unknown:
            pass  # the worker was removed: it registers again


try:
    main() if len(sys.argv) > 1 else sys.exit(__doc__)
except Refused as e:
    sys.exit(f"{URL} refuses this worker: {e}")
except KeyboardInterrupt:
    sys.exit(130)
