"""Every read of every geometry gives what the arrays in memory give."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import scenes
from tests.properties.compare import check, check_attributes, write_and_open
from tests.properties.oracle import Question, Scene

SCENES = {
    "point_cloud": scenes.point_clouds(with_objects=False),
    "point_cloud_objects": scenes.point_clouds(with_objects=True),
    "line": scenes.paths(geometry_type="line"),
    "polyline": scenes.paths(geometry_type="polyline"),
    "streamline": scenes.paths(geometry_type="streamline"),
    "segments": scenes.shared_paths(),
    "graph": scenes.graphs(),
    "skeleton": scenes.skeletons(),
    "mesh": scenes.meshes(by_face=False),
    "mesh_shared": scenes.meshes(by_face=True),
}
QUESTIONS_EACH = 4

any_geometry = pytest.mark.parametrize("kind", SCENES)


@any_geometry
@given(data=st.data())
def test_any_question_has_the_answer_of_the_arrays(kind: str, data: st.DataObject) -> None:
    scene: Scene = data.draw(SCENES[kind])
    level = write_and_open(scene)
    check(scene, level, Question())
    for _ in range(QUESTIONS_EACH):
        check(scene, level, data.draw(scenes.questions(scene)))


@any_geometry
@given(data=st.data())
def test_fewer_attributes_change_nothing_else(kind: str, data: st.DataObject) -> None:
    scene: Scene = data.draw(SCENES[kind])
    level = write_and_open(scene)
    names = scenes.some(data.draw, sorted({*scene.attributes, *scene.link_attributes}), 3)
    check_attributes(scene, level, data.draw(scenes.questions(scene)), names)
