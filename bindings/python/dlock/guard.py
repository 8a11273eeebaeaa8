"""Operations that take effect only while the lock is held."""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from . import errors
from ._settings import check_steps

if TYPE_CHECKING:
    from .hold import Hold

T = TypeVar('T')


class Guard(Generic[T]):
    """The five steps of an operation that has to be undone when the lock was lost on the way.

    ::

        transfer = dlock.Guard(prepare=remember, run=compute, commit=write_with_token,
                               undo=restore)
        held.guard(transfer)

    The lock is checked, then ``prepare`` and ``run`` are called, the lock is checked once more,
    then ``commit`` makes it final. Checks are local. What a step raises goes through unchanged;
    whatever fails after ``prepare`` is undone first.

    :param run: does the work where it can still be undone
    :param commit: called with the fencing token, makes it final; raises LostError when the
        resource refused the token
    :param prepare: records the state before
    :param undo: restores it. It runs when the lock may not be held, so it must be fenced, or
        touch only what is private
    :param lost: called when the answer is LostError
    """

    def __init__(self, *, run: Callable[[], object], commit: Callable[[int], T],
                 prepare: Callable[[], object] | None = None,
                 undo: Callable[[], object] | None = None,
                 lost: Callable[[], object] | None = None) -> None:
        check_steps(run=run, commit=commit, prepare=prepare, undo=undo, lost=lost)
        self.run = run
        self.commit = commit
        self.prepare = prepare
        self.undo = undo
        self.lost = lost

    def run_under(self, hold: Hold) -> T:
        """As :meth:`Hold.guard() <dlock.Hold.guard>`, which is the way to call it."""
        try:
            hold.check()
            if self.prepare is not None:
                self.prepare()
        except errors.LostError:
            self._tell_lost()
            raise
        try:
            self.run()
            hold.check()
            return self.commit(hold.token)
        except BaseException as error:
            try:
                if self.undo is not None:
                    self.undo()
            finally:
                if isinstance(error, errors.LostError):
                    self._tell_lost()
            raise

    def _tell_lost(self) -> None:
        if self.lost is not None:
            self.lost()
