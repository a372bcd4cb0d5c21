"""What the Python clients share: a check prints a line, and ends the program when it does not hold."""

import os
import ssl
import subprocess
import sys
import time

SERVER = os.environ["SERVER"]
SASL_SERVER = os.environ.get("SASL_SERVER")
SASL_USER = os.environ.get("SASL_USER")
SASL_PASSWORD = os.environ.get("SASL_PASSWORD")
TLS_SERVER = os.environ.get("TLS_SERVER")
RESTART = os.environ.get("RESTART")
REMEMBERS = bool(os.environ.get("REMEMBERS"))

LARGE = bytes(range(256)) * 2400  # 600 KiB that look like nothing else
TOO_LARGE = b"x" * (2 << 20)


def host_and_port(server):
    host, port = server.rsplit(":", 1)
    return host, int(port)


def trusting():
    """Trusts the certificate of TLS_SERVER, and nothing else."""
    return ssl.create_default_context(cafile=os.environ["TLS_CA"])


def check(what, got, want=True):
    if got != want:
        print(f"FAIL {what}: got {got!r:.200}, not {want!r:.200}")
        sys.exit(1)
    print(f"ok   {what}")


def fails(error, action):
    """Whether ACTION raises ERROR; what else it raises is raised."""
    try:
        action()
    except error:
        return True
    return False


def within(seconds, condition):
    """Whether CONDITION holds before SECONDS have passed; an exception is no yet."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if condition():
                return True
        except Exception:
            pass
        time.sleep(0.05)
    return False


def restart_the_server():
    """Whether there is a server that may be restarted; if so, it has been."""
    if RESTART:
        subprocess.run(RESTART, shell=True, check=True)
    return bool(RESTART)
