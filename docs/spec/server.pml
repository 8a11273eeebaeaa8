/* The server of lock.pml; each step is one script. */

/* On the channel of the owner's client. */
inline publish(what, whose)
{
    d = CLIENT_OF(whose);
    known = (news[d]??[eval(what), eval(whose)]) != 0; /* once more says nothing new */
    if
    :: life[d] != DEAD && !known ->
        assert(len(news[d]) < 4);
        news[d]!what, whose
    :: else
    fi
}

inline line_up(whose)
{
    known = (line??[eval(whose)]) != 0;
    if
    :: !known -> line!whose
    :: else
    fi
}

/* The lock is nobody's. */
inline appoint(owner, lease)
{
    holder = owner;
    left = lease;
    from = counter + 1;
#ifdef KEEP
    to = counter + BLOCK;
#else
    to = from;
#endif
#ifndef WRONG_NOT_RESERVED
    counter = to;
#else
    counter = from;
#endif
}

/* Reserves the lock for the first in the line who listens. */
inline appoint_next(me)
{
    found = 0;
    do
    :: found == 0 && len(line) > 0 ->
        line?first;
        if
        :: first == me -> break
        :: first != me && life[CLIENT_OF(first)] == DEAD
        :: else ->
            publish(TURN, first);
            appoint(first, CLAIM);
            found = 1
        fi
    :: else -> break
    od
}

inline serve_acquire()
{
    if
    :: holder == 0 && len(line) > 0 ->
        appoint_next(owner);
        if
        :: holder == 0 -> appoint(owner, TTL)
        :: else
        fi
    :: holder == owner -> /* already: a whole lease from now on, and new tokens, or the same one */
        left = MAX(left, TTL);
#ifdef KEEP
        appoint(owner, left);
#else
        from = counter;
        to = counter;
#endif
    :: holder == 0 && len(line) == 0 -> appoint(owner, TTL)
    :: else
    fi;
    if
    :: holder == owner -> answer = YES
    :: else ->
        answer = HELD;
#ifdef KEEP
#ifdef WRONG_ASKS_ONCE
        known = (line??[eval(owner)]) != 0;
        if
        :: !known -> publish(ASKED, holder)
        :: else
        fi;
#elif !defined(WRONG_UNASKED)
        publish(ASKED, holder);
#endif
#endif
        line_up(owner)
    fi
}

inline serve_release()
{
    if
    :: holder != owner ->
        answer = NOT_OURS;
        known = (line??[eval(owner)]) != 0;
        if
        :: known -> line??eval(owner)
        :: else
        fi
    :: else ->
        holder = 0;
        left = 0;
        found = 0;
        moved();
        if
        :: next == 0 || !goes_first -> appoint_next(0)
        :: else
        fi;
        if
        :: found && next == 0 -> answer = DONE
        :: found && next != 0 ->
            line_up(next);
            answer = PLACED
        :: !found && next != 0 ->
            appoint(next, TTL);
            answer = PASSED
        :: else -> answer = DONE
        fi
    fi
}

inline serve_renew()
{
    if
    :: holder == owner ->
        left = MAX(left, TTL);
        appoint(owner, left);
        answer = YES
    :: else -> answer = NOT_OURS
    fi
}

inline serve(c)
{
    d_step {
        len(up[c]) > 0 && (len(down[c]) < 2 || life[c] == DEAD) ->
        from = 0;
        to = 0;
        found = 0;
        first = 0;
        up[c]?verb, owner, next, goes_first;
        if
        :: verb == ACQUIRE -> serve_acquire()
        :: verb == RENEW -> serve_renew()
        :: verb == RELEASE -> serve_release()
        fi;
        if
        :: life[c] == DEAD
        :: else -> down[c]!answer, owner, from, to, len(line) > 0
        fi;
        verb = 0;
        owner = 0;
        next = 0;
        goes_first = 0;
        answer = 0;
        from = 0;
        to = 0;
        first = 0;
        found = 0;
        known = 0;
        d = 0
    }
}

active proctype server()
{
    mtype verb, answer;
    byte owner, next, from, to, first, d;
    bit goes_first, found, known;
end:
    do
    :: serve(0)
#if CLIENTS > 1
    :: serve(1)
#endif
#if CLIENTS > 2
    :: serve(2)
#endif
    od
}
