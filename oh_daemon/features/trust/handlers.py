"""Handler of `workspace/setTrust`."""

from __future__ import annotations

from collections.abc import Callable

from oh_daemon.features.trust.trust import TrustBook
from oh_daemon.protocol.daemon_messages import SetTrustParams, SetTrustResult
from oh_daemon.workspace.paths import parse_folder


def workspace_set_trust(
    trust: TrustBook, reconsider: Callable[[], None], params: SetTrustParams
) -> SetTrustResult:
    """Save the user's decision about a folder; pending approvals are evaluated again."""
    trust.decide(parse_folder(params.folder, "folder"), params.trusted)
    reconsider()
    return SetTrustResult(folders=trust.folder_trusts())
