"""What commands in a sandbox reach: hosts that are asked about, and ports that are opened."""

import pytest
from code_server import Server
from fake_llm import call, say
from playwright.async_api import expect
from window import VSCode


@pytest.fixture
def in_a_view(server: Server) -> None:
    server.settings = {"ohDaemon.sandbox": "view"}


@pytest.mark.usefixtures("in_a_view")
async def test_a_host_is_asked_about_and_a_port_that_is_listened_on_is_opened(
    vscode: VSCode,
) -> None:
    serve = "curl -sS http://192.0.2.1/; exec python3 -m http.server 18767"
    vscode.script(call("terminal", command=serve, background=True), say("It runs."))
    await vscode.open()
    await vscode.say("serve it")
    await expect(vscode.approval).to_contain_text("Let commands connect to 192.0.2.1?")
    await expect(vscode.approval.locator(".exact")).to_have_text("192.0.2.1:80")
    await vscode.answer("reject")
    ports = vscode.panel.locator(".ports")
    await expect(ports).to_contain_text("A command listens on port 18767")
    await ports.locator('[data-port="18767"]').click()
    await expect(ports).to_contain_text("open at 127.0.0.1:")
    await vscode.expect_answers("It runs.")
