"""A conversation is exported for somebody else: as its log, as Markdown, as a page."""

import json
from base64 import b64decode, b64encode
from html.parser import HTMLParser

import pytest
from atif import Trajectory
from command_line import end, environment, start
from fake_llm import call, say
from starts import SCRIPT
from world import KEY, World

pytestmark = pytest.mark.one_daemon

HOSTILE = "<script>alert(1)</script> <img src=x onerror=alert(1)> & \"quoted\" 'too'"
MARKDOWN = f"""# Done
- [a link](https://example.org/) and [another](javascript:alert(1))
- [a program](vscode://file/etc) and [a command](command:evil)
- ![a picture](https://example.org/spy.png) and \\![text](https://example.org/)

`code` and {HOSTILE}

```python
print("<b>"); vec![1]
```
"""
PIXEL = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
LINKS = {"https://example.org/", "https://example.org/spy.png"}
HARMLESS = {
    "style",
    "class",
    "open",
    "href",
    "alt",
    "lang",
    "charset",
    "name",
    "content",
    "http-equiv",
}


class Page(HTMLParser):
    """What a browser would make of a page: its elements, their attributes, and all of its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        self.words = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {(name, value or "") for name, value in attrs}

    def handle_data(self, data: str) -> None:
        self.words += data


def test_a_conversation_is_exported_in_four_forms(world: World) -> None:
    (world.project / "a.txt").write_text("-- old\n")
    (world.project / "key").write_text(f"{KEY}\n")
    world.script(
        call("terminal", command=f"echo '{HOSTILE[:20]}'; cat key; (exit 3)"),
        call("edit", command="view", path="a.txt"),
        call("edit", command="replace", path="a.txt", old_text="-- old", new_text="++ <i>new</i>"),
        say(MARKDOWN),
    )
    client = world.daemon()
    params = {"conversationId": world.start(client, HOSTILE)}
    world.turn(client)

    page = client.request("conversation/export", {**params, "format": "html"})["text"]
    page_seen = Page(page)
    assert page_seen.tags.isdisjoint({"script", "img", "iframe", "link", "object", "svg"})
    assert {name for name, _ in page_seen.attributes} <= HARMLESS
    assert {value for name, value in page_seen.attributes if name == "href"} == LINKS
    assert page_seen.words.count(HOSTILE) == 2  # Once in the message, once in the answer.
    for words in ("exit code 3", "+1 −1", "--- old", "+++ <i>new</i>", 'print("<b>")', "4 steps"):
        assert words in page_seen.words
    assert "prefers-color-scheme: dark" in page
    assert KEY not in page

    text = client.request("conversation/export", {**params, "format": "markdown"})["text"]
    assert f"> {HOSTILE}".replace("<", "\\<") in text
    assert "```diff\n" in text
    assert "**exit code 3**" in text
    assert r"- \![a picture](https" in text
    assert r" and \![text](https" in text
    assert r"\<img src=x" in text.partition("## Agent")[2]
    assert "; vec![1]\n```" in text

    log = client.request("conversation/export", {**params, "format": "jsonl"})["text"]
    conversation = params["conversationId"]
    assert [json.loads(line) for line in log.splitlines()] == world.records_of(conversation)

    text = client.request("conversation/export", {**params, "format": "atif"})["text"]
    trajectory = Trajectory.model_validate_json(text)
    calls = [step.tool_calls or [] for step in trajectory.steps]
    names = [[each.function_name for each in of_step] for of_step in calls]
    assert names == [[], [], ["terminal"], ["edit"], ["edit"], []]
    assert trajectory.steps[-1].message == MARKDOWN.strip()
    assert KEY not in text

    env = environment(world.home, **world.environment)
    argv = [SCRIPT, "export", conversation[:8], "--format", "html"]
    outcome = end(start(argv, world.project, env))
    assert (outcome.code, outcome.out) == (0, page)
    argv = [SCRIPT, "export", "nothing"]
    outcome = end(start(argv, world.project, env))
    assert outcome.code == 2
    assert "no conversation begins with 'nothing'" in outcome.err


def test_a_question_is_the_agents_and_its_answer_the_users(world: World) -> None:
    world.script(
        call("ask", question="Which *colour*?", choices=["red", "blue"]),
        call("ask", question="Which port?"),
        say("Done."),
    )
    client = world.daemon(features={"inputRequests": True})
    answers = iter([{"action": "accept", "content": "<b>red"}, {"action": "decline"}])
    client.answer("input/request", lambda _params: next(answers))
    params = {"conversationId": world.start(client)}
    world.turn(client)

    text = client.request("conversation/export", {**params, "format": "markdown"})["text"]
    question_text = "## Agent\n\nWhich *colour*?\n- red\n- blue\n\n## You\n\n> \\<b>red\n\n"
    skipped_text = "## Agent\n\nWhich port?\n\n*Skipped by the user, without an answer.*\n\n"
    assert question_text + skipped_text in text
    page = client.request("conversation/export", {**params, "format": "html"})["text"]
    assert "Which <em>colour</em>?" in page
    words = " ".join(Page(page.replace("<", " <")).words.split())
    question_text = "Which colour ? red blue You <b>red Which port?"
    assert f"{question_text} Skipped by the user, without an answer. Done." in words


def test_nothing_in_an_export_is_hidden_or_stands_elsewhere_than_it_does(world: World) -> None:
    world.script(
        call("terminal", command="echo 'a\u200bb \u202egnp.exe'"), say("\u2066Done\u2069 ❤\ufe0f.")
    )
    client = world.daemon()
    params = {"conversationId": world.start(client)}
    world.turn(client)
    text = client.request("conversation/export", {**params, "format": "markdown"})["text"]
    assert "```sh\necho 'a\\u{200b}b \\u{202e}gnp.exe'\n```" in text
    assert "\na\\u{200b}b \\u{202e}gnp.exe\n" in text
    assert "\\u{2066}Done\\u{2069} ❤\ufe0f." in text


@pytest.mark.own_daemon
def test_an_image_of_a_message_is_in_the_page_and_a_late_secret_is_not(world: World) -> None:
    world.script(say("The word is hunter-two-2."))
    client = world.daemon()
    image = {"type": "image", "mimeType": "image/png", "data": b64encode(PIXEL).decode()}
    content = [{"type": "text", "text": "look"}, image]
    start_result = client.request("conversation/start", {"content": content})
    world.turn(client)
    params = {"conversationId": start_result["conversation"]["id"]}
    page = client.request("conversation/export", {**params, "format": "html"})["text"]
    assert f"data:image/png;base64,{b64encode(PIXEL).decode()}" in page
    assert "hunter-two-2" in page
    client.request("secret/set", {"name": "WORD", "value": "hunter-two-2"})
    page = client.request("conversation/export", {**params, "format": "html"})["text"]
    assert "hunter-two-2" not in page
    assert client.error("conversation/export", {"conversationId": "none"}).code == -31002
    assert client.error("conversation/export", {**params, "format": "pdf"}).code == -32602
