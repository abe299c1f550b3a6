"""Errors of programs whose reason is the sandbox: one line says so, with the way out.

The texts are those that the programs print in the sandbox, unless their source is named.
"""

from __future__ import annotations

import shutil
import socket
import stat
from pathlib import Path

import pytest
from fake_llm import call, say
from world import World, content_of, items

from oh_daemon.features.terminal.hints import HostFacts, Kind, find_hints, find_hints_outside

DOCKER, COLIMA = "/var/run/docker.sock", "/home/me/.colima/docker.sock"
POSTGRES = "/var/run/postgresql/.s.PGSQL.5432"
FILES: dict[str, Kind] = {
    **dict.fromkeys((DOCKER, COLIMA, POSTGRES), "socket"),
    **dict.fromkeys(("/dev/kvm", "/dev/ttyUSB0", "/dev/snd", "/dev/nvidiactl"), "device"),
}
OUTSIDE = HostFacts(
    kind_of=lambda path: FILES.get(path, ""),
    listening_ports=lambda: {5432, 6379, 3306},
    sandbox_ports=lambda: {3000},
)
NO_DOCKER = "Cannot connect to the Docker daemon at unix://{}. Is the docker daemon running?"
NO_SANDBOX = "start it with --no-sandbox"
NAMESPACES = "make no namespaces"
TRACE = "a debugger sees only what runs in it"
PERF = "it refuses perf_event_open"
SOCKET = "socket of a program outside"
IN_USE = "has a network of its own"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Chromium refuses root with another text, so this is that of an ordinary user.
        ("[2:2:ERROR:zygote_host_impl_linux.cc:130] No usable sandbox! If this is a", NO_SANDBOX),
        # sandbox/linux/suid/client/setuid_sandbox_host.cc; Electron prints it as well
        ("The SUID sandbox helper binary was found, but is not configured correctly.", NO_SANDBOX),
        # sandbox/linux/services/credentials.cc and content/zygote of Chromium
        ("Failed to move to new namespace: PID namespaces supported, but failed", NO_SANDBOX),
        ("unshare: unshare failed: Operation not permitted", NAMESPACES),
        # bubblewrap.c
        ("bwrap: No permissions to create a new namespace, likely because", NAMESPACES),
        # pkg/rootless/rootless_linux.c of Podman
        ("cannot clone: Operation not permitted\nError: cannot re-exec process", NAMESPACES),
        ("strace: attach: ptrace(PTRACE_SEIZE, 10470): No such process", TRACE),
        ("strace: attach: ptrace(PTRACE_SEIZE, 1): Operation not permitted", TRACE),
        ("ptrace: No such process.", TRACE),
        # gdb/linux-nat.c: Debian's gdb, for a process of another user
        ("Could not attach to process.  If your uid matches the uid of the target", TRACE),
        # CommandObjectProcess.cpp of LLDB
        ("error: attach failed: lost connection", TRACE),
        ("Error:\nNo permission to enable task-clock event.", PERF),
        ("perf_event_open(..., 0) failed unexpectedly with error 1 (Operation not p", PERF),
        (NO_DOCKER.format(DOCKER), SOCKET),
        (
            f"permission denied while trying to connect to the Docker daemon socket at unix://{COLIMA}",
            SOCKET,
        ),
        # Docker 28: client/errors.go of moby
        (
            f"failed to connect to the docker API at unix://{DOCKER}; check if the path is correct",
            SOCKET,
        ),
        # net/dial.go of Go
        (f"dial unix {DOCKER}: connect: no such file or directory", SOCKET),
        # docker/api/client.py of docker-py, which has no path in it
        ("docker.errors.DockerException: Error while fetching server API version: (", SOCKET),
        # DockerClientProviderStrategy.java of Testcontainers
        ("java.lang.IllegalStateException: Could not find a valid Docker environment.", SOCKET),
        ("Cannot connect to the Docker daemon at tcp://10.0.0.7:2375. Is the docker", ""),
        (NO_DOCKER.format("/run/nowhere.sock"), ""),
        (
            f'connection to server on socket "{POSTGRES}" failed: No such file or directory',
            SOCKET,
        ),
        ("cat: /dev/kvm: No such file or directory", "it has no /dev/kvm"),
        ("t.sh: line 7: /dev/ttyUSB0: Read-only file system", "it has no /dev/ttyUSB0"),
        ("[Errno 2] could not open port '/dev/ttyUSB0': No such file", "it has no /dev/ttyUSB0"),
        # accel/kvm/kvm-all.c of QEMU
        ("Could not access KVM kernel module: No such file or directory", "it has no /dev/kvm"),
        # src/conf/confmisc.c of alsa-lib
        ("ALSA lib confmisc.c:855:(parse_card) cannot find card '0'", "it has no /dev/snd"),
        ("it couldn't communicate with the NVIDIA driver. Make sure that", "no /dev/nvidiactl"),
        ("cat: /dev/ttyACM0: No such file or directory", ""),
        ("opened /dev/kvm for writing", ""),
        (
            "curl: (7) Failed to connect to localhost port 5432: Couldn't connect to server",
            "127.0.0.1:5432 listens outside it; name it in services",
        ),
        ("Error: connect ECONNREFUSED 127.0.0.1:3306", "127.0.0.1:3306 listens"),
        (
            'connection to server at "localhost" (127.0.0.1), port 5432 failed: Connection refused',
            "127.0.0.1:5432 listens",
        ),
        # redis-cli.c
        ("Could not connect to Redis at 127.0.0.1:6379: Connection refused", "127.0.0.1:6379 l"),
        ("Error: connect ECONNREFUSED 127.0.0.1:9999", ""),
        ("OSError: [Errno 98] Address already in use", IN_USE),
        ("Error: listen EADDRINUSE: address already in use :::8123", IN_USE),
        ("Local: http://localhost:3000/", "port 3000 is open in the sandbox only"),
        ("Running on http://0.0.0.0:3000", "port 3000 is open in the sandbox only"),
        ("Local: http://localhost:5432/", ""),
        # src/network/nginx: ngx_open_listening_sockets in ngx_connection.c
        ("bind() to 0.0.0.0:80 failed (13: Permission denied)", "ports below 1024"),
        ("Error: listen EACCES: permission denied 0.0.0.0:443", "ports below 1024"),
        ("fatal: Could not read from remote repository.", "the sandbox keeps git from that"),
        (
            "sed: cannot rename ./a: Value too large for defined data type",
            "belongs to another user",
        ),
        ("File size limit exceeded", "may not grow further"),
        ("all is well", ""),
    ],
)
def test_result_names_the_sandbox_as_the_reason_and_the_way_out(text: str, expected: str) -> None:
    for output in (text, f"before\n{text}\nand after it\n"):
        hints = find_hints(output, "", OUTSIDE)
        assert [expected in hint for hint in hints] == [True] * bool(expected), hints


