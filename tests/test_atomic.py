import errno
import os
import stat

import pytest

from leafwise.atomic import appear, check_writable, replacing
from leafwise.exceptions import OutputError


def test_a_file_appears_at_the_end(tmp_path):
    with replacing(tmp_path / "file") as file:
        file.write(b"new")
        assert not (tmp_path / "file").exists()
    assert (tmp_path / "file").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


def write_half(path, error=None):
    with replacing(path) as file:
        file.write(b"half")
        if error:
            raise error


@pytest.mark.parametrize("error", [RuntimeError("stop"), KeyboardInterrupt(), OSError("other")])
def test_a_failure_leaves_everything_as_it_was(tmp_path, error):
    (tmp_path / "file").write_bytes(b"old")
    with pytest.raises(type(error)) as raised:
        write_half(tmp_path / "file", error)
    assert raised.value is error  # an error of something else is not blamed on this file
    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_a_full_disk_is_blamed_on_the_file(tmp_path):
    with (
        pytest.raises(OutputError, match=r"Cannot write .*file: No space left on device"),
        replacing(tmp_path / "file"),
    ):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert os.listdir(tmp_path) == []


def test_an_inner_file_is_named_and_not_the_outer_one(tmp_path):
    with (
        pytest.raises(OutputError, match=r"^Cannot write \S*no/inner: there is no folder"),
        replacing(tmp_path / "outer"),
        replacing(tmp_path / "no" / "inner"),
    ):
        pass


def test_the_mode_of_a_file_and_a_link_to_it_stay(tmp_path):
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "link").symlink_to("file")
    with replacing(tmp_path / "link") as file:
        file.write(b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640


def test_devices_are_written_not_replaced():
    with replacing("/dev/null") as file:
        file.write(b"gone")
    assert not os.path.isfile("/dev/null")
    with pytest.raises(OutputError, match="Cannot write /dev/full: No space left"):
        write_half("/dev/full")  # found out when the buffer is written at the end


@pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="pipes have no names here")
def test_a_pipe_is_written_by_the_name_that_a_shell_gives_it():
    """Such as /dev/stdout in `-o /dev/stdout | head`, and >(head): the pipe itself has no name."""
    reader, writer = os.pipe()
    try:
        assert not os.path.exists(os.path.realpath(f"/dev/fd/{writer}"))
        with replacing(f"/dev/fd/{writer}") as file:
            file.write(b"rows")
        assert os.read(reader, 10) == b"rows"
    finally:
        os.close(reader)
        os.close(writer)


def test_places_that_cannot_be_written(tmp_path):
    with pytest.raises(OutputError, match=r"it is a folder\. Name a file in it"):
        check_writable(tmp_path)
    with pytest.raises(OutputError, match=r"there is no folder .*missing\. Make it first"):
        check_writable(tmp_path / "missing" / "file")
    with pytest.raises(OutputError, match="File name too long"):
        check_writable(tmp_path / ("x" * 300))
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "file").chmod(0o444)
    with pytest.raises(OutputError, match="the file is read-only"):
        check_writable(tmp_path / "file")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    with pytest.raises(OutputError, match="its folder is read-only"):
        check_writable(closed / "new")
    check_writable(tmp_path / "new")
    assert sorted(os.listdir(tmp_path)) == ["closed", "file"]


@pytest.mark.parametrize("links", [True, False])
def test_a_file_appears_and_takes_no_others_place(tmp_path, monkeypatch, links):
    part, target = tmp_path / "part", tmp_path / "target"
    if not links:

        def refuse(*_):
            raise PermissionError(1, "Operation not permitted")

        monkeypatch.setattr("os.link", refuse)
    part.write_text("new")
    appear(str(part), str(target))
    assert target.read_text() == "new"
    assert not part.exists()
    part.write_text("newer")
    with pytest.raises(FileExistsError, match="target"):
        appear(str(part), str(target))
    assert target.read_text() == "new"
