/* The world of lock.pml: the clock, and what goes wrong. */

inline tick()
{
    left = (left > 0 -> left - 1 : 0);
    if
    :: left == 0 && holder != 0 ->
        holder = 0;
        moved()
    :: else
    fi;
    d = 0;
    do
    :: d < CLIENTS ->
        since[d] = (since[d] > 0 -> since[d] - 1 : 0);
        valid[d] = (valid[d] > 0 -> valid[d] - 1 : 0);
        d++
    :: else -> break
    od
}

/* Requests that were on their way are lost, or their answers. */
inline cut(c)
{
    do
    :: len(up[c]) > 0 -> up[c]?_, _, _, _
    :: else -> break
    od;
    do
    :: len(down[c]) > 0 -> down[c]?_, _, _, _, _
    :: else -> break
    od;
    since[c] = 0;
    if
    :: tried[c] == SENT || tried[c] == ALONG -> tried[c] = TO_SEND
    :: else
    fi;
    if
    :: giving[c] == SENT -> giving[c] = TO_SEND
    :: else
    fi;
    if
    :: renewal[c] == SENT -> renewal[c] = TO_SEND
    :: else
    fi
}

inline die(c)
{
    life[c] = DEAD;
    do
    :: len(down[c]) > 0 -> down[c]?_, _, _, _, _
    :: else -> break
    od;
    do
    :: len(news[c]) > 0 -> news[c]?_, _
    :: else -> break
    od;
    todo[c] = 0;
    want[c] = 0;
    forget_grant(c);
    attempt[c] = 0;
    tried[c] = NONE;
    owed[c] = 0;
    giving[c] = NONE;
    since[c] = 0;
    asked[c] = 0;
    streak[c] = 0;
    stale[c] = 0
}

inline wipe()
{
    holder = 0;
    left = 0;
    do
    :: len(line) > 0 -> line?_
    :: else -> break
    od;
    /* The counter is gone, too, and the clock goes on where it was at most: tokens.pml. */
    forgotten = 1;
    moved()
}

/* Nothing goes on by itself. Who waits looks again; then the clock may help; else nothing does. */
inline standstill()
{
    found = 0;
    d = 0;
    do
    :: d < CLIENTS ->
        if
        :: life[d] == ALIVE && tried[d] == BEHIND && !looked[d] && !found ->
            assert(faults); /* nobody needs that unless something went wrong */
            looked[d] = 1;
            look[d] = 1;
            found = 1
        :: else
        fi;
        d++
    :: else -> break
    od;
    if
    :: !found && left > 0 ->
        d = CLIENT_OF(holder);
        assert(life[d] != ALIVE || grant[d] != holder || served); /* it should have been given back */
        tick()
    :: !found && left == 0 ->
        d = 0;
        do
        :: d < CLIENTS && life[d] == STUCK -> life[d] = ALIVE; found = 1; d++
        :: d < CLIENTS && life[d] != STUCK -> d++
        :: else -> break
        od;
        assert(found || served) /* who waits is served */
    :: else
    fi;
    found = 0;
    d = 0
}

active proctype world()
{
    byte c, d;
    bit found;
    d_step {
        c = 0;
        do
        :: c < CLIENTS ->
            todo[c] = THREADS * ROUNDS;
            life[c] = ALIVE;
            tried[c] = NONE;
            giving[c] = NONE;
            renewal[c] = NONE;
            c++
        :: else -> break
        od;
        c = 0
    }
    atomic {
        run client(0);
        run client(1);
#if CLIENTS == 3
        run client(2);
#endif
    }
end:
    do
    :: d_step { ticks > 0 && holder != 0 && !served -> ticks--; faults = 1; tick(); d = 0 }
#define GOES_WRONG(c)                                                                              \
    :: d_step { cuts > 0 && (len(up[c]) > 0 || len(down[c]) > 0) -> cuts--; faults = 1; cut(c) }     \
    :: d_step { losses > 0 && len(news[c]) > 0 -> losses--; faults = 1; news[c]?_, _ }              \
    :: d_step { stops > 0 && life[c] == ALIVE && CONCERNED(c) -> stops--; faults = 1;                \
                life[c] = STOPPED }                                                                \
    :: d_step { stops > 0 && life[c] == ALIVE && CONCERNED(c) -> stops--; faults = 1;                \
                life[c] = STUCK }                                                                  \
    :: d_step { life[c] == STOPPED -> life[c] = ALIVE }                                            \
    :: d_step { deaths > 0 && life[c] == ALIVE && CONCERNED(c) -> deaths--; faults = 1; die(c) }     \
    :: d_step { cancels > 0 && life[c] == ALIVE && want[c] > 0 && attempt[c] && owed[c] == 0 ->    \
                cancels--; want[c]--;                                                              \
                if                                                                                 \
                :: want[c] == 0 -> owed[c] = attempt[c]; giving[c] = TO_SEND; attempt[c] = 0;      \
                                   tried[c] = NONE; stale[c] = 0; since[c] = 0                     \
                :: else                                                                            \
                fi }                                                                               \
    :: d_step { ends > 0 && grant[c] && !inside[c] && want[c] == 0 -> ends--; asked[c] = 1 }
    GOES_WRONG(0)
    GOES_WRONG(1)
#if CLIENTS == 3
    GOES_WRONG(2)
#endif
    :: d_step { wipes > 0 && holder != 0 -> wipes--; faults = 1; wipe(); d = 0 }
    :: timeout ->
        if
        :: served -> break
        :: else -> d_step { standstill() }
        fi
    od
}
