"""Signal handling, in processes without TensorFlow."""

import ctypes
import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest

from t2t_keras.files.signals import (
    STOP_SIGNALS,
    Interrupted,
    block_signals,
    defer_signals,
    handle_signals,
    preserve_handlers,
    undo_if_interrupted,
)

both = pytest.mark.parametrize("number", STOP_SIGNALS)


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs code in a process that handles signals like our programs."""
    head = """
        import os, signal, sys
        from pathlib import Path
        from t2t_keras.files import signals
        signals.end_program_on_signal()
        number = int(sys.argv[1])
    """
    text = textwrap.dedent(head) + textwrap.dedent(code)
    return subprocess.run(
        [sys.executable, "-c", text, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )


@both
def test_a_signal_ends_a_program_that_catches_every_exception(number, tmp_path):
    half = tmp_path / "half"
    code = """
        def undo():
            half.unlink(missing_ok=True)
        half = Path(sys.argv[2])
        print("a line", end="")
        try:
            with signals.undo_if_interrupted(undo):
                half.write_text("half")
                signal.raise_signal(number)
        except BaseException as error:
            print("caught", type(error))
        print("went on")
    """
    done = run(code, int(number), half)
    assert done.returncode == 128 + number
    assert (done.stdout, done.stderr) == ("a line", f"stopped by {number.name}\n")
    assert not half.exists()


@both
def test_the_line_is_printed_while_start_up_is_silenced(number):
    code = """
        from t2t_keras.files.quiet import quiet_start_up
        with quiet_start_up():
            signal.raise_signal(number)
    """
    assert run(code, int(number)).stderr == f"stopped by {number.name}\n"


@both
def test_undo_runs_once_newest_first_and_is_not_interrupted(number):
    code = """
        def undo(name):
            signal.raise_signal(number)
            print("undo", name, flush=True)
            raise OSError
        def fail():
            print("no longer")
            raise OSError
        try:
            with signals.undo_if_interrupted(fail):
                print("done")
        except OSError:
            pass
        with signals.undo_if_interrupted(lambda: undo("outer")):
            with signals.undo_if_interrupted(lambda: undo("inner")):
                signal.raise_signal(number)
    """
    done = run(code, int(number))
    assert done.returncode == 128 + number
    assert done.stdout == "done\nno longer\nundo inner\nundo outer\n"


@both
def test_a_deferred_signal_waits_for_a_safe_point(number):
    code = """
        with signals.defer_signals() as received:
            signal.raise_signal(number)
            print("goes on", bool(received), received.received == [number])
            try:
                received.check()
            except signals.Interrupted as stop:
                print(stop, stop.signal_number == number)
                raise SystemExit(3)
    """
    done = run(code, int(number))
    expected = f"goes on True True\nstopped by {number.name} True\n"
    assert (done.returncode, done.stdout) == (3, expected)


@both
def test_an_unhandled_deferred_signal_takes_effect_after_the_block(number):
    code = """
        with signals.defer_signals() as received:
            signal.raise_signal(number)
            print("goes on")
        print("went on")
    """
    done = run(code, int(number))
    assert (done.returncode, done.stdout) == (128 + number, "goes on\n")


@both
def test_a_deferred_signal_is_not_lost_when_the_block_fails(number):
    code = """
        try:
            with signals.defer_signals() as received:
                signal.raise_signal(number)
                print("goes on")
                raise ValueError("of a callback")
        except ValueError:
            print("the signal is lost")
    """
    done = run(code, int(number))
    assert (done.returncode, done.stdout) == (128 + number, "goes on\n")


def test_a_second_ctrl_c_takes_effect_in_the_block():
    code = """
        with signals.defer_signals() as received:
            for each in (signal.SIGTERM, signal.SIGTERM):
                signal.raise_signal(each)
            print("goes on")
            signal.raise_signal(signal.SIGINT)
            print("went on")
    """
    done = run(code, 0)
    assert (done.returncode, done.stdout) == (130, "goes on\n")


@both
def test_an_ignored_signal_stays_ignored(number):
    code = """
        signal.signal(number, signal.SIG_IGN)
        signals.end_program_on_signal()
        with signals.defer_signals() as received:
            signal.raise_signal(number)
        signals.SignalWaiter()
        signal.raise_signal(number)
        print(bool(received), signal.getsignal(number) == signal.SIG_IGN)
    """
    done = run(code, int(number))
    assert (done.returncode, done.stdout) == (0, "False True\n")


@both
def test_a_blocked_signal_arrives_later_and_not_in_what_was_started(number):
    code = """
        import subprocess
        with signals.block_signals():
            child = subprocess.Popen(["sleep", "0.3"])
            child.send_signal(number)
            os.kill(os.getpid(), number)
            print("child", child.wait(), flush=True)
        print("went on")
    """
    done = run(code, int(number))
    assert (done.returncode, done.stdout) == (128 + number, "child 0\n")


@both
def test_the_waiter_receives_a_signal_sent_to_another_thread(number):
    code = """
        import threading
        waiter = signals.SignalWaiter()
        other = threading.Thread(target=lambda: signal.pthread_kill(
            threading.get_ident(), number))
        other.start()
        print(waiter.wait() == number, flush=True)
        os.kill(os.getpid(), signal.SIGHUP)
        print("a closed terminal sends several", flush=True)
        second = signal.SIGTERM if number == signal.SIGHUP else number
        os.kill(os.getpid(), second)
        print("went on")
    """
    done = run(code, int(number))
    second = signal.SIGTERM if number == signal.SIGHUP else number
    expected = "True\na closed terminal sends several\n"
    assert (done.returncode, done.stdout) == (-second, expected)


@both
def test_handlers_are_put_back(number):
    received = []
    before = signal.getsignal(number)
    with handle_signals(received.append):
        signal.raise_signal(number)
    with pytest.raises(Interrupted), defer_signals() as signals:
        signal.raise_signal(number)
        signals.check()
    with block_signals():
        pass
    assert received == [number]
    assert signal.getsignal(number) is before
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())


@both
def test_a_handler_that_native_code_replaced_is_restored(number):
    received = []
    ignore = ctypes.c_void_p(signal.SIG_IGN)
    with handle_signals(received.append):
        with preserve_handlers():
            ctypes.CDLL(None).signal(int(number), ignore)
            signal.raise_signal(number)
            assert received == []
        signal.raise_signal(number)
    assert received == [number]


def test_a_handler_of_native_code_becomes_the_default(monkeypatch):
    with preserve_handlers():
        with monkeypatch.context() as patch:
            patch.setattr(signal, "getsignal", lambda number: None)
            with preserve_handlers():
                pass
        for number in STOP_SIGNALS:
            assert signal.getsignal(number) is signal.SIG_DFL


def test_a_thread_that_may_set_no_handlers_works_without():
    done = threading.Event()

    def work():
        with handle_signals(print), defer_signals(), preserve_handlers():
            done.set()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done.is_set()


def test_undo_runs_after_success_and_failure():
    calls = []
    with undo_if_interrupted(lambda: calls.append("first")):
        assert not calls
    with pytest.raises(KeyError), undo_if_interrupted(lambda: calls.append("second")):
        raise KeyError
    assert calls == ["first", "second"]
