"""What package managers download in views lasts, apart from the user's own caches."""

from __future__ import annotations

from pathlib import Path

from sandbox_workspace import workspace_at

from oh_daemon.features.sandbox.mounts import cache_places
from oh_daemon.features.sandbox.storage import sweep


def test_what_is_cached_in_a_view_is_there_in_the_next_and_not_in_the_users_own(
    tmp_path: Path,
) -> None:
    own, npm = tmp_path / "home/.cargo/registry", tmp_path / "bin/npm"
    for folder in (own, npm.parent):
        folder.mkdir(parents=True)
    npm.touch(0o755)
    (own / "mine").write_text("mine\n")
    with workspace_at(tmp_path) as workspace:
        output = workspace.run(
            f"cd {workspace.home}; cat .cargo/registry/mine; echo x > .cargo/registry/new"
        )
        assert output == "mine\n"
        workspace.run(
            f"mkdir -p {workspace.home}/.npm/a; echo y > {workspace.home}/.npm/a/b; echo z > ~/../z"
        )
        sweep(workspace.home / "state/views")
        with workspace_at(tmp_path, "two") as other_workspace:
            see = (
                f"cd {workspace.home}; cat .cargo/registry/* .npm/a/b; echo 2 > .cargo/registry/2nd"
            )
            assert other_workspace.run(see) == "mine\nx\ny\n"
        assert workspace.run(f"ls -1 {workspace.home}/.cargo/registry") == "mine\nnew\n"
    with workspace_at(tmp_path, "three") as workspace:
        assert workspace.run(f"cd {workspace.home}; cat .cargo/registry/* .npm/a/b; ls .npm") == (
            "mine\nx\ny\na\n"
        )
        assert [path.name for path in own.iterdir()] == ["mine"]
        assert not (workspace.home / ".npm").exists()


def test_the_places_follow_the_users_variables(tmp_path: Path) -> None:
    (tmp_path / ".npm").mkdir()
    for name in ("uv", "pip", "cargo"):
        (tmp_path / name).touch(0o755)
    variables = {"XDG_CACHE_HOME": "/c", "CARGO_HOME": "/cargo", "PIP_CACHE_DIR": "/pip"}
    assert dict(cache_places(tmp_path, {"PATH": str(tmp_path), **variables})) == {
        "pip": Path("/pip"),
        "uv": Path("/c/uv"),
        "npm": tmp_path / ".npm",
        "cargo-registry": Path("/cargo/registry"),
        "cargo-git": Path("/cargo/git"),
    }
