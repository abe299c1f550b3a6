"""Rules about commands: how they match the words of each part, and which sources may set what."""

from __future__ import annotations

from typing import Any

import pytest

from oh_daemon.features.approval.rules import check_rules, ruling_of
from oh_daemon.features.risk.rating import rate_command
from oh_daemon.protocol.problems import render_problem
from oh_daemon.protocol.rules_and_hooks import Rule, read_rules
from oh_daemon.protocol.settings import Layer, merge_settings

DENY_PUSH = Rule(decision="deny", argv=("git", "push"), match=("git push",))
ASK_NPM = Rule(decision="ask", argv=("npm", ("install", "i")), match=("npm i",))
ALLOW = [
    Rule(decision="allow", argv=("python", "-m", "pytest"), match=("python -m pytest",)),
    Rule(decision="allow", argv=("make", ("test", "lint")), match=("make test",)),
    Rule(decision="allow", argv=("cd",), match=("cd src",)),
    Rule(decision="allow", argv=("timeout",), match=("timeout --version",)),
]
RULES = [DENY_PUSH, ASK_NPM, *ALLOW]


def _ruling(command: str, rules: list[Rule] = RULES) -> str | None:
    segments = rate_command(command, ["/w"]).segments
    ruling = ruling_of(rules, ("terminal",), segments)
    return ruling and ruling.effect


@pytest.mark.parametrize(
    ("command", "effect"),
    [
        ("git push", "reject"),
        ("/usr/bin/git push origin main", "reject"),
        ("git -C sub --no-pager push", "reject"),
        ("make test && (cd src; git push)", "reject"),
        ("bash -c 'git push'", "reject"),
        ("sudo git push", "reject"),
        ("echo $(git push)", "reject"),
        ("xargs git push", "reject"),
        ("find . -exec git push ;", "reject"),
        ("git $VERB", "ask"),
        ("$X push", "ask"),
        ("sudo $X", "ask"),
        ("for c in git; do nice $c push; done", "ask"),
        ("git pus{h,}", "ask"),
        ("echo $((x))", "ask"),
        ("f() { git push; }; f", "reject"),
        ("cd src; bash -c 'git push'", "reject"),
        ("echo 'unbalanced", "ask"),
        ("git pushy", None),
        ("git status", None),
        ("npm i left-pad", "ask"),
        ("npm test", None),
        ("make test", "allow"),
        ("make testing", None),
        ("make test && make lint", "allow"),
        ("cd src && make test", "allow"),
        ("make test && make install", None),
        ("make test; rm -rf src", None),
        ("make test > out.txt", None),
        ("make test &", None),
        ("make test $(rm x)", None),
        ("python -m pytest -q tests", "allow"),
        ("python -m pip install x", None),
        ("timeout 5 rm x", None),
        ("./make test", None),
        ("make $X", None),
        ("make test $((x))", "ask"),
        ("make {test,install}", "ask"),
    ],
)
def test_what_rules_say_about_a_command(command: str, effect: str | None):
    assert _ruling(command) == effect


def test_a_rule_for_a_tool_needs_no_words():
    rules = [Rule(decision="deny", tool="shop__*"), Rule(decision="allow", tool="edit")]
    effects = {
        tool: ruling.effect
        for tool in ("shop__buy", "edit", "terminal")
        if (ruling := ruling_of(rules, (tool,), ()))
    }
    assert effects == {"shop__buy": "reject", "edit": "allow"}


def test_a_rule_whose_example_fails_is_reported_and_allows_nothing_but_still_denies():
    wrong = Rule(decision="deny", argv=("git", "push"), match=("git commit",))
    wide_rule = Rule(decision="allow", argv=("git",), match=("git log",), not_match=("git push",))
    bare = [Rule(decision=decision, argv=("make",)) for decision in ("ask", "allow")]
    valid_rules, wrongs = check_rules((DENY_PUSH, wrong, wide_rule, *bare))
    problems = [render_problem(each) for each in wrongs]
    assert valid_rules == (DENY_PUSH, wrong, bare[0])
    assert "does not meet its example 'git commit'" in problems[0]
    assert "meets 'git push', which it must not" in problems[1]
    assert [problem.rpartition("; ")[2] for problem in problems] == [
        *("it counts", "it does not count"),
        *("it counts", "it does not count"),
    ]
    assert all("needs match" in problem for problem in problems[2:])


def test_rules_of_all_sources_count_and_a_project_cannot_allow():
    push: Any = {"decision": "deny", "argv": ["git", "push"], "match": ["git push"]}
    allow = {"decision": "allow", "argv": ["make"], "match": ["make"]}
    merged_settings = merge_settings(
        [
            Layer("client", {"rules": [allow]}),
            Layer("project", {"rules": [push, allow, {"decision": "deny", "argv": 5}]}),
            Layer("user", {"rules": [{**push, "argv": [["git", "hg"], "push"]}]}),
        ]
    )
    assert [(rule.scope, rule.decision) for rule in merged_settings.settings.rules] == [
        ("user", "deny"),
        ("project", "deny"),
        ("user", "allow"),
    ]
    assert tuple(map(render_problem, merged_settings.problems)) == (
        "project: rules.1: a project cannot allow; it is ignored",
        "project: rules.2.argv: must be a list",
    )


def test_what_is_no_rule_is_named():
    _, problems = read_rules(["git push", {"decision": "maybe"}], "user")
    assert [(each.source, each.path) for each in problems] == [
        ("user", "rules.0"),
        ("user", "rules.1.decision"),
    ]
