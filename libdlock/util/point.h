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

#endif
