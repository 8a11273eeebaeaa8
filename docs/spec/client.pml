/* A client of lock.pml: what it hears, and what it does of itself. */

/* The server's word to the attempt is yes. */
inline granted(c)
{
    tried[c] = NONE;
    stale[c] = 0;
#ifdef WRONG_FROM_ANSWER
    since[c] = TTL;
#endif
    if
    :: since[c] == 0 || want[c] == 0 -> /* too late, or unwanted */
        owed[c] = attempt[c];
        giving[c] = TO_SEND
    :: else ->
        grant[c] = attempt[c];
        valid[c] = since[c];
        used[c] = from - 1;
        last[c] = to;
#ifndef WRONG_LINE_UNTOLD
        asked[c] = asked[c] || others;
#endif
        hand_out(c)
    fi;
    attempt[c] = 0;
    since[c] = 0
}

inline give_back(c)
{
    owed[c] = grant[c];
    giving[c] = TO_SEND;
    forget_grant(c)
}

inline forget_grant(c)
{
    grant[c] = 0;
    valid[c] = 0;
    used[c] = 0;
    last[c] = 0;
    renewal[c] = NONE;
    inside[c] = 0;
#ifdef KEEP
    streak[c] = 0
#endif
}

inline new_attempt(c, how)
{
    attempt[c] = NEW_OWNER(c);
#ifndef WRONG_SAME_OWNER
    count[c]++;
#endif
    tried[c] = how;
    since[c] = TTL;
    stale[c] = 0;
    asked[c] = 0;
    passed[c] = 0
}

/* It isn't our turn; unless that has been told since. */
inline behind(c)
{
#ifndef WRONG_TURN_MISSED
    tried[c] = (stale[c] -> TO_SEND : BEHIND);
#else
    tried[c] = BEHIND;
#endif
    stale[c] = 0;
    since[c] = 0
}

inline hear_answer(c)
{
    down[c]?answer, owner, from, to, others;
    if
    :: owner == attempt[c] && answer == YES ->
        streak[c] = 1;
        granted(c)
    :: owner == attempt[c] && answer == HELD -> behind(c)
    :: owner == grant[c] && answer == YES ->
        valid[c] = MAX(valid[c], since[c]);
        since[c] = 0;
        renewal[c] = NONE;
        used[c] = from - 1;
        last[c] = to;
        asked[c] = asked[c] || others
    :: owner == grant[c] && answer == NOT_OURS -> /* it is lost, and nothing of it is there */
        forget_grant(c);
        asked[c] = 0;
        since[c] = 0
    :: owner == owed[c] && answer != YES && answer != HELD ->
        owed[c] = 0;
        giving[c] = NONE;
        if
        :: tried[c] == ALONG && answer == PASSED ->
#ifdef KEEP
            streak[c] = 1;
#else
            streak[c] = MIN(streak[c] + 1, RUN);
#endif
            granted(c)
        :: tried[c] == ALONG && answer == PLACED -> behind(c)
        :: tried[c] == ALONG && answer != PASSED && answer != PLACED -> tried[c] = TO_SEND
        :: else
        fi
    :: else /* of something that was given up since */
    fi;
    answer = 0;
    owner = 0;
    from = 0;
    to = 0;
    others = 0;
    d = 0
}

inline hear_news(c)
{
    news[c]?answer, owner;
    if
    :: answer == TURN && owner == attempt[c] ->
#ifdef WRONG_TOLD_HOLDS
        since[c] = TTL;
        from = counter;
        to = counter;
        granted(c);
        from = 0;
        to = 0;
        d = 0
#else
        if
        :: tried[c] == BEHIND -> tried[c] = TO_SEND
        :: else -> stale[c] = 1
        fi
#endif
    :: answer == ASKED && owner == grant[c] -> asked[c] = 1
#ifndef WRONG_OVERTAKEN
    :: answer == ASKED && owner == attempt[c] -> asked[c] = 1 /* before the answer that it is ours */
#endif
    :: else
    fi;
    answer = 0;
    owner = 0
}

