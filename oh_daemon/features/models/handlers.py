"""Handlers of `model/*`: models to choose from, and a trial of one before it is used."""

from __future__ import annotations

from oh_daemon.common.cancel import Cancelled, CancelToken
from oh_daemon.features.models.models import LOCAL, ModelCatalog, Models, greet
from oh_daemon.features.models.server_facts import served_models
from oh_daemon.protocol import daemon_messages as m
from oh_daemon.protocol.errors import ModelUnavailableError, RequestCancelledError


def model_list(models: ModelCatalog) -> m.ModelListResult:
    infos = (
        info.model_copy(update={"efforts": tuple(models.efforts_of(info.id)) or None})
        for info in models.model_infos()
    )
    return m.ModelListResult(models=tuple(infos), default=models.default_name())


def model_check(
    models: ModelCatalog, params: m.ModelCheckParams, cancel: CancelToken
) -> m.ModelCheckResult:
    """Send a short request to the model. Blocks; raises what the model raises."""
    name = params.model or models.require_default()
    if params.base_url:
        models = _own(models).at_address(name, params.base_url)
    elif isinstance(models, Models):
        models = models.for_trial()
    try:
        greet(models.model_for(name), cancel)
    except Cancelled:
        raise RequestCancelledError("cancelled by the client") from None
    return m.ModelCheckResult(model=name)


def model_discover(models: ModelCatalog, params: m.ModelDiscoverParams) -> m.ModelDiscoverResult:
    """Ask a server for its models, at its address and below `/v1`. Blocks."""
    own, url = _own(models), params.base_url.rstrip("/")
    name = f"{LOCAL}/any"
    for each in (url, f"{url}/v1"):
        if names := served_models(own.at_address(name, each).llm_of(name), each):
            return m.ModelDiscoverResult(base_url=each, models=tuple(names))
    raise ModelUnavailableError(
        f"{url} lists no models",
        hint="is the server running, and is this its address? A key that it asks for is read "
        "from HOSTED_VLLM_API_KEY",
    )


def _own(models: ModelCatalog) -> Models:
    if isinstance(models, Models):
        return models
    raise ModelUnavailableError("the client reaches all models itself, so servers are added there")
