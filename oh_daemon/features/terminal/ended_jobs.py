"""Reports the commands that have ended in the background since the agent's last step."""

from __future__ import annotations

from collections.abc import Container

from oh_daemon.features.terminal.shell import Shells
from oh_daemon.kernel.conversation import Conversation
from oh_daemon.kernel.extension_points import Feature
from oh_daemon.kernel.journal import new_id
from oh_daemon.protocol import events as e
from oh_daemon.protocol.items import NoticeItem


class EndedJobs(Feature):
    """The background commands of one conversation's shells."""

    def __init__(self, shells: Shells) -> None:
        self._shells = shells

    def report(self, conversation: Conversation, _offered: Container[str]) -> None:
        if ended_jobs := self._shells.take_ended_jobs():
            title = "What ran in the background has ended"
            notice = NoticeItem(id=new_id(), title=title, description=ended_jobs, note=ended_jobs)
            conversation.journal.append(e.ItemCompleted(item=notice))
