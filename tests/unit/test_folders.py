"""A run folder belongs to one run, and to one job at a time."""

from __future__ import annotations

import pytest
import yaml

from hvd_gossip.train.config import TrainConfig, nested
from hvd_gossip.train.folders import claim

VALUES = {**nested(TrainConfig()), "n": 4}


def test_a_new_folder_gets_the_configuration(tmp_path):
    claim(tmp_path / "a" / "run", VALUES).close()
    assert yaml.safe_load((tmp_path / "a" / "run" / "config.yaml").read_text()) == VALUES


def test_the_same_run_may_come_back_but_not_while_another_job_is_there(tmp_path):
    first = claim(tmp_path, VALUES)
    with pytest.raises(ValueError, match="is in use by another job"):
        claim(tmp_path, VALUES)
    first.close()
    claim(tmp_path, VALUES).close()


def test_another_run_is_refused_and_nothing_changes(tmp_path):
    claim(tmp_path, VALUES).close()
    before = (tmp_path / "config.yaml").read_bytes()
    with pytest.raises(ValueError, match=r"holds another run \(graph: 'exponential', now 'ring'; n: 4, now 2\)"):
        claim(tmp_path, {**VALUES, "n": 2, "graph": "ring"})
    assert (tmp_path / "config.yaml").read_bytes() == before


def test_what_changes_no_step_may_change(tmp_path):
    claim(tmp_path, VALUES).close()
    claim(tmp_path, {**VALUES, "progress": "none", "run": "elsewhere"}).close()


def test_an_interrupted_start_leaves_a_folder_that_can_be_used(tmp_path):
    (tmp_path / ".config.yaml.tmp").write_text("half")
    (tmp_path / ".lock").touch()
    claim(tmp_path, VALUES).close()
    assert (tmp_path / "config.yaml").exists()


@pytest.mark.parametrize("content", ["[1, 2]", "{unclosed", "7", "\x00"])
def test_a_damaged_configuration_is_refused(tmp_path, content):
    (tmp_path / "config.yaml").write_text(content)
    with pytest.raises(ValueError, match="is damaged"):
        claim(tmp_path, VALUES)
    assert (tmp_path / "config.yaml").read_text() == content


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match="cannot be used"):
        claim(tmp_path / "file" / "run", VALUES)
    with pytest.raises(ValueError, match="cannot be used"):
        claim(tmp_path / "file", VALUES)
    assert (tmp_path / "file").read_text() == "mine"
