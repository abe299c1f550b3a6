"""The event loop of the model calls: what a cancelled call leaves behind."""

import asyncio
import gc
import threading

import pytest

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.system.io_loop import run_on_loop


def test_a_call_that_fails_while_it_is_cancelled_is_no_error_of_anybody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    has_begun, has_ended, cancel = threading.Event(), threading.Event(), CancelToken()

    async def fail_when_cancelled() -> None:
        has_begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            has_ended.set()
            raise ValueError("the provider refused")

    def cancel_it() -> None:
        has_begun.wait(30)
        cancel.cancel()

    threading.Thread(target=cancel_it).start()
    with pytest.raises(Cancelled):
        run_on_loop(fail_when_cancelled(), cancel)
    assert has_ended.wait(30)
    run_on_loop(asyncio.sleep(0), CancelToken())
    gc.collect()
    assert caplog.messages == []
