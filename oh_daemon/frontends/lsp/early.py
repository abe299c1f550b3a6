"""What is served while everything else is still being imported: the list of conversations."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any

from oh_daemon.conversations.listing import (
    catalogs_of,
    describe_closed,
    line_in,
    list_summaries,
    page_of,
)
from oh_daemon.features.settings.places import Places
from oh_daemon.frontends.lsp.client_facts import ClientFacts
from oh_daemon.jsonrpc.main_loop import Service
from oh_daemon.jsonrpc.serial import on_own_thread
from oh_daemon.protocol.base import parse_strictly
from oh_daemon.protocol.summaries import ListParams, ListResult
from oh_daemon.workspace.paths import parse_folder, path_from_uri

Json = dict[str, Any]


def early_service(facts: ClientFacts, environment: Mapping[str, str]) -> Service:
    """Return the first service; no conversation is open here as long as it is the only one."""
    folders = [path for uri in facts.folder_uris if (path := path_from_uri(uri)) is not None]
    user_folder = Places(environment).state_folder

    def list_(params: Json) -> ListResult:
        list_params = parse_strictly(ListParams, params)
        only = None if list_params.folder is None else parse_folder(list_params.folder, "folder")
        catalogs = catalogs_of(folders if only is None else [only], user_folder, {})
        summaries = list_summaries(catalogs, list_params.parent_id)
        describe = partial(describe_closed, homes=catalogs)
        return page_of(summaries, list_params, only, describe, partial(line_in, catalogs))

    def answer(params: Json, _context: object) -> Future[ListResult]:
        return on_own_thread("early-list", partial(list_, params))

    return Service({"conversation/list": answer}, is_complete=False)
