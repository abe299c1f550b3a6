"""Models composed of models: a profile with its fallbacks, and a router."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from oh_daemon.features.models.model_messages import parts_of
from oh_daemon.kernel.context import size_of
from oh_daemon.kernel.ports import (
    LikeModel,
    Model,
    ModelAnswer,
    ModelRequest,
    Progress,
    Retry,
    Traits,
)
from oh_daemon.kernel.window import CHARS_PER_TOKEN, FULL
from oh_daemon.protocol.errors import ContextWindowExceededError, ModelError
from oh_daemon.protocol.profiles import Router, RouteRule

REST_S = 120.0


class WithFallbacks(LikeModel):
    """Answers with the first of `models` that succeeds. Thread-safe."""

    def __init__(self, name: str, models: Sequence[Model]) -> None:
        super().__init__(models[0], name)
        self._models = tuple(models)
        self._rests_until = dict.fromkeys(range(len(models)), 0.0)

    @property
    def traits(self) -> Traits:
        first, *other_traits = (model.traits for model in self._models)
        windows = [traits.context_window for traits in other_traits]
        wider = any(each is None or each > (first.context_window or each) for each in windows)
        return replace(first, may_be_wider=wider)

    def complete(self, request: ModelRequest, progress: Progress) -> ModelAnswer:
        """Complete as the port says. A change of model is reported as a retry.

        Raises the error of the last model when all fail.
        """
        candidates = self._awake()
        while True:
            n = candidates.pop(0)
            try:
                return self._models[n].complete(request, progress)
            except ModelError as error:
                if isinstance(error, ContextWindowExceededError):
                    # A smaller window would not help, but condensing will.
                    candidates = [
                        candidate for candidate in candidates if self._is_wider(candidate, n)
                    ]
                else:
                    self._rests_until[n] = time.monotonic() + REST_S
                if not candidates:
                    raise
                label = self._models[candidates[0]].label
                n_models = len(self._models)
                progress.on_retry(Retry(candidates[0] + 1, n_models, 0.0, error, model=label))

    def _awake(self) -> list[int]:
        now = time.monotonic()
        awake = [n for n, until in self._rests_until.items() if until <= now]
        return awake or list(self._rests_until)

    def _is_wider(self, one: int, other_index: int) -> bool:
        window, other_window = (
            self._models[each].traits.context_window for each in (one, other_index)
        )
        return window is not None and other_window is not None and window > other_window


class Routed:
    """A model that chooses another for each request. Thread-safe."""

    def __init__(self, name: str, router: Router, models: Mapping[str, Model]) -> None:
        self._router = router
        self._models = models
        self.name = name
        self.label = name

    @property
    def traits(self) -> Traits:
        """Those of all models; its price depends on the request."""
        all_traits = [model.traits for model in self._models.values()]
        # The widest window: a request too big for one goes to another.
        windows = [traits.context_window for traits in all_traits]
        return Traits(
            context_window=max(filter(None, windows), default=None),
            may_be_wider=None in windows,
            sees_images=any(traits.sees_images for traits in all_traits),
            reads_pdfs=any(traits.reads_pdfs for traits in all_traits),
            caveats=tuple(dict.fromkeys(each for traits in all_traits for each in traits.caveats)),
        )

    @property
    def edits_by_patch(self) -> bool:
        return all(model.edits_by_patch for model in self._models.values())

    def complete(self, request: ModelRequest, progress: Progress) -> ModelAnswer:
        """Complete as the port says, with the model chosen for this request."""
        return self._models[self._choice(request)].complete(request, progress)

    def _choice(self, request: ModelRequest) -> str:
        shape, router = _Shape.of(request), self._router
        for rule in router.rules:
            if shape.fits(rule):
                return rule.use
        traits = {name: self._models[name].traits for name in router.models}
        able = [name for name in router.models if shape.has_room_in(traits[name])]
        able = able or list(router.models)
        match router.pick:
            case "first":
                return able[0]
            case "cheapest":
                return min(able, key=lambda name: traits[name].input_price)
            case "random":
                return random.Random(request.cache_key).choice(able)  # noqa: S311 - no secret.


class _Shape(Struct, frozen=True):
    """What a router looks at in a request."""

    has_images: bool
    tokens: int
    purpose: str
    text: str

    @staticmethod
    def of(request: ModelRequest) -> _Shape:
        size = sum(map(size_of, request.messages)) + sum(len(str(tool)) for tool in request.tools)
        users = [m for m in request.messages if m["role"] == "user"]
        text = " ".join(p.get("text", "") for p in parts_of(users[-1]["content"])) if users else ""
        parts = (part for m in request.messages for part in parts_of(m.get("content")))
        return _Shape(
            has_images=any(part["type"] == "image_url" for part in parts),
            tokens=size // CHARS_PER_TOKEN,
            purpose=request.purpose or "step",
            text=text.casefold(),
        )

    def fits(self, rule: RouteRule) -> bool:
        conditions = (
            rule.images in (None, self.has_images),
            rule.min_tokens is None or self.tokens >= rule.min_tokens,
            rule.purpose in (None, self.purpose),
            rule.contains is None or rule.contains.casefold() in self.text,
        )
        return all(conditions)

    def has_room_in(self, traits: Traits) -> bool:
        window = traits.context_window
        is_wide = window is None or self.tokens < FULL * window
        return is_wide and (traits.sees_images or not self.has_images)
