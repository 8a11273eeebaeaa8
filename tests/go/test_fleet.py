"""A mixed fleet on one Redis: C, Go and Python with libdlock, redsync and redislock, all in the
layout of strings, on one name; waits are cancelled and processes killed at random meanwhile. The
resource is a log in which all of them have one order.

    test_fleet.py DLOCK redis SECONDS LINEARIZABLE KIND=COMMAND…

KIND is what the program calls the layout; the commands are as peers.py says."""
import itertools
import queue
import random
import subprocess
import sys
import time

import tap
from peers import Log, started
from world import LIMIT, main

SECONDS, LINEARIZABLE = float(sys.argv[3]), sys.argv[4]
FLEET = [word.partition('=')[::2] for word in sys.argv[5:]]
LEASE_MS = 6000      # nobody holds it for more than some ms, but those that are killed
PROCESSES, SLOTS = 2, 2
KILL_EVERY_S = 4
CLOCKS_MS = 100      # by which the times in the log may be off
SEED = 20261121


class FleetLog(Log):
    """The dead don't leave; they are out when their lease is over, and not before."""

    def __init__(self, path, dead):
        super().__init__(path, 1)
        self.lease_s = LEASE_MS / 1000
        self.dead = dead
        self.died_inside = 0

    def judge(self):
        asked = {}
        with open(self.path, encoding='ascii') as file:
            for number, line in enumerate(file, 1):
                what, who, kind, token, at = line.split(' ')
                if what == '?':
                    asked[who] = int(at)
                elif what == '-':
                    del self.inside[who]
                else:
                    self.bury(asked, int(at), f'{self.path}:{number}')
                    self.enter(f'{self.path}:{number}: {line.strip()}', who, kind, int(token))
        tap.equal('who is left inside', [who for who in self.inside if who not in self.dead], [])

    def bury(self, asked, now, where):
        for who in [who for who in self.inside if who in self.dead]:
            if now < asked[who] + LEASE_MS - CLOCKS_MS:
                raise tap.Broken(f'{where}: overlap: {who}, who was killed, has a lease yet')
            self.died_inside += 1
            del self.inside[who]

    def __str__(self):
        entries = ', '.join(f'{count} of {side}' for side, count in sorted(self.entries.items()))
        return (f'entries {entries}; {self.changes} changes of side; {self.died_inside} died '
                'inside; 0 overlaps')


class Fleet:
    def __init__(self, world):
        self.world, self.random = world, random.Random(SEED)
        self.log = FleetLog(world.path('log-fleet'), set())
        self.numbers = itertools.count()
        self.running = {}   # slot: its kind
        self.programs = {}  # program: (kind, command)
        self.cancels = self.kills = 0
        for kind, command in FLEET:
            for _ in range(PROCESSES):
                self.launch(kind, command)

    def launch(self, kind, command):
        program = started(self.world, command.split(), LEASE_MS)
        self.programs[program] = kind, command
        for _ in range(SLOTS):
            side = command.split('/')[-1].split()[0].replace('.py', '').replace('-', '')
            side = f'{side}-{kind}'.rstrip('0123456789')
            self.running[program.slot(f'{side}{next(self.numbers)}')] = kind

    def begin(self, slot, seconds):
        slot.say(f'contend {self.running[slot]} fleet {LEASE_MS} {self.log.path} '
                 f'{int(seconds * 1000)}')

    def who_is_inside(self):
        """By the last line of the log, which is soon out of date; None when nobody is."""
        with open(self.log.path, 'rb') as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 400))
            words = file.read().decode('ascii').rstrip('\n').rpartition('\n')[2].split(' ')
        return words[1] if words[0] == '+' else None

    def victim(self):
        """Every other time somebody who has the lock, if that can be caught."""
        for _ in range(2000 if self.kills % 2 == 0 else 0):
            who = self.who_is_inside()
            for slot in self.running if who else ():
                if slot.name == who:
                    return slot.program
            time.sleep(0.0005)
        return self.random.choice(list(self.programs))

    def kill_one(self):
        program = self.victim()
        kind, command = self.programs.pop(program)
        program.kill()
        for slot in [slot for slot in self.running if slot.program is program]:
            self.log.dead.add(slot.name)
            del self.running[slot]
        self.kills += 1
        self.launch(kind, command)

    def run(self):
        end = time.monotonic() + SECONDS
        self.begun = set()
        next_kill = time.monotonic() + KILL_EVERY_S / 2
        self.start_those_that_wait(end)
        while time.monotonic() < end:
            time.sleep(0.02)
            if self.random.random() < 0.3:
                self.random.choice(list(self.running)).say('cancel')
                self.cancels += 1
            if time.monotonic() > next_kill:
                self.kill_one()
                next_kill += KILL_EVERY_S
            self.start_those_that_wait(end)
        for slot in list(self.running):
            answer, _ = slot.hear(2 * LIMIT + LEASE_MS / 1000)
            self.judge_answer(slot, answer)

    def start_those_that_wait(self, end):
        """Those that haven't begun, and those whose wait was cancelled."""
        left = max(0.1, end - time.monotonic())
        for slot in self.running:
            try:
                answer, _ = slot.answers.get_nowait()
                self.judge_answer(slot, answer)
            except queue.Empty:
                if slot.name in self.begun:
                    continue
            self.begun.add(slot.name)
            self.begin(slot, left)

    def judge_answer(self, slot, answer):
        if answer.split(' ')[0] not in ('ok', 'no'):
            raise AssertionError(f'{slot.name}: {answer}')


def a_mixed_fleet_is_never_two_inside_whoever_is_cancelled_or_killed(world):
    fleet = Fleet(world)
    fleet.run()
    fleet.log.judge()
    print(f'# {fleet.log}; {fleet.kills} processes killed, {fleet.cancels} cancels', flush=True)
    for side in {slot.side for slot in fleet.running}:
        assert fleet.log.entries.get(side, 0) > 0, f'{side} never had it'
    print('# ' + tap.run([LINEARIZABLE, fleet.log.path, *sorted(fleet.log.dead)],
                         stdin=subprocess.DEVNULL).strip(), flush=True)


if __name__ == '__main__':
    main([a_mixed_fleet_is_never_two_inside_whoever_is_cancelled_or_killed])