def test_each_command_of_a_script_has_its_own_hint() -> None:
    output = "strace: attach: ptrace(PTRACE_SEIZE, 1): Operation not permitted\n" * 2
    output += "cat: /dev/kvm: No such file or directory\ncat: /dev/snd: No such file or directory\n"
    ptrace, kvm, sound = find_hints(output, "", OUTSIDE)
    [hint] = find_hints("[Errno 111] Connection refused", "ask localhost:5432", OUTSIDE)
    assert "127.0.0.1:5432 listens outside" in hint
    assert (TRACE in ptrace, "/dev/kvm" in kvm, "/dev/snd" in sound) == (True, True, True)


def test_command_outside_hears_that_the_server_is_in_the_sandbox() -> None:
    error = "curl: (7) Failed to connect to localhost port 3000: Couldn't connect to server"
    [hint] = find_hints_outside(error, "", OUTSIDE)
    assert hint == "port 3000 is open in the sandbox only: run this there, without outside"
    assert find_hints_outside("[Errno 111] Connection refused", "run :3000", OUTSIDE) == []
    assert find_hints_outside("cat: /dev/kvm: No such file or directory", "", OUTSIDE) == []


def test_hints_follow_real_programs_in_the_middle_of_a_script(world: World) -> None:
    """Finding E3 of real cases: hints came only for git, and only for the last command."""
    devices = [path for path in Path("/dev").iterdir() if stat.S_ISCHR(path.lstat().st_mode)]
    inside = {"full", "null", "random", "tty", "urandom", "zero", "console", "ptmx"}
    device = next((path for path in devices if path.name not in inside), None)
    path = world.home / "docker.sock"
    is_docker_here = shutil.which("docker") is not None
    docker = f"docker -H unix://{path} ps" if is_docker_here else f"echo '{NO_DOCKER.format(path)}'"
    with socket.create_server(("127.0.0.1", 0)) as outside, socket.socket(socket.AF_UNIX) as own:
        own.bind(str(path))
        port = outside.getsockname()[1]
        script = f"""
        strace -p 1 -o /dev/null
        {docker}
        cat {device}
        echo > /dev/tcp/127.0.0.1/{port}
        echo done
        """
        world.script(
            call("terminal", command=script),
            call("terminal", command="python3 -m http.server 8765", background=True),
            call("terminal", command="python3 -m http.server 8765"),
            say("Done."),
        )
        client = world.daemon(settings={"sandbox": "overlay"})
        world.start(client)
        world.turn(client)
    results, server, in_use = (content_of(item) for item in items(client, "command"))
    assert "[exit code 0" in results
    expected = [TRACE, f"{path} is a socket", f"127.0.0.1:{port} listens outside"]
    expected += [f"it has no {device}"] * bool(device)
    assert [hint for hint in expected if hint not in results] == []
    assert "port 8765 is open in the sandbox only" in server
    assert IN_USE in in_use
