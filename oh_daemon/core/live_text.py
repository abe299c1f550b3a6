"""Streams the text of an item to clients: masked, with offsets in code points, never logged."""

from __future__ import annotations

from oh_daemon.core.journal import Journal
from oh_daemon.core.secrets import MaskedStream


class LiveText:
    """One channel of one item. Write from one thread at a time."""

    def __init__(self, journal: Journal, item_id: str, channel: str) -> None:
        self.item_id = item_id
        self._journal = journal
        self._channel = channel
        self._masked = MaskedStream(journal.masker)
        self._n_sent = 0

    def write(self, text: str) -> None:
        self._publish(self._masked.feed(text))

    def close(self) -> None:
        """Publish the text that was held back because it might have become a secret."""
        self._publish(self._masked.flush())

    def _publish(self, text: str) -> None:
        if text:
            self._journal.publish_delta(self.item_id, self._channel, self._n_sent, text)
            self._n_sent += len(text)
