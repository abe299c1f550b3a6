"""The entry point: `oh-daemon` without a command serves an editor on stdio.

Serving imports only the base layer until `initialize` is answered. Commands for people live in
`frontends/cli`.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from oh_daemon.frontends.lsp.boot import Opening
    from oh_daemon.frontends.lsp.client_facts import ClientFacts
    from oh_daemon.frontends.lsp.lifecycle import LspServer
    from oh_daemon.frontends.lsp.recording import WireRecording
    from oh_daemon.jsonrpc.main_loop import Service

_CANNOT_START = 4


def main() -> None:
    """Run the command line; does not return, but ends the process."""
    _use_no_plugins()
    if sys.argv[1:] == ["acp"]:
        _serve(_serve_acp)
    if sys.argv[1:2] == ["attach"] and {*sys.argv[2:]} <= {"--start", "--or-alone", "--stdio"}:
        _serve(_attach)
    record = _parse_serving([word for word in sys.argv[1:] if word != "--stdio"])
    if record is not None:
        _serve(lambda: _serve_lsp(record))
    from oh_daemon.frontends.cli.app import run  # noqa: PLC0415 - the daemon needs none of it.

    run()


def _use_no_plugins() -> None:
    """Keep pydantic from reading the metadata of all installed packages to find plugins (60 ms).

    Its variable `PYDANTIC_DISABLE_PLUGINS` would reach all programs that we start.
    """
    loader = type(sys)("pydantic.plugin._loader")
    vars(loader)["get_plugins"] = tuple
    sys.modules[loader.__name__] = loader


def _parse_serving(words: list[str]) -> str | None:
    """Return the file to record to, empty for none, or None for a command for people."""
    match words:
        case []:
            return ""
        case ["--record", path] if path:
            return path
        case [word] if (path := word.removeprefix("--record=")) not in {word, ""}:
            return path
        case _:
            return None


def _serve(serve: Callable[[], int]) -> None:
    try:
        exit_code = serve()
    except OSError as exc:
        sys.stderr.write(f"oh-daemon cannot start: {exc}\n")
        exit_code = _CANNOT_START
    # Threads stuck in foreign code must not keep the process alive; everything is flushed by now.
    sys.stderr.flush()
    os._exit(exit_code)


def _serve_acp() -> int:
    from oh_daemon.frontends.acp.main import serve  # noqa: PLC0415 - not for other commands.

    return serve()


def _attach() -> int:
    from oh_daemon.frontends.serve import attach as to  # noqa: PLC0415 - not for other commands.

    if "--or-alone" in sys.argv:
        code = to.attach(os.environ, starts=False)
        return _serve_lsp("") if code is None else code
    return to.attach_or_say_why(os.environ, starts="--start" in sys.argv)


def _serve_lsp(record: str) -> int:
    if sys.stdin is not None and sys.stdin.isatty() and "--stdio" not in sys.argv:
        sys.stderr.write(
            "oh-daemon speaks JSON-RPC on stdin and stdout and is started by editors.\n"
            'Try `oh-daemon demo`, `oh-daemon run "task"`, or `oh-daemon --help`.\n'
        )
        raise SystemExit(2)
    from oh_daemon.frontends.lsp import boot  # noqa: PLC0415 - not for other commands.
    from oh_daemon.jsonrpc import stdio as wire  # noqa: PLC0415 - as above.

    stdio = wire.claim_stdio()
    wire.end_on_request()
    # A recording has every message, and is made by the full path.
    opening = boot.Opening() if record else boot.answer_first(stdio, os.environ)
    return _serve_fully(stdio, opening, record)


def _serve_fully(stdio: tuple[int, int], opening: Opening, record: str) -> int:
    from oh_daemon.common.collector import paused_collector  # noqa: PLC0415 - `initialize` is answered now.
    from oh_daemon.features.sandbox.self_test import SelfTest  # noqa: PLC0415
    from oh_daemon.frontends.lsp.lifecycle import LspServer  # noqa: PLC0415

    self_test = SelfTest(dict(os.environ), opening.sandbox)
    if opening.sandbox is None:
        self_test.start()

    def make(server: LspServer, facts: ClientFacts) -> Iterator[Service]:
        from oh_daemon.frontends.lsp.early import early_service  # noqa: PLC0415 - 0.2 s.

        yield early_service(facts, self_test.environment)
        with paused_collector():
            from oh_daemon.frontends.lsp.composition import compose  # noqa: PLC0415 - 0.5 s.

            service = compose(server, facts, self_test)
        yield service

    return LspServer(stdio, make, _open_recording(record), self_test.report, opening).run()


def _open_recording(path: str) -> WireRecording | None:
    if not path:
        return None
    from pathlib import Path  # noqa: PLC0415 - 20 ms, not for all.

    from oh_daemon.frontends.lsp.recording import WireRecording  # noqa: PLC0415
    from oh_daemon.protocol.errors import DaemonError  # noqa: PLC0415 - as above.

    try:
        # Editors pass arguments as they are: no shell has expanded `~`.
        return WireRecording(Path(path).expanduser())
    except DaemonError as exc:
        raise OSError(str(exc)) from exc


if __name__ == "__main__":
    main()
