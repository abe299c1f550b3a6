"""A router: a model that passes each request to one of several others.

The settings (`contract.profiles`) and the request decide which one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from oh_daemon.contract.profiles import Router, RouteRule
from oh_daemon.core.context import CHARS_PER_TOKEN, FULL, size_of
from oh_daemon.core.ports import Model, ModelAnswer, ModelRequest, Progress
from oh_daemon.model.messages import parts_of


class Routed:
    """A model that chooses another for each request. Thread-safe."""

    def __init__(
        self,
        name: str,
        router: Router,
        models: Mapping[str, Model],
        price: Callable[[str], float],
    ) -> None:
        """`price` returns a model's price per input token, infinite when unknown."""
        self._router = router
        self._models = models
        self._price = price
        self.name = name
        self.label = name

    @property
    def context_window(self) -> int | None:
        """The widest of all models: a request too big for one goes to another."""
        windows = [model.context_window for model in self._models.values()]
        return max((window for window in windows if window is not None), default=None)

    @property
    def sees_images(self) -> bool:
        return any(model.sees_images for model in self._models.values())

    @property
    def edits_by_patch(self) -> bool:
        return all(model.edits_by_patch for model in self._models.values())

    @property
    def warnings(self) -> tuple[str, ...]:
        models = self._models.values()
        return tuple(dict.fromkeys(text for model in models for text in model.warnings))

    def complete(self, request: ModelRequest, progress: Progress) -> ModelAnswer:
        """Complete as the port says, with the model chosen for this request."""
        return self._models[self._choice(request)].complete(request, progress)

    def _choice(self, request: ModelRequest) -> str:
        shape, router = _Shape.of(request), self._router
        for rule in router.rules:
            if shape.fits(rule):
                return rule.use
        able = [name for name in router.models if shape.has_room_in(self._models[name])]
        able = able or list(router.models)
        match router.pick:
            case "first":
                return able[0]
            case "cheapest":
                return min(able, key=self._price)
            case "random":
                return random.Random(request.cache_key).choice(able)  # noqa: S311 - no secret.


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a router looks at in a request."""

    has_images: bool
    tokens: int
    purpose: str
    said: str

    @staticmethod
    def of(request: ModelRequest) -> _Shape:
        size = sum(map(size_of, request.messages)) + sum(len(str(tool)) for tool in request.tools)
        users = [m for m in request.messages if m["role"] == "user"]
        said = " ".join(p.get("text", "") for p in parts_of(users[-1]["content"])) if users else ""
        parts = (part for m in request.messages for part in parts_of(m.get("content")))
        return _Shape(
            has_images=any(part["type"] == "image_url" for part in parts),
            tokens=size // CHARS_PER_TOKEN,
            purpose=request.purpose or "step",
            said=said.casefold(),
        )

    def fits(self, rule: RouteRule) -> bool:
        holds = (
            rule.images in (None, self.has_images),
            rule.min_tokens is None or self.tokens >= rule.min_tokens,
            rule.purpose in (None, self.purpose),
            rule.contains is None or rule.contains.casefold() in self.said,
        )
        return all(holds)

    def has_room_in(self, model: Model) -> bool:
        window = model.context_window
        is_wide = window is None or self.tokens < FULL * window
        return is_wide and (model.sees_images or not self.has_images)
