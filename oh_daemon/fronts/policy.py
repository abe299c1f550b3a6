"""What decides about the actions of one conversation: settings, hooks, grants, who can be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oh_daemon.core.consent import Policy
from oh_daemon.core.conversation import Conversation
from oh_daemon.core.hooks import Hooks
from oh_daemon.fronts.gates import gates_of
from oh_daemon.workspace.documents import Documents
from oh_daemon.workspace.hook_process import HookProcesses

if TYPE_CHECKING:
    from oh_daemon.fronts.wiring import Recipe, Shared


def policy_of(
    shared: Shared, recipe: Recipe, conversation: Conversation, documents: Documents | None
) -> Policy:
    """Rules, hooks and grants are read anew for every action."""
    if documents is None:
        return Policy(
            analyzer=recipe.risk_analyzer,
            decides=recipe.approval_policy,
            rules=lambda: shared.settings(None).settings.rules,
            can_ask=shared.can_ask,
            can_answer=shared.can_answer,
        )
    home, parent = documents.folders.folders[0], recipe.parent

    def is_granted(key: str) -> bool:
        if shared.is_granted(home, key):
            return True
        return parent is not None and key in parent.state.grants | parent.state.turn_grants

    logs = home / ".openhands" / "conversations"
    return Policy(
        analyzer=recipe.risk_analyzer,
        decides=recipe.approval_policy,
        gates=lambda spec, intent: gates_of(conversation, shared.trust, documents, spec, intent),
        rules=lambda: shared.settings(home).settings.rules,
        hooks=Hooks(
            table=lambda: shared.settings(home).settings.hooks,
            run=HookProcesses(shared.spawner, home, shared.environment).run,
            transcript=str(logs / conversation.id / "events.jsonl"),
            cwd=str(home),
        ),
        is_granted=is_granted,
        save_grant=lambda key: shared.save_grant(home, key),
        can_ask=shared.can_ask,
        can_answer=shared.can_answer,
    )
