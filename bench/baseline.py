"""Baselines in the same interpreter without any wall: a raw fork of the warmed process, and plain loops.

Usage: baseline.py fork CODE COUNT | loop CODE COUNT | parse FILE COUNT | cpu. Prints one JSON list of milliseconds.
"""

import json
import os
import sys
import time


def prepared(template):
    from atoll_kernel import zygote
    from atoll_kernel.shell import Shell

    zygote.prepare({"native": "/opt/atoll/kernel/libatoll_zygote.so", "warm": True, "immortal": True, **template})
    return Shell.instance()


def fork_times(shell, code, count):
    """Milliseconds from the fork to the child's answer, one child after the other."""
    times = []
    for _ in range(count):
        read, write = os.pipe()
        began = time.perf_counter()
        pid = os.fork()
        if pid == 0:
            shell.run(code, False)
            os.write(write, b"x")
            os._exit(0)
        os.close(write)
        os.read(read, 1)
        times.append((time.perf_counter() - began) * 1000)
        os.close(read)
        os.waitpid(pid, 0)
    return times


def cpu_time():
    began = time.process_time()
    total = 0
    for i in range(6_000_000):
        total += i * i % 7
    return [(time.process_time() - began) * 1000]


def parse_times(path, count):
    import ast

    with open(path, encoding="utf-8") as file:
        source = file.read()
    times = []
    for _ in range(count):
        began = time.process_time()
        ast.parse(source)
        times.append((time.process_time() - began) * 1000)
    return times


def main():
    kind = sys.argv[1]
    if kind == "parse":
        print(json.dumps(parse_times(sys.argv[2], int(sys.argv[3]))))
        return
    if kind == "cpu":
        print(json.dumps([cpu_time()[0] for _ in range(5)]))
        return
    template = json.loads(sys.argv[4])
    out = os.dup(1)
    os.dup2(2, 1)
    shell = prepared(template)
    os.write(out, json.dumps(fork_times(shell, sys.argv[2], int(sys.argv[3]))).encode())


main()
