"""Programs that take locks as told line by line, ours (ours.c) and those of others, and a resource
that notices when too many are in it.

Each is started as PROGRAM PORT TTL_MS, those for ZooKeeper as PROGRAM HOSTS SESSION_MS, and reads
lines that begin with a slot. A slot is an owner of locks (a thread of Java's and of ours, a
goroutine, a task, a chain of promises; with ZooKeeper it has a session of its own), which does what
it is told in that order and answers each command with one line, "SLOT ok …", "SLOT no" (somebody
else has it) or "SLOT error …":

    take KIND NAME LEASE_MS WAIT_MS [COUNT]   ok TOKEN ID; a lease that is named isn't renewed, and
                                              0 is TTL_MS, renewed (of redis-py: without an end)
    release                                   what was taken last
    contend KIND,… NAME LEASE_MS LOG MS       ok ROUNDS; enters the resource again and again, the
                                              kinds in turn; once at the least
    cancel                                    ends a wait, which answers "no"; no answer of its own
    size KIND NAME COUNT                      makes a semaphore
    drop permits NAME ID                      Redisson only: releases a permit by its id
    check                                     ours only: whether the server has the newest as ours
    holder KIND NAME                          ours only: who has it, of those that inspect shows
    still                                     ours only: whether it believes so itself
    downgrade                                 ours only: the newest, a writer's, becomes a reader's
    who KIND NAME                             Curator, kazoo, go: those in the line
    revoke KIND NAME                          ours, Curator: asks its holder to give it back
    revoked                                   ours: waits until it is asked so; Curator: whether

It says "ready ok" when it can be told something. The end of the input ends it, releasing nothing.
"""
import contextlib
import math
import queue
import subprocess
import threading
import time

import tap
from world import LIMIT, wait_until

TTL_MS = 10_000
PATIENCE_MS = 120_000
START_S = 180
UNAVAILABLE = 69  # what a command says that can't run here, and why


def is_here(kind, command):
    """Whether it runs at all, here with nothing to do; who doesn't says why."""
    done = subprocess.run([*command, '0', '0'], stdin=subprocess.DEVNULL, check=False,
                          capture_output=True, text=True) if command else None
    if done and done.returncode != UNAVAILABLE:
        return True
    print(f'# left out: {kind}: {done.stderr.strip() if done else "what runs it is missing"}')
    return False


def peers_here(words):
    """Of KIND=COMMAND…, the commands of those kinds that can be run here."""
    return {kind: command.split() for kind, _, command in (word.partition('=') for word in words)
            if is_here(kind, command.split())}


class Slot:
    """An owner of locks in a program."""

    def __init__(self, program, name):
        self.program, self.name = program, name
        self.side = name.rstrip('0123456789')
        self.answers = queue.SimpleQueue()

    def say(self, line):
        self.program.say(f'{self.name} {line}')

    def hear(self, limit=3 * LIMIT):
        """The next answer, and when it came."""
        try:
            return self.answers.get(timeout=limit)
        except queue.Empty:
            raise AssertionError(f'{self.name} says nothing for {limit} s') from None

    def is_silent(self):
        return self.answers.empty()

    def still_waits(self, what, lease_s):
        """Who came in is two at once, unless the other's lease of @lease_s ended in a stand-still;
        who says anything else, that a server is silent, has only failed."""
        if self.is_silent():
            return
        answer, _ = self.hear()
        text = f'{self.name} waits, {what}, and says: {answer}'
        if answer.startswith('ok'):
            raise tap.Broken(text, lease_s)
        raise AssertionError(text)

    def tell(self, line, expected='ok'):
        """Says it and returns the words behind the expected answer."""
        self.say(line)
        return self.expect(line, expected)

    def expect(self, what, expected='ok'):
        return self.expect_when(what, expected)[0]

    def expect_when(self, what, expected='ok'):
        """Also tells when the answer came."""
        answer, at = self.hear()
        tap.equal(f'{self.name}: {what}: {answer}', answer.split(' ')[0], expected)
        return answer.split(' ')[1:], at

    def take(self, kind, name, ttl=0, wait=0, count=1):
        self.say(f'take {kind} {name} {ttl} {wait} {count}' if count > 1 else
                 f'take {kind} {name} {ttl} {wait}')


