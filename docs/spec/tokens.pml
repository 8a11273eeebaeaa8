/*
 * The fencing tokens of one name on a Redis whose clients keep it: each grant of the server brings a
 * block of them, from the one after the last, and after what the clock said when the client connected, to what
 * the clock says. The server may forget everything at any moment, or the counter alone, which others may begin
 * anew at a small number (Redisson's RFencedLock), or go back to what it once was, which ends all
 * connections. README.md says which mistakes (-DWRONG_…) this has to find.
 *
 * Every script takes a microsecond at least. Each grant of the server has a number here, so that what a
 * resource can be shown by whom can be compared: of two grants the later one's tokens are the larger.
 */
#ifndef CLIENTS
#define CLIENTS 3
#endif
#ifndef GRANTS
#define GRANTS 4 /* of the server, in one run */
#endif
#ifndef END
#define END 9 /* of the time, in microseconds */
#endif
#ifndef WIPES
#define WIPES 2
#endif
#ifndef ROLLBACKS
#define ROLLBACKS 0 /* to an older counter */
#endif
#ifndef STEPS_BACK
#define STEPS_BACK 1 /* of the clock, by one, without a wipe after it */
#endif

#define MAX(a, b) ((a) > (b) -> (a) : (b))

byte clock = 1;   /* the server's */
byte counter;     /* the last token; 0: there is none */
byte holder;      /* a client, from 1 on */
byte grants;      /* so many were given */
byte saved;       /* what it would go back to */
bool small;       /* the counter was begun anew by others */
byte wipes = WIPES, rollbacks = ROLLBACKS, steps_back = STEPS_BACK;

byte mine[CLIENTS];             /* the number of the client's grant; 0: it believes in none */
byte greeted[CLIENTS];          /* the server's clock when it connected last */
byte used[CLIENTS], last[CLIENTS]; /* the token handed out, and the end of the block */

byte low[GRANTS + 1], high[GRANTS + 1]; /* handed out under each grant; 0: none */

/* A block for whoever has the lock now. */
inline reserve(c)
{
    clock++;
    to = MAX(counter + 1, clock);
#ifdef WRONG_FROM_LAST
    from = counter + 1;
#else
    from = MAX(counter, greeted[c]) + 1;
#endif
    from = (from > to -> to : from);
#ifdef WRONG_AHEAD
    to++;
#endif
#ifndef WRONG_MISSING_IS_ZERO
    if
    :: counter == 0 -> from = clock /* what was before isn't known, but that the clock is past it */
    :: else
    fi;
#endif
#ifndef WRONG_SMALL_IS_OURS
    if
    :: small -> from = to /* nor where others have begun anew */
    :: else
    fi;
#endif
    small = false;
#ifdef WRONG_NOT_RESERVED
    counter = from
#else
    counter = to
#endif
}

inline hand_out(c)
{
#ifdef WRONG_SHARED
    used[c] = last[c];
#else
    used[c]++;
#endif
    g = 1;
    do
    :: g <= grants ->
        assert(g >= mine[c] || high[g] < used[c]);
        assert(g != mine[c] || high[g] < used[c]);
        assert(g <= mine[c] || low[g] == 0 || low[g] > used[c]);
        g++
    :: else -> break
    od;
    g = 0;
    low[mine[c]] = (low[mine[c]] == 0 -> used[c] : low[mine[c]]);
    high[mine[c]] = used[c]
}

inline forget(c)
{
    mine[c] = 0;
    used[c] = 0;
    last[c] = 0
}

proctype client(byte c)
{
    byte from, to, g;
end:
    do
    /* acquires, and the answer comes or is lost; then it asks again */
    :: d_step { mine[c] == 0 && holder == 0 && grants < GRANTS && clock < END ->
        holder = c + 1;
        grants++;
        mine[c] = grants;
        reserve(c);
        used[c] = from - 1;
        last[c] = to;
        from = 0;
        to = 0 }
    :: d_step { mine[c] == 0 && holder == 0 && grants < GRANTS && clock < END - 1 ->
        holder = c + 1;
        grants++;
        mine[c] = grants;
        reserve(c);
        reserve(c);
        used[c] = from - 1;
        last[c] = to;
        from = 0;
        to = 0 }
    /* a thread of it gets the lock, whatever the server knows by now */
#ifdef WRONG_SHARED
    :: d_step { mine[c] -> hand_out(c) }
#else
    :: d_step { mine[c] && used[c] < last[c] -> hand_out(c) }
#endif
    /* asks for more: a renewal */
    :: d_step { mine[c] && holder == c + 1 && clock < END ->
        reserve(c);
        used[c] = from - 1;
        last[c] = to;
        from = 0;
        to = 0 }
    :: d_step { mine[c] && holder != c + 1 -> forget(c) } /* and is told that it has nothing */
    :: d_step { mine[c] && holder == c + 1 && clock < END -> /* and the answer is lost */
        reserve(c);
        from = 0;
        to = 0 }
    :: d_step { mine[c] && holder == c + 1 -> /* releases */
        holder = 0;
        forget(c) }
    od
}

active proctype world()
{
    byte c;
    atomic {
        do
        :: c < CLIENTS -> run client(c); c++
        :: else -> break
        od;
        c = 0
    }
end:
    do
    :: clock < END -> clock++
    :: d_step { wipes > 0 && counter -> wipes--; counter = 0; small = false; holder = 0; clock++ }
    :: d_step { wipes > 0 && counter -> wipes--; counter = 1; small = true; clock++ } /* the counter alone */
    :: d_step { steps_back > 0 && clock > 1 && wipes == 0 -> steps_back--; clock-- }
    :: d_step { rollbacks > 0 && counter && !small && saved == 0 -> saved = counter }
    :: d_step { rollbacks > 0 && saved && counter > saved && clock < END ->
        rollbacks--;
        counter = saved;
        small = false;
        holder = 0;
        clock++;
        c = 0;
        do
        :: c < CLIENTS -> greeted[c] = clock; c++
        :: else -> break
        od;
        c = 0 }
    :: d_step { holder -> holder = 0 } /* its lease is over, or somebody breaks it */
    od
}
