"""On three ZooKeeper servers, beside real Curator: the leader among the servers is killed while
locks are taken and held, and the leader among the candidates of an election while it leads.

    test_zookeeper_ensemble.py DLOCK file SECONDS OURS CURATOR

OURS and CURATOR are programs as peers.py describes them; SECONDS is how long the contenders are at
it. With more than a few there are more of them, and more deaths."""
import sys
import threading
import time

import tap
import zookeeper_server
from peers import PATIENCE_MS, Program, contend
from world import main, wait_until

SECONDS = float(sys.argv[3])
OURS, CURATOR = [sys.argv[4]], [sys.argv[5]]
IS_LONG = SECONDS > 10
KILL_EACH_S = 5 if IS_LONG else 2
SESSION_MS, ENDING_MS = 20_000, 4000
PATIENT = ['client.timeout_ms=60000']  # a release is confirmed when there is a leader again
CANDIDATES = (5, 2) if IS_LONG else (2, 1)  # of ours, of Curator
DEATHS = 50 if IS_LONG else 2

_ensembles = []


def on_ensemble(test):
    """The servers are started by the first test and stay."""
    def run(world):
        try:
            if not _ensembles:
                _ensembles.append(zookeeper_server.Ensemble())
        except tap.Skip as why:
            world.skip = why
            raise
        world.where = _ensembles[0].hosts
        test(world, _ensembles[0])
    run.__name__ = test.__name__
    return run


class Killer(threading.Thread):
    """Kills the leader of the servers again and again, and lets it come back."""

    def __init__(self, ensemble):
        super().__init__(daemon=True)
        self.ensemble, self.over, self.kills, self.why = ensemble, threading.Event(), 0, None
        self.start()

    def run(self):
        try:
            while not self.over.wait(KILL_EACH_S):
                leader = self.ensemble.leader()
                leader.kill()
                self.kills += 1
                leader.restart()
        except AssertionError as why:
            self.why = why

    def end(self):
        self.over.set()
        self.join()
        if self.why:
            raise self.why


def below(ensemble, path):
    """The children of a path, and theirs, as the leader sees them."""
    hand = zookeeper_server.Wire(ensemble.leader().port)

    def look(at):
        return [node for child in hand.children(at)
                for node in [f'{at}/{child}', *look(f'{at}/{child}')]]
    found = [node for node in look(path) if (stat := hand.stat(node)) and stat.owner]
    hand.close()
    return found


@on_ensemble
def nobody_is_inside_with_another_while_leaders_die(world, ensemble):
    ours = [Program(world, OURS, SESSION_MS, PATIENT) for _ in range(3)]
    curators = Program(world, CURATOR, SESSION_MS)
    for program in (*ours, curators):
        program.await_start()
    owners = [*((program.slot(f'ours{n}'), 'mutex') for n, program in enumerate(ours)),
              *((curators.slot(f'curator{n}'), 'mutex') for n in range(2))]
    holder = ours[0].slot('holder')
    token = holder.tell(f'take mutex /held 0 {PATIENCE_MS}')[0]
    killer = Killer(ensemble)
    try:
        log = contend(world, owners, '/leaders', SECONDS)
    finally:
        killer.end()
    assert killer.kills > 0 and log.entries.get('ours') and log.entries.get('curator')
    tap.equal('the hold of who held it through all of it', holder.tell('check'), [])
    print(f'# {killer.kills} leaders killed; a hold was kept through all of it, token {token}')
    holder.tell('release')
    wait_until('no node is left', lambda: below(ensemble, '/leaders') == [])
    for program in (*ours, curators):
        program.kill()


class Candidate:
    """A process that wants to lead, once."""

    def __init__(self, world, side, number):
        self.side, self.number = side, number
        self.program = Program(world, OURS if side == 'ours' else CURATOR, ENDING_MS)
        self.slot = self.program.slot(f'{side}{number}')

    def campaign(self):
        self.program.await_start()
        self.slot.take('latch', '/election', 0, PATIENCE_MS * 10)

    def leads(self):
        return not self.slot.is_silent()


@on_ensemble
def there_is_never_a_second_leader_whoever_is_killed(world, ensemble):
    """The resource asks for tokens, and the next leader's is larger."""
    candidates = [Candidate(world, 'ours', n) for n in range(CANDIDATES[0])]
    candidates += [Candidate(world, 'curator', n) for n in range(CANDIDATES[1])]
    for one in candidates:
        one.campaign()
    newest, gaps, died_at, born = 0, [], None, len(candidates)
    for death in range(DEATHS + 1):
        wait_until('somebody leads',
                   lambda: any(one.leads() for one in candidates), PATIENCE_MS / 1000)
        leader = next(one for one in candidates if one.leads())
        (token, *_), at = leader.slot.expect_when('leads')
        for other in candidates:
            other.slot.still_waits(f'{leader.slot.name} leads', ENDING_MS / 1000)
        if int(token) <= newest:
            raise tap.Broken(f'{leader.slot.name} leads with {token} after {newest}')
        newest = int(token)
        if died_at:
            gaps.append((at - died_at) * 1000)
        if death < DEATHS:
            died_at = time.monotonic()
            leader.program.kill()
            candidates[candidates.index(leader)] = Candidate(world, leader.side, born)
            born += 1
            next(one for one in candidates if one.number == born - 1).campaign()
    print(f'# {DEATHS} leaders killed, with sessions of {ENDING_MS} ms; without a leader for '
          f'{min(gaps):.0f}/{sum(gaps) / len(gaps):.0f}/{max(gaps):.0f} ms (min/avg/max)')
    for one in candidates:
        one.program.kill()
    wait_until('no node is left', lambda: below(ensemble, '/election') == [])


if __name__ == '__main__':
    try:
        main([nobody_is_inside_with_another_while_leaders_die,
              there_is_never_a_second_leader_whoever_is_killed])
    finally:
        for servers in _ensembles:
            servers.stop()
