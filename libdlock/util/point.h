/* Named points in the code where a test may stop, delay or kill a process. They cost nothing:
 * only what is compiled with DLK_POINTS has them. */
#ifndef DLK_UTIL_POINT_H
#define DLK_UTIL_POINT_H

#ifdef DLK_POINTS
/* What is to be done at every point. The test defines it, and sets it before anything is made. */
extern void (*dlk_point_hook)(const char *name);
#define DLK_POINT(name)                                                                  \
    do {                                                                                 \
        if (dlk_point_hook)                                                              \
            dlk_point_hook(name);                                                        \
    } while (0)
#else
#define DLK_POINT(name) ((void)0)
#endif

/* Bugs that some lock library once had, put back on purpose: the suite must catch each of them,
 * or the suite is wrong. Constant false, and so not there at all, unless built with DLK_PLANTS;
 * then dlk_plant, which the test defines and sets, says which one is in force. */
enum dlk_bug {
    DLK_BUG_NONE,
    DLK_BUG_NO_REBUILD, /* the table's derived part isn't rebuilt after EOWNERDEAD */
    DLK_BUG_NO_REWAKE,  /* who was granted by a process that died isn't woken again */
    DLK_BUG_CHANGE_IN_PLACE,      /* a row is written where it stands, not beside it */
    DLK_BUG_VALIDITY_FROM_ANSWER, /* the lease is counted from when the answer comes */
    DLK_BUG_RETRY_WITH_NEW_OWNER, /* a lost answer's acquire is repeated as somebody else */
    DLK_BUG_GRANT_WITHOUT_RECHECK, /* "it may be free" is taken for "it is yours" */
    DLK_BUG_RELEASE_HITS_NEXT,     /* one owner id for all grants of a client */
    DLK_BUG_RENEWAL_RECREATES,     /* renewing what isn't there makes it anew */
    DLK_BUG_CANCEL_FORGETS,        /* a grant that comes after the cancel is nobody's */
    DLK_BUG_LOST_WAKE_UP,     /* freed between the check and the subscription: unheard */
    DLK_BUG_WALL_CLOCK,       /* validity runs on the time of day */
    DLK_BUG_RENEWAL_OUTLIVES, /* renewing goes on when a release has failed */
    DLK_BUG_TOKEN_AFTER_WIPE, /* tokens start again when the server has lost its state */
    DLK_BUG_PLACE_IS_KEPT,      /* who gives up waiting stays in the service's line */
    DLK_BUG_HANDOVER_UNCLAIMED, /* who is told that it is next takes that for the lock */
    DLK_BUG_READERS_UNMARKED,   /* a reader's own timeout key is as good as not there */
    DLK_BUG_EXPORT_KEEPS,       /* who exports a grant goes on holding it */
    DLK_BUG_FASTEST_NODE,       /* a Redlock's validity is counted from an answer */
    DLK_BUG_RELEASE_WHERE_GRANTED, /* … and given back only where that was seen to succeed */
    DLK_BUG_MINORITY_MENDED, /* … and what a minority still has is mended into a grant */
    DLK_BUG_MOVED_IS_HELD, /* a renewal that is sent on to another node is taken for done */
    DLK_BUG_REPLICAS_UNAWAITED, /* too few replicas have a grant, and it counts */
    DLK_BUG_GRANT_AFTER_EXPIRY, /* etcd: first in line by the others alone, its own key gone */
    DLK_BUG_DELETE_UNGUARDED, /* … whatever stands at a key of ours is deleted */
    DLK_BUG_RENEWAL_UNPROVED, /* … a renewal counts, whoever's term it was answered in */
    DLK_BUG_RENEWAL_BY_TOUCH, /* memcached: prolongs whatever stands there */
    DLK_BUG_PLAIN_DELETE,     /* … and deletes it */
    DLK_BUG_OLD_CONNECTIONS_CAS, /* … and takes the number of a server before for its own */
    DLK_BUG_LAG_OF_A_SECOND,     /* … and thinks that its clock leaves out none */
    DLK_BUG_WAKE_IS_TURN, /* a watch that fires is taken for the turn, without a look */
    DLK_BUG_OLD_SESSIONS_NODE, /* a node that the session before has made is taken for ours */
    DLK_BUG_WRONG_WRITER, /* a reader watches the last writer, not one before itself */
    DLK_BUG_COUNT,
};

#ifdef DLK_PLANTS
extern enum dlk_bug dlk_plant;
#define DLK_PLANTED(bug) (dlk_plant == DLK_BUG_##bug)
#else
#define DLK_PLANTED(bug) 0
#endif

#endif
