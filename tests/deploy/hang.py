# SPDX-License-Identifier: MIT
"""hang.py PID NAME SECONDS: stop the thread NAME of a process, and leave it so until the process is gone; 1: it is not."""
import ctypes
import os
import sys
import time

PTRACE_SEIZE, PTRACE_INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000

pid, name, seconds = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes, libc.ptrace.restype = [ctypes.c_long] * 4, ctypes.c_long


def comm(task):
    try:
        with open(f"/proc/{pid}/task/{task}/comm", encoding="ascii") as f:
            return f.read().strip()
    except FileNotFoundError:
        return ""


thread = next(int(t) for t in os.listdir(f"/proc/{pid}/task") if comm(t) == name)
for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
    if libc.ptrace(request, thread, 0, 0) != 0:
        sys.exit(f"ptrace: {os.strerror(ctypes.get_errno())}")
os.waitpid(thread, WALL)
print(f"{name} ({thread}) hangs", flush=True)
until = time.monotonic() + seconds
while os.path.exists(f"/proc/{pid}/task/{thread}") and time.monotonic() < until:
    try:
        os.waitpid(thread, WALL | os.WNOHANG)  # its end is reported here
    except ChildProcessError:
        break
    time.sleep(0.1)
else:
    sys.exit(os.path.exists(f"/proc/{pid}/task/{thread}"))