inline send_release(c)
{
    owner = 0;
#ifdef WRONG_OURS_FIRST
    others = 0;
#elif defined(KEEP)
    others = asked[c];
#else
    others = streak[c] >= RUN;
#endif
    if
    :: want[c] > 0 && attempt[c] == 0 ->
        new_attempt(c, ALONG);
        owner = attempt[c]
    :: else
    fi;
    up[c]!RELEASE, owed[c], owner, !others;
    giving[c] = SENT;
    owner = 0;
    others = 0
}

#ifdef KEEP
#ifdef WRONG_RUN_ON
#define ITS_TURN_IS_OVER(c) 0
#else
#define ITS_TURN_IS_OVER(c) (asked[c] && streak[c] > RUN)
#endif
#ifdef WRONG_BEYOND_LEASE
#define STILL_VALID(c) 1
#else
#define STILL_VALID(c) (valid[c] > 0)
#endif
#endif

proctype client(byte c)
{
    mtype answer;
    byte owner, from, to, d;
    bit others, waits;
end:
    do
    :: atomic { life[c] == ALIVE && todo[c] > 0 && want[c] + inside[c] < THREADS ->
        todo[c]--;
        want[c]++ }
    :: atomic { life[c] == ALIVE && want[c] > 0 && grant[c] == 0 && attempt[c] == 0 &&
                giving[c] != TO_SEND ->
        new_attempt(c, TO_SEND) }
    :: atomic { life[c] == ALIVE && tried[c] == TO_SEND && giving[c] != TO_SEND && len(up[c]) < 2 ->
        up[c]!ACQUIRE, attempt[c], 0, 0;
        tried[c] = SENT;
        since[c] = TTL }
    :: atomic { life[c] == ALIVE && tried[c] == BEHIND && look[c] ->
        look[c] = 0;
        tried[c] = TO_SEND }
    :: atomic { life[c] == ALIVE && giving[c] == TO_SEND && len(up[c]) < 2 -> send_release(c) }
    :: atomic { life[c] == ALIVE && len(down[c]) > 0 -> hear_answer(c) }
    :: atomic { life[c] == ALIVE && len(news[c]) > 0 -> hear_news(c) }
#ifndef KEEP
    :: atomic { life[c] == ALIVE && inside[c] -> give_back(c) }
#else
    /* a thread releases, and the grant is kept, or its lease was over */
    :: atomic { life[c] == ALIVE && inside[c] -> inside[c] = 0 }
    :: atomic { life[c] == ALIVE && grant[c] && !inside[c] && !STILL_VALID(c) -> give_back(c) }
    /* nobody here wants it: another does, or it was kept for long enough */
    :: atomic { life[c] == ALIVE && grant[c] && !inside[c] && STILL_VALID(c) && want[c] == 0 &&
                asked[c] -> give_back(c) }
    :: atomic { life[c] == ALIVE && grant[c] && !inside[c] && STILL_VALID(c) && want[c] > 0 &&
                ITS_TURN_IS_OVER(c) -> give_back(c) }
    :: atomic { life[c] == ALIVE && grant[c] && !inside[c] && STILL_VALID(c) && want[c] > 0 &&
                !ITS_TURN_IS_OVER(c) && used[c] < last[c] ->
        streak[c]++;
        assert(!asked[c] || streak[c] <= RUN + 1);
        hand_out(c);
        d = 0 }
    /* the block is used up */
    :: atomic { life[c] == ALIVE && grant[c] && !inside[c] && STILL_VALID(c) && want[c] > 0 &&
                !ITS_TURN_IS_OVER(c) && used[c] == last[c] && renewal[c] == NONE ->
        renewal[c] = TO_SEND }
    :: atomic { life[c] == ALIVE && renewal[c] == TO_SEND && len(up[c]) < 2 ->
        up[c]!RENEW, grant[c], 0, 0;
        renewal[c] = SENT;
        since[c] = TTL }
#endif
    od
}
