"""Which registries the user's own files name."""

from pathlib import Path

from oh_daemon.conversations.host_policy import PUBLIC, registries_of


def test_mirrors_come_from_the_users_files_and_variables(tmp_path: Path) -> None:
    files = {
        ".config/pip/pip.conf": "[global]\nindex-url = https://user:word@pip.test:8443/simple\n"
        "extra-index-url =\n    https://more.test/simple\n    https://most.test/simple\n"
        "[install]\nproxy = http://proxy.test:3128\n",
        ".npmrc": "registry=https://npm.test/\n@ours:registry=https://ours.test/\n"
        "//npm.test/:_authToken=abc\nhttps-proxy=http://proxy.test\n",
        ".cargo/config.toml": '[source.mirror]\nregistry = "sparse+https://cargo.test/index/"\n',
        ".config/go/env": "GOPROXY=https://go.test,direct\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    variables = registries_of(tmp_path, {"UV_DEFAULT_INDEX": "https://uv.test/simple"})
    assert set(variables) >= {
        *PUBLIC,
        *("pip.test:8443", "more.test", "most.test", "npm.test", "ours.test", "cargo.test"),
        *("go.test", "uv.test"),
    }
    assert not {name for name in variables if "proxy.test" in name}
