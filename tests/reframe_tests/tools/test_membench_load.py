import pytest

from reframe_tests.tools import TOOLS
from reframe_tests.tools.base import ToolError

TOOL = TOOLS["membench:mix:1"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"busy_s": 1, "elapsed_s": 0}', '{"busy_s": 1'])
def test_an_invalid_file_is_named(tmp_path, text):
    with pytest.raises(ToolError, match="no file of any node"):
        TOOL.parse(tmp_path, 1)
    (tmp_path / "rank-0.json").write_text(text)
    with pytest.raises(ToolError, match=r"rank-0\.json: not a file of membench"):
        TOOL.parse(tmp_path, 1)
