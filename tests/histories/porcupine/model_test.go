package main

import (
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

var service = &backend{name: "some", ttl: 2 * second}

// A stay as a worker of its own would note it: asked, granted, two visits, a release.
func plainStay(op uint64, token, asked int64) *stay {
	return &stay{
		worker: &worker{id: op, backend: service}, op: op, asked: asked, granted: asked + 10,
		token: token, until: asked + 2*second, leave: asked + 60, left: asked + 70, confirmed: true,
		checks: []record{{time: asked + 40, extra: asked + 41}},
	}
}

func (s *stay) sees(at, value, sequence int64) *stay {
	s.visits = append(s.visits, record{event: looked, extra: s.asked + at, time: s.asked + at + 1,
		value: value, sequence: sequence})
	return s
}

func (s *stay) writes(at, value, sequence int64) *stay {
	s.visits = append(s.visits, record{event: wrote, extra: s.asked + at, time: s.asked + at + 1,
		value: value, sequence: sequence})
	return s
}

func expect(t *testing.T, want porcupine.CheckResult, stays ...*stay) {
	t.Helper()
	got := porcupine.CheckOperationsTimeout(lockModel, operations(stays), time.Minute)
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestOneAfterTheOtherIsFine(t *testing.T) {
	expect(t, porcupine.Ok, plainStay(1, 10, 0).sees(20, 0, 0).writes(30, 0, 1),
		plainStay(2, 11, 100).sees(20, 1, 1).writes(30, 1, 2), plainStay(3, 12, 200))
}

func TestGrantsThatOverlapInTheAnswersOnlyAreFine(t *testing.T) {
	second := plainStay(2, 11, 5)
	second.granted, second.checks, second.leave, second.left = 75, nil, 80, 90
	expect(t, porcupine.Ok, plainStay(1, 10, 0), second)
}

func TestAGrantThatWasOverWhenItWasToldIsFine(t *testing.T) {
	late := plainStay(1, 10, 0)
	late.granted, late.checks, late.leave, late.left, late.confirmed = 3*second, nil, 3*second+5, 3*second+9, false
	late.until, late.lost = late.granted, true
	next := plainStay(2, 11, 2*second+50)
	expect(t, porcupine.Ok, late, next)
	late.until++ // something was left
	expect(t, porcupine.Illegal, late, next)
}

func TestTwoHoldersAtOnceAreRefused(t *testing.T) {
	expect(t, porcupine.Illegal, plainStay(1, 10, 0), plainStay(2, 11, 20))
}

func TestATokenThatGoesBackIsRefused(t *testing.T) {
	expect(t, porcupine.Illegal, plainStay(1, 11, 0), plainStay(2, 10, 100))
	expect(t, porcupine.Illegal, plainStay(2, 10, 100), plainStay(1, 11, 0)) // by token, as read
}

func TestATokenGivenTwiceIsRefused(t *testing.T) {
	expect(t, porcupine.Illegal, plainStay(1, 10, 0), plainStay(2, 10, 100))
}

func TestALostUpdateIsRefused(t *testing.T) {
	expect(t, porcupine.Illegal, plainStay(1, 10, 0).sees(20, 0, 0).writes(30, 0, 1),
		plainStay(2, 11, 100).sees(20, 0, 1).writes(30, 0, 2))
}

func TestAnOldTokenThatTheResourceTookIsRefused(t *testing.T) {
	late := plainStay(1, 10, 0).sees(20, 0, 0).writes(150, 1, 2)
	expect(t, porcupine.Illegal, late, plainStay(2, 11, 100).sees(20, 0, 0).writes(30, 0, 1))
}

func TestAKilledHolderMakesRoomSomeTime(t *testing.T) {
	killed := plainStay(1, 10, 0)
	killed.leave, killed.left, killed.confirmed = 0, 0, false
	killed.worker.died, killed.worker.killed = 90, true
	expect(t, porcupine.Ok, killed, plainStay(2, 11, 100))
	expect(t, porcupine.Ok, killed, plainStay(2, 11, 2*second))
}

func TestAKilledHolderIsNotReplacedWhileItStillChecks(t *testing.T) {
	killed := plainStay(1, 10, 0)
	killed.leave, killed.left, killed.confirmed = 0, 0, false
	killed.checks = append(killed.checks, record{time: 300, extra: 301})
	killed.worker.died, killed.worker.killed = 400, true
	expect(t, porcupine.Illegal, killed, plainStay(2, 11, 100))
}

func TestAnOverlapIsFineOnlyAfterALossOfState(t *testing.T) {
	forgetful := &backend{name: "some", ttl: second, loses: []span{{15, 18}}}
	victim := plainStay(1, 10, 0)
	victim.worker.backend = forgetful
	expect(t, porcupine.Ok, victim, plainStay(2, 11, 20))
	forgetful.loses = []span{{500, 510}}
	expect(t, porcupine.Illegal, victim, plainStay(2, 11, 20))
}

// Many who have waited since long before, and whose grants may have been forgotten.
func TestManyPossibleOrdersAreDecidedQuickly(t *testing.T) {
	forgetful := &backend{name: "some", ttl: second, loses: []span{{1, 100}}}
	var stays []*stay
	for i := int64(1); i <= 200; i++ {
		s := plainStay(uint64(i), i, 0)
		s.worker.backend = forgetful
		s.granted, s.leave, s.left = i*100, i*100+50, i*100+60
		stays = append(stays, s)
	}
	began := time.Now()
	expect(t, porcupine.Ok, stays...)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestPiecesCoverEverythingAndShareTheirSeams(t *testing.T) {
	var stays []*stay
	for i := int64(0); i < 1000; i++ {
		stays = append(stays, plainStay(uint64(i+1), i+1, i*100))
	}
	all := pieces(stays, 200, 40)
	last := int64(0)
	for _, piece := range all {
		if first := piece[0].token; first > last-39 && first > 1 {
			t.Errorf("the piece that begins with %d shares too little with the one to %d", first, last)
		}
		last = piece[len(piece)-1].token
	}
	if last != 1000 {
		t.Errorf("the last piece ends with %d", last)
	}
}
