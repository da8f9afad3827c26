# SPDX-License-Identifier: Apache-2.0
"""The ways to run a CUDA program that are compared: natively, under NVIDIA
MPS, and under mpsrun. A mode is a prefix and an environment for commands, and
what has to be started before them and stopped after them."""
import json
import os
import shutil
import signal
import subprocess
import time

MPS_CONTROL = "nvidia-cuda-mps-control"
STOP_LIMIT_S = 20
QUIT_LIMIT_S = 5
# Where containers have the driver's programs, besides PATH.
DRIVER_PATH = "/usr/local/nvidia/bin:/usr/bin"


def clean_environment():
    """Ours, without what would lead a program to somebody else's broker."""
    gone = ("CUDA_MPS_", "LD_PRELOAD", "MPSSHIM_DRIVER", "MPSSHIM_JOB",
            "MPSSHIM_NO_BROKER", "MPSSHIM_LOG")
    return {k: v for k, v in os.environ.items() if not k.startswith(gone)}


def quietly(command, env=None, text=None):
    """Its output, or None: for what may fail while cleaning up."""
    try:
        return subprocess.run(command, env=env, input=text, text=True,
                              capture_output=True,
                              timeout=STOP_LIMIT_S).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None


def is_alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as f:
            # The name, in parentheses, may hold spaces.
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Native:
    """Each program has a context of its own: alone, or time-sliced."""
    name = "native"
    prefix = []

    def __init__(self, build, driver, work):
        self.env = clean_environment()
        # No daemon is to be found, not even the machine's own.
        self.env["CUDA_MPS_PIPE_DIRECTORY"] = os.path.join(work, "nobody")
        if driver == "soft":
            soft_driver(self.env, build, work)

    def missing(self):
        return None

    def start(self):
        pass

    def stop(self):
        pass

    def helpers(self):
        return []


class Mps(Native):
    """NVIDIA's daemon, started by us with directories of its own."""
    name = "mps"

    def __init__(self, build, driver, work):
        super().__init__(build, driver, work)
        self.driver = driver
        self.control = shutil.which(MPS_CONTROL) or shutil.which(
            MPS_CONTROL, path=DRIVER_PATH)
        self.runs = False
        for name in ("PIPE", "LOG"):
            folder = os.path.join(work, "mps-" + name.lower())
            os.makedirs(folder, exist_ok=True)
            self.env["CUDA_MPS_%s_DIRECTORY" % name] = folder

    def missing(self):
        if self.driver == "soft":
            return "needs a GPU"
        return None if self.control else MPS_CONTROL + " is not installed"

    def start(self):
        # Before: a signal may come while it starts.
        self.runs = True
        subprocess.run([self.control, "-d"], env=self.env, check=True,
                       stdout=subprocess.DEVNULL, timeout=STOP_LIMIT_S)

    def ask(self, command):
        return quietly([self.control], self.env, command + "\n") or ""

    def pid(self):
        path = os.path.join(self.env["CUDA_MPS_PIPE_DIRECTORY"],
                            MPS_CONTROL + ".pid")
        try:
            with open(path) as f:
                return int(f.read())
        except (OSError, ValueError):
            return 0

    def stop(self):
        if not self.runs:
            return
        pid = self.pid()
        self.ask("quit")
        # It answers first and ends then.
        end = time.monotonic() + QUIT_LIMIT_S
        while is_alive(pid) and time.monotonic() < end:
            time.sleep(0.02)
        if is_alive(pid):
            os.kill(pid, signal.SIGTERM)
        self.runs = False

    def helpers(self):
        return [int(p) for p in self.ask("get_server_list").split()
                if p.isdigit()]


class Mpsrun(Native):
    """Our broker, which mpsrun starts in a directory of its own."""
    name = "mpsrun"

    def __init__(self, build, driver, work):
        super().__init__(build, driver, work)
        self.bin = os.path.join(build, "bin")
        self.prefix = [os.path.join(self.bin, "mpsrun")]
        self.env["CUDA_MPS_PIPE_DIRECTORY"] = os.path.join(work, "mpsrun")
        self.env["MPSSHIM_DRIVER"] = driver

    def mpsctl(self, *args):
        return quietly([os.path.join(self.bin, "mpsctl"), *args], self.env)

    def stop(self):
        self.mpsctl("quit", "--force")

    def helpers(self):
        try:
            status = json.loads(self.mpsctl("status", "--json") or "")
        except ValueError:
            return []
        return [status["broker_pid"], *(w["pid"] for w in status["workers"])]


MODES = {m.name: m for m in (Native, Mps, Mpsrun)}


def soft_driver(env, build, work):
    """Lets a program that is linked with libcuda.so.1 find ours."""
    folder = os.path.join(work, "soft")
    link = os.path.join(folder, "libcuda.so.1")
    os.makedirs(folder, exist_ok=True)
    if not os.path.lexists(link):
        os.symlink(os.path.join(build, "lib", "libsoftcuda.so"), link)
    env["LD_LIBRARY_PATH"] = folder


def cpu_seconds(pids):
    """What these processes have used so far."""
    ticks = 0
    for pid in pids:
        try:
            with open("/proc/%d/stat" % pid) as f:
                fields = f.read().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")