class Program:
    """One process; the answers are sorted by slots as they come."""

    def __init__(self, world, argv, ttl_ms=TTL_MS, more=()):
        self.process = subprocess.Popen(
            [*argv, world.where, str(ttl_ms), *more], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        world.started.append(self.process)
        self.slots = {}
        self.ready = self.slot('ready')
        threading.Thread(target=self.listen, daemon=True).start()

    def await_start(self):
        """A Java takes half a minute where many share a core; who has ended never starts."""
        wait_until('it starts', lambda: not self.ready.is_silent() or self.process.poll() is not
                   None, START_S)
        self.ready.expect('starts')

    def listen(self):
        for line in self.process.stdout:
            name, _, answer = line.strip().partition(' ')
            if name in self.slots:
                self.slots[name].answers.put((answer, time.monotonic()))

    def say(self, line):
        with contextlib.suppress(BrokenPipeError):  # then nobody answers, and that fails
            self.process.stdin.write(line + '\n')
            self.process.stdin.flush()

    def slot(self, name):
        return self.slots.setdefault(name, Slot(self, name))

    def kill(self):
        self.process.kill()
        self.process.wait()


def started(world, argv, ttl_ms=TTL_MS, more=()):
    """A process of its own, which can be told something."""
    program = Program(world, argv, ttl_ms, more)
    program.await_start()
    return program


class Side:
    """Ours or theirs: some processes, each a client of its own."""

    def __init__(self, world, name, argv, more=(), processes=2):
        self.name = name
        self.programs = [Program(world, argv, more=more) for _ in range(processes)]

    def await_start(self):
        for program in self.programs:
            program.await_start()

    def kill(self):
        for program in self.programs:
            program.kill()

    def slot(self, number):
        """The owners, by turns of each process."""
        return self.programs[number % len(self.programs)].slot(f'{self.name}{number}')


def permits_of(kind):
    """How many of a semaphore's permits: "leases:3:2" takes two of three."""
    words = kind.split(':')
    return int(words[2]) if len(words) > 2 else 1


class Log:
    """What the contenders noted of a resource that asks for tokens, judged line by line."""

    def __init__(self, path, size):
        self.path, self.size, self.lease_s = path, size, math.inf
        self.inside, self.newest = {}, 0  # the highest token of who was in alone
        self.entries, self.changes, self.last_side = {}, 0, None
        self.left_at, self.longest_gap_ms = None, 0
        self.waiting, self.longest_wait_ms = {}, {}  # since when

    def judge(self):
        with open(self.path, encoding='ascii') as file:
            for number, line in enumerate(file, 1):
                what, who, kind, token, at = line.split(' ')
                if what == '?':
                    self.waiting[who] = int(at)
                elif what == '-':
                    del self.inside[who]
                    self.left_at = int(at)
                else:
                    self.enter(f'{self.path}:{number}: {line.strip()}', who, kind, int(token))
                    self.note_times(who, int(at))
        tap.equal('who is left inside', self.inside, {})

    def excludes(self, _one, _other):
        """Whether two contenders may not be inside together."""
        return True

    def enter(self, line, who, kind, token):
        shared = kind.endswith('read')
        others = [k for w, k in self.inside.items()
                  if not (shared and k.endswith('read')) and self.excludes(who, w)]
        if sum(map(permits_of, [*others, kind])) > self.size:
            raise tap.Broken(f'overlap: {line}; inside are {self.inside}', self.lease_s)
        if 0 < token < self.newest + (not shared):
            raise tap.Broken(f'stale token: {line}; the newest is {self.newest}')
        if not shared:
            self.newest = max(token, self.newest)
        self.inside[who] = kind
        side = who.rstrip('0123456789')
        self.entries[side] = self.entries.get(side, 0) + 1
        self.changes += self.last_side not in (None, side)
        self.last_side = side

    def note_times(self, who, at):
        """It isn't idle while nobody waits."""
        if self.left_at is not None:
            idle = at - max(self.left_at, min(self.waiting.values()))
            self.longest_gap_ms = max(self.longest_gap_ms, idle)
        waited, side = at - self.waiting.pop(who), who.rstrip('0123456789')
        self.longest_wait_ms[side] = max(self.longest_wait_ms.get(side, 0), waited)

    def __str__(self):
        entries = ', '.join(f'{count} of {side} (which waited {self.longest_wait_ms[side]} ms '
                            'at most)' for side, count in sorted(self.entries.items()))
        return (f'entries {entries}; {self.changes} changes of side; 0 overlaps, '
                f'idle for {self.longest_gap_ms} ms at the longest')


def contend(world, owners, name, seconds, *, ttl=0, size=1, log=Log):
    """Each of (slot, kinds) takes them again and again, all at once; the log of it, judged."""
    log = log(world.path(f'log-{name.replace("/", "-")}'), size)
    log.lease_s = (ttl or TTL_MS) / 1000
    for slot, kinds in owners:
        slot.say(f'contend {kinds} {name} {ttl} {log.path} {int(seconds * 1000)}')
    for slot, kinds in owners:
        answer, _ = slot.hear(seconds + 6 * LIMIT)
        tap.equal(f'{slot.name}, {kinds}: {answer}', answer.split(' ')[0], 'ok')
    log.judge()
    print(f'# {name}: {log}', flush=True)
    return log
