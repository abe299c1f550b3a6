"""A notebook is shown as its cells, whatever they put out; anything else is not one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oh_daemon.features.edit.notebooks import render_notebook

OUTPUTS: dict[str, tuple[dict[str, Any], str]] = {
    "stream": ({"output_type": "stream", "name": "stdout", "text": ["1\n", "2\n"]}, "1\n2\n"),
    "long stream": (
        {"output_type": "stream", "name": "stdout", "text": "line\n" * 999},
        "of 4,995 characters shown; run the notebook to see all of it]",
    ),
    "result": ({"output_type": "execute_result", "data": {"text/plain": "1"}}, "1\n"),
    "picture": (
        {"output_type": "display_data", "data": {"image/png": "iVBO", "text/plain": ["<Figure>"]}},
        "(image/png, not shown)\n<Figure>\n",
    ),
    "error": (
        {"output_type": "error", "ename": "E", "evalue": "e", "traceback": ["\x1b[31mE: e\x1b[0m"]},
        "E: e\n",
    ),
}


@pytest.mark.parametrize("kind", OUTPUTS)
def test_notebook_is_shown_as_cells_with_outputs_cut(kind: str) -> None:
    output, expected_text = OUTPUTS[kind]
    code = {"cell_type": "code", "source": ["a = 1\n", "a"], "outputs": [output]}
    cells = [{"cell_type": "markdown", "source": "# Title"}, code]
    text = render_notebook(json.dumps({"cells": cells, "nbformat": 4})) or ""
    assert text.startswith("[cell 1, markdown]\n# Title\n\n[cell 2, code]\na = 1\na\n[output]\n")
    assert expected_text in text
    assert len(text) < 1500


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"cells": 1}', '{"cells": [{}]}', '{"cells": ["a"]}', "[" * 99_999]
)
def test_text_of_another_form_is_not_a_notebook(text: str) -> None:
    assert render_notebook(text) is None
