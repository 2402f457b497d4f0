"""What a process and its children have used, by /proc. Children count too, since nginx works in one."""

import os
import pathlib

TICK = 1.0 / os.sysconf("SC_CLK_TCK")


def family(pid):
    """The process and everything below it."""
    everyone = [pid]
    for one in everyone:
        children = pathlib.Path(f"/proc/{one}/task/{one}/children").read_text().split()
        everyone.extend(map(int, children))
    return everyone


def of(pid):
    """Totals since the start: seconds on a core to the nanosecond, and as the kernel's ticks split them; waits."""
    total = {"cpu": 0.0, "user": 0.0, "system": 0.0, "waits": 0, "preempted": 0}
    for process in family(pid):
        # After the name in brackets, which may contain anything: state is field 3, utime 14, stime 15.
        fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        total["user"] += int(fields[11]) * TICK
        total["system"] += int(fields[12]) * TICK
        for task in pathlib.Path(f"/proc/{process}/task").iterdir():
            total["cpu"] += int((task / "schedstat").read_text().split()[0]) / 1e9
            status = (task / "status").read_text()
            total["waits"] += number(status, "voluntary_ctxt_switches")
            total["preempted"] += number(status, "nonvoluntary_ctxt_switches")
    return total


def since(pid, before):
    """What was used after `before`."""
    return {name: value - before[name] for name, value in of(pid).items()}


def memory(pid):
    """Bytes of memory that no file backs."""
    pages = (pathlib.Path(f"/proc/{one}/status").read_text() for one in family(pid))
    return sum(number(page, "RssAnon") * 1024 for page in pages)


def number(status, key):
    """A line of /proc/PID/status."""
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith(key + ":"))
