"""The manifests of fleets do what they say, also where the host refuses namespaces."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml
from fake_llm import say
from fleet_world import FleetWorld, make_repository
from places import REPO
from starts import SCRIPT
from world import World

PACKAGING = REPO / "packaging"
WITHOUT_NAMESPACES = (
    *("unshare", "-Ur", "sh", "-c"),
    'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"',
    "sh",
)


@pytest.fixture
def fleet(world: World, tmp_path: Path) -> FleetWorld:
    repo = make_repository(tmp_path / "repo")
    fleet = FleetWorld(world, repo, tmp_path / "runs")
    fleet.set({"llm": {"inputCostPerToken": 1e-6, "outputCostPerToken": 1e-6}})
    fleet.script(one=[say("Done.")], two=[say("Done.")])
    return fleet


def run(
    fleet: FleetWorld, *words: str | Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    path = f"{SCRIPT.parent}:{os.environ['PATH']}"
    env = {**fleet.environment, "PATH": path, **variables}
    return subprocess.run(words, env=env, capture_output=True, text=True, check=False)


@pytest.mark.full
def test_a_pod_is_the_boundary_where_there_is_no_view(fleet: FleetWorld) -> None:
    job = yaml.safe_load((PACKAGING / "kubernetes" / "fleet.yaml").read_text())["spec"]
    [container] = job["template"]["spec"]["containers"]
    fleet.tasks("one", "two")
    [script] = container["args"]
    script = script.replace("/work", str(fleet.out.parent))
    assert f"/{job['completions']}" in script
    words = (*WITHOUT_NAMESPACES, *container["command"], script)
    outcome = run(fleet, *words, JOB_COMPLETION_INDEX="1")
    assert (outcome.returncode, "✓ two: endTurn" in outcome.stderr) == (0, True), outcome.stderr
    assert run(fleet, SCRIPT, "fleet", "merge", fleet.out).returncode == 0
    assert fleet.results()["two"]["boundary"] == "container"


@pytest.mark.full
@pytest.mark.parametrize("is_refused", [True, False])
def test_a_job_of_an_array_works_in_views_or_says_what_its_node_must_allow(
    fleet: FleetWorld, is_refused: bool
) -> None:
    script = PACKAGING / "slurm" / "fleet.sbatch"
    words = ("bash", script, fleet.tasks("one", "two"), fleet.out)
    variables = {"SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_TASK_COUNT": "16"}
    outcome = run(fleet, *(WITHOUT_NAMESPACES if is_refused else ()), *words, **variables)
    if is_refused:
        assert (outcome.returncode, list(fleet.out.glob("*/tasks"))) == (2, [])
        assert "user.max_user_namespaces is 0" in outcome.stderr
        assert "--sandbox off --boundary container" in outcome.stderr
    else:
        assert (outcome.returncode, "✓ one: endTurn" in outcome.stderr) == (0, True), outcome.stderr
